"""What the plugins of JAX, XGBoost and TorchTune make of a TrainJob; the golden corpus has whole JobSets."""

from dataclasses import replace

import pytest

from tests.support.core_values import built, containers, jobset, replicated_job, runtime, trainjob
from trainyard_operator.core.admit.validation import validate
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, new_info
from trainyard_operator.core.build.plugins.jax import JAX
from trainyard_operator.core.build.plugins.plainml import PlainML
from trainyard_operator.core.build.plugins.torchtune import TorchTune
from trainyard_operator.core.build.plugins.xgboost import XGBoost
from trainyard_operator.core.decide import child_annotations

INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def node(**fields):
    return {"name": "node", "image": "img", "resources": {}, **fields}


def jax(processes):
    return [
        {"name": "JAX_NUM_PROCESSES", "value": processes},
        {"name": "JAX_PROCESS_ID", "valueFrom": INDEX},
        {"name": "JAX_COORDINATOR_ADDRESS", "value": "tj-node-0-0.tj:29500"},
    ]


def dmlc(workers):
    return [
        {"name": "DMLC_TRACKER_URI", "value": "tj-node-0-0.tj"},
        {"name": "DMLC_TRACKER_PORT", "value": "29500"},
        {"name": "DMLC_TASK_ID", "valueFrom": INDEX},
        {"name": "DMLC_NUM_WORKER", "value": workers},
    ]


@pytest.mark.parametrize("plugin", [JAX(), XGBoost(), TorchTune()], ids=lambda p: p.name)
def test_it_does_nothing_for_another_policy(plugin):
    info = new_info(trainjob({"trainer": {"numNodes": 4}}), runtime({"numNodes": 2}), DEFAULT_SETTINGS)
    assert plugin.enforce_ml_policy(info) == info


@pytest.mark.parametrize("policy", ["torch", "jax", "xgboost", None])
def test_a_trainjob_without_a_trainer_becomes_what_an_empty_trainer_does(policy):
    rt = runtime({policy: {}, "numNodes": 2} if policy else {"numNodes": 2})
    assert built(trainjob(), rt) == built(trainjob({"trainer": {}}), rt)


VARIABLES = {"torch": "PET_NNODES", "jax": "JAX_NUM_PROCESSES", "xgboost": "DMLC_NUM_WORKER"}


@pytest.mark.parametrize("policy", VARIABLES)
def test_nodes_of_a_trainjob_without_a_trainer_know_how_many_they_are(policy):
    found = containers(trainjob(), runtime({policy: {}, "numNodes": 2}))["node"]
    assert [e["value"] for e in found["env"] if e["name"] == VARIABLES[policy]] == ["2"]
    assert found["ports"] == [{"containerPort": 29500}]


ADDRESSES = {
    "torch": ("PET_MASTER_ADDR", ""),
    "jax": ("JAX_COORDINATOR_ADDRESS", ":29500"),
    "xgboost": ("DMLC_TRACKER_URI", ""),
}


def with_network(rt, **network):
    return replace(
        rt, spec={**rt.spec, "template": {"spec": {**rt.spec["template"]["spec"], "network": network}}}
    )


@pytest.mark.parametrize(
    ("nodes", "network", "address"),
    [
        (2, {}, "tj-workers-0-0.tj"),
        (2, {"subdomain": "ring"}, "tj-workers-0-0.ring"),
        (2, {"enableDNSHostnames": True}, "tj-workers-0-0.tj"),
        (2, {"publishNotReadyAddresses": False}, "tj-workers-0-0.tj"),
        (1, {"enableDNSHostnames": False}, "localhost"),
    ],
)
@pytest.mark.parametrize("policy", ADDRESSES)
def test_nodes_meet_at_the_address_that_the_runtimes_template_gives_the_first(
    policy, nodes, network, address
):
    rt = with_network(runtime({policy: {}, "numNodes": nodes}, [replicated_job("workers")]), **network)
    name, port = ADDRESSES[policy]
    env = {e["name"]: e.get("value") for e in containers(trainjob(), rt, "workers")["node"]["env"]}
    assert env[name] == f"{address}{port}"


@pytest.mark.parametrize("policy", [*ADDRESSES, "mpi"])
def test_nodes_that_need_addresses_are_refused_where_the_runtime_has_switched_them_off(policy):
    rt = with_network(runtime({policy: {}, "numNodes": 2}), enableDNSHostnames=False)
    assert [str(error) for error in validate(trainjob(), None, rt).errors] == [
        "spec.template.spec.network.enableDNSHostnames: Invalid value: false: must not be false: with the "
        "runtime's mlPolicy, pods find each other by their DNS names"
    ]


@pytest.mark.parametrize("policy", [*ADDRESSES, "mpi"])
def test_who_was_let_in_before_can_still_be_resumed(policy):
    rt = with_network(runtime({policy: {}, "numNodes": 2}), enableDNSHostnames=False)
    before, after = trainjob({"suspend": True}), trainjob({"suspend": False})
    assert validate(after, before, rt, jobset(suspend=True)).errors == ()


def test_nodes_that_need_no_addresses_can_do_without():
    rt = with_network(runtime({"numNodes": 2}), enableDNSHostnames=False)
    assert validate(trainjob(), None, rt).errors == ()


@pytest.mark.parametrize("policy", [*ADDRESSES, "mpi"])
def test_a_jobset_that_trainer_has_made_gets_nothing_that_its_pods_cannot_get_any_more(policy):
    """Pods of a JobSet are immutable: whoever waits would be refused, and stay blocked."""
    rt = with_network(runtime({policy: {}, "numNodes": 2}), subdomain="ring")
    as_before = child_annotations.as_begun(DEFAULT_SETTINGS, jobset(suspend=True))
    (before,) = (m for m in plugins.ALL.build(trainjob(), rt, as_before) if m["kind"] == "JobSet")
    env = before["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0].get(
        "env", []
    )
    assert env == []
    made = child_annotations.built(before, None, DEFAULT_SETTINGS)["metadata"]["annotations"]
    assert (
        child_annotations.as_begun(DEFAULT_SETTINGS, jobset(suspend=True, annotations=made))
        == DEFAULT_SETTINGS
    )


@pytest.mark.parametrize("policy", ["jax", "xgboost"])
def test_a_runtime_without_a_trainer_is_left_alone(policy):
    rt = runtime({policy: {}}, [replicated_job(ancestor=None)])
    assert containers(trainjob(), rt)["node"] == node()


RESERVED = {
    "torch": ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"],
    "xgboost": ["DMLC_TRACKER_URI", "DMLC_TRACKER_PORT", "DMLC_TASK_ID", "DMLC_NUM_WORKER"],
    "mpi": [
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_orte_set_default_slots",
        "OMPI_MCA_plm_rsh_args",
    ],
}


@pytest.mark.parametrize("policy", ["jax", *RESERVED])
def test_a_variable_is_reserved_for_its_own_framework_alone(policy: str) -> None:
    def errors(*names: str) -> list[str]:
        job = trainjob({"trainer": {"env": [{"name": name, "value": "1"} for name in ("MINE", *names)]}})
        return [error.detail for error in validate(job, None, runtime({policy: {}})).errors]

    own = RESERVED.get(policy, [])
    assert errors(*(name for names in RESERVED.values() for name in names if name not in own)) == []
    assert all(name in " ".join(errors(name)) for name in own)


# --- jax --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trainer", "pods"),
    [
        pytest.param({}, 2, id="the runtime's numNodes"),
        pytest.param({"numNodes": 5}, 5, id="the TrainJob's numNodes"),
    ],
)
def test_jax_processes_are(trainer, pods):
    job, rt = trainjob({"trainer": trainer}), runtime({"jax": {}, "numNodes": 2})
    assert containers(job, rt)["node"] == node(env=jax(str(pods)), ports=[{"containerPort": 29500}])
    assert built(job, rt)["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"] == pods


def test_a_user_may_overrule_what_jax_is_told():
    job = trainjob({"trainer": {"env": [{"name": "JAX_NUM_PROCESSES", "value": "9"}]}})
    assert containers(job, runtime({"jax": {}}))["node"]["env"] == [
        {"name": "JAX_NUM_PROCESSES", "value": "9"},
        *jax("1")[1:],
    ]


# --- xgboost ----------------------------------------------------------------

TWO_GPUS = {"limits": {"nvidia.com/gpu": 2}}


@pytest.mark.parametrize(
    ("trainer", "resources", "workers"),
    [
        pytest.param({"numNodes": 3}, {}, "3", id="one a node without GPUs"),
        pytest.param({"numNodes": 3}, TWO_GPUS, "6", id="one for each GPU of the runtime"),
        pytest.param(
            {"numNodes": 3, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}}},
            TWO_GPUS,
            "12",
            id="one for each GPU of the TrainJob",
        ),
        pytest.param(
            {"resourcesPerNode": {"limits": {"cpu": 4}}},
            TWO_GPUS,
            "2",
            id="one for each GPU of the runtime if the TrainJob names other resources",
        ),
    ],
)
def test_xgboost_workers_are(trainer, resources, workers):
    rt = runtime({"xgboost": {}}, [replicated_job(containers=[node(resources=resources)])])
    found = containers(trainjob({"trainer": trainer}), rt)["node"]
    assert (found["env"], found["ports"]) == (dmlc(workers), [{"containerPort": 29500}])


@pytest.mark.parametrize(
    ("policy", "gpus", "warned"),
    [("xgboost", 2, True), ("xgboost", 1, False), ("xgboost", None, False), ("jax", 2, False)],
)
def test_whoever_wants_several_gpus_a_node_is_told_that_xgboost_waits_for_a_process_of_each(
    policy, gpus, warned
):
    said = (
        "spec.trainer.resourcesPerNode: each node has 2 workers in DMLC_NUM_WORKER, one for each GPU, and a "
        "pod starts only one: unless the command starts a process for each GPU, each with a DMLC_TASK_ID of "
        "its own, the job never starts to train; or ask for one GPU a node"
    )
    job = trainjob({"trainer": {"resourcesPerNode": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else {}})
    assert validate(job, None, runtime({policy: {}})).warnings == ((said,) if warned else ())


def test_plainml_sets_xgboosts_variables_of_the_trainjob():
    job = trainjob({"trainer": {"env": [{"name": "A", "value": "1"}]}})
    env = containers(job, runtime({"xgboost": {}}))["node"]["env"]
    assert env == [{"name": "A", "value": "1"}, *dmlc("1")]


# --- torchtune --------------------------------------------------------------

RENDEZVOUS = "--rdzv_endpoint=tj-node-0-0.tj:29500"
LORA = "model.lora_attn_modules=[q_proj]"
QUANTIZED = "model.quantize_base=True"


def torchtune_runtime(name="torchtune-llama3.2-1b", gpus=2, command=()):
    container = node(command=[*command], resources={"limits": {"nvidia.com/gpu": gpus}})
    return replace(runtime({"torch": {}}, [replicated_job(containers=[container])]), name=name)


def command(trainer, rt=None):
    rt = rt or torchtune_runtime()
    spec = {"trainer": {"command": ["tune", "run"], **trainer}, "runtimeRef": {"name": rt.name}}
    return containers(trainjob(spec), rt)["node"]["command"]


@pytest.mark.parametrize(
    ("trainer", "gpus", "expected"),
    [
        pytest.param(
            {}, 2, [RENDEZVOUS, "full_finetune_distributed", "llama3_2/1B_full"], id="full, several GPUs"
        ),
        pytest.param(
            {}, 1, ["full_finetune_single_device", "llama3_2/1B_full_single_device"], id="full, one"
        ),
        pytest.param(
            {"numProcPerNode": 1},
            2,
            ["full_finetune_single_device", "llama3_2/1B_full_single_device"],
            id="full, one process",
        ),
        pytest.param(
            {"numProcPerNode": 2},
            2,
            [RENDEZVOUS, "full_finetune_distributed", "llama3_2/1B_full"],
            id="full, two processes",
        ),
        pytest.param(
            {"args": [LORA]},
            2,
            [RENDEZVOUS, "lora_finetune_distributed", "llama3_2/1B_lora"],
            id="LoRA, several GPUs",
        ),
        pytest.param(
            {"args": [LORA]},
            1,
            ["lora_finetune_single_device", "llama3_2/1B_lora_single_device"],
            id="LoRA, one GPU",
        ),
        pytest.param(
            {"args": [LORA, QUANTIZED]},
            1,
            ["lora_finetune_single_device", "llama3_2/1B_qlora_single_device"],
            id="QLoRA, one GPU",
        ),
        pytest.param(
            {"args": [LORA, QUANTIZED, "model.use_dora=True"]},
            1,
            ["lora_finetune_single_device", "llama3_2/1B_lora_single_device"],
            id="DoRA is not quantized",
        ),
        pytest.param(
            {"args": ["model.quantize_base=False"]},
            1,
            ["full_finetune_single_device", "llama3_2/1B_full_single_device"],
            id="a switch that is off",
        ),
        pytest.param(
            {"numNodes": 2, "args": [LORA]},
            1,
            [RENDEZVOUS, "full_finetune_distributed", "llama3_2/1B_full_multinode"],
            id="several nodes",
        ),
        pytest.param(
            {"resourcesPerNode": {"limits": {"cpu": 4}}},
            2,
            [RENDEZVOUS, "full_finetune_distributed", "llama3_2/1B_full"],
            id="a process for each CPU",
        ),
    ],
)
def test_torchtunes_recipe_is(trainer, gpus, expected):
    *rendezvous, recipe, config = expected
    assert command(trainer, torchtune_runtime(gpus=gpus)) == [
        "tune",
        "run",
        *rendezvous,
        recipe,
        "--config",
        config,
    ]


def test_of_the_runtimes_command_only_its_own_settings_are_kept():
    words = ["tune", "run", "--rdzv_endpoint=localhost:29500", "dataset.source=parquet"]
    own = ["output_dir=/o", "checkpointer.checkpoint_dir=/c", "tokenizer.path=/t", "tokenizer.merges_file=/m"]
    found = command({}, torchtune_runtime(gpus=1, command=[*words, *own]))
    assert found[5:] == own


def test_of_a_helpers_command_nothing_is_kept() -> None:
    rt = torchtune_runtime(gpus=1, command=["tune", "run", "output_dir=/o"])
    helper = replicated_job("helper", None, [node(command=["tune", "run", "output_dir=/h"])])
    rt.spec["template"]["spec"]["replicatedJobs"].append(helper)
    assert command({}, rt)[5:] == ["output_dir=/o"]


def test_the_model_is_read_off_the_name_of_the_runtime_and_is_empty_for_other_names():
    assert command({}, torchtune_runtime("torchtune-qwen2.5-1.5b", 1))[4] == "qwen2_5/1.5B_full_single_device"
    assert command({}, torchtune_runtime("mine", 1))[4] == "_full_single_device"


@pytest.mark.parametrize("words", [["tune"], ["tune", "run", "x"], ["torchrun"]], ids=" ".join)
def test_another_command_is_left_alone(words):
    assert command({"command": words}) == words


SMALL, LARGE, QWEN = "torchtune-llama3.2-3b", "torchtune-llama3.3-70b", "torchtune-qwen2.5-1.5b"
QLORA = {"args": [LORA, QUANTIZED]}
NO_MODEL = "must have a supported pretrained model, invalid model configured:"
ONE_NODE = (
    "spec.trainer.numNodes: Invalid value: 2: "
    "LoRA fine-tuning is not supported for multi-node training in TorchTune"
)


def one_gpu(processes: object, resources: str) -> list[str]:
    return [
        f"spec.trainer.numProcPerNode: Invalid value: {processes}: "
        "must be auto or 1 for llama3_2/3B model when using QLoRA",
        f"spec.trainer.resourcesPerNode: Invalid value: {resources}: "
        "must have gpu resource with value 1 for llama3_2/3B model when using QLoRA",
    ]


@pytest.mark.parametrize(
    ("name", "gpus", "trainer", "errors"),
    [
        pytest.param(SMALL, 2, {}, [], id="nothing where there is a recipe"),
        pytest.param(
            "mine",
            2,
            {},
            [f'spec.runtimeRef.name: Invalid value: "mine": {NO_MODEL}'],
            id="a runtime that names no model",
        ),
        pytest.param(
            "torchtune-gemma-2b",
            2,
            {},
            [f'spec.runtimeRef.name: Invalid value: "torchtune-gemma-2b": {NO_MODEL} gemma/2B'],
            id="a model without a recipe",
        ),
        pytest.param(
            SMALL,
            2,
            {"numNodes": 2},
            ["spec.trainer.numNodes: Invalid value: 2: must be 1 for llama3_2/3B model"],
            id="several nodes for a small model",
        ),
        pytest.param(LARGE, 2, {"numNodes": 2}, [], id="not several nodes for the large one"),
        pytest.param(LARGE, 2, {"numNodes": 2, "args": [LORA]}, [ONE_NODE], id="LoRA on several nodes"),
        pytest.param(LARGE, 2, {"numNodes": 2, "args": [QUANTIZED]}, [ONE_NODE], id="QLoRA on several"),
        pytest.param(LARGE, 2, QLORA, [], id="not QLoRA on one node"),
        pytest.param(SMALL, 1, QLORA, [], id="not QLoRA on one GPU"),
        pytest.param(SMALL, 2, {**QLORA, "numProcPerNode": 1}, [], id="nor in one process"),
        pytest.param(SMALL, 2, QLORA, one_gpu('"auto"', "null"), id="QLoRA of a small model on several GPUs"),
        pytest.param(
            SMALL,
            1,
            {**QLORA, "numProcPerNode": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 4}}},
            one_gpu(4, '{"limits":{"nvidia.com/gpu":4}}'),
            id="also if the TrainJob asks for them",
        ),
        pytest.param(
            QWEN,
            1,
            QLORA,
            [f'spec.runtimeRef.name: Invalid value: "{QWEN}": QLoRA is not supported for qwen2_5/1.5B model'],
            id="QLoRA of a model that has none",
        ),
        pytest.param(QWEN, 1, {"args": [LORA]}, [], id="not LoRA of that model"),
        pytest.param(
            SMALL,
            2,
            {"args": ["a=b", "output_dir=/x", "tokenizer.path"]},
            [
                f'spec.trainer.args[{position}]: Invalid value: "{argument}": must not set immutable config '
                f'"{key}" in trainer args; it is managed by the runtime'
                for position, argument, key in (
                    (1, "output_dir=/x", "output_dir"),
                    (2, "tokenizer.path", "tokenizer.path"),
                )
            ],
            id="settings that are the runtime's",
        ),
        pytest.param("mine", 2, {"command": ["torchrun"]}, [], id="nothing of another command"),
    ],
)
def test_torchtune_refuses(name: str, gpus: int, trainer: dict[str, object], errors: list[str]) -> None:
    rt = torchtune_runtime(name, gpus)
    spec = {"trainer": {"command": ["tune", "run"], **trainer}, "runtimeRef": {"name": name}}
    assert [str(error) for error in validate(trainjob(spec), None, rt).errors] == errors


@pytest.mark.parametrize("command", [["tune", "run"], ["torchrun"]], ids=" ".join)
def test_torchtune_asks_nothing_of_another_framework(command: list[str]) -> None:
    job = trainjob({"trainer": {"command": command, "args": ["output_dir=/x"]}})
    assert validate(job, None, runtime({"jax": {}})).errors == ()


@pytest.mark.parametrize("policy", ["jax", "xgboost", None])
def test_of_several_processes_on_a_node_that_nothing_starts_is_warned(policy):
    rt = runtime({policy: {}, "numNodes": 2} if policy else {"numNodes": 2})
    warning = (
        "spec.trainer.numProcPerNode: 8 has no effect, since rt has neither mlPolicy.torch nor mlPolicy.mpi: "
        "its command starts once on each node"
    )
    assert validate(trainjob({"trainer": {"numProcPerNode": 8}}), None, rt).warnings == (warning,)
    assert validate(trainjob({"trainer": {"numProcPerNode": 1}}), None, rt).warnings == ()


@pytest.mark.parametrize("policy", ["torch", "mpi"])
def test_of_processes_that_a_launcher_starts_is_not_warned(policy):
    info = plugins.ALL.info(
        trainjob({"trainer": {"numProcPerNode": 8}}), runtime({policy: {}}), DEFAULT_SETTINGS
    )
    assert PlainML().warnings(info) == ()
