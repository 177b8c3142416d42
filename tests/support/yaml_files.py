"""YAML files of this repository, parsed in C: each process that collects tests reads those of all modules."""

from pathlib import Path
from typing import Any

import yaml


def load(path: Path) -> Any:
    """The one document in a file."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
