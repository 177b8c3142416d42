"""No TrainJob uses a deprecated runtime."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainyard_api import names, runtime_ref
from trainyard_api.errors import FieldPath

from ..manifest import Manifest, Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Severity, StackRule
from ..subject import Subject

_NAME: Final = FieldPath("spec").child("runtimeRef", "name")


def check(manifests: Sequence[Manifest], parameters: Parameters) -> Iterator[tuple[Manifest, Finding]]:
    """No runtimeRef names a runtime, among all manifests, with the label of deprecation."""
    going = {
        (runtime.kind, runtime.namespace or "", runtime.name)
        for runtime in manifests
        if runtime.kind in names.RUNTIME_KINDS
        and runtime.labels.get(names.SUPPORT_LABEL) == names.SUPPORT_DEPRECATED
    }
    for job in manifests:
        if not isinstance(job, Workload) or job.kind != names.TRAINJOB:
            continue
        reference = runtime_ref.of(job.spec)
        namespace = reference.namespace(job.namespace or "") or ""
        if (reference.kind, namespace, reference.name) in going:
            message = f"should be another runtime: {reference.kind} {reference.name} is deprecated"
            yield job, Finding(_NAME, message)


RULE = StackRule(
    id="deprecated-runtime",
    title="No TrainJob uses a deprecated runtime",
    why="A deprecated runtime is removed in a later release; a TrainJob that names it then is refused.",
    remedy="Use the successor that the runtime names in its header.",
    severity=Severity.LOW,
    levels={Subject.STACK: Level.ADVISORY},
    check=check,
)
