"""What runs keeps running, whatever is rolled out, restarted or destroyed meanwhile."""

import json
import os
import random
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import (
    UNTIL_TOLD,
    Cluster,
    Object,
    finish,
    runtime,
    sandbox_of_its_own,
    trainjob,
    trainyard,
)
from tests.support.patience import LEARNED, eventually

from .gangs import VOLCANO, Scheduler, gang_runtime
from .stack_changes import change

pytestmark = pytest.mark.soak

SEED = int(os.environ.get("TRAINYARD_CHANGES_SEED", "1"))
CHANGES, TOGETHER = 200, 8
"""Changes that are tried, and how many of them a roll-out brings."""
DESTROYED = (6, 13, 20)
"""The roll-outs before which the platform is destroyed."""
COSCHEDULING = Scheduler(
    "scheduler-plugins-scheduler", "coscheduling", "podgroups.scheduling.x-k8s.io", ("Pending",)
)
CONTROLLERS = {
    "trainyard-system": "app.kubernetes.io/name=trainyard-operator",
    "kueue-system": "control-plane=controller-manager",
    "jobset-system": "control-plane=controller-manager",
}
WAITS = UNTIL_TOLD.replace("sleep 0.2", "sleep 3")
"""Fifty pods that look five times a second would keep a processor busy."""
QUEUE = {"kueue.x-k8s.io/queue-name": "default"}
CPU = {"requests": {"cpu": "10m"}}


def job(name: str, runtime: str = "plain", nodes: int = 1, **metadata: Object) -> Object:
    """A TrainJob that runs until it is told to end."""
    manifest = trainjob(name, WAITS, runtime)
    manifest["metadata"].update(metadata)
    manifest["spec"]["trainer"].update(numNodes=nodes, resourcesPerNode=CPU)
    return manifest


def in_steps() -> Object:
    """A runtime that prepares something in a pod of its own first."""
    manifest = runtime("in-steps", container={"resources": CPU})
    [node] = manifest["spec"]["template"]["spec"]["replicatedJobs"]
    pod = {
        "containers": [{**node["template"]["spec"]["template"]["spec"]["containers"][0], "command": ["true"]}]
    }
    first = {"name": "prepare", "template": {"spec": {"template": {"spec": pod}}}}
    node["dependsOn"] = [{"name": "prepare", "status": "Complete"}]
    manifest["spec"]["template"]["spec"]["replicatedJobs"] = [first, node]
    return manifest


def of_a_tenant(number: int = 0) -> Object:
    """A tenant's own runtime, as its people change it."""
    env = [{"name": "CHANGED", "value": str(number)}]
    return runtime("of-ours", kind="TrainingRuntime", container={"resources": CPU, "env": env})


def jobs_of_a_team() -> Iterator[Object]:
    """Of a queue."""
    for number in range(3):
        yield job(f"plain-{number}", labels=QUEUE)
    for name in ("torch-distributed", "jax-distributed", "xgboost-distributed", "mpi-distributed"):
        yield job(name, name, nodes=2, labels=QUEUE)
    yield job(
        "elastic", "torch-elastic", 2, labels=QUEUE, annotations={"trainyard.dev/elastic": "min=1,max=3"}
    )
    yield job("in-steps", "in-steps", labels=QUEUE)
    yield job("important", labels={**QUEUE, "kueue.x-k8s.io/priority-class": "high"})
    ours = job("of-ours", "of-ours", labels=QUEUE)
    ours["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    yield ours


def jobs_without_a_queue() -> Iterator[Object]:
    for number in range(3):
        yield job(f"plain-{number}")
    for name in (
        "torch-distributed",
        "jax-distributed",
        "mpi-distributed",
        "volcano-gang",
        "coscheduling-gang",
    ):
        yield job(name, name, nodes=2)


@pytest.fixture(scope="module")
def steady() -> Iterator[Cluster]:
    with sandbox_of_its_own("steady") as cluster:
        yield cluster


def names_of(namespace: Cluster) -> list[str]:
    """The names of its TrainJobs."""
    return [manifest["metadata"]["name"] for manifest in namespace.list("trainjobs")]


def processes(namespaces: list[Cluster]) -> dict[str, object]:
    """Of each TrainJob its running containers and its Workload, by their uids."""
    kept: dict[str, object] = {}
    for namespace in namespaces:
        workloads = {w["metadata"]["ownerReferences"][0]["name"]: w for w in namespace.list("workloads")}
        for name in names_of(namespace):
            running = {
                pod["metadata"]["uid"]: [
                    (status["containerID"], status["restartCount"])
                    for status in pod["status"]["containerStatuses"]
                ]
                for pod in namespace.pods(name)
                if pod["status"]["phase"] == "Running"
            }
            workload = workloads.get(name, {}).get("metadata", {}).get("uid")
            kept[f"{namespace.namespace}/{name}"] = (running, workload)
    return kept


def all_run(namespaces: list[Cluster]) -> bool:
    """Whether each TrainJob has all of its training nodes."""
    rows = [row for namespace in namespaces for row in namespace.table("trainjobs").values()]
    assert [row for row in rows if row["STATE"] != "Running"] == []
    return True


def disturb(platform: Cluster, team: Cluster, draw: random.Random, number: int) -> str:
    """Something that happens in any cluster; what it was."""
    turn = draw.randrange(5)
    if turn == 0:
        pid = platform.sandbox.status().components["kube-apiserver"]["pid"]
        os.kill(pid, signal.SIGKILL)
        trainyard("sandbox", "up", "--name", platform.name)  # starts what has ended
        return "the API server is killed"
    if turn == 1:
        team.kubectl("label", "trainjobs", "--all", "--overwrite", f"example.com/seen=at-{number}")
        return "TrainJobs get a label"
    if turn == 2:
        team.apply(of_a_tenant(number))
        return "a tenant changes its runtime"
    if turn == 3:
        team.kubectl("annotate", "jobsets", "--all", "--overwrite", f"example.com/seen=at-{number}")
        return "JobSets get an annotation"
    namespace, selector = draw.choice(sorted(CONTROLLERS.items()))
    platform.within(namespace).kubectl("delete", "pods", "-l", selector, "--wait=false")
    return f"the controllers in {namespace} are killed"


@pytest.mark.jobset_queues
def test_30_jobs_of_all_kinds_keep_their_pods_through_200_changes_and_three_destroys(
    steady: Cluster, tmp_path: Path
) -> None:
    print(f"TRAINYARD_CHANGES_SEED={SEED}")
    draw, file, numbers = random.Random(SEED), tmp_path / "Pulumi.sandbox.yaml", count()  # noqa: S311
    document = json.loads(json.dumps(steady.stack()))  # values of an anchor would change together
    platform = document["config"]["trainyard:platform"]
    platform["operator"]["mpiNamespaces"] = ["default"]
    for queue in ("team-a", "team-b"):
        cpu = {"name": "cpu", "resources": {"cpu": {"nominal": "4"}, "memory": {"nominal": "64Gi"}}}
        platform["queues"]["clusterQueues"][queue] = {
            "cohort": "sandbox",
            "resourceGroups": [{"flavors": [cpu]}],
        }

    def make(*goal: str) -> str:
        file.write_text(yaml.safe_dump(document))
        return steady.run("env", f"PULUMI_OPTION_CONFIG_FILE={file}", "make", *goal, "STACK=sandbox").stdout

    make("up")
    steady.apply(in_steps(), gang_runtime(10, VOLCANO), gang_runtime(10, COSCHEDULING))
    teams = [steady.within("team-a"), steady.within("team-b")]
    for team in teams:
        team.apply(of_a_tenant())
        team.apply(*jobs_of_a_team())
    outside = steady.within("default")
    outside.apply(*jobs_without_a_queue())
    places = [*teams, outside]
    eventually("all run", lambda: all_run(places), within=LEARNED)
    before = processes(places)
    assert len(before) == 30

    history: list[str] = []
    for roll_out in range(CHANGES // TOGETHER):
        if roll_out in DESTROYED:
            history.append("destroyed")
            make("destroy", "YES=1")
            assert processes(places) == before, history
        history += [change(platform, draw) for _ in range(TOGETHER)]
        make("up")
        history += [disturb(steady, draw.choice(teams), draw, next(numbers)) for _ in range(3)]
        assert processes(places) == before, history
    eventually("the table says that all run", lambda: all_run(places))
    assert processes(places) == before, history

    for place in places:
        for pod in place.list("pods"):
            if pod["status"]["phase"] == "Running":
                finish(place, pod)
        for name in names_of(place):
            place.wait_for_condition(name, "Complete")
