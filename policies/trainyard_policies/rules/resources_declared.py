"""The containers of a runtime declare CPU and memory, sidecars and init containers too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..manifest import Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject

NEEDED: Final = ("cpu", "memory")
_OF_SDK: Final = frozenset({"cpu", "google.com/tpu", "huawei.com/Ascend910", "nvidia.com/gpu"})
_MIG: Final = "nvidia.com/mig-"
"""Where limits name none of these, the SDK's `list_runtimes` and `list_jobs` raise an error."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """Requests and limits are set; a limit without a request is a request too, as in Kubernetes."""
    for container in workload.containers():
        requests, _ = container.resources.amounts("requests")
        limits, _ = container.resources.amounts("limits")
        unlimited = [name for name in NEEDED if limits.get(name) is None]
        unsaid = [name for name in unlimited if requests.get(name) is None]
        requested = [name for name in unlimited if name not in unsaid]
        if unsaid:
            yield Finding(container.resources.path, f"should request and limit {' and '.join(unsaid)}")
        if requested:
            yield Finding(container.resources.path, f"should limit {' and '.join(requested)}")
    for container in workload.training_containers():
        limits, path = container.resources.amounts("limits")
        written = container.resources.value.get("limits") is not None
        if written and not any(name in _OF_SDK or name.startswith(_MIG) for name in limits):
            named = f"names only {', '.join(sorted(limits))}" if limits else "is empty"
            yield Finding(path, f"should name cpu or a device that the Kubeflow SDK knows, but {named}")


RULE = Rule(
    id="resources-declared",
    title="Containers request and limit CPU and memory",
    why=(
        "Without requests the scheduler packs a node as if the job needed nothing, and quotas count nothing; "
        "without limits one job can take a node's memory from the others. If the limits of a training "
        "container name neither CPU nor a device that the Kubeflow SDK knows, its list_runtimes() fails for "
        "everybody. By default this is advice, because amounts depend on the stack or the TrainJob."
    ),
    remedy=(
        "Set resources in each container of the runtime. In a stack, runtimes.<name>.resources sets those of "
        "the training container."
    ),
    severity=Severity.MEDIUM,
    levels={Subject.RUNTIMES: Level.ADVISORY},
    check=check,
)
