"""The files of the golden corpus."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from trainyard_api import documents

Object = dict[str, Any]

GOLDEN = Path(__file__).parents[1] / "conformance" / "golden"
RUNTIMES = sorted((GOLDEN / "runtimes").glob("*.yaml"))


def cases(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.yaml"))


def parsed(text: str) -> list[Object]:
    return [dict(document.value) for document in documents.parse(text, "text")]


def load(path: Path) -> list[Object]:
    return parsed(path.read_text())


def by_kind_and_name(objects: Iterable[Object]) -> list[Object]:
    return sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"]))
