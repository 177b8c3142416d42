"""What each plugin makes of a TrainJob and its runtime; the golden corpus shows them together."""

from dataclasses import replace

import pytest

from tests.support.core_values import built, containers, counts, jobset, replicated_job, runtime, trainjob
from trainyard_api.errors import InvalidFieldError
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.framework import Framework, UnsupportedPolicyError
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, new_info
from trainyard_operator.core.build.phases import (
    Build,
    Defaults,
    EnforceMLPolicy,
    EnforcePodGroupPolicy,
    IdentifyNetwork,
    Trains,
    Validate,
    Warns,
)
from trainyard_operator.core.build.plugins.jobset import JobSetPlugin, counts_of, has_ended, terminal_of
from trainyard_operator.core.build.plugins.plainml import PlainML
from trainyard_operator.core.build.plugins.torch import Torch
from trainyard_operator.core.model import Condition

PHASES = (Build, Defaults, EnforceMLPolicy, EnforcePodGroupPolicy, IdentifyNetwork, Trains, Validate, Warns)
RANK = {
    "name": "PET_NODE_RANK",
    "valueFrom": {
        "fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}
    },
}


def pet(nodes, processes):
    return [
        {"name": "PET_NNODES", "value": nodes},
        {"name": "PET_NPROC_PER_NODE", "value": processes},
        RANK,
        {"name": "PET_MASTER_ADDR", "value": "tj-node-0-0.tj"},
        {"name": "PET_MASTER_PORT", "value": "29500"},
    ]


def node(**fields):
    return {"name": "node", "image": "img", **fields}


def pods_of(job, rt):
    spec = built(job, rt)["spec"]["replicatedJobs"][0]["template"]["spec"]
    return spec["parallelism"], spec["completions"]


# --- the framework ----------------------------------------------------------


def test_jobset_builds_last_so_that_the_other_children_are_there_before_its_pods():
    builders = [plugin.name for plugin in plugins.ALL.plugins if isinstance(plugin, Build)]
    assert (len(builders) > 1, builders[-1]) == (True, "jobset")


@pytest.mark.parametrize("plugin", plugins.ALL.plugins, ids=lambda plugin: plugin.name)
def test_each_method_of_a_plugin_is_one_of_a_phase_so_that_none_is_never_called(plugin):
    declared = {name for protocol in PHASES for name in vars(protocol) if not name.startswith("_")}
    own = {name for name in dir(plugin) if not name.startswith("_")} - {"name", "implements"}
    assert own
    assert own <= declared


def test_a_policy_that_no_plugin_implements_is_refused():
    with pytest.raises(UnsupportedPolicyError, match=r"spec\.mlPolicy\.torch is not supported"):
        Framework([JobSetPlugin()]).build(trainjob(), runtime({"torch": {}}), DEFAULT_SETTINGS)


def test_building_changes_neither_the_trainjob_nor_the_runtime():
    rt = runtime({"torch": {}}, [replicated_job(containers=[node(env=[{"name": "A", "value": "1"}])])])
    job = trainjob({"trainer": {"env": [{"name": "B", "value": "2"}], "numNodes": 3}})
    before = repr((rt, job))
    plugins.ALL.build(job, rt, DEFAULT_SETTINGS)
    assert repr((rt, job)) == before


PARALLEL = [replicated_job(parallelism=3)]


@pytest.mark.parametrize(
    ("rt", "spec", "count"),
    [
        pytest.param(runtime(None, PARALLEL), {}, 3, id="the template's parallelism without an mlPolicy"),
        pytest.param(runtime({}, PARALLEL), {}, 1, id="one with an mlPolicy that names no number"),
        pytest.param(runtime({"numNodes": 2}, PARALLEL), {}, 2, id="the runtime's numNodes"),
        pytest.param(runtime({"numNodes": 0}), {}, 1, id="a runtime has at least one"),
        pytest.param(runtime({"numNodes": 2}), {"trainer": {"numNodes": 4}}, 4, id="the TrainJob's numNodes"),
        pytest.param(
            runtime({"numNodes": 2}), {"trainer": {"numNodes": 0}}, 0, id="none if the TrainJob says so"
        ),
        pytest.param(
            runtime({"numNodes": 2}, [replicated_job(ancestor=None, parallelism=5)]),
            {},
            5,
            id="the template's parallelism for what is no trainer",
        ),
    ],
)
def test_the_number_of_pods_is(rt, spec, count):
    assert pods_of(trainjob(spec), rt) == (count, count)


def test_resources_per_node_merge_by_name_and_drop_claims():
    rt = runtime(
        {},
        [
            replicated_job(
                containers=[
                    node(resources={"limits": {"cpu": 8, "memory": "1024Mi"}, "claims": [{"name": "c"}]}),
                    {"name": "side", "resources": {"limits": {"cpu": "1"}}},
                ]
            )
        ],
    )
    job = trainjob({"trainer": {"resourcesPerNode": {"limits": {"cpu": 2.5}, "requests": {"cpu": "500m"}}}})
    assert {name: c["resources"] for name, c in containers(job, rt).items()} == {
        "node": {"limits": {"cpu": "2500m", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        "side": {"limits": {"cpu": "1"}},
    }


def test_resources_per_node_do_nothing_without_an_ml_policy():
    job = trainjob({"trainer": {"resourcesPerNode": {"limits": {"cpu": 2}}}})
    assert containers(job, runtime())["node"]["resources"] == {}


def test_quantities_are_written_as_kubernetes_prints_them_wherever_they_are() -> None:
    def claim(amount: str) -> dict[str, object]:
        return {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": amount}}}}

    def divided(**by: object) -> dict[str, object]:
        reference = {"resource": "limits.cpu", **by}
        return {"name": "CPUS", "valueFrom": {"resourceFieldRef": reference}}

    def pod(cpu: object, size: str, variable: dict[str, object]) -> dict[str, object]:
        amounts = {"requests": {"cpu": cpu}}
        return {
            "containers": [node(resources=amounts, env=[{"name": "A", "value": "1"}, variable])],
            "volumes": [
                {"name": "a", "emptyDir": {"sizeLimit": size}},
                {"name": "b", "ephemeral": {"volumeClaimTemplate": claim(size)}},
                {"name": "c", "emptyDir": {}},
                {"name": "d", "ephemeral": {}},
                {"name": "e", "configMap": {"name": "c"}},
            ],
            "overhead": {"cpu": cpu},
            "resources": amounts,
        }

    job = replicated_job()
    job["template"]["spec"]["template"]["spec"] = pod(0.5, "1024Mi", divided())
    rt = runtime({}, [job])
    policies = [{"templates": [claim("2048Gi")]}]
    rt.spec["template"]["spec"]["volumeClaimPolicies"] = policies
    spec = built(trainjob(), rt)["spec"]
    assert spec["volumeClaimPolicies"] == [{"templates": [{**claim("2Ti"), "status": {}}]}]
    (found,) = spec["replicatedJobs"]
    assert found["template"]["spec"]["template"]["spec"] == pod("500m", "1Gi", divided(divisor="0"))


def test_variables_of_the_trainjob_are_written_as_trainer_copies_them() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1000m"}}},
        {"name": "D", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "E", "valueFrom": None},
    ]
    assert containers(trainjob({"trainer": {"env": env}}), runtime({}))["node"]["env"] == [
        env[0],
        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}}},
        *env[3:],
    ]


@pytest.mark.parametrize(
    ("policy", "trained"),
    [
        pytest.param({}, ["launcher"], id="the trainer"),
        pytest.param({"mpi": {}}, ["launcher"], id="not workers whose launcher does not train"),
        pytest.param({"mpi": {"runLauncherAsNode": True}}, ["node", "launcher"], id="a launcher's workers"),
    ],
)
def test_resources_per_node_are_for(policy: dict[str, object], trained: list[str]) -> None:
    jobs = {"node": None, "launcher": "trainer", "helper": None, "store": "dataset-initializer"}
    rt = runtime(policy, [replicated_job(name, ancestor) for name, ancestor in jobs.items()])
    job = trainjob({"trainer": {"resourcesPerNode": {"limits": {"cpu": "2"}}}})
    assert {name: containers(job, rt, name)["node"]["resources"] for name in jobs} == {
        name: {"limits": {"cpu": "2"}} if name in trained else {} for name in jobs
    }


def test_patched_jobs_keep_the_runtimes_order_and_new_ones_come_behind_the_first():
    rt = runtime({}, [replicated_job("a", None), replicated_job("node")])
    added = {"name": "z", "template": {"spec": {"template": {"spec": {}}}}}
    patch = {
        "trainingRuntimeSpec": {
            "template": {"spec": {"replicatedJobs": [{"name": "node"}, added, {"name": "a"}]}}
        }
    }
    jobs = built(trainjob({"runtimePatches": [patch]}), rt)["spec"]["replicatedJobs"]
    assert [job["name"] for job in jobs] == ["z", "a", "node"]


def test_later_patches_win():
    def patch(value):
        return {
            "trainingRuntimeSpec": {
                "template": {"metadata": {"labels": {"k": value}, "annotations": {value: "x"}}}
            }
        }

    manifest = built(
        trainjob({"runtimePatches": [patch("one"), patch("two")]}), runtime(metadata={"labels": {"k": "0"}})
    )
    assert (manifest["metadata"]["labels"], manifest["metadata"]["annotations"]) == (
        {"k": "two"},
        {"one": "x", "two": "x"},
    )


def test_what_is_empty_in_a_patch_changes_nothing():
    """As in Trainer, whose types leave it out when a patch is written for the merge."""
    side = {
        "name": "side",
        "env": [{"name": "A", "value": "rt"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": True, "subPath": "s"}],
    }
    job = replicated_job(containers=[side, node()])
    job["template"]["spec"]["template"]["spec"]["tolerations"] = [{"key": "k", "operator": "Exists"}]
    empty = {
        "name": "side",
        "env": [{"name": "A", "value": ""}],
        "volumeMounts": [{"name": "v", "mountPath": "/v", "readOnly": False, "subPath": ""}],
    }
    pod = {"containers": [empty, {"name": "node", "volumeMounts": []}], "tolerations": []}
    patched = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    patch = {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [patched]}}}}
    rt = runtime({}, [job])
    assert built(trainjob({"runtimePatches": [patch]}), rt) == built(trainjob(), rt)


def test_addresses_are_made_one_at_a_time_under_the_templates_subdomain():
    rt = runtime({"numNodes": 2**31 - 1})
    rt = replace(
        rt,
        spec={
            **rt.spec,
            "template": {"spec": {**rt.spec["template"]["spec"], "network": {"subdomain": "s"}}},
        },
    )
    info = JobSetPlugin().identify_network(new_info(trainjob(), rt, DEFAULT_SETTINGS))
    addresses = info.endpoints(info.pod_sets[0])
    assert [next(addresses), next(addresses)] == ["tj-node-0-0.s", "tj-node-0-1.s"]


# --- plainml ----------------------------------------------------------------


def test_plainml_does_nothing_for_torch():
    info = new_info(trainjob({"trainer": {"numNodes": 4}}), runtime({"torch": {}}), DEFAULT_SETTINGS)
    assert PlainML().enforce_ml_policy(info) == info


def test_plainml_puts_variables_in_the_place_of_their_namesakes():
    rt = runtime(
        {},
        [replicated_job(containers=[node(env=[{"name": "A", "value": "rt"}, {"name": "B", "value": "rt"}])])],
    )
    job = trainjob({"trainer": {"env": [{"name": "C", "value": "tj"}, {"name": "A", "value": "tj"}]}})
    assert containers(job, rt)["node"]["env"] == [
        {"name": "A", "value": "tj"},
        {"name": "B", "value": "rt"},
        {"name": "C", "value": "tj"},
    ]


# --- torch ------------------------------------------------------------------


def test_torch_does_nothing_for_another_policy():
    info = new_info(trainjob({"trainer": {}}), runtime({}), DEFAULT_SETTINGS)
    assert Torch().enforce_ml_policy(info) == info


def test_torch_adds_its_variables_behind_those_of_runtime_and_trainjob_and_opens_a_port():
    rt = runtime(
        {"torch": {}, "numNodes": 2}, [replicated_job(containers=[node(env=[{"name": "A", "value": "rt"}])])]
    )
    own = {"name": "E", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}
    assert containers(trainjob({"trainer": {"env": [own]}}), rt)["node"] == node(
        env=[
            {"name": "A", "value": "rt"},
            {"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            *pet("2", "1"),
        ],
        ports=[{"containerPort": 29500}],
        resources={},
    )


@pytest.mark.parametrize(
    ("trainer", "runtime_resources", "processes"),
    [
        pytest.param(
            {"numProcPerNode": 3}, {"limits": {"nvidia.com/gpu": 8}}, "3", id="what the TrainJob says"
        ),
        pytest.param({}, {"limits": {"nvidia.com/gpu": 8}}, "auto", id="auto with GPUs in the runtime"),
        pytest.param({}, {"limits": {"nvidia.com/mig-1g.5gb": 1}}, "1", id="a slice of a GPU is not seen"),
        pytest.param(
            {}, {"requests": {"cpu": "2500m"}, "limits": {"cpu": 8}}, "3", id="CPUs requested, rounded up"
        ),
        pytest.param({}, {"requests": {"cpu": 0}, "limits": {"cpu": "8"}}, "8", id="else the limit of CPUs"),
        pytest.param({}, {"limits": {"cpu": "700m"}}, "1", id="at least one"),
        pytest.param({}, {}, "1", id="one if nothing is said"),
        pytest.param(
            {"resourcesPerNode": {"limits": {"memory": "512Gi"}}},
            {"limits": {"nvidia.com/gpu": 8}},
            "auto",
            id="auto with the runtime's GPUs if the TrainJob names other resources",
        ),
        pytest.param(
            {"resourcesPerNode": {"limits": {"nvidia.com/gpu": "0", "cpu": 4.0}}},
            {"requests": {"nvidia.com/gpu": 8, "cpu": 2}},
            "4",
            id="by the TrainJob's limit of what the runtime requests",
        ),
    ],
)
def test_processes_per_node_are(trainer, runtime_resources, processes):
    rt = runtime({"torch": {}}, [replicated_job(containers=[node(resources=runtime_resources)])])
    env = containers(trainjob({"trainer": trainer}), rt)["node"]["env"]
    assert env == pet("1", processes)


@pytest.mark.parametrize(
    ("trainer", "limits", "warned"),
    [
        pytest.param({}, {"nvidia.com/mig-1g.10gb": 1, "cpu": 8}, True, id="more ranks than partitions"),
        pytest.param({}, {"nvidia.com/mig-1g.10gb": 8, "cpu": 8}, False, id="as many ranks as partitions"),
        pytest.param({}, {"nvidia.com/mig-1g.10gb": 0, "cpu": 8}, False, id="no partitions"),
        pytest.param({}, {"nvidia.com/mig-1g.10gb": 1}, False, id="one rank"),
        pytest.param({}, {"nvidia.com/mig-1g.10gb": 1, "nvidia.com/gpu": 1, "cpu": 8}, False, id="a GPU"),
        pytest.param(
            {"numProcPerNode": 8}, {"nvidia.com/mig-1g.10gb": 1, "cpu": 8}, False, id="ranks by choice"
        ),
    ],
)
def test_of_ranks_that_share_a_partition_of_a_gpu_is_warned(trainer, limits, warned):
    job = trainjob({"trainer": {**trainer, "resourcesPerNode": {"limits": limits}}})
    info = plugins.ALL.info(job, runtime({"torch": {}}), DEFAULT_SETTINGS)
    said = (
        "spec.trainer.numProcPerNode: each node has 8 ranks, one for each CPU, since nvidia.com/mig-1g.10gb "
        "does not count as a GPU: set this to 1"
    )
    assert tuple(Torch().warnings(info)) == ((said,) if warned else ())


@pytest.mark.parametrize(
    ("limits", "warned"),
    [({"google.com/tpu": 4, "cpu": 100}, True), ({"google.com/tpu": 4, "cpu": 4}, False)],
)
def test_of_more_ranks_than_tpus_is_warned(limits, warned):
    job = trainjob({"trainer": {"resourcesPerNode": {"limits": limits}}})
    info = plugins.ALL.info(job, runtime({"torch": {}}), DEFAULT_SETTINGS)
    warning = (
        "spec.trainer.numProcPerNode: each node has 100 ranks, one for each CPU, since google.com/tpu does "
        "not count as a GPU: set this to 4"
    )
    assert tuple(Torch().warnings(info)) == ((warning,) if warned else ())


def test_an_unnamed_port_is_replaced_and_a_named_one_stays():
    ports = [{"containerPort": 8000, "name": "http"}, {"containerPort": 8080}]
    rt = runtime({"torch": {}}, [replicated_job(containers=[node(ports=ports)])])
    assert containers(trainjob({"trainer": {}}), rt)["node"]["ports"] == [ports[0], {"containerPort": 29500}]


def test_a_port_that_is_open_already_is_not_opened_twice():
    ports = [{"containerPort": 8080}, {"containerPort": 29500, "name": "torch"}]
    rt = runtime({"torch": {}}, [replicated_job(containers=[node(ports=ports)])])
    assert containers(trainjob({"trainer": {}}), rt)["node"]["ports"] == [ports[0], {"containerPort": 29500}]


def test_torchtune_is_not_told_the_master():
    env = containers(trainjob({"trainer": {"command": ["tune", "run"]}}), runtime({"torch": {}}))["node"][
        "env"
    ]
    assert env == pet("1", "1")[:3]


def injecting(containers_, *targets):
    rt = runtime(
        {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": [*targets]}]}}}
    )
    job = replicated_job(containers=[*containers_, node()])
    job["template"]["spec"]["template"]["spec"]["initContainers"] = [{"name": "pre", "image": "p"}]
    return replace(rt, spec={**rt.spec, "template": {"spec": {"replicatedJobs": [job]}}})


def test_injection_targets_get_all_variables_and_no_port():
    found = containers(trainjob({"trainer": {}}), injecting([{"name": "side"}], "pre", "side"))
    assert found["pre"] == {"name": "pre", "image": "p", "env": pet("1", "1"), "resources": {}}
    assert found["side"] == {"name": "side", "env": pet("1", "1"), "resources": {}}


def test_injection_targets_get_them_without_a_trainer_too():
    found = containers(trainjob(), injecting([{"name": "side"}], "side"))
    assert found["side"]["env"] == found["node"]["env"] == pet("1", "1")


def test_injection_targets_of_a_runtime_where_nobody_trains_are_told_of_one_node() -> None:
    rt = injecting([{"name": "side"}], "side")
    del rt.spec["template"]["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"]
    assert containers(trainjob(), rt)["side"]["env"] == pet("1", "1")


def test_an_injection_target_that_is_missing_is_an_error():
    with pytest.raises(InvalidFieldError) as raised:
        containers(trainjob({"trainer": {}}), injecting([], "zz"))
    assert str(raised.value) == (
        'spec.mlPolicy.torch.envInjection.targets: Invalid value: {"jobName":"node","containerName":"zz"}: '
        'envInjection target podSet "node" container "zz" not found in runtime template'
    )


# --- jobset -----------------------------------------------------------------


def test_the_trainers_image_command_and_arguments_replace_the_runtimes():
    rt = runtime({}, [replicated_job(containers=[node(command=["a"], args=["b"])])])
    job = trainjob({"trainer": {"image": "mine", "command": ["c", "d"]}})
    assert containers(job, rt)["node"] == {
        "name": "node",
        "image": "mine",
        "command": ["c", "d"],
        "args": ["b"],
        "resources": {},
    }


@pytest.mark.parametrize(
    ("trainer", "kept"),
    [
        ({"command": [], "args": []}, {}),
        ({"command": []}, {"args": ["b"]}),
        ({"command": ["c"], "args": []}, {"command": ["c"]}),
        ({"command": None, "args": None}, {"command": ["a"], "args": ["b"]}),
    ],
)
def test_an_empty_command_or_list_of_arguments_takes_the_runtimes_away(trainer, kept):
    rt = runtime({}, [replicated_job(containers=[node(command=["a"], args=["b"])])])
    assert containers(trainjob({"trainer": trainer}), rt)["node"] == {**node(resources={}), **kept}


@pytest.mark.parametrize("built_as", [1, 2])
def test_only_in_a_jobset_of_the_first_release_they_stay(built_as):
    rt = runtime({}, [replicated_job(containers=[node(command=["a"], args=["b"])])])
    job = trainjob({"trainer": {"command": [], "args": []}})
    (jobset_,) = plugins.ALL.build(job, rt, replace(DEFAULT_SETTINGS, built_as=built_as))
    container = jobset_["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    assert ("command" in container, "args" in container) == (built_as == 2, built_as == 2)


def test_initializers_get_their_uri_variables_and_secret():
    initializer = {
        "storageUri": "hf://a/b",
        "env": [{"name": "X", "value": "1"}],
        "secretRef": {"name": "token"},
    }
    rt = runtime(
        {},
        [
            replicated_job(
                "dataset-initializer",
                "dataset-initializer",
                [{"name": "dataset-initializer", "env": [{"name": "STORAGE_URI", "value": "hf://rt"}]}],
            ),
            replicated_job(),
        ],
    )
    job = trainjob({"initializer": {"dataset": initializer}})
    assert containers(job, rt, "dataset-initializer")["dataset-initializer"] == {
        "name": "dataset-initializer",
        "env": [{"name": "STORAGE_URI", "value": "hf://a/b"}, {"name": "X", "value": "1"}],
        "envFrom": [{"secretRef": {"name": "token"}}],
        "resources": {},
    }


def test_the_uri_of_an_initializer_comes_before_its_other_variables() -> None:
    step = "model-initializer"
    rt = runtime({}, [replicated_job(step, step, [{"name": step}]), replicated_job()])
    model = {"storageUri": "hf://a/b", "env": [{"name": "X", "value": "1"}]}
    found = containers(trainjob({"initializer": {"model": model}}), rt, step)[step]
    assert found["env"] == [{"name": "STORAGE_URI", "value": "hf://a/b"}, {"name": "X", "value": "1"}]


def test_a_job_of_no_known_step_is_left_as_it_is() -> None:
    helpers = [{**replicated_job(name, step), "replicas": 2} for name, step in (("a", "other"), ("b", None))]
    job = trainjob({"trainer": {"image": "mine"}, "initializer": {"model": {"storageUri": "hf://a/b"}}})
    jobs = built(job, runtime({}, [*helpers, replicated_job()]))["spec"]["replicatedJobs"]
    pods = [j["template"]["spec"]["template"]["spec"]["containers"] for j in jobs]
    assert [j["replicas"] for j in jobs] == [2, 2, 1]
    assert pods == [[node(resources={})], [node(resources={})], [node(image="mine", resources={})]]


@pytest.mark.parametrize(
    ("conditions", "terminal"),
    [
        pytest.param((), None, id="nothing yet"),
        pytest.param((("Suspended", "True"), ("Failed", "False")), None, id="nothing that ends it"),
        pytest.param((("Failed", "True"),), "Failed", id="failed"),
        pytest.param((("Failed", "True"), ("Completed", "True")), "Complete", id="complete before failed"),
    ],
)
def test_the_jobset_says(conditions, terminal):
    js = jobset(conditions=tuple(Condition(t, s, "Why", "what", "when", 2) for t, s in conditions))
    said = Condition(terminal, "True", "Why", "what", "when", 2) if terminal else None
    assert (terminal_of(js), has_ended(js)) == (said, terminal is not None)


def test_counts_keep_the_jobsets_order():
    js = jobset(replicated_jobs_status=(counts("b", ready=1), counts("a", failed=1)))
    assert counts_of(js) == (
        {"name": "b", "ready": 1, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0},
        {"name": "a", "ready": 0, "succeeded": 0, "failed": 1, "active": 0, "suspended": 0},
    )
