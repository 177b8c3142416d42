"""Runtimes whose pods start together."""

from dataclasses import dataclass

from tests.support.cluster import Cluster, Object, runtime
from trainyard_api.quantity import parse


@dataclass(frozen=True)
class Scheduler:
    """One of the two, as runtimes and PodGroups name it."""

    name: str
    policy: str
    groups: str
    waiting: tuple[str, ...]
    """What the phase of a PodGroup may be while none of its pods has a node."""


VOLCANO = Scheduler("volcano", "volcano", "podgroups.scheduling.volcano.sh", ("Pending", "Inqueue"))


def cpu_of_a_pod(platform: Cluster) -> int:
    """Thousandths of a CPU of which the node has enough for two pods beside the platform, not for four."""
    [node] = [one for one in platform.list("nodes") if "kwok.x-k8s.io/node" not in str(one["metadata"])]
    return parse(node["status"]["allocatable"]["cpu"]).times(300).ceil()


def gang_runtime(cpu: int, by: Scheduler = VOLCANO) -> Object:
    """A runtime whose pods are scheduled as one gang."""
    return runtime(
        f"{by.policy}-gang",
        pod={"schedulerName": by.name, "terminationGracePeriodSeconds": 0},
        container={"resources": {"requests": {"cpu": f"{cpu}m"}}},
        mlPolicy={"numNodes": 2},
        podGroupPolicy={by.policy: {}},
    )
