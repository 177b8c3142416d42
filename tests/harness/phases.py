"""What a run consists of."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[2]
BIN: Final = Path(sys.executable).parent

AREAS: Final = {
    "api": "the words that everybody shares, against kubectl",
    "conformance": "our operator beside Kubeflow Trainer's controller",
    "explain": "why a job does not run",
    "faults": "an operator to which everything happens",
    "initializers": "datasets and models fetched into a job's volume",
    "migrate": "from older APIs, and from Trainer's controller",
    "operator": "the life of TrainJobs, and the operator's own",
    "platform": "what `pulumi up` installs, repairs and leaves",
    "policies": "what is refused, at each gate",
    "queues": "quota, priorities, gangs and pools",
    "runtimes": "the catalog's runtimes at work",
    "sandbox": "the local cluster itself",
    "tenants": "what tenants' people may do, and where their packets go",
}
"""Areas of cluster tests, by name (`pytest.mark.sandbox(area=...)`; folders of that name have it)."""

CORE_FOLDERS: Final = ("tests/conformance", "tests/faults", "tests/e2e")
"""Where tests of the core are: each process of it reads these only."""

CORE_TOOLS: Final = ("trainer-controller", "kueue", "trainer", "jobset", "volcano", "scheduler-plugins")
"""What tests of the core need besides a sandbox: Trainer's controller, and CRDs."""


PARTS: Final = ("volcano", "coscheduling", "mpi", "jax-xgboost", "initializers")
"""What a sandbox of tests has from its start; a test adds what else it needs, of some hundred MiB each."""


def with_parts(parts: Sequence[str] = PARTS) -> list[str]:
    """The arguments of `trainyard sandbox` that name these parts."""
    return [argument for part in parts for argument in ("--with", part)]


@dataclass(frozen=True)
class Step:
    """A phase that is to be run.

    Attributes:
        name: What it is called.
        command: The program and its arguments.
        limit: Seconds after which it is ended: far more than it should ever take.
        log: The argument with which it writes a report log; empty if it runs no tests.
        again: The program and its arguments that run tests again, before their names; empty if none are.
        variables: Of its environment, unless they are set.
    """

    name: str
    command: Sequence[str]
    limit: float
    log: str = ""
    again: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def pytest(*arguments: str, patience: int) -> list[str]:
    """A run of pytest in which no test takes more than so many seconds."""
    return [sys.executable, "-m", "pytest", "--verbose", "--tb=short", f"--timeout={patience}", *arguments]


def steps(area: str | None = None) -> dict[str, Step]:
    """All steps that there are, by name; of the cluster tests of `e2e` those of an area, if one is named.

    An area is a part of the phase: what it takes says nothing of the whole, and so it has another name.

    Both run in three processes, for most of their tests wait: `core` on one sandbox, `e2e` with one each, for
    many of its tests change the platform.
    """
    sandbox = f"sandbox(area={area!r}) and not soak" if area else "(sandbox or long or examples) and not soak"
    log = "--report-log={}"
    build = [sys.executable, "-m", "tests.harness.tools"]
    every = [
        Step("toolchain", [str(BIN / "trainyard"), "sandbox", "build", *with_parts()], 5400),
        Step("tools", [*build, *CORE_TOOLS], 1800),
        Step("all-tools", [*build, *CORE_TOOLS, "actionlint", "prometheus"], 3600),
        Step("check", ["make", "--no-print-directory", "check"], 1800, "REPORT_LOG={}"),
        Step(
            "core",
            pytest("-m", "core", "--together", "--numprocesses=3", *CORE_FOLDERS, patience=900),
            3600,
            log,
            pytest(patience=900),
        ),
        # One of its tests kills and resumes `up` once for every third component: ten minutes.
        Step(
            f"e2e {area}" if area else "e2e",
            pytest("-m", sandbox, "--longest-first=e2e", "--numprocesses=3", patience=5400),
            18000,
            log,
            pytest(patience=5400),
            {"HYPOTHESIS_PROFILE": "more"},
        ),
        Step("rights", [sys.executable, "-m", "tests.harness.rights", ".reports/rights"], 60),
        Step(
            "soak",
            pytest("-m", "sandbox or long or examples or soak", patience=0),
            12 * 3600,
            log,
            pytest(patience=0),
        ),
    ]
    return {step.name.partition(" ")[0]: step for step in every}
