"""Switches of the two Makefiles, such as YES of `make destroy`: 1 is on, and nothing else is a guess."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILES = ["Makefile", "examples/site/Makefile"]


def make(file: str, *arguments: str) -> tuple[int, str, str]:
    """The exit code and the output of make, whose trainyard only prints its arguments."""
    command = ["make", "-f", str(ROOT / file), "-o", ".venv/.done", "TRAINYARD=echo", *arguments]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout, answer.stderr


@pytest.mark.parametrize("file", MAKEFILES)
@pytest.mark.parametrize(
    ("switches", "options"),
    [
        ([], "destroy --stack prod"),
        (["YES=", "DRY_RUN="], "destroy --stack prod"),
        (["YES=1"], "destroy --stack prod --yes"),
        (["DRY_RUN=1"], "destroy --stack prod --dry-run"),
    ],
)
def test_a_switch_that_is_1_is_on(file: str, switches: list[str], options: str) -> None:
    code, out, _ = make(file, "destroy", "STACK=prod", *switches)
    assert (code, out.split()) == (0, options.split())


@pytest.mark.parametrize("file", MAKEFILES)
@pytest.mark.parametrize(
    "switch", ["YES=0", "YES=no", "YES=1 0", "YES=1 1", "YES=$(shell echo 1)", "DRY_RUN=true"]
)
def test_a_switch_that_is_something_else_is_refused_and_nothing_runs(file: str, switch: str) -> None:
    code, out, err = make(file, "destroy", "STACK=prod", switch)
    name = switch.partition("=")[0]
    assert (code, out) == (2, "")
    assert f"{switch}: a switch is 1. To turn it off, leave {name} out.  Stop.\n" in err
