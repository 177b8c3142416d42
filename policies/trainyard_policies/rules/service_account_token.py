"""Training pods hold no token for the Kubernetes API unless they request one."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import json_reader

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Edit, Finding, Level, Rule, Severity
from ..subject import Subject


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """A pod says whether it wants a token, or names its service account."""
    for job in workload.jobs:
        path = job.pod_path.child("automountServiceAccountToken")
        account = json_reader.text(
            job.pod.get("serviceAccountName"), job.pod_path.child("serviceAccountName")
        )
        if not account and job.pod.get("automountServiceAccountToken") is None:
            yield Finding(path, "should be false, or true if the pod needs the API", (Edit(path, False),))


RULE = Rule(
    id="service-account-token",
    title="Training pods hold no token for the Kubernetes API unless they request one",
    why=(
        "An attacker who takes over a training process, such as by a model or a dataset, gets the rights of "
        "the namespace's default ServiceAccount."
    ),
    remedy=(
        "Set automountServiceAccountToken: false; or true, or a serviceAccountName, if training uses the "
        "Kubernetes API."
    ),
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.ADVISORY},
    fixes=True,
    check=check,
)
