"""Runtimes whose containers do something before the script does, and the catalog against the cluster."""

import json
import re
from datetime import datetime

import pytest

from tests.support.cluster import Cluster, Object, add, runtime
from tests.support.patience import LEARNED, STARTED, eventually
from tests.support.runs import record

pytestmark = pytest.mark.sandbox(area="runtimes")


def job(name: str, of: str, **trainer: object) -> Object:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": of}, "trainer": {"numNodes": 2, **trainer}},
    }


def test_tensorflow_has_all_workers_by_name_and_which_it_is(platform: Cluster) -> None:
    add(platform.name, "tensorflow")
    script = "import os; print(os.environ['TF_CONFIG'])"
    platform.apply(job("strategy", "tensorflow-distributed", command=["python", "-c", script]))
    platform.wait_for_condition("strategy", "Complete", within=LEARNED)
    workers = ["strategy-node-0-0.strategy:29500", "strategy-node-0-1.strategy:29500"]
    assert {pod: json.loads(text) for pod, text in platform.logs("strategy").items()} == {
        f"strategy-node-0-{index}": {
            "cluster": {"worker": workers},
            "task": {"type": "worker", "index": index},
        }
        for index in (0, 1)
    }


def test_mpirun_reaches_the_other_node_as_root_where_an_image_has_no_other_user(platform: Cluster) -> None:
    script = 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname) as $(id -u)"'
    platform.apply(job("ring", "horovod-distributed", command=["mpirun", "sh", "-c", script]))
    platform.wait_for_condition("ring", "Complete", within=LEARNED)
    assert platform.said_by_launcher("ring", r"rank (\d) of 2 on (\S+) as (\d+)", 2) == [
        ("0", "ring-launcher-0-0", "0"),
        ("1", "ring-node-0-0", "0"),
    ]
    record(platform, "ring", "horovod", "openmpi")


ROOM = """
import os, torch.distributed as dist
dist.init_process_group("gloo")
room = os.statvfs("/dev/shm")
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has {room.f_blocks * room.f_frsize >> 20} MiB")
dist.barrier()  # who leaves first takes what others still read
dist.destroy_process_group()
"""


@pytest.mark.long
def test_ranks_have_more_shared_memory_than_containers_usually_have(platform: Cluster) -> None:
    command = ["torchrun", "--no_python", "python", "-c", ROOM]
    platform.apply(job("roomy", "torch-shared-memory", numProcPerNode=1, command=command))
    platform.wait_for_condition("roomy", "Complete", within=LEARNED)
    pattern = r"rank (\d) of 2 has (\d+) MiB"
    ends = {pod: re.findall(pattern, log) for pod, log in platform.logs("roomy").items()}
    assert {pod: [(rank, int(room) > 64) for rank, room in end] for pod, end in ends.items()} == {
        f"roomy-node-0-{rank}": [(str(rank), True)] for rank in (0, 1)
    }
    record(platform, "roomy", "torch")


PRINTS = """
import os, socket, time
for _ in range(5):
    print("printed", os.environ.get("OMPI_COMM_WORLD_RANK", "0"), socket.gethostname(), time.time())
    time.sleep(1)
"""


@pytest.mark.parametrize(
    ("of", "launcher", "ranks"),
    [
        ("torch-distributed", ["torchrun", "--no_python"], {"0"}),
        ("jax-distributed", [], {"0"}),
        ("mpi-distributed", ["mpirun"], {"0", "1"}),
        ("horovod-distributed", ["mpirun"], {"0", "1"}),
    ],
)
def test_each_line_that_python_prints_is_in_the_log_before_the_script_ends(
    platform: Cluster, of: str, launcher: list[str], ranks: set[str]
) -> None:
    name = f"live-{of.partition('-')[0]}"
    platform.apply(job(name, of, numProcPerNode=1, command=[*launcher, "python", "-c", PRINTS]))
    platform.wait_for_condition(name, "Complete", within=LEARNED)
    of_job = f"jobset.sigs.k8s.io/jobset-name={name}"
    # The nodes' pods of an MPI job go when its launcher, which prints for all, has ended.
    text = platform.kubectl("logs", "-l", of_job, "--tail=-1", "--timestamps", "--ignore-errors")
    lines = [
        (rank, host, datetime.fromisoformat(logged).timestamp(), float(printed))
        for logged, rank, host, printed in re.findall(
            r"^(\S+) .*printed (\d) (\S+) (\S+)$", text, re.MULTILINE
        )
    ]
    assert len({host for _, host, _, _ in lines}) == 2, text
    firsts = {rank: min(logged for of, _, logged, _ in lines if of == rank) for rank in ranks}
    lasts = {rank: max(printed for of, _, _, printed in lines if of == rank) for rank in ranks}
    assert {rank: firsts[rank] < lasts[rank] for rank in ranks} == dict.fromkeys(ranks, True), text


ELASTIC = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
ranks, started = dist.get_world_size(), "/tmp/started"
again = torch.tensor([float(os.path.exists(started))])
open(started, "w").close()
dist.all_reduce(again)
print(f"{ranks} ranks, {int(again)} of them again", flush=True)
while ranks == 1 or not again:  # until a lost one has been replaced
    dist.all_reduce(torch.zeros(1))
    time.sleep(0.2)
dist.barrier()  # who leaves first takes what others still read
dist.destroy_process_group()
"""


def test_an_elastic_job_goes_on_with_a_new_node_for_one_that_is_lost(platform: Cluster) -> None:
    script = ["--no_python", "python", "-c", ELASTIC]
    platform.apply(job("elastic", "torch-elastic", numProcPerNode=1, args=script))

    def pod(index: int) -> str:
        wanted = f"jobset.sigs.k8s.io/jobset-name=elastic,batch.kubernetes.io/job-completion-index={index}"
        found = platform.list("pods", wanted)
        assert len(found) == 1, found
        return str(found[0]["metadata"]["name"])

    def trains(index: int) -> bool:
        platform.kubectl("exec", pod(index), "--", "test", "-e", "/tmp/started")  # noqa: S108 (the pod's own)
        return True

    eventually("both train", lambda: trains(0) and trains(1), within=STARTED)
    survivor = pod(0)
    platform.kubectl("delete", "pod", pod(1), "--force", "--grace-period=0")
    platform.wait_for_condition("elastic", "Complete", within=LEARNED)
    seen = re.findall(r"(\d) ranks, (\d) of them again", platform.log(survivor))
    assert (seen[0], seen[-1]) == (("2", "0"), ("2", "1"))
    record(platform, "elastic", "torch")


@pytest.mark.holds("rollout")
@pytest.mark.core
def test_the_catalog_is_compared_with_the_cluster(platform: Cluster) -> None:
    def differ(*arguments: str) -> tuple[int, str]:
        answer = platform.run("trainyard", "runtimes", "diff", "--stack", "sandbox", *arguments, check=False)
        assert answer.returncode != 2, answer.stderr
        return answer.returncode, answer.stdout

    assert differ() == (0, "")
    platform.kubectl(
        "patch",
        "clustertrainingruntime",
        "plain",
        "--type=merge",
        "-p",
        '{"spec":{"mlPolicy":{"numNodes":3}}}',
    )
    assert differ() == (1, "~ plain\n    spec.mlPolicy.numNodes: 3 -> 1\n")
    platform.kubectl(
        "patch",
        "clustertrainingruntime",
        "plain",
        "--type=merge",
        "-p",
        '{"spec":{"mlPolicy":{"numNodes":1}}}',
    )
    assert differ() == (0, "")


def test_what_a_jobset_keeps_as_it_was_made_can_be_changed_in_a_runtime(platform: Cluster) -> None:
    changed = runtime("changed")
    template = changed["spec"]["template"]["spec"]
    for restarts, order in ((1, "AnyOrder"), (2, "InOrder")):
        template["failurePolicy"] = {"maxRestarts": restarts}
        template["startupPolicy"] = {"startupPolicyOrder": order}
        template["network"] = {"publishNotReadyAddresses": restarts == 2}
        platform.apply(changed)
    found = (platform.get("clustertrainingruntime", "changed") or {})["spec"]["template"]["spec"]
    assert found["failurePolicy"]["maxRestarts"] == 2
    assert found["startupPolicy"] == {"startupPolicyOrder": "InOrder"}
    assert found["network"]["publishNotReadyAddresses"] is True
    platform.kubectl("delete", "clustertrainingruntime", "changed")
