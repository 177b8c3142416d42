"""What the program registers for a stack that says little."""

from typing import Any

from tests.support import program
from tests.support.program import Registered

Graph = dict[str, Registered]


MINIMAL = {"operator": {"image": "docker.io/trainyard/operator:1", "metricsAuthentication": False}}


def stack(folder: Any, settings: dict[str, Any]) -> Graph:
    source = {"source": "folder", "folder": str(program.artifacts_folder(folder / "artifacts"))}
    return {one.key: one for one in program.run({**settings, "artifacts": source})}
