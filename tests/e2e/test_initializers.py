"""Datasets and models are fetched into a job's volume before the trainers start."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import Cluster, Object
from tests.support.patience import STARTED, eventually
from tests.support.runs import record
from trainyard_sandbox.paths import PROJECT

pytestmark = pytest.mark.sandbox(area="initializers")

NUMBERS = range(1, 2001)
CONTENT = {
    "hub": {
        "datasets/acme/numbers": {
            "README.md": "# numbers\n",
            "data/numbers.csv": "".join(f"{number}\n" for number in NUMBERS),
        }
    },
    "s3": {"team": {"models/base/weight.txt": "0.5", "sets/small/data/numbers.csv": "1\n2\n3\n"}},
}
TOKEN, KEY, SECRET_KEY = "hf_rightRIGHTright", "AKIATEST", "right/secret"

# Each rank sums its share of the data, and all of them the shares.
SCRIPT = """
import pathlib, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
lines = pathlib.Path("/workspace/dataset/data/numbers.csv").read_text().split()
total = torch.tensor([sum(map(float, lines[rank::world]))], dtype=torch.float64)
dist.all_reduce(total)
weight = pathlib.Path("/workspace/model/weight.txt")
print(f"rank {rank} of {world}: {total.item() * (float(weight.read_text()) if weight.exists() else 1)}")
dist.barrier()  # who leaves first takes what others still read
dist.destroy_process_group()
"""


def variables(**values: str) -> list[Object]:
    return [{"name": name, "value": value} for name, value in values.items()]


def server(name: str) -> list[Object]:
    """A pod that runs the tests' own Hub or S3, and a Service of its name."""
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    container = {
        "name": name,
        "image": "docker.io/trainyard/torch-cpu:sandbox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/served/servers.py", name, f"/served/{name}.json", "8000"],
        "env": variables(
            TOKEN=TOKEN, ELSEWHERE="hub.default", ACCESS_KEY_ID=KEY, SECRET_ACCESS_KEY=SECRET_KEY
        ),
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
        "volumeMounts": [{"name": "served", "mountPath": "/served"}],
    }
    volume = {"name": "served", "configMap": {"name": "served"}}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 0},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8000}]},
        },
    ]


def secret(name: str, **values: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


@pytest.fixture(scope="module")
def sources(platform: Cluster) -> Iterator[Cluster]:
    """The platform with a Hub and an S3 in it."""
    script = (PROJECT / "tests" / "trainyard_initializers" / "servers.py").read_text()
    files = {"servers.py": script, **{f"{name}.json": json.dumps(CONTENT[name]) for name in CONTENT}}
    served = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "served", "namespace": "default"},
        "data": files,
    }
    platform.apply(
        served,
        *server("hub"),
        *server("s3"),
        secret("hub-token", ACCESS_TOKEN=TOKEN),
        secret("wrong-token", ACCESS_TOKEN="hf_wrongWRONGwrong"),
        secret("s3-keys", ACCESS_KEY_ID=KEY, SECRET_ACCESS_KEY=SECRET_KEY),
    )
    platform.wait("pod/hub", "pod/s3", condition="condition=Ready")
    yield platform
    platform.kubectl("delete", "pod/hub", "pod/s3", "service/hub", "service/s3", "configmap/served")


def asked(uri: str, secret: str, **environment: str) -> Object:
    """One entry of a TrainJob's initializer."""
    return {"storageUri": uri, "secretRef": {"name": secret}, "env": variables(**environment)}


def job(name: str, **initializer: Any) -> Object:
    """Two nodes that train on what was fetched."""
    command = ["torchrun", "--no_python", "python3", "-c", SCRIPT]
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "runtimeRef": {"name": "torch-with-initializers"},
            "initializer": initializer,
            "trainer": {"numNodes": 2, "command": command},
        },
    }


def complete(platform: Cluster, name: str) -> None:
    """Wait until a job is complete; a failed one shows its logs."""

    def ended() -> bool:
        if platform.condition(name, "Failed"):
            selector = f"jobset.sigs.k8s.io/jobset-name={name}"
            pytest.fail(platform.kubectl("logs", "-l", selector, "--prefix", "--tail=50"))
        return bool(platform.condition(name, "Complete"))

    eventually(f"{name} is complete", ended, within=STARTED)


def results(platform: Cluster, name: str) -> list[str]:
    """The line of each rank, sorted."""
    selector = f"jobset.sigs.k8s.io/jobset-name={name},jobset.sigs.k8s.io/replicatedjob-name=node"
    logs = [platform.log(pod["metadata"]["name"]) for pod in platform.list("pods", selector)]
    return sorted(line[line.index("rank ") :] for log in logs for line in log.splitlines() if "rank " in line)


def initializer(platform: Cluster, name: str) -> Object:
    """The pod of a job's dataset initializer."""
    selector = (
        f"jobset.sigs.k8s.io/jobset-name={name},jobset.sigs.k8s.io/replicatedjob-name=dataset-initializer"
    )
    [pod] = eventually("its initializer", lambda: platform.list("pods", selector))
    return dict(pod)


@pytest.mark.core
def test_trainers_read_a_dataset_of_a_hub_and_a_model_of_s3_from_one_volume(sources: Cluster) -> None:
    sources.apply(
        job(
            "from-hub",
            dataset=asked("hf://acme/numbers", "hub-token", HF_ENDPOINT="http://hub"),
            model=asked("s3://team/models/base", "s3-keys", ENDPOINT="http://s3"),
        )
    )
    complete(sources, "from-hub")
    half = sum(NUMBERS) / 2
    assert results(sources, "from-hub") == [f"rank {rank} of 2: {half}" for rank in (0, 1)]
    log = sources.log(initializer(sources, "from-hub")["metadata"]["name"])
    assert "fetching 2 files" in log
    assert TOKEN not in log
    record(sources, "from-hub", "torch")


def test_trainers_read_a_dataset_of_s3_and_no_model_where_none_is_asked_for(sources: Cluster) -> None:
    sources.apply(job("from-s3", dataset=asked("s3://team/sets/small", "s3-keys", ENDPOINT="http://s3")))
    complete(sources, "from-s3")
    assert results(sources, "from-s3") == [f"rank {rank} of 2: 6.0" for rank in (0, 1)]


def test_a_wrong_token_fails_the_job_at_once_and_says_why(sources: Cluster) -> None:
    dataset = asked("hf://acme/numbers", "wrong-token", HF_ENDPOINT="http://hub")
    sources.apply(job("wrong-token", dataset=dataset))
    failed = sources.wait_for_condition("wrong-token", "Failed")
    pod = initializer(sources, "wrong-token")
    [status] = pod["status"]["containerStatuses"]
    ended = status["state"]["terminated"]
    reason = (
        "Unauthorized: the dataset acme/numbers on http://hub answers 401; ACCESS_TOKEN is refused, "
        "or may not read it: check the Secret, and that access was granted"
    )
    assert (ended["exitCode"], ended["message"]) == (11, reason)
    assert reason in sources.kubectl("describe", "pod", pod["metadata"]["name"])
    jobset_says, _, ours = failed["message"].partition(". ")
    assert (failed["reason"], jobset_says) == (
        "FailJobSetFailurePolicyAction",
        "applying FailJobSet failure policy action (first failed job: wrong-token-dataset-initializer-0)",
    )
    assert ours.startswith("dataset-initializer 0 failed first: exit code 11, ")
    assert ours.endswith(reason)
    assert "hf_wrong" not in sources.log(pod["metadata"]["name"])
    assert results(sources, "wrong-token") == []


def test_an_initializer_that_reaches_nobody_is_told_while_it_tries_again(sources: Cluster) -> None:
    dataset = asked("hf://acme/numbers", "hub-token", HF_ENDPOINT="http://nobody")
    sources.apply(job("nobody", dataset=dataset))

    def told() -> Object:
        answer = sources.run("trainyard", "explain", "nobody", "-n", "default", "-o", "json", check=False)
        found: Object = json.loads(answer.stdout)["finding"] or {}
        assert found.get("cause") == "InitializerRetries", answer.stdout
        return found

    found = eventually("it is told", told, within=STARTED)
    assert "http://nobody" in found["message"]
    sources.kubectl("delete", "trainjob", "nobody")
