"""The MLPolicy fits the ReplicatedJobs and the framework."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trainyard_api import json_reader, names, similar
from trainyard_api.errors import FieldPath

from ..frameworks import KNOWN
from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject
from .framework_label import OF_ONE_FAMILY
from .framework_label import PATH as LABEL
from .trainer_step import JOBS

PATH: Final = FieldPath("spec.mlPolicy")
POLICIES: Final = ("torch", "jax", "xgboost", "mpi")


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """It exists, the operator knows it, and the jobs that it needs exist."""
    if workload.spec.get("mlPolicy") is None:
        yield from missing(workload)
        return
    policy, _ = workload.ml_policy
    chosen = [name for name in POLICIES if policy.get(name) is not None]
    for other in sorted(set(policy) - {"numNodes", *POLICIES}):
        yield Finding(
            PATH.child(other[: similar.LONGEST]), f"must be one of {', '.join(POLICIES)}, or left out"
        )
    if len(chosen) > 1:
        yield Finding(PATH, f"must have one policy, has {', '.join(chosen)}")
        return
    yield from _framework(workload, chosen, parameters)
    if chosen:
        yield from _jobs(workload, chosen[0])


def missing(workload: Workload) -> Iterator[Finding]:
    """It exists."""
    if workload.spec.get("mlPolicy") is not None:
        return
    policy = KNOWN.get(workload.labels.get(names.FRAMEWORK_LABEL, ""))
    least: dict[str, Any] = {"numNodes": 1} | ({policy: {}} if policy else {})
    edits = (Edit(PATH, least),) if policy != "mpi" else ()
    yield Finding(PATH, "must be set, at least with numNodes", edits)


def _framework(workload: Workload, chosen: list[str], parameters: Parameters) -> Iterator[Finding]:
    framework = workload.labels.get(names.FRAMEWORK_LABEL)
    if framework and framework not in (*KNOWN, *parameters.frameworks):
        yield from _unknown(framework, chosen)
        return
    expected = KNOWN.get(framework or "")
    if expected is None or expected in chosen:
        return
    has = f"has {chosen[0]}" if chosen else "has none"
    # MPI's settings cannot be guessed.
    edits = () if chosen or expected == "mpi" else (Edit(PATH.child(expected), {}),)
    yield Finding(PATH, f"must have the policy {expected}, for the framework {framework}; {has}", edits)


def _unknown(framework: str, chosen: list[str]) -> Iterator[Finding]:
    """An unknown framework under the policy of another."""
    theirs = [name for name, policy in KNOWN.items() if policy in chosen and policy in OF_ONE_FAMILY]
    if theirs:
        message = (
            f"must be {' or '.join(theirs)} for the policy {chosen[0]}, or one of "
            f"policies.parameters.frameworks; is {json_reader.shown(framework)}"
        )
        yield Finding(LABEL, message + similar.hint(framework, theirs), against="frameworks")


def _jobs(workload: Workload, policy: str) -> Iterator[Finding]:
    expected = names.LAUNCHER if policy == "mpi" else names.NODE
    for job in workload.trainers()[:1]:
        if job.name != expected:
            at = job.path.child("name")
            yield Finding(at, f"must be {expected!r}: the policy {policy} builds addresses from that name")
    if policy != "mpi":
        return
    number = PATH.child("numNodes")
    ml_policy, _ = workload.ml_policy
    if (json_reader.integer(ml_policy.get("numNodes"), number) or 1) > 1:
        yield Finding(
            number, "must be 1, or as many launchers start: set it in the TrainJob", (Edit(number, 1),)
        )
    if all(job.name != names.NODE for job in workload.jobs):
        yield Finding(JOBS, f"must have a ReplicatedJob {names.NODE!r}, whose pods {names.LAUNCHER!r} starts")


RULE = Rule(
    id="ml-policy",
    title="The ML policy fits the ReplicatedJobs and the framework",
    why="The policy decides which environment, ports and hosts the nodes get. With the wrong one, or with "
    "a job of another name, the nodes never find each other.",
    remedy=(
        "Set spec.mlPolicy to the framework's policy, call the trainer step's ReplicatedJob node, and for "
        "MPI add a launcher as trainer step. Add your own framework to policies.parameters.frameworks."
    ),
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    parameters=("frameworks",),
    fixes=True,
    check=check,
)
