"""Accelerators: device plugins where the pools are, and runtimes that know of them."""

import json
from typing import Any

import pytest

from tests.support import program
from trainyard_api import names
from trainyard_api.pools import NodePool
from trainyard_platform.catalog import equipment
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.errors import PlatformError
from trainyard_platform.parts.accelerators import manifests as accelerator_manifests
from trainyard_platform.stack import accelerators, settings
from trainyard_platform.stack.accelerators import Accelerator, AcceleratorKind

NVIDIA, AMD = AcceleratorKind.NVIDIA, AcceleratorKind.AMD
MIXED = {"mig": {"strategy": "mixed", "profiles": ["1g.10gb", "3g.40gb"]}}
SHIPPED = {"devicePlugin": "shipped"}
OPERATOR = {"image": "docker.io/trainyard/operator:1"}


def pool(resource: str = "nvidia.com/gpu", **given: Any) -> dict[str, Any]:
    return {
        "provider": "existing",
        "nodes": 2,
        "machine": {"cpu": "8", "memory": "64Gi"},
        "accelerator": {"type": "some", "resource": resource, "count": 8},
        "nodeLabels": {"pool": "a"},
        **given,
    }


def values(kind: AcceleratorKind, given: dict[str, Any], **pools: dict[str, Any]) -> dict[str, Any]:
    declared = {name: NodePool.model_validate(one) for name, one in pools.items()}
    accelerator = Accelerator.model_validate(given)
    return accelerator_manifests.values(
        kind, accelerator, {"repository": "example.com/plugin", "tag": "1"}, declared
    )


def test_nvidias_plugin_goes_to_the_pools_that_have_its_gpus_and_tolerates_their_taints() -> None:
    tainted = pool(nodeLabels={"pool": "b", "zone": "z"}, taints=[{"key": "only", "value": "training"}])
    simulated = pool(provider="kwok")
    assert values(NVIDIA, {}, a=pool(), b=tainted, c=pool("amd.com/gpu"), d=simulated) == {
        "image": {"repository": "example.com/plugin", "tag": "1"},
        "migStrategy": "none",
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]},
                        {
                            "matchExpressions": [
                                {"key": "pool", "operator": "In", "values": ["b"]},
                                {"key": "zone", "operator": "In", "values": ["z"]},
                            ]
                        },
                    ]
                }
            }
        },
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists"},
            {"key": "only", "operator": "Equal", "value": "training", "effect": "NoSchedule"},
        ],
    }


def test_without_a_pool_it_goes_where_the_vendors_label_is() -> None:
    affinity = values(NVIDIA, {})["affinity"]["nodeAffinity"]
    assert affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] == [
        {"matchExpressions": [{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}]}
    ]


def test_a_partitioned_gpu_is_offered_by_profile_and_its_pools_get_the_plugin_too() -> None:
    given = values(NVIDIA, MIXED, parts=pool("nvidia.com/mig-1g.10gb"))
    assert given["migStrategy"] == "mixed"
    assert given["affinity"] == values(NVIDIA, {}, whole=pool())["affinity"]
    assert accelerators.resources(NVIDIA, Accelerator.model_validate(MIXED)) == (
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.10gb",
        "nvidia.com/mig-3g.40gb",
    )


def test_amds_plugin_goes_wherever_it_tolerates_the_taints() -> None:
    tainted = pool("amd.com/gpu", taints=[{"key": "only", "effect": "NoExecute"}])
    assert values(AMD, {}, one=tainted) == {
        "dp": {"image": {"repository": "example.com/plugin", "tag": "1"}},
        "node_selector_enabled": False,
        "tolerations": [
            {"key": "amd.com/gpu", "operator": "Exists"},
            {"key": "only", "operator": "Exists", "effect": "NoExecute"},
        ],
    }


def test_efas_plugin_goes_to_the_machines_of_the_pools_that_offer_it() -> None:
    efa: dict[str, Any] = {"resources": {"vpc.amazonaws.com/efa": "32"}}
    machine: dict[str, Any] = {"type": "p5.48xlarge", "cpu": "8", "memory": "64Gi"}
    cloud: dict[str, Any] = {"provider": "eks", "nodeLabels": {}, "taints": [{"key": "only"}]}
    having = pool(**cloud, machine={**machine, **efa})
    without = pool(**cloud, machine={**machine, "type": "g6.12xlarge"})
    image = {"image": {"repository": "example.com/plugin", "tag": "1"}}
    assert values(AcceleratorKind.EFA, {}, one=having, other=without) == {
        **image,
        "supportedInstanceLabels": {"values": ["p5.48xlarge"]},
        "tolerations": [
            {"key": "vpc.amazonaws.com/efa", "operator": "Exists"},
            {"key": "only", "operator": "Exists", "effect": "NoSchedule"},
        ],
    }
    assert values(AcceleratorKind.EFA, {}, other=without) == {
        **image,
        "tolerations": [{"key": "vpc.amazonaws.com/efa", "operator": "Exists"}],
    }


def test_efas_plugin_keeps_the_machines_of_its_chart_where_those_of_a_pool_are_not_known() -> None:
    efa: dict[str, Any] = {"cpu": "8", "memory": "64Gi", "resources": {"vpc.amazonaws.com/efa": "32"}}
    named = pool(provider="eks", nodeLabels={}, machine={**efa, "type": "p5.48xlarge"})
    assert values(AcceleratorKind.EFA, {}, one=pool(machine=efa), other=named) == {
        "image": {"repository": "example.com/plugin", "tag": "1"},
        "tolerations": [{"key": "vpc.amazonaws.com/efa", "operator": "Exists"}],
    }


def runtime(*containers: dict[str, Any]) -> Runtime:
    def job(name: str, step: str | None, container: dict[str, Any]) -> dict[str, Any]:
        labels = {"metadata": {"labels": {names.ANCESTOR_LABEL: step}}} if step else {}
        return {
            "name": name,
            "template": {**labels, "spec": {"template": {"spec": {"containers": [container]}}}},
        }

    initializer = job("dataset-initializer", "dataset-initializer", {"name": "dataset-initializer"})
    trainers = [job("node", "trainer", container) for container in containers]
    spec = {"template": {"spec": {"replicatedJobs": [initializer, *trainers]}}}
    return Runtime(name="r", framework="torch", manifest={"spec": spec})


def asks(resource: str | None = None, **env: str) -> dict[str, Any]:
    limits = {"resources": {"limits": {"cpu": "1", resource: "8"}}} if resource else {}
    told = {"env": [{"name": name, "value": value} for name, value in env.items()]} if env else {}
    return {"name": "node", **limits, **told}


def test_containers_that_train_are_told_what_their_accelerator_needs() -> None:
    stack = {
        NVIDIA: Accelerator(environment={"NCCL_DEBUG": "WARN"}),
        AMD: Accelerator(environment={"HSA_NO_SCRATCH_RECLAIM": "1"}),
    }
    sidecar = {"name": "aside"}
    given = runtime(
        asks(),
        asks("nvidia.com/gpu"),
        asks("amd.com/gpu"),
        asks("nvidia.com/gpu", NCCL_DEBUG="INFO"),
        sidecar,
    )
    nvidia = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility", "NCCL_DEBUG": "WARN"}
    amd = {"HSA_NO_SCRATCH_RECLAIM": "1"}
    assert equipment.equipped(given, stack) == runtime(
        asks(**nvidia, **amd),
        asks("nvidia.com/gpu", **nvidia),
        asks("amd.com/gpu", **amd),
        asks("nvidia.com/gpu", NCCL_DEBUG="INFO", NVIDIA_DRIVER_CAPABILITIES="compute,utility"),
        sidecar,
    )
    assert equipment.equipped(given, {}) == given


@pytest.mark.parametrize(
    ("distribution", "plugin", "advised"),
    [("openshift", "install", True), ("openshift", "shipped", False), ("kubernetes", "install", False)],
)
def test_a_plugin_that_openshift_refuses_is_advised_against(
    distribution: str, plugin: str, advised: bool
) -> None:
    given = {
        "operator": OPERATOR,
        "cluster": {"distribution": distribution},
        "accelerators": {"nvidia": {"devicePlugin": plugin}},
    }
    sentence = (
        "OpenShift refuses the pods of a device plugin, which mount a folder of their node, unless you "
        "allow it with a SecurityContextConstraints: set shipped, and let an operator of the vendor bring "
        "the plugin"
    )
    advice = {"accelerators.nvidia.devicePlugin": sentence} if advised else {}
    assert settings.load(json.dumps(given), "demo").advice() == advice


@pytest.mark.usefixtures("pins")
def test_only_what_the_stack_wants_installed_is(tmp_path: Any) -> None:
    source = {"source": "folder", "folder": str(program.artifacts_folder(tmp_path))}
    says = {"nvidia": {"image": "example.com/plugin:2"}, "tpu": {"devicePlugin": "shipped"}}
    registered = program.run({"operator": OPERATOR, "artifacts": source, "accelerators": says})
    [chart] = [one for one in registered if one.type.endswith(":Chart") and "plugin" in one.name]
    assert (chart.name, chart.inputs["namespace"]) == ("nvidia-device-plugin", "trainyard-accelerators")
    assert chart.inputs["values"] == {
        **values(NVIDIA, {}),
        "image": {"repository": "example.com/plugin", "tag": "2"},
    }


OR_SHIPPED = (
    ", or with `devicePlugin: shipped` if the node image, the cloud or another operator "
    "brings its device plugin"
)
GKE = {
    "provider": "gke",
    "nodes": 1,
    "zones": ["europe-west4-a"],
    "machine": {"type": "g2-standard-48", "cpu": "46", "memory": "170Gi"},
    "accelerator": {"type": "nvidia-l4", "resource": "nvidia.com/gpu", "count": 4},
}
GKE_CLUSTER = {"gke": {"project": "p", "location": "europe-west4", "name": "c"}}


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"nodePools": {"a": GKE}, "cluster": GKE_CLUSTER}, id="GKE brings it"),
        pytest.param(
            {"nodePools": {"a": {**pool("nvidia.com/gpu"), "provider": "kwok", "nodeLabels": {}}}},
            id="simulated nodes need none",
        ),
        pytest.param(
            {
                "accelerators": {"nvidia": {"devicePlugin": "shipped"}},
                "nodePools": {"a": pool("nvidia.com/gpu")},
            },
            id="the stack says that it is there",
        ),
        pytest.param({"nodePools": {"a": pool("habana.ai/gaudi")}}, id="nothing is known of the resource"),
        pytest.param(
            {
                "accelerators": {"efa": {"devicePlugin": "install"}, "nvidia": MIXED, "tpu": SHIPPED},
                "nodePools": {
                    "a": pool("aws.amazon.com/neuron"),
                    "b": pool("aws.amazon.com/neuroncore"),
                    "c": pool("habana.ai/gaudi"),
                },
            },
            id="nor beside accelerators of known kinds",
        ),
    ],
)
def test_a_pool_of_accelerators_needs_somebody_who_tells_kubelet_of_them(given: dict[str, Any]) -> None:
    settings.load(json.dumps({"operator": OPERATOR, **given}), "demo")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"accelerators": {"tpu": {}}},
            "accelerators.tpu.devicePlugin: must be `shipped`: it comes from GKE, with its nodes",
        ),
        (
            {"accelerators": {"amd": {"mig": {"strategy": "single"}}}},
            "accelerators.amd.mig: only NVIDIA's accelerators have it",
        ),
        (
            {"accelerators": {"nvidia": {"mig": {"strategy": "mixed"}}}},
            "accelerators.nvidia.mig: strategy mixed needs `profiles`, and single has no use for them",
        ),
        (
            {"accelerators": {"nvidia": MIXED}, "nodePools": {"a": pool("nvidia.com/mig-1g.20gb")}},
            "nodePools.a.accelerator.resource: no accelerator of this stack offers nvidia.com/mig-1g.20gb "
            "(they offer nvidia.com/gpu, nvidia.com/mig-1g.10gb, nvidia.com/mig-3g.40gb); "
            "did you mean nvidia.com/mig-1g.10gb?",
        ),
        (
            {"accelerators": {"nvidia": {}}, "nodePools": {"a": pool("nvidia.com/gpus")}},
            "nodePools.a.accelerator.resource: no accelerator of this stack offers nvidia.com/gpus "
            "(they offer nvidia.com/gpu); did you mean nvidia.com/gpu?",
        ),
        (
            {"nodePools": {"a": pool("nvidia.com/gpu")}},
            "nodePools.a.accelerator.resource: no device plugin offers nvidia.com/gpu, so its nodes would "
            f"offer none: add `accelerators: {{nvidia: {{devicePlugin: install}}}}`{OR_SHIPPED}",
        ),
        (
            {"accelerators": {"nvidia": {}}, "nodePools": {"a": pool("amd.com/gpu")}},
            "nodePools.a.accelerator.resource: no device plugin offers amd.com/gpu, so its nodes would "
            f"offer none: add `accelerators: {{amd: {{devicePlugin: install}}}}`{OR_SHIPPED}",
        ),
        (
            {"nodePools": {"a": pool("nvidia.com/mig-1g.20gb")}},
            "nodePools.a.accelerator.resource: no device plugin offers nvidia.com/mig-1g.20gb, so its nodes "
            "would offer none: "
            f"add `accelerators: {{nvidia: {{mig: {{strategy: mixed, profiles: [1g.20gb]}}}}}}`{OR_SHIPPED}",
        ),
        (
            {"nodePools": {"a": pool("gpu.intel.com/i915")}},
            "nodePools.a.accelerator.resource: no device plugin offers gpu.intel.com/i915, so its nodes "
            "would offer none: add `accelerators: {intel: {devicePlugin: shipped}}`; it comes from "
            "Intel's device plugins operator, which needs cert-manager and comes beside the platform",
        ),
        (
            {
                "accelerators": {"nvidia": {}},
                "nodePools": {
                    "a": pool(
                        machine={"cpu": "8", "memory": "1Gi", "resources": {"vpc.amazonaws.com/efa": "4"}}
                    )
                },
            },
            "nodePools.a.machine.resources: no device plugin offers vpc.amazonaws.com/efa, so its nodes "
            f"would offer none: add `accelerators: {{efa: {{devicePlugin: install}}}}`{OR_SHIPPED}",
        ),
        (
            {"accelerators": {"nvidia": {}}, "nodePools": {"a": GKE}, "cluster": GKE_CLUSTER},
            "accelerators.nvidia.devicePlugin: must be `shipped`: GKE ships it with nodePools.a",
        ),
    ],
    ids=[
        "nothing to install",
        "not NVIDIA's",
        "no profiles",
        "a pool of something else",
        "a resource that is nearly one that is offered",
        "a pool of GPUs that nobody tells kubelet of",
        "beside accelerators of another kind",
        "parts of GPUs",
        "a kind whose plugin cannot be installed",
        "network interfaces that nobody tells kubelet of",
        "a second plugin beside GKE's own",
    ],
)
def test_a_wrong_accelerator_is_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PlatformError) as stopped:
        settings.load(json.dumps({"operator": OPERATOR, **given}), "demo")
    assert str(stopped.value) == f"stacks/Pulumi.demo.yaml is not valid:\n  trainyard:platform.{message}"
