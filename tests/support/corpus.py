"""The files of the golden corpus."""

from pathlib import Path

from trainyard_api import documents

GOLDEN = Path(__file__).parents[1] / "conformance" / "golden"
RUNTIMES = sorted((GOLDEN / "runtimes").glob("*.yaml"))


def cases(folder):
    return sorted(path.stem for path in folder.glob("*.yaml"))


def parsed(text):
    return [document.value for document in documents.parse(text, "text")]


def load(path):
    return parsed(path.read_text())


def by_kind_and_name(objects):
    return sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"]))
