"""Children of a TrainJob beside its JobSet."""

from __future__ import annotations

import copy
from typing import Any

from tests.support import objects

SECRETS = "/api/v1/namespaces/team/secrets"


SECRET = f"{SECRETS}/tj-mpi-ssh-auth"


CONFIGMAPS = "/api/v1/namespaces/team/configmaps"


HOSTS = f"{CONFIGMAPS}/tj-mpi-hostfile"


GROUP_APIS = {
    "coscheduling": "/apis/scheduling.x-k8s.io/v1alpha1",
    "volcano": "/apis/scheduling.volcano.sh/v1beta1",
}


GROUPS = f"{GROUP_APIS['coscheduling']}/namespaces/team/podgroups"


GROUP = f"{GROUPS}/tj"


BESIDE = (SECRET, HOSTS, GROUP)


def runtime(gang: str = "coscheduling") -> dict[str, Any]:
    """MPI on a launcher and two workers, which start together."""
    found = objects.runtime()
    launcher = found["spec"]["template"]["spec"]["replicatedJobs"][0]
    worker = copy.deepcopy(launcher)
    launcher["name"] = "launcher"
    del worker["template"]["metadata"]
    found["spec"]["template"]["spec"]["replicatedJobs"] = [worker, launcher]
    found["spec"] |= {"mlPolicy": {"numNodes": 1, "mpi": {}}, "podGroupPolicy": {gang: {}}}
    return found
