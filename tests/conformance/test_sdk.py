"""The Kubeflow SDK, as it is: what it sends, what becomes of that, and what it reads back.

Nothing runs in pods here, so a test writes the JobSet's status; logs and steps
are read in tests/e2e.
"""

from dataclasses import replace
from datetime import date, timedelta

import pytest
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import (
    BuiltinTrainer,
    CustomTrainer,
    CustomTrainerContainer,
    HuggingFaceDatasetInitializer,
    HuggingFaceModelInitializer,
    Initializer,
    LoraConfig,
    TorchTuneConfig,
    TrainerClient,
)
from kubeflow.trainer import options as given

from benchmarks import plane
from tests.support import live
from tests.support.corpus import GOLDEN, load
from tests.support.patience import SOON, eventually
from trainyard_policies.settings import Policies

from .live_status import COMPLETED, FAILED, jobset_of, jobset_says, see_jobset
from .upstream_pods import node_pod, variables

pytestmark = pytest.mark.sandbox

NEXT_YEAR = date.today() + timedelta(days=300)
SHIPPED = ("deepspeed-distributed", "jax-distributed", "torch-distributed", "torchtune-llama3.2-1b")
TUNED = "torchtune-llama3.2-1b"
NAMESPACE = "sdk"
"""A job whose runtime is gone, as other tests leave some, makes the SDK unable to list any beside it."""
AMOUNTS = {"int": 2, "float": 2.0, "text": "2"}


@pytest.fixture(scope="module")
def side(tmp_path_factory):
    """Our operator on a cluster that holds everything to the policy rules, at the levels as shipped."""
    plane.build()
    with live.ours(tmp_path_factory.mktemp("held"), "conf-held", Policies()) as held:
        live.install_webhooks(held)
        one = replace(held, api=live.Api(held.cluster.sandbox.instance.kubeconfig, NAMESPACE))
        live.done(one.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}))
        for name in SHIPPED:
            one.api.apply(*map(let_off, load(GOLDEN / "runtimes" / f"{name}.yaml")))
        yield one


def let_off(runtime):
    """With an exception: upstream's images have no tag."""
    exception = {"policy.trainyard.dev/image-tag": f"until={NEXT_YEAR}; as it comes from upstream"}
    return {**runtime, "metadata": {**runtime["metadata"], "annotations": exception}}


@pytest.fixture(scope="module")
def client(side):
    kubeconfig = str(side.cluster.sandbox.instance.kubeconfig)
    return TrainerClient(KubernetesBackendConfig(namespace=NAMESPACE, config_file=kubeconfig))


def built(side, name):
    see_jobset(side, name)
    return jobset_of(side, name)


def train():
    print("trained")


def test_it_lists_and_gets_runtimes(client):
    assert set(SHIPPED) <= {runtime.name for runtime in client.list_runtimes()}
    runtime = client.get_runtime(TUNED)
    assert (runtime.trainer.framework, runtime.trainer.trainer_type.name) == ("torchtune", "BUILTIN_TRAINER")
    assert client.get_runtime("torch-distributed").trainer.trainer_type.name == "CUSTOM_TRAINER"


def test_a_function_becomes_the_command_of_a_jobset(side, client):
    trainer = CustomTrainer(func=train, num_nodes=2, env={"A": "1"}, packages_to_install=["x"])
    jobset = built(side, client.train(runtime="torch-distributed", trainer=trainer))
    (job,) = jobset["spec"]["replicatedJobs"]
    assert (job["template"]["spec"]["parallelism"], job["template"]["spec"]["completions"]) == (2, 2)
    command = " ".join(node_pod(jobset)["containers"][0]["command"])
    assert "torchrun" in command
    assert "def train():" in command
    assert variables(jobset)["A"] == "1"
    assert variables(jobset)["PET_NNODES"] == "2"


@pytest.mark.parametrize("kind", AMOUNTS)
def test_resources_are_taken_as_number_and_as_text(side, client, kind):
    amounts = {"cpu": AMOUNTS[kind], "memory": "1Gi", "gpu": AMOUNTS[kind]}
    trainer = CustomTrainer(func=train, resources_per_node=amounts)
    jobset = built(side, client.train(runtime="torch-distributed", trainer=trainer))
    wanted = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "2"}
    found = node_pod(jobset)["containers"][0]["resources"]
    assert found == {"limits": wanted, "requests": wanted}
    assert variables(jobset)["PET_NPROC_PER_NODE"] == "auto"


def test_a_container_of_ones_own_replaces_the_runtimes_image(side, client):
    trainer = CustomTrainerContainer(image="mine:1", num_nodes=3, env={"A": "1"})
    name = client.train(
        runtime="torch-distributed",
        trainer=trainer,
        options=[given.TrainerCommand(["run"]), given.TrainerArgs(["--fast"])],
    )
    (container,) = node_pod(built(side, name))["containers"]
    assert (container["image"], container["command"], container["args"]) == ("mine:1", ["run"], ["--fast"])


def test_torchtune_is_configured_by_its_arguments_with_initializers(side, client):
    config = TorchTuneConfig(
        epochs=1, batch_size=2, peft_config=LoraConfig(lora_rank=8), resources_per_node={"gpu": 1}
    )
    initializer = Initializer(
        dataset=HuggingFaceDatasetInitializer(storage_uri="hf://a/b", access_token="t"),
        model=HuggingFaceModelInitializer(storage_uri="hf://m/x", access_token="t"),
    )
    name = client.train(runtime=TUNED, trainer=BuiltinTrainer(config=config), initializer=initializer)
    jobset = built(side, name)
    names = [job["name"] for job in jobset["spec"]["replicatedJobs"]]
    assert names == ["dataset-initializer", "model-initializer", "node"]
    for which, address in (("dataset-initializer", "hf://a/b"), ("model-initializer", "hf://m/x")):
        found = variables(jobset, which)
        assert (found["STORAGE_URI"], found["ACCESS_TOKEN"]) == (address, "t")
    (container,) = node_pod(jobset)["containers"]
    assert container["command"][:3] == ["tune", "run", "lora_finetune_single_device"]
    assert {"epochs=1", "batch_size=2", "model.lora_rank=8"} <= set(container["args"])
    waits = jobset["spec"]["replicatedJobs"][2]["dependsOn"]
    assert [(one["name"], one["status"]) for one in waits] == [
        ("dataset-initializer", "Complete"),
        ("model-initializer", "Complete"),
    ]


def test_every_option_reaches_the_trainjob_and_the_jobset(side, client):
    pod = given.PodSpecPatch(
        node_selector={"zone": "a"},
        service_account_name="sa",
        tolerations=[{"key": "k", "operator": "Exists"}],
        volumes=[{"name": "v", "emptyDir": {}}],
        containers=[
            given.ContainerPatch(name="node", volume_mounts=[{"name": "v", "mountPath": "/v"}]),
        ],
    )
    job = given.ReplicatedJobPatch(
        name="node",
        template=given.JobTemplatePatch(spec=given.JobSpecPatch(template=given.PodTemplatePatch(spec=pod))),
    )
    patch = given.RuntimePatch(
        training_runtime_spec=given.TrainingRuntimeSpecPatch(
            template=given.JobSetTemplatePatch(
                metadata={"labels": {"team": "t"}}, spec=given.JobSetSpecPatch(replicated_jobs=[job])
            )
        )
    )
    name = client.train(
        runtime="torch-distributed",
        trainer=CustomTrainer(func=train),
        options=[
            given.Name("with-options"),
            given.Labels({"l": "1"}),
            given.Annotations({"a": "1"}),
            given.ActiveDeadlineSeconds(600),
            patch,
        ],
    )
    assert name == "with-options"
    trainjob = side.api.get(live.TRAINER, "TrainJob", name)
    assert (trainjob["metadata"]["labels"], trainjob["metadata"]["annotations"]) == ({"l": "1"}, {"a": "1"})
    assert trainjob["spec"]["activeDeadlineSeconds"] == 600
    assert trainjob["spec"]["runtimePatches"][0]["manager"] == "trainer.kubeflow.org/kubeflow-sdk"
    jobset = built(side, name)
    assert jobset["metadata"]["labels"] == {"team": "t"}
    found = node_pod(jobset)
    assert (found["nodeSelector"], found["serviceAccountName"]) == ({"zone": "a"}, "sa")
    assert found["tolerations"] == [{"key": "k", "operator": "Exists"}]
    assert found["containers"][0]["volumeMounts"] == [{"name": "v", "mountPath": "/v"}]


@pytest.mark.parametrize(("last", "word"), [(COMPLETED, "Complete"), (FAILED, "Failed")])
def test_it_waits_for_the_end_and_reads_what_became_of_the_job(side, client, last, word):
    name = client.train(runtime="torch-distributed", trainer=CustomTrainer(func=train))
    see_jobset(side, name)
    assert client.get_job(name).status == "Created"
    jobset_says(last)(side, name)
    assert client.wait_for_job_status(name, status={word}, timeout=int(SOON.now)).status == word
    assert name in [job.name for job in client.list_jobs()]
    client.delete_job(name)
    eventually("it is gone", lambda: side.api.get(live.TRAINER, "TrainJob", name) is None)
    eventually("and what it owned", lambda: jobset_of(side, name) is None)


def test_events_say_why_a_job_is_blocked(side, client):
    """A JobSet of that name is there already, and is somebody else's."""
    theirs = {
        "apiVersion": live.JOBSET,
        "kind": "JobSet",
        "metadata": {"name": "taken", "namespace": NAMESPACE},
    }
    live.done(side.api.create({**theirs, "spec": {"replicatedJobs": []}}))
    name = client.train(
        runtime="torch-distributed", trainer=CustomTrainer(func=train), options=[given.Name("taken")]
    )
    events = eventually("an event", lambda: client.get_job_events(name))
    assert [(one.involved_object_kind, one.reason) for one in events] == [("TrainJob", "JobSetConflict")]


def test_a_refusal_tells_the_reason(client):
    trainer = CustomTrainer(func=train, env={"PET_NNODES": "1"})
    with pytest.raises(RuntimeError) as raised:
        client.train(runtime="torch-distributed", trainer=trainer)
    assert "must not have reserved envs" in str(raised.value.__cause__ or raised.value)
