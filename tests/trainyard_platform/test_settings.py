"""A stack file that is wrong ends with one message that names every mistake and the way out."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from tests.support.checked_in import hold
from tests.support.program import ROOT
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack import operator_memory, schema, settings
from trainyard_platform.stack.operator import Operator
from trainyard_platform.stack.settings import StackSettings

OPERATOR = {"image": "docker.io/trainyard/operator:1"}
DURATION = "must be a duration such as 30m or 1h30m"
QUANTITY = "must be a Kubernetes quantity such as 500m or 2Gi"
IMAGE = "must be an image with its registry and its tag or digest, such as docker.io/library/busybox:1.37"


def keys(model: type[BaseModel]) -> str:
    """Those of a part of a stack file; what they are is the schema's to say."""
    return ", ".join(sorted(field.alias or name for name, field in model.model_fields.items()))


@dataclass(frozen=True)
class Case:
    id: str
    given: Any
    message: str


CASES = [
    Case(
        id="an unknown key at the top",
        given={"operator": OPERATOR, "runtime": {}},
        message="trainyard:platform.runtime: there is no such key "
        f"(allowed here: {keys(StackSettings)}); "
        "did you mean runtimes?",
    ),
    Case(
        id="less memory than what the tenants may hold needs",
        given={
            "kueue": {"enabled": True},
            "operator": {**OPERATOR, "resources": {"cpu": "100m", "memory": "256Mi"}},
            "queues": {"clusterQueues": {"q": {}}},
            "tenants": {
                "team-a": {"clusterQueue": "q"},
                "team-b": {
                    "clusterQueue": "q",
                    "resourceQuota": {"count/trainjobs.trainer.kubeflow.org": "100"},
                },
            },
        },
        message="trainyard:platform.operator.resources.memory: 256Mi is too little for what the tenants may "
        "hold: 640 TrainJobs and TrainingRuntimes need up to 267Mi in each replica; leave it out, say 267Mi "
        "or more, or lower count/trainjobs.trainer.kubeflow.org and "
        "count/trainingruntimes.trainer.kubeflow.org in tenants.<name>.resourceQuota",
    ),
    Case(
        id="a namespace for MPI jobs that is none",
        given={"operator": {**OPERATOR, "mpiNamespaces": ["Research"]}},
        message="trainyard:platform.operator.mpiNamespaces[0]: must be the name of a namespace, such as "
        "team-a, or \"*\" for all of them; is 'Research'",
    ),
    Case(
        id="an unknown key in camelCase",
        given={"operator": {**OPERATOR, "imagePullpolicy": "Always"}},
        message="trainyard:platform.operator.imagePullpolicy: there is no such key "
        f"(allowed here: {keys(Operator)}); "
        "did you mean imagePullPolicy?",
    ),
    Case(
        id="a key as Python spells it",
        given={"operator": {**OPERATOR, "kubeflow_namespace": "absent"}},
        message="trainyard:platform.operator.kubeflow_namespace: there is no such key "
        f"(allowed here: {keys(Operator)}); "
        "did you mean kubeflowNamespace?",
    ),
    Case(
        id="a rule that there is not",
        given={"operator": OPERATOR, "policies": {"levels": {"runtimes": {"image-tags": "advisory"}}}},
        message="trainyard:platform.policies.levels.runtimes: "
        "there is no rule 'image-tags'; did you mean image-tag?",
    ),
    Case(
        id="a level that there is not",
        given={"operator": OPERATOR, "policies": {"levels": {"trainJobs": {"image-tag": "off"}}}},
        message="trainyard:platform.policies.levels.trainJobs.image-tag: "
        "must be one of disabled, advisory, remediate, mandatory; is 'off'",
    ),
    Case(
        id="an unknown key in a list",
        given={"operator": OPERATOR, "policies": {"parameters": {"pools": [{"name": "a", "label": {}}]}}},
        message="trainyard:platform.policies.parameters.pools[0].label: there is no such key "
        "(allowed here: addsTolerations, labels, name, resources, taints); did you mean labels?",
    ),
    Case(
        id="a bound that is no quantity",
        given={"operator": OPERATOR, "policies": {"parameters": {"maxResources": {"cpu": "many"}}}},
        message=f"trainyard:platform.policies.parameters.maxResources.cpu: {QUANTITY}; is 'many'",
    ),
    Case(
        id="a runtime with nothing behind its name",
        given={"operator": OPERATOR, "runtimes": {"plain": None}},
        message="trainyard:platform.runtimes.plain: must be a mapping; is None",
    ),
    Case(
        id="an unknown key that resembles nothing",
        given={"operator": OPERATOR, "cluster": {"zzz": 1}},
        message="trainyard:platform.cluster.zzz: there is no such key "
        "(allowed here: aks, context, distribution, eks, gke, identifier, karpenter, kubeconfig, version)",
    ),
    Case(
        id="a kubeconfig that each program would look for in a folder of its own",
        given={"operator": OPERATOR, "cluster": {"kubeconfig": "prod.kubeconfig"}},
        message="trainyard:platform.cluster.kubeconfig: must be an absolute path, or begin with ~/, such as "
        "~/.kube/config; is 'prod.kubeconfig'",
    ),
    Case(
        id="an unknown key in a runtime's changes",
        given={"operator": OPERATOR, "runtimes": {"plain": {"images": "x"}}},
        message="trainyard:platform.runtimes.plain.images: there is no such key "
        "(allowed here: enabled, env, image, imagePullPolicy, nodeSelector, resources, tolerations, "
        "topology); did you mean image?",
    ),
    Case(
        id="a required key is missing",
        given={"operator": {}},
        message="trainyard:platform.operator.image: is required",
    ),
    Case(
        id="a whole part is missing",
        given={},
        message="trainyard:platform.operator: is required",
    ),
    Case(
        id="a value that is none of the choices",
        given={"operator": {**OPERATOR, "imagePullPolicy": "ifnotpresent"}},
        message="trainyard:platform.operator.imagePullPolicy: must be one of Always, IfNotPresent, Never; "
        "is 'ifnotpresent'; did you mean IfNotPresent?",
    ),
    Case(
        id="a number out of range",
        given={"operator": {**OPERATOR, "replicas": 3}},
        message="trainyard:platform.operator.replicas: must be less than or equal to 2; is 3",
    ),
    Case(
        id="an image without a registry",
        given={"operator": {"image": "trainyard/operator:1"}},
        message=f"trainyard:platform.operator.image: {IMAGE}; is 'trainyard/operator:1'",
    ),
    Case(
        id="an image without a tag",
        given={"operator": {"image": "docker.io/trainyard/operator"}},
        message=f"trainyard:platform.operator.image: {IMAGE}; is 'docker.io/trainyard/operator'",
    ),
    Case(
        id="a quantity that is none",
        given={"operator": {**OPERATOR, "resources": {"cpu": "much", "memory": "1Gi"}}},
        message=f"trainyard:platform.operator.resources.cpu: {QUANTITY}; is 'much'",
    ),
    Case(
        id="a quantity under a resource name",
        given={"operator": OPERATOR, "runtimes": {"plain": {"resources": {"nvidia.com/gpu": "all"}}}},
        message=f"trainyard:platform.runtimes.plain.resources.nvidia.com/gpu: {QUANTITY}; is 'all'",
    ),
    Case(
        id="a duration that is none",
        given={"operator": OPERATOR, "kueue": {"waitForPodsReady": {"timeout": "half an hour"}}},
        message=f"trainyard:platform.kueue.waitForPodsReady.timeout: {DURATION}; is 'half an hour'",
    ),
    Case(
        id="a selector that compares with nothing",
        given={
            "operator": OPERATOR,
            "kueue": {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        },
        message="trainyard:platform.kueue.namespaceSelector.matchExpressions[0]: operator In needs values",
    ),
    Case(
        id="an unknown key in an item of a list",
        given={
            "operator": OPERATOR,
            "kueue": {
                "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Exists", "value": 1}]}
            },
        },
        message="trainyard:platform.kueue.namespaceSelector.matchExpressions[0].value: there is no such key "
        "(allowed here: key, operator, values); did you mean values?",
    ),
    Case(
        id="a kind of job that Kueue is not asked to queue",
        given={"operator": OPERATOR, "kueue": {"integrations": ["trainjob"]}},
        message="trainyard:platform.kueue.integrations[0]: must be one of trainer.kubeflow.org/trainjob, "
        "jobset.x-k8s.io/jobset, batch/job, pod; is 'trainjob'",
    ),
    Case(
        id="a list item of the wrong kind",
        given={"operator": {**OPERATOR, "args": ["--a", 1]}},
        message="trainyard:platform.operator.args[1]: must be a valid string; is 1",
    ),
    Case(
        id="a scalar where a mapping belongs",
        given={"operator": OPERATOR, "cluster": "kind"},
        message="trainyard:platform.cluster: must be a mapping; is 'kind'",
    ),
    Case(
        id="a folder without its path",
        given={"operator": OPERATOR, "artifacts": {"source": "folder"}},
        message="trainyard:platform.artifacts: source folder needs the key 'folder'",
    ),
    Case(
        id="a mirror without its file server",
        given={"operator": OPERATOR, "artifacts": {"source": "mirror", "registry": "harbor.example.com"}},
        message="trainyard:platform.artifacts: source mirror needs the key 'manifests'",
    ),
    Case(
        id="a key that the source has no use for",
        given={"operator": OPERATOR, "artifacts": {"folder": "/srv"}},
        message="trainyard:platform.artifacts: source upstream has no use for the key 'folder': remove it",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_wrong_setting_is_one_sentence(case: Case) -> None:
    with pytest.raises(PlatformError) as stopped:
        settings.load(json.dumps(case.given), "demo")
    assert str(stopped.value) == f"stacks/Pulumi.demo.yaml is not valid:\n  {case.message}"


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(PlatformError) as stopped:
        settings.load(json.dumps({"operator": {"replicas": 0}, "cluster": {"name": "x"}}), "demo")
    assert str(stopped.value).splitlines() == [
        "stacks/Pulumi.demo.yaml is not valid:",
        "  trainyard:platform.cluster.name: there is no such key "
        "(allowed here: aks, context, distribution, eks, gke, identifier, karpenter, kubeconfig, version)",
        "  trainyard:platform.operator.image: is required",
        "  trainyard:platform.operator.replicas: must be greater than or equal to 1; is 0",
    ]


def test_a_stack_without_settings_points_to_an_example() -> None:
    with pytest.raises(PlatformError) as stopped:
        settings.load(None, "demo")
    assert str(stopped.value) == (
        "stacks/Pulumi.demo.yaml: the key trainyard:platform is missing; "
        "see stacks/Pulumi.onprem.yaml for a short example"
    )


def test_text_instead_of_settings_is_refused() -> None:
    with pytest.raises(PlatformError) as stopped:
        settings.load("sandbox", "demo")
    assert str(stopped.value) == (
        "stacks/Pulumi.demo.yaml is not valid:\n  trainyard:platform: must be a mapping; is 'sandbox'"
    )


def test_settings_cannot_be_changed() -> None:
    loaded = settings.load(json.dumps({"operator": OPERATOR}), "demo")
    with pytest.raises(ValueError, match="frozen"):
        loaded.operator.replicas = 2


@pytest.mark.parametrize("path", sorted((ROOT / "stacks").glob("Pulumi.*.yaml")), ids=lambda path: path.name)
def test_every_stack_file_is_valid_and_holds_no_secret(path: Any) -> None:
    stack = yaml.safe_load(path.read_text())
    assert list(stack) == ["config"], "encryptionsalt belongs to the user's own copy"
    StackSettings.model_validate(stack["config"]["trainyard:platform"])
    assert path.read_text().startswith("# yaml-language-server: $schema=schema.json\n")


def test_the_checked_in_schema_is_current() -> None:
    hold(ROOT / "stacks/schema.json", schema.text())


def test_the_schema_describes_every_key() -> None:
    document = schema.document()
    for name, definition in document["$defs"].items():
        for key, value in definition.get("properties", {}).items():
            assert value.get("description"), f"{name}.{key} has no description"


@pytest.mark.parametrize(
    ("tenants", "limit"),
    [
        pytest.param(0, 256, id="none"),
        pytest.param(1, 256, id="one tenant fits into what the operator always had"),
        pytest.param(2, 384, id="two"),
        pytest.param(20, 2816, id="twenty"),
    ],
)
def test_the_memory_that_the_operator_may_use_grows_with_what_the_tenants_may_hold(
    tenants: int, limit: int
) -> None:
    teams = {f"team-{number}": {"clusterQueue": "q"} for number in range(tenants)}
    stack = StackSettings.model_validate({"operator": OPERATOR, "tenants": teams})
    assert operator_memory.limit(stack.held) == limit
    assert operator_memory.needed(stack.held) <= limit
