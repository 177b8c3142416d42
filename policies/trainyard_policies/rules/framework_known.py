"""A runtime's framework is a known one."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import json_reader, names, similar

from ..frameworks import KNOWN
from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject
from .framework_label import PATH


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """The label's value is in the table, or in the stack's."""
    frameworks = (*KNOWN, *parameters.frameworks)
    framework = workload.labels.get(names.FRAMEWORK_LABEL)
    if framework and framework not in frameworks:
        message = f"should be a known framework ({', '.join(frameworks)}), is {json_reader.shown(framework)}"
        yield Finding(PATH, message + similar.hint(framework, frameworks), against="frameworks")


RULE = Rule(
    id="framework-known",
    title="A runtime's framework is a known one",
    why="The Kubeflow SDK lists runtimes by this name, and people choose by it: nobody finds one that is "
    "misspelled.",
    remedy="Write one of the known frameworks, or add yours to policies.parameters.frameworks.",
    severity=Severity.LOW,
    levels={Subject.RUNTIMES: Level.ADVISORY},
    parameters=("frameworks",),
    check=check,
)
