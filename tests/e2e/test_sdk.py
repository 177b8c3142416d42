"""The Kubeflow SDK where pods run: steps, logs and events; what it sends is in tests/conformance."""

import pytest
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import (
    BuiltinTrainer,
    CustomTrainer,
    HuggingFaceDatasetInitializer,
    HuggingFaceModelInitializer,
    Initializer,
    TorchTuneConfig,
    TrainerClient,
)

from tests.support.cluster import Cluster, Object, finish
from tests.support.patience import STARTED, eventually

pytestmark = pytest.mark.sandbox(area="operator")

TUNED = "torchtune-llama3.2-1b"


def client_of(cluster: Cluster, namespace: str) -> TrainerClient:
    kubeconfig = str(cluster.sandbox.instance.kubeconfig)
    return TrainerClient(KubernetesBackendConfig(namespace=namespace, config_file=kubeconfig))


@pytest.fixture(scope="module")
def client(platform: Cluster) -> TrainerClient:
    return client_of(platform, "default")


def speak() -> None:
    # The SDK ships this function's source.
    import os  # noqa: PLC0415
    import time  # noqa: PLC0415

    while not os.path.exists("/tmp/go"):  # noqa: S108 (the pod's own)
        time.sleep(0.2)
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])


@pytest.mark.core
def test_a_job_of_a_queue_is_running_while_it_runs_and_its_steps_logs_and_events_are_read_back(
    team_a: Cluster,
) -> None:
    client = client_of(team_a, "team-a")
    trainer = CustomTrainer(func=speak, num_nodes=2)
    name = client.train(runtime="torch-distributed", trainer=trainer)
    job = client.wait_for_job_status(name, status={"Running"}, timeout=int(STARTED.now), polling_interval=1)
    assert (job.status, job.num_nodes) == ("Running", 2)
    for pod in team_a.pods(name):
        finish(team_a, pod)
    job = client.wait_for_job_status(name, status={"Complete"}, timeout=int(STARTED.now))
    assert (job.status, job.num_nodes) == ("Complete", 2)
    assert [(step.name, step.status) for step in job.steps] == [
        ("node-0", "Succeeded"),
        ("node-1", "Succeeded"),
    ]
    for rank in (0, 1):
        assert f"rank {rank} of 2" in "\n".join(client.get_job_logs(name, step=f"node-{rank}"))
    assert "Pod" in {event.involved_object_kind for event in client.get_job_events(name)}
    client.delete_job(name)
    eventually("its pods are gone", lambda: team_a.pods(name) == [])


def test_a_builtin_trainer_comes_down_to_its_pods(platform: Cluster, client: TrainerClient) -> None:
    """No model is fetched, for there is no Hub: the pods of the first steps are looked at."""
    initializer = Initializer(
        dataset=HuggingFaceDatasetInitializer(storage_uri="hf://a/b"),
        model=HuggingFaceModelInitializer(storage_uri="hf://m/x", access_token="t"),
    )
    trainer = BuiltinTrainer(config=TorchTuneConfig(epochs=1, resources_per_node={"gpu": 2}))
    name = client.train(runtime=TUNED, trainer=trainer, initializer=initializer)

    def initializers() -> dict[str, Object]:
        """A pod of each: one that fails, as it does without a Hub, can have been replaced."""
        by_job = {
            pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]: pod
            for pod in platform.pods(name)
        }
        assert len(by_job) == 2, by_job
        return by_job

    for pod in eventually("both initializers", initializers).values():
        which = pod["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]
        (container,) = pod["spec"]["containers"]
        env = {one["name"]: one.get("value") for one in container["env"]}
        assert container["name"] == which
        assert env["STORAGE_URI"] == ("hf://a/b" if which.startswith("dataset") else "hf://m/x")
        assert "/workspace" in [mount["mountPath"] for mount in container["volumeMounts"]]
    jobset = platform.get("jobset", name)
    assert jobset is not None
    node = jobset["spec"]["replicatedJobs"][2]
    assert [one["name"] for one in node["dependsOn"]] == ["dataset-initializer", "model-initializer"]
    (container,) = node["template"]["spec"]["template"]["spec"]["containers"]
    assert container["command"][:3] == ["tune", "run", f"--rdzv_endpoint={name}-node-0-0.{name}:29500"]
    assert "epochs=1" in container["args"]
    assert {step.name for step in client.get_job(name).steps} == {"dataset-initializer", "model-initializer"}
    client.delete_job(name)
    eventually("its pods are gone", lambda: platform.pods(name) == [])
