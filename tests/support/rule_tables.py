"""`faulty.yaml` and `honest.yaml`: what every gate refuses, and what none does."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from trainyard_api import documents
from trainyard_policies.parameters import Parameters
from trainyard_policies.settings import Policies

from .rule_examples import HERE, changed

_JOB = "spec.template.spec.replicatedJobs[0]"
_PATCH = "spec.runtimePatches[0].trainingRuntimeSpec.template.spec.replicatedJobs[0]"
_POD = "template.spec.template.spec"


@dataclass(frozen=True)
class Case:
    what: str
    manifest: dict[str, Any]
    policies: Policies
    at: str = ""
    says: str = ""

    def __str__(self) -> str:
        return self.what


@cache
def cases(name: str) -> tuple[Case, ...]:
    """The table of that name."""
    path = HERE / f"{name}.yaml"
    [document] = documents.parse(f"cases:\n{path.read_text()}", str(path))
    return tuple(_case(one) for one in document.value["cases"])


def _case(entry: dict[str, Any]) -> Case:
    job = _PATCH if entry["in"] == "trainjob" else _JOB

    def full(path: str) -> str:
        first, dot, rest = path.partition(".")
        places = {"JOB": job, "POD": f"{job}.{_POD}", "NODE": f"{job}.{_POD}.containers[0]"}
        return f"{places.get(first, first)}{dot}{rest}"

    return Case(
        entry["what"],
        changed(entry["in"], {full(path): value for path, value in entry["set"].items()}),
        Policies(parameters=Parameters.model_validate(entry.get("parameters", {}))),
        full(entry.get("at", "")),
        entry.get("says", ""),
    )
