"""The version of this clone, and later ones: a release changes the first, and no test."""

import re
import tomllib
from pathlib import Path

VERSION: str = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]
MAJOR, MINOR = (int(number) for number in re.findall(r"\d+", VERSION)[:2])


def later(minor: int) -> str:
    """The version that is so many minor versions later."""
    return f"{MAJOR}.{MINOR + minor}.0"
