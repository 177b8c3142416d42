"""A runtime names its framework."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard_api import names, similar
from trainyard_api.errors import FieldPath

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rename, Rule, Severity
from ..subject import Subject

PATH: Final = FieldPath("metadata.labels").key(names.FRAMEWORK_LABEL)

_MISSING: Final = f"must have the label {names.FRAMEWORK_LABEL}"
_SURE: Final = 0.9
"""How similar another label's key must be to count as this one misspelled, of 1."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
OF_ONE_FAMILY: Final = ("torch", "jax", "xgboost")
"""ML policies that leave little doubt about the framework; MPI starts any."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """The label exists and is a name."""
    value = workload.labels.get(names.FRAMEWORK_LABEL)
    if value is None:
        near = similar.nearest(names.FRAMEWORK_LABEL, workload.labels, least=_SURE)
        if near is not None:
            at = FieldPath("metadata.labels").key(near)
            yield Finding(PATH, _MISSING, (Rename(at, names.FRAMEWORK_LABEL),))
            return
        policy, _ = workload.ml_policy
        frameworks = [name for name in OF_ONE_FAMILY if policy.get(name) is not None]
        edits = (Edit(PATH, frameworks[0]),) if len(frameworks) == 1 else ()
        yield Finding(PATH, _MISSING, edits)
    elif not _NAME.fullmatch(value):
        yield Finding(PATH, f"must be a framework's name in lower case, such as torch; is {value!r}")


RULE = Rule(
    id="framework-label",
    title="A runtime names its framework",
    why="The Kubeflow SDK lists runtimes by this label and chooses by it how a job is started; "
    "a runtime without it cannot be used from Python.",
    remedy=f"Set the label {names.FRAMEWORK_LABEL} in metadata.labels "
    "to the framework's name, such as torch.",
    severity=Severity.HIGH,
    levels={Subject.RUNTIMES: Level.MANDATORY},
    fixes=True,
    check=check,
)
