"""No TrainJob for a queue is sent suspended without meaning it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import names
from trainyard_api.errors import FieldPath

from ..manifest import Manifest, Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Severity, StackRule
from ..subject import Subject

_SUSPEND: Final = FieldPath("spec.suspend")


def check(manifests: Sequence[Manifest], parameters: Parameters) -> Iterator[tuple[Manifest, Finding]]:
    """No TrainJob has both a queue and `suspend: true`."""
    for job in manifests:
        if not isinstance(job, Workload) or job.kind != names.TRAINJOB:
            continue
        queue = job.labels.get(names.QUEUE_LABEL)
        if queue and job.spec.get("suspend") is True:
            name = "NAME" if job.generated else job.name
            message = f"should be left out: the job waits, even if queue {queue[:63]} has room, until "
            yield job, Finding(_SUSPEND, f"{message}kubectl patch trainjob {name} {names.RESUMES}")


RULE = StackRule(
    id="sent-suspended",
    title="No TrainJob for a queue is sent with suspend: true",
    why=(
        "The guides of Kubeflow Trainer and Kueue use suspend: true, and there Kueue resumes the job. In "
        "Trainyard, the job waits until you resume it. Admission warns about this too."
    ),
    remedy="Leave spec.suspend out: a queue needs no suspend: true. Keep it to resume the job yourself.",
    severity=Severity.LOW,
    levels={Subject.STACK: Level.ADVISORY},
    check=check,
)
