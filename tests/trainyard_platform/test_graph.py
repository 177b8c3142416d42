"""The resources that the sandbox's stack asks for: what they are, and in which order they come and go."""

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from tests.support import program
from tests.support.program import CRDS, Registered
from trainyard_api.configuration import Configuration, Retention
from trainyard_operator import settings as operator_settings
from trainyard_policies.settings import Policies

from .graphs import MINIMAL, Graph, stack

CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
RUNTIME = "kubernetes:trainer.kubeflow.org/v1alpha1:ClusterTrainingRuntime"
NAMESPACE = "kubernetes:core/v1:Namespace"
CHARTS = "kubernetes:helm.sh/v4:Chart"
CHART = f"{CHARTS} jobset"
OPERATOR = "kubernetes:apps/v1:Deployment trainyard-operator"
KUEUE = "kueue.x-k8s.io/v1beta2"
CLUSTER_QUEUE = f"kubernetes:{KUEUE}:ClusterQueue"
ADMISSION = "kubernetes:admissionregistration.k8s.io/v1"
WEBHOOKS = tuple(
    f"kubernetes:admissionregistration.k8s.io/v1:{kind}WebhookConfiguration {name}.trainer.kubeflow.org"
    for kind, name in (("Mutating", "defaulter"), ("Validating", "validator"))
)

TAKEN_OVER = {"pulumi.com/patchFieldManager": "trainyard-platform", "pulumi.com/patchForce": "true"}
"""On what another installation may have brought before."""

CONVERSION = {
    "strategy": "Webhook",
    "webhook": {
        "clientConfig": {
            "service": {"name": "kueue-webhook-service", "namespace": "kueue-system", "path": "/convert"}
        },
        "conversionReviewVersions": ["v1"],
    },
}
"""What upstream's overlay adds to those of Kueue's CRDs whose versions differ."""


def of_type(graph: Graph, kind: str) -> list[Registered]:
    found = [one for one in graph.values() if one.type == kind]
    assert found, f"nothing of type {kind} was registered"
    return found


def before(graph: Graph, key: str) -> set[str]:
    """Everything that stands before a resource is created, and outlasts it on the way down."""
    seen: set[str] = set()
    todo = [key]
    while todo:
        for one in graph[todo.pop()].depends_on:
            if one not in seen and one in graph:
                seen.add(one)
                todo.append(one)
    return seen


def test_every_crd_stays_when_the_stack_goes(graph: Graph) -> None:
    crds = of_type(graph, CRD)
    assert {one.name for one in crds} == {name for names in CRDS.values() for name in names}
    assert all(one.retain for one in crds)


def test_a_crd_is_upstreams_but_for_how_pulumi_handles_it(graph: Graph) -> None:
    for one in of_type(graph, CRD):
        expected = program.crd(one.name)
        if one.name == "clusterqueues.kueue.x-k8s.io":
            expected["spec"]["conversion"] = CONVERSION
        expected["metadata"]["annotations"] |= {
            "helm.sh/resource-policy": "keep",
            "pulumi.com/patchFieldManager": "trainyard-platform",
            "pulumi.com/patchForce": "true",
            "pulumi.com/waitFor": "condition=Established",
        }
        assert one.inputs == expected


def test_namespaces_that_hold_what_others_need_stay_too(graph: Graph) -> None:
    kept = {one.name: one.retain for one in of_type(graph, NAMESPACE)}
    assert kept == {
        "jobset-system": False,
        "kueue-system": False,
        "lws-system": False,
        "volcano-system": False,
        "scheduler-plugins": False,
        "trainyard-system": True,
        "kubeflow-system": True,
        "namespace-gpus": True,
        "namespace-team-a": True,
        "namespace-team-b": True,
    }


def test_the_guide_lists_the_namespaces_that_stay_after_destroy() -> None:
    guide = (program.ROOT / "docs/upgrade-and-removal.md").read_text()
    table = guide[guide.index("| is deleted | stays |") : guide.index("*Tested*: running jobs")]
    assert "the namespaces of tenants and of the operator" in table
    assert "the namespace `kubeflow-system`" in table


def test_of_the_rest_only_what_keeps_jobs_of_queues_out_while_nobody_is_there_stays(graph: Graph) -> None:
    kept = {one.key.rpartition(":")[2] for one in graph.values() if one.retain}
    assert {name for name in kept if not name.startswith(("CustomResourceDefinition ", "Namespace "))} == {
        f"{kind} {kind.lower()}-{name}.policy.trainyard.dev"
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        for name in (
            "queued-jobs-wait",
            "queued-jobs-own-themselves",
            "trainjobs-go-with-their-jobsets",
            "no-trainjobs-without-the-platform",
        )
    }


def test_crds_come_before_everything_that_uses_them(graph: Graph) -> None:
    crds = {one.key for one in of_type(graph, CRD)}
    for one in [*of_type(graph, RUNTIME), *of_type(graph, "kubernetes:helm.sh/v4:Chart"), graph[OPERATOR]]:
        assert crds <= before(graph, one.key), one.key


def test_runtimes_come_after_the_controller_whose_webhooks_they_need(graph: Graph) -> None:
    for one in of_type(graph, RUNTIME):
        assert CHART in before(graph, one.key)


def test_the_webhooks_come_last_and_go_first(graph: Graph) -> None:
    """With nobody to answer them no TrainJob could be written: neither before the operator nor after it."""
    for key in WEBHOOKS:
        needs = before(graph, key)
        assert {OPERATOR, "kubernetes:core/v1:Service trainyard-operator"} <= needs
        waits = [one.key for one in graph.values() if key in one.depends_on]
        assert waits == []


def test_the_caBundle_is_waited_for_and_then_left_alone(graph: Graph) -> None:  # noqa: N802 (Kubernetes' word)
    for key in WEBHOOKS:
        one = graph[key]
        wait = "jsonpath={.webhooks[*].clientConfig.caBundle}"
        assert one.inputs["metadata"]["annotations"] == {"pulumi.com/waitFor": wait, **TAKEN_OVER}
        assert one.ignored == ("webhooks[*].clientConfig.caBundle",)
        assert all("caBundle" not in webhook["clientConfig"] for webhook in one.inputs["webhooks"])


def test_what_kubeflow_trainer_may_have_brought_is_taken_over(graph: Graph) -> None:
    forced = {
        f"{one.inputs['kind']} {one.inputs['metadata']['name']}"
        for one in graph.values()
        if TAKEN_OVER.items() <= ((one.inputs.get("metadata") or {}).get("annotations") or {}).items()
    }
    runtimes = {f"ClusterTrainingRuntime {one.name}" for one in of_type(graph, RUNTIME)}
    crds = {f"CustomResourceDefinition {name}" for name in CRDS["trainer"] + CRDS["jobset"]}
    public = {f"{kind} kubeflow-trainer-public" for kind in ("ConfigMap", "Role", "RoleBinding")}
    webhooks = {
        "MutatingWebhookConfiguration defaulter.trainer.kubeflow.org",
        "ValidatingWebhookConfiguration validator.trainer.kubeflow.org",
    }
    assert runtimes | crds | public | webhooks | {"Namespace kubeflow-system"} <= forced


def test_the_webhooks_are_those_of_kubeflow_trainer_and_of_the_rules(graph: Graph) -> None:
    def shape(key: str) -> list[tuple[str, str, str]]:
        return [
            (webhook["name"], webhook["rules"][0]["resources"][0], webhook["clientConfig"]["service"]["path"])
            for webhook in graph[key].inputs["webhooks"]
        ]

    path = "trainer-kubeflow-org-v1alpha1"
    assert shape(WEBHOOKS[0]) == [
        ("defaulter.trainjob.trainer.kubeflow.org", "trainjobs", f"/mutate-{path}-trainjob"),
    ]
    kinds = ("clustertrainingruntime", "trainingruntime", "trainjob")
    assert shape(WEBHOOKS[1]) == [
        *((f"validator.{one}.trainer.kubeflow.org", f"{one}s", f"/validate-{path}-{one}") for one in kinds),
        *((f"{one}.policy.trainyard.dev", f"{one}s", f"/policies-{path}-{one}") for one in kinds),
    ]
    selector = [
        {"key": "trainer.kubeflow.org/webhook-validation", "operator": "NotIn", "values": ["disabled"]}
    ]
    validating = graph[WEBHOOKS[1]].inputs["webhooks"]
    assert [webhook.get("objectSelector") for webhook in validating] == [
        # Webhooks stay away from nothing that a namespace's user can label.
        *({"matchExpressions": selector}, None, None),
        *({"matchExpressions": selector}, None, None),
    ]
    for key in WEBHOOKS:
        for webhook in graph[key].inputs["webhooks"]:
            (rule,) = webhook["rules"]
            assert (rule["apiGroups"], rule["apiVersions"]) == (["trainer.kubeflow.org"], ["v1alpha1"])
            assert rule["operations"] == ["CREATE", "UPDATE"]
            assert webhook["failurePolicy"] == "Fail"
            assert webhook["sideEffects"] == "None"
            assert webhook["matchPolicy"] == "Equivalent"
            assert webhook["timeoutSeconds"] == 10
            assert webhook["admissionReviewVersions"] == ["v1"]
            service = webhook["clientConfig"]["service"]
            assert (service["name"], service["namespace"]) == ("trainyard-operator", "trainyard-system")
    [defaulter] = graph[WEBHOOKS[0]].inputs["webhooks"]
    assert defaulter["reinvocationPolicy"] == "IfNeeded"


def test_nobody_gets_past_the_webhook_of_the_rules_from_before_the_runtimes_on(graph: Graph) -> None:
    """It comes last and goes first, and a label keeps it away."""
    policies = {
        f"{ADMISSION}:{kind} {kind.lower()}-{name}.policy.trainyard.dev"
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        for name in ("exempting-label", "nothing-past-the-webhook")
    }
    for one in of_type(graph, RUNTIME):
        assert policies <= before(graph, one.key)


def test_without_the_webhook_no_namespaces_user_writes_what_it_would_judge(graph: Graph) -> None:
    name = "nothing-past-the-webhook.policy.trainyard.dev"
    kind = f"{ADMISSION}:ValidatingAdmissionPolicy"
    policy = graph[f"{kind} validatingadmissionpolicy-{name}"].inputs["spec"]
    binding = graph[f"{kind}Binding validatingadmissionpolicybinding-{name}"].inputs["spec"]
    assert policy == {
        "failurePolicy": "Fail",
        "paramKind": {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
        },
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["trainer.kubeflow.org"],
                    "apiVersions": ["v1alpha1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["trainingruntimes", "trainjobs"],
                }
            ]
        },
        "validations": [
            {
                "expression": "params.?webhooks.orValue([]).exists(webhook, "
                "webhook.name == object.kind.lowerAscii() + '.policy.trainyard.dev')",
                "message": "ValidatingWebhookConfiguration validator.trainer.kubeflow.org does not hold this "
                "kind to the rules of the stack. Have the platform team roll the stack out.",
                "reason": "Forbidden",
            }
        ],
    }
    assert binding == {
        "policyName": name,
        "paramRef": {"name": "validator.trainer.kubeflow.org", "parameterNotFoundAction": "Deny"},
        "validationActions": ["Deny"],
    }
    called = {webhook["name"] for webhook in graph[WEBHOOKS[1]].inputs["webhooks"]}
    assert {"trainingruntime.policy.trainyard.dev", "trainjob.policy.trainyard.dev"} <= called


def test_only_who_has_the_right_may_have_the_webhooks_stay_away_from_a_runtime(graph: Graph) -> None:
    name = "validatingadmissionpolicy-exempting-label.policy.trainyard.dev"
    policy = graph[f"{ADMISSION}:ValidatingAdmissionPolicy {name}"].inputs["spec"]
    label = ".metadata.?labels[?\"trainer.kubeflow.org/webhook-validation\"].orValue('') == 'disabled'"
    right = "authorizer.group('trainyard.dev').resource('runtimes').check('exempt')"
    assert policy == {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["trainer.kubeflow.org"],
                    "apiVersions": ["v1alpha1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["clustertrainingruntimes"],
                }
            ]
        },
        "matchConditions": [
            {"name": "labelled", "expression": f"object{label}"},
            {
                "name": "changed",
                "expression": f"oldObject == null || !(oldObject{label}) || object.?spec != oldObject.?spec "
                "|| object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}) "
                "|| object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})",
            },
        ],
        "validations": [
            {
                "expression": f"{right}.allowed()",
                "message": "metadata.labels[trainer.kubeflow.org/webhook-validation]: must not be disabled, "
                "which is for roll-outs of a stack. Leave it out, or get the verb exempt on "
                "runtimes.trainyard.dev",
                "reason": "Forbidden",
            }
        ],
    }


def test_the_operator_is_told_the_levels_and_parameters_of_the_stack(graph: Graph) -> None:
    data = graph["kubernetes:core/v1:ConfigMap trainyard-operator"].inputs["data"]
    told = Policies.model_validate(yaml.safe_load(data["policies.yaml"]))
    assert [pool.name for pool in told.parameters.pools] == ["gpu"]
    webhook = yaml.safe_load(data["configuration.yaml"])["webhook"]
    assert webhook["policies"] == "/etc/trainyard/policies.yaml"


@pytest.mark.usefixtures("pins")
def test_a_stack_can_leave_the_cluster_without_the_rules(tmp_path: Any) -> None:
    graph = stack(tmp_path, {**MINIMAL, "admission": {"policies": False}})
    assert [key for key in graph if "ValidatingAdmissionPolicy" in key] == []
    assert len(graph[WEBHOOKS[1]].inputs["webhooks"]) == 3
    assert "policies.yaml" not in graph["kubernetes:core/v1:ConfigMap trainyard-operator"].inputs["data"]


def test_the_service_leads_to_the_operators_webhook_port(graph: Graph) -> None:
    service = graph["kubernetes:core/v1:Service trainyard-operator"].inputs
    template = graph[OPERATOR].inputs["spec"]["template"]
    assert service["spec"]["selector"] == template["metadata"]["labels"]
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, 9443)
    (container,) = template["spec"]["containers"]
    assert {one["containerPort"] for one in container["ports"]} == {8080, 8443, 9443}


def test_the_operator_comes_after_what_it_needs_and_goes_before_it(graph: Graph) -> None:
    needs = before(graph, OPERATOR)
    assert {one.key for one in of_type(graph, RUNTIME)} <= needs
    assert CHART in needs
    rights = [
        one.key
        for one in graph.values()
        if one.type.startswith("kubernetes:rbac") and one.name.startswith("trainyard")
    ]
    assert len(rights) == 22
    assert set(rights) <= needs


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize(
    ("policies", "limits"),
    [
        ({}, ["request.options.?gracePeriodSeconds.orValue(0) <= 600"]),
        (
            {"parameters": {"longestGrace": 60}},
            ["request.options.?gracePeriodSeconds.orValue(0) <= 60"],
        ),
        ({"levels": {"trainJobs": {"pod-end": "advisory"}}}, []),
    ],
    ids=["as shipped", "less", "the rule refuses nothing"],
)
def test_a_pod_of_a_tenant_is_deleted_with_no_longer_grace_period_than_the_rule_about_its_end_allows(
    policies: dict[str, Any], limits: list[str], tmp_path: Path
) -> None:
    graph = stack(tmp_path, {**MINIMAL, "policies": policies})
    name = "validatingadmissionpolicy-deleted-pods-end.policy.trainyard.dev"
    key = f"{ADMISSION}:ValidatingAdmissionPolicy {name}"
    expressions = [
        validation["expression"]
        for policy in (graph.get(key),)
        if policy is not None
        for validation in policy.inputs["spec"]["validations"]
    ]
    assert [expression.partition(" || ")[0] for expression in expressions] == limits


def test_everything_uses_the_explicit_provider(graph: Graph) -> None:
    provider = graph["pulumi:providers:kubernetes cluster"]
    assert provider.inputs == {
        "clusterIdentifier": "sandbox",
        "enableConfigMapMutable": "true",
        "enableSecretMutable": "true",
        "enableServerSideApply": "true",
        "kubeconfig": "",
    }


def test_components_carry_the_platforms_type_tokens(graph: Graph) -> None:
    components = {one.type for one in graph.values() if one.type.startswith("trainyard:")}
    assert components == {
        f"trainyard:platform:{name}"
        for name in (
            *("KwokPool", "Crds", "JobSet", "Kueue", "Queues", "Tenants", "Volcano", "Catalog"),
            *("Kubeflow", "Operator", "Admission", "PolicyRules", "System"),
            *("Coscheduling", "Observability", "Storage", "Accelerators", "NetworkPolicies", "DataCache"),
        )
    }
    own = {one.parent for one in graph.values() if one.type.startswith("kubernetes:")}
    assert all(parent.startswith("trainyard:platform:") for parent in own)


def test_the_operators_pod_has_no_privilege(graph: Graph) -> None:
    pod = graph[OPERATOR].inputs["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }
    assert [(mount["name"], mount.get("readOnly")) for mount in container["volumeMounts"]] == [
        ("tmp", None),
        ("configuration", True),
    ]
    assert pod["volumes"] == [
        {"name": "tmp", "emptyDir": {}},
        {"name": "configuration", "configMap": {"name": "trainyard-operator"}},
    ]
    assert pod["serviceAccountName"] == "trainyard-operator"
    assert pod["priorityClassName"] == "trainyard-operator"


def test_the_operators_pod_is_probed_and_bounded(graph: Graph) -> None:
    (container,) = graph[OPERATOR].inputs["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": 8080}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 8080}
    assert container["resources"] == {
        "requests": {"cpu": "50m", "memory": "256Mi"},
        "limits": {"memory": "512Mi"},
    }
    own = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    assert container["env"] == [{"name": "POD_NAMESPACE", "valueFrom": own}]


def rules(graph: Graph, kind: str, name: str) -> list[tuple[str, ...]]:
    found = graph[f"kubernetes:rbac.authorization.k8s.io/v1:{kind} {name}"].inputs["rules"]
    return [
        tuple(",".join(rule.get(part, ())) for part in ("apiGroups", "resources", "resourceNames", "verbs"))
        for rule in found
    ]


def test_the_operators_rights_are_exactly_these(graph: Graph) -> None:
    trainer = "trainer.kubeflow.org"
    assert rules(graph, "ClusterRole", "trainyard-operator") == [
        (trainer, "trainjobs,trainingruntimes,clustertrainingruntimes", "", "get,list,watch"),
        (trainer, "trainjobs/status", "", "patch"),
        (trainer, "trainjobs/finalizers", "", "update"),
        ("jobset.x-k8s.io", "jobsets", "", "create,delete,get,list,update,watch"),
        ("batch", "jobs", "", "delete,list"),
        ("", "pods", "", "list,watch"),
        ("", "events", "", "create,get,list,patch"),
        ("", "configmaps", "", "create,get,update"),
        ("scheduling.x-k8s.io,scheduling.volcano.sh", "podgroups", "", "create,delete,get,update"),
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            "defaulter.trainer.kubeflow.org",
            "get,patch",
        ),
        (
            "admissionregistration.k8s.io",
            "validatingwebhookconfigurations",
            "validator.trainer.kubeflow.org",
            "get,patch",
        ),
        ("batch", "jobs", "", "create"),
        ("kueue.x-k8s.io", "workloads", "", "list,patch"),
        ("kueue.x-k8s.io", "clusterqueues,cohorts,localqueues", "", "list"),
        ("authentication.k8s.io", "tokenreviews", "", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "", "create"),
    ]
    assert rules(graph, "Role", "trainyard-operator") == [
        ("coordination.k8s.io", "leases", "", "create"),
        ("coordination.k8s.io", "leases", "trainyard-operator", "get,update"),
        ("apps", "controllerrevisions", "", "create,delete,get,list,patch,watch"),
        ("", "secrets", "", "create"),
        ("", "secrets", "trainyard-operator-webhook", "get,update"),
    ]
    assert rules(graph, "Role", "trainyard-operator-kubeflow") == [
        ("coordination.k8s.io", "leases", "trainer.kubeflow.org", "get"),
    ]


def test_everybody_may_read_the_trainer_version_and_nothing_else(graph: Graph) -> None:
    name = "kubeflow-trainer-public"
    assert graph[f"kubernetes:core/v1:ConfigMap {name}"].inputs["data"] == {
        "kubeflow_trainer_version": "v2.3.0"
    }
    assert rules(graph, "Role", name) == [("", "configmaps", name, "get")]
    binding = graph[f"kubernetes:rbac.authorization.k8s.io/v1:RoleBinding {name}"].inputs
    assert binding["subjects"] == [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}
    ]


def test_the_chart_installs_without_its_crd_and_with_the_stacks_image(graph: Graph) -> None:
    chart = graph[CHART].inputs
    assert chart["skipCrds"] is True
    assert chart["namespace"] == "jobset-system"
    assert chart["values"]["image"] == {
        "repository": "registry.k8s.io/jobset/jobset",
        "tag": "v0.12.0",
        "pullPolicy": "IfNotPresent",
    }


def test_kueue_sees_the_jobs_of_tenants_alone_and_says_why_they_wait(graph: Graph) -> None:
    values = graph["kubernetes:helm.sh/v4:Chart kueue"].inputs["values"]
    assert values["controllerManager"]["featureGates"] == [
        {"name": "UnadmittedWorkloadsObservability", "enabled": True}
    ]
    assert yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"]) == {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443", "enableClusterQueueResources": True},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "clientConnection": {"qps": 300, "burst": 500},
        "integrations": {"frameworks": ["jobset.x-k8s.io/jobset"]},
        "manageJobsWithoutQueueName": False,
        "managedJobsNamespaceSelector": {
            "matchExpressions": [{"key": "trainyard.dev/tenant", "operator": "Exists"}]
        },
        "waitForPodsReady": {"timeout": "30m", "recoveryTimeout": "0s", "blockAdmission": False},
    }


@pytest.mark.usefixtures("pins")
def test_kueue_waits_for_ever_and_shares_fairly_where_the_stack_says_so(tmp_path: Any) -> None:
    given = {"enabled": True, "waitForPodsReady": None, "fairSharing": True}
    graph = stack(tmp_path, {**MINIMAL, "kueue": given})
    values = graph["kubernetes:helm.sh/v4:Chart kueue"].inputs["values"]
    assert {"name": "DisableWaitForPodsReady", "enabled": True} in values["controllerManager"]["featureGates"]
    configuration = yaml.safe_load(values["managerConfig"]["controllerManagerConfigYaml"])
    assert "waitForPodsReady" not in configuration
    assert configuration["fairSharing"] == {
        "preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
    }


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize(
    ("integrations", "holds", "may_patch", "webhooks"),
    [
        (["jobset.x-k8s.io/jobset", "batch/job"], "JobSet", True, ["defaulter"]),
        (["trainer.kubeflow.org/trainjob"], "TrainJob", False, ["defaulter", "holder"]),
        (
            ["jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"],
            *("TrainJob", False, ["defaulter", "holder"]),
        ),
    ],
)
def test_what_kueue_queues_decides_what_the_operator_is_told_and_may_do(
    tmp_path: Any, integrations: list[str], holds: str, may_patch: bool, webhooks: list[str]
) -> None:
    graph = stack(tmp_path, {**MINIMAL, "kueue": {"enabled": True, "integrations": integrations}})
    files = graph["kubernetes:core/v1:ConfigMap trainyard-operator"].inputs["data"]
    assert yaml.safe_load(files["configuration.yaml"])["queueHolds"] == holds
    policies = {
        one.inputs["metadata"]["name"].partition(".")[0]: one.inputs["spec"]
        for one in of_type(graph, "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmissionPolicy")
    }
    [rule] = policies["queued-jobs-wait"]["matchConstraints"]["resourceRules"]
    assert rule["resources"] == [f"{holds.lower()}s"]
    rights = rules(graph, "ClusterRole", "trainyard-operator")
    assert (("kueue.x-k8s.io", "workloads", "", "list,patch") in rights) is may_patch
    called = {webhook["name"].partition(".")[0]: webhook for webhook in graph[WEBHOOKS[0]].inputs["webhooks"]}
    assert list(called) == webhooks
    if (holder := called.get("holder")) is not None:
        tenants = [{"key": "trainyard.dev/tenant", "operator": "Exists"}]
        assert holder["namespaceSelector"] == {"matchExpressions": tenants}, "where Kueue looks"
        assert holder["reinvocationPolicy"] == "Never"


def test_no_queue_and_no_gang_scheduler_is_installed_unless_the_stack_says_so(minimal: Graph) -> None:
    assert [key for key in minimal for part in ("kueue", "volcano", "scheduler") if part in key] == []


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize(
    ("distribution", "given", "namespace", "labels"),
    [
        ("kubernetes", {}, "kueue-system", {}),
        ("kubernetes", {"namespace": "queues"}, "queues", {}),
        ("openshift", {}, "openshift-kueue-operator", {"kueue.openshift.io/managed": "true"}),
    ],
    ids=["in its usual namespace", "in one of its own", "Red Hat's"],
)
def test_a_kueue_that_is_there_already_gets_queues_and_tenants_and_is_left_alone(
    tmp_path: Any, distribution: str, given: dict[str, str], namespace: str, labels: dict[str, str]
) -> None:
    file = program.ROOT / "stacks" / "Pulumi.openshift.yaml"
    of_openshift = yaml.safe_load(file.read_text())["config"]["trainyard:platform"]
    said = {
        **MINIMAL,
        "cluster": {"distribution": distribution},
        "kueue": {"enabled": True, "controller": "existing", **given},
        "queues": {"clusterQueues": {"team-a": {}}, "multiKueue": {"acceptsJobs": True}},
        "tenants": {"team": {"clusterQueue": "team-a"}},
        "observability": {"enabled": True},
        "runtimes": of_openshift["runtimes"],
    }
    graph = stack(tmp_path, said)
    assert not {f"{CHARTS} kueue", f"{NAMESPACE} {namespace}"} & graph.keys()
    assert not [one.name for one in of_type(graph, CRD) if one.name.endswith("kueue.x-k8s.io")]
    assert not [key for key in graph if "ServiceMonitor" in key and "kueue" in key]
    (queue,) = of_type(graph, CLUSTER_QUEUE)
    assert queue.deleted_with
    assert not queue.retain
    accounts = of_type(graph, "kubernetes:core/v1:ServiceAccount")
    (accepting,) = [one for one in accounts if "multikueue" in one.name]
    assert accepting.inputs["metadata"]["namespace"] == namespace
    (team,) = [one for one in of_type(graph, NAMESPACE) if one.name == "namespace-team"]
    assert labels.items() <= team.inputs["metadata"]["labels"].items()
    assert ("kueue.openshift.io/managed" in team.inputs["metadata"]["labels"]) is bool(labels)
    kueue = f"system:serviceaccount:{namespace}:kueue-controller-manager"
    held = {one.type for one in graph.values() if kueue in str(one.inputs)}
    assert held == {"kubernetes:core/v1:ConfigMap"}, "the rules let Kueue write into TrainJobs"


@pytest.mark.usefixtures("pins")
def test_a_jobset_that_is_there_already_is_left_alone(tmp_path: Any) -> None:
    graph = stack(tmp_path, {**MINIMAL, "jobset": {"enabled": False}})
    assert [key for key in graph if "jobset" in key] == []
    assert of_type(graph, RUNTIME)


def test_queues_come_after_kueue_and_are_waited_for(graph: Graph) -> None:
    (queue,) = [one for one in of_type(graph, CLUSTER_QUEUE) if one.name == "clusterqueue-team-a"]
    needs = before(graph, queue.key)
    assert {
        "kubernetes:helm.sh/v4:Chart kueue",
        "kubernetes:kueue.x-k8s.io/v1beta2:ResourceFlavor resourceflavor-cpu",
        "kubernetes:kueue.x-k8s.io/v1beta2:Cohort cohort-sandbox",
    } <= needs
    assert queue.inputs["metadata"]["annotations"]["pulumi.com/waitFor"] == "condition=Active"


def test_queues_go_with_their_entry_and_stay_when_the_stack_goes(graph: Graph) -> None:
    """Kueue holds a ClusterQueue until its last job has ended, for which `destroy` must not wait."""
    kinds = ("ResourceFlavor", "Cohort", "ClusterQueue", "WorkloadPriorityClass")
    for one in (one for kind in kinds for one in of_type(graph, f"kubernetes:{KUEUE}:{kind}")):
        assert one.deleted_with == f"{NAMESPACE} kueue-system"
        assert not one.retain


def test_people_of_a_tenant_get_their_rights_after_its_limits_and_lose_them_before(graph: Graph) -> None:
    limits = {
        "kubernetes:core/v1:ResourceQuota resourcequota-team-a/tenant",
        "kubernetes:core/v1:ResourceQuota resourcequota-team-a/tenant-affinity",
        "kubernetes:core/v1:LimitRange limitrange-team-a/tenant",
        "kubernetes:networking.k8s.io/v1:NetworkPolicy networkpolicy-team-a/tenant",
        f"kubernetes:{KUEUE}:LocalQueue localqueue-team-a/default",
    }
    rbac = "kubernetes:rbac.authorization.k8s.io/v1"
    for key in (
        f"{rbac}:RoleBinding rolebinding-team-a/trainyard-data-scientist",
        f"{rbac}:RoleBinding rolebinding-team-a/trainyard-data-scientist-further",
        f"{rbac}:ClusterRoleBinding clusterrolebinding-trainyard-queue-viewer-team-a",
    ):
        assert limits <= before(graph, key), key


def test_volcanos_certificate_is_made_before_what_mounts_it(graph: Graph) -> None:
    """Helm would make it in a hook, which helm.v4.Chart does not run."""
    job = "kubernetes:batch/v1:Job volcano-admission-init"
    assert job in before(graph, "kubernetes:helm.sh/v4:Chart volcano")
    rights = {
        f"kubernetes:rbac.authorization.k8s.io/v1:{kind} volcano-admission-init"
        for kind in ("Role", "RoleBinding")
    }
    assert rights <= before(graph, job)
    (container,) = graph[job].inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "docker.io/volcanosh/vc-webhook-manager:v1.14.1"
    assert container["command"] == [
        *("./gen-admission-secret.sh", "--service", "volcano-admission-service"),
        *("--namespace", "volcano-system", "--secret", "volcano-admission-secret"),
    ]


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize(
    ("choice", "namespace", "version", "right"),
    [("create", True, True, True), ("existing", False, True, True), ("absent", False, False, False)],
)
def test_kubeflows_namespace_is_treated_as_the_stack_says(
    tmp_path: Any, choice: str, namespace: bool, version: bool, right: bool
) -> None:
    graph = stack(tmp_path, {"operator": {**MINIMAL["operator"], "kubeflowNamespace": choice}})
    assert (f"{NAMESPACE} kubeflow-system" in graph) is namespace
    assert ("kubernetes:core/v1:ConfigMap kubeflow-trainer-public" in graph) is version
    assert ("kubernetes:rbac.authorization.k8s.io/v1:Role trainyard-operator-kubeflow" in graph) is right


@pytest.mark.usefixtures("pins")
def test_without_kubeflows_namespace_upstreams_lease_is_allowed_by_name(tmp_path: Any) -> None:
    graph = stack(tmp_path, {"operator": {**MINIMAL["operator"], "kubeflowNamespace": "absent"}})
    last = rules(graph, "ClusterRole", "trainyard-operator")[-1]
    assert last == ("coordination.k8s.io", "leases", "trainer.kubeflow.org", "get")


@pytest.mark.usefixtures("pins")
def test_without_admission_there_is_no_webhook_and_no_right_for_one(tmp_path: Any) -> None:
    graph = stack(tmp_path, {**MINIMAL, "admission": {"enabled": False}})
    assert [key for key in graph if "Webhook" in key or "Service trainyard" in key] == []
    everywhere = rules(graph, "ClusterRole", "trainyard-operator")
    assert [rule for rule in everywhere if rule[0] == "admissionregistration.k8s.io"] == []
    assert [rule for rule in everywhere if rule[1] == "secrets"] == []
    own = rules(graph, "Role", "trainyard-operator")
    assert [rule for rule in own if rule[1] == "secrets"] == []
    (container,) = graph[OPERATOR].inputs["spec"]["template"]["spec"]["containers"]
    assert told(graph, tmp_path).webhook.enabled is False
    assert [one["name"] for one in container["ports"]] == ["http"]


def told(graph: Graph, folder: Any) -> Configuration:
    """What the operator reads in the file that its pods find."""
    (container,) = graph[OPERATOR].inputs["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["--config=/etc/trainyard/configuration.yaml"]
    file = folder / "configuration.yaml"
    file.write_text(graph["kubernetes:core/v1:ConfigMap trainyard-operator"].inputs["data"][file.name])
    return operator_settings.load(str(file))


def digest(graph: Graph) -> str:
    annotations = graph[OPERATOR].inputs["spec"]["template"]["metadata"]["annotations"]
    return str(annotations["trainyard.dev/configuration"])


@pytest.mark.usefixtures("pins")
def test_what_the_stack_says_is_what_the_operator_is_told_and_a_change_means_new_pods(
    minimal: Graph, tmp_path: Any
) -> None:
    says = {
        "controller": {"concurrency": 3},
        "featureGates": {"TrainJobStatus": True},
        "limits": {"maxNodes": 8},
        "retention": {"afterFinished": "7d", "maxFinishedPerNamespace": 100},
        "suspendedCondition": "upstream",
    }
    graph = stack(tmp_path, {"operator": {**MINIMAL["operator"], **says}})
    found = told(graph, tmp_path)
    assert (found.controller.concurrency, found.limits.max_nodes) == (3, 8)
    assert found.feature_gates.on == {"TrainJobStatus"}
    assert found.retention == Retention(after_finished=7 * 86400.0, max_finished_per_namespace=100)
    assert found.suspended_condition == "upstream"
    assert digest(graph) != digest(minimal)


@pytest.mark.usefixtures("pins")
def test_a_pool_more_or_other_policies_leave_the_operators_pods_alone(minimal: Graph, tmp_path: Any) -> None:
    pool = {
        "provider": "kwok",
        "nodes": 2,
        "machine": {"cpu": "8", "memory": "64Gi"},
        "accelerator": {"type": "nvidia-h100", "resource": "nvidia.com/gpu", "count": 8},
    }
    more = {
        **MINIMAL,
        "accelerators": {"nvidia": {"devicePlugin": "shipped"}},
        "nodePools": {"gpu": pool},
        "policies": {"parameters": {"maxNodes": 7}},
    }
    after = stack(tmp_path, more)
    assert minimal[OPERATOR].inputs["spec"]["template"] == after[OPERATOR].inputs["spec"]["template"]
    policies = (
        graph["kubernetes:core/v1:ConfigMap trainyard-operator"].inputs["data"]["policies.yaml"]
        for graph in (minimal, after)
    )
    assert len({*policies}) == 2


def test_keys_of_mpi_jobs_are_made_in_tenants_namespaces_and_where_the_stack_says(graph: Graph) -> None:
    found = {
        one.inputs["metadata"]["namespace"]: (one.inputs["rules"], one.inputs["metadata"]["name"])
        for one in of_type(graph, "kubernetes:rbac.authorization.k8s.io/v1:Role")
        if one.name.startswith("trainyard-operator-mpi")
    }
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get"]}
    assert found == dict.fromkeys(("default", "gpus", "team-a", "team-b"), ([rule], "trainyard-operator-mpi"))


@pytest.mark.usefixtures("pins")
def test_keys_of_mpi_jobs_are_made_everywhere_only_where_the_stack_says_so(
    minimal: Graph, tmp_path: Any
) -> None:
    """The role of a namespace that the stack names stays: nothing changes there, so no preview says so."""
    anywhere = {"operator": {**MINIMAL["operator"], "mpiNamespaces": ["*", "research"]}}
    graphs = [stack(tmp_path, anywhere), minimal]
    key = ("", "secrets", "", "create,get")
    assert [key in rules(one, "ClusterRole", "trainyard-operator") for one in graphs] == [True, False]
    roles = [[key for key in graph if "v1:Role trainyard-operator-mpi" in key] for graph in graphs]
    of_research = "kubernetes:rbac.authorization.k8s.io/v1:Role trainyard-operator-mpi-research"
    assert roles == [[of_research], []]


def test_logs_are_read_in_tenants_namespaces_and_where_the_stack_says(graph: Graph, tmp_path: Any) -> None:
    found = {
        role.inputs["metadata"]["namespace"]: (role.inputs["rules"], role.inputs["metadata"]["name"])
        for role in of_type(graph, "kubernetes:rbac.authorization.k8s.io/v1:Role")
        if role.name.startswith("trainyard-operator-last-lines")
    }
    rule = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
    there = ("default", "gpus", "team-a", "team-b")
    assert found == dict.fromkeys(there, ([rule], "trainyard-operator-last-lines"))
    assert told(graph, tmp_path).last_lines == 200


@pytest.mark.usefixtures("pins")
def test_no_log_is_read_where_no_lines_are_kept(tmp_path: Any) -> None:
    off = {"operator": {**MINIMAL["operator"], "lastLines": {"lines": 0, "namespaces": ["*"]}}}
    anywhere = {"operator": {**MINIMAL["operator"], "lastLines": {"namespaces": ["*"]}}}
    graphs = [stack(tmp_path / name, given) for name, given in (("off", off), ("all", anywhere))]
    read = ("", "pods/log", "", "get")
    assert [read in rules(graph, "ClusterRole", "trainyard-operator") for graph in graphs] == [False, True]
    assert [told(graph, tmp_path).last_lines for graph in graphs] == [0, 200]
    assert [[key for key in graph if "last-lines" in key] for graph in graphs] == [[], []]


@pytest.mark.usefixtures("pins")
def test_for_reports_of_progress_there_are_a_port_and_the_rights_to_see_who_reports(tmp_path: Any) -> None:
    gate = {"featureGates": {"TrainJobStatus": True}}
    graph = stack(tmp_path, {"operator": {**MINIMAL["operator"], **gate}, "admission": {"enabled": False}})
    assert rules(graph, "ClusterRole", "trainyard-operator")[-3:] == [
        ("authentication.k8s.io", "tokenreviews", "", "create"),
        ("", "pods", "", "get"),
        ("batch", "jobs", "", "get"),
    ]
    own = rules(graph, "Role", "trainyard-operator")
    assert [rule for rule in own if rule[1] == "secrets"] == [
        ("", "secrets", "", "create"),
        ("", "secrets", "trainyard-operator-webhook", "get,update"),
    ]
    assert graph["kubernetes:core/v1:Service trainyard-operator"].inputs["spec"]["ports"] == [
        {"name": "status", "port": 10443, "targetPort": 10443, "protocol": "TCP"}
    ]


@pytest.mark.usefixtures("pins")
def test_metrics_ask_who_reads_on_a_port_with_a_certificate_and_with_the_rights_to_ask(tmp_path: Any) -> None:
    asks = {
        "operator": {"image": "docker.io/trainyard/operator:1"},
        "admission": {"enabled": False},
    }
    graph = stack(tmp_path, {**asks, "observability": {"enabled": True}})
    assert rules(graph, "ClusterRole", "trainyard-operator")[-2:] == [
        ("authentication.k8s.io", "tokenreviews", "", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "", "create"),
    ]
    assert [rule for rule in rules(graph, "Role", "trainyard-operator") if rule[1] == "secrets"] == [
        ("", "secrets", "", "create"),
        ("", "secrets", "trainyard-operator-webhook", "get,update"),
    ]
    metrics = told(graph, tmp_path).metrics
    assert (metrics.authentication, metrics.secure_port) == (True, 8443)
    service = graph["kubernetes:core/v1:Service service-trainyard-system/trainyard-operator-metrics"].inputs
    assert service["spec"]["ports"] == [
        {"name": "metrics", "port": 8443, "targetPort": 8443, "protocol": "TCP"}
    ]
    (monitor,) = of_type(graph, "kubernetes:monitoring.coreos.com/v1:ServiceMonitor")
    assert monitor.inputs["spec"]["endpoints"][0]["scheme"] == "https"
    (network,) = [one for one in graph.values() if one.name == "networkpolicy-trainyard-system/trainyard"]
    assert [rule["ports"] for rule in network.inputs["spec"]["ingress"]] == [
        [{"protocol": "TCP", "port": 8443}]
    ]


@pytest.mark.usefixtures("pins")
def test_where_cert_manager_makes_the_certificate_the_operator_has_no_right_to(tmp_path: Any) -> None:
    graph = stack(tmp_path, {"operator": {**MINIMAL["operator"], "certificates": "cert-manager"}})
    made = {
        one.inputs["metadata"]["name"]: one.inputs["spec"]
        for one in graph.values()
        if one.type == "kubernetes:cert-manager.io/v1:Certificate"
    }
    assert made["trainyard-operator"]["dnsNames"] == ["trainyard-operator.trainyard-system.svc"]
    assert made["trainyard-operator"]["secretName"] == "trainyard-operator-certificate"
    pod = graph[OPERATOR].inputs["spec"]["template"]["spec"]
    assert {"name": "certificate", "secret": {"secretName": "trainyard-operator-certificate"}} in pod[
        "volumes"
    ]
    (container,) = pod["containers"]
    folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert told(graph, tmp_path).cert_management.folder == folders["certificate"]
    for key in WEBHOOKS:
        annotations = graph[key].inputs["metadata"]["annotations"]
        assert annotations["cert-manager.io/inject-ca-from"] == "trainyard-system/trainyard-operator"
    everywhere = rules(graph, "ClusterRole", "trainyard-operator")
    assert [rule for rule in everywhere if rule[0] == "admissionregistration.k8s.io"] == []
    own = rules(graph, "Role", "trainyard-operator")
    assert [rule for rule in own if rule[1] == "secrets"] == []


@pytest.mark.usefixtures("pins")
def test_trainjobs_may_be_deleted_where_retention_is_asked_for_alone(minimal: Graph, tmp_path: Any) -> None:
    wanted = ("trainer.kubeflow.org", "trainjobs", "", "delete")
    on = stack(tmp_path, {"operator": {**MINIMAL["operator"], "retention": {}}})
    assert [wanted in rules(graph, "ClusterRole", "trainyard-operator") for graph in (on, minimal)] == [
        True,
        False,
    ]


PROTECTION = (
    "kubernetes:flowcontrol.apiserver.k8s.io/v1:FlowSchema flowschema-trainyard-operator",
    "kubernetes:flowcontrol.apiserver.k8s.io/v1:FlowSchema flowschema-trainyard-operator-lease",
    "kubernetes:networking.k8s.io/v1:NetworkPolicy networkpolicy-trainyard-system/trainyard",
    "kubernetes:policy/v1:PodDisruptionBudget poddisruptionbudget-trainyard-system/trainyard-operator",
    "kubernetes:scheduling.k8s.io/v1:PriorityClass priorityclass-trainyard-operator",
)


def protection(graph: Graph) -> set[str]:
    """What of the operator's protection there is; and whether its pods name the class."""
    pod = graph[OPERATOR].inputs["spec"]["template"]["spec"]
    return {key for key in PROTECTION if key in graph} | ({"class"} if "priorityClassName" in pod else set())


@pytest.mark.usefixtures("pins")
def test_what_protects_the_operator_is_there_unless_the_stack_leaves_it_out(tmp_path: Any) -> None:
    two = {**MINIMAL["operator"], "replicas": 2}
    assert protection(stack(tmp_path / "all", {"operator": two})) == {*PROTECTION, "class"}
    flows, network, budget, priority = set(PROTECTION[:2]), {PROTECTION[2]}, {PROTECTION[3]}, {PROTECTION[4]}
    for settings, left_out in (
        ({"operator": {**two, "flowSchemas": False}}, flows),
        ({"operator": two, "networkPolicies": False}, network),
        ({"operator": {**two, "disruptionBudget": False}}, budget),
        ({"operator": MINIMAL["operator"]}, budget),
        ({"operator": {**two, "priorityClass": False}}, {*priority, "class"}),
    ):
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        assert {*PROTECTION, "class"} - protection(stack(folder, settings)) == left_out


@pytest.mark.usefixtures("pins")
def test_only_the_ports_that_a_stack_has_served_are_open_and_only_in_namespaces_of_its_own(
    tmp_path: Any,
) -> None:
    def opened(graph: Graph) -> dict[str, list[int]]:
        found = [one.inputs for one in of_type(graph, "kubernetes:networking.k8s.io/v1:NetworkPolicy")]
        return {
            one["metadata"]["namespace"]: [
                port["port"] for rule in one["spec"]["ingress"] for port in rule["ports"]
            ]
            for one in found
        }

    gate = {"featureGates": {"TrainJobStatus": True}}
    everything = {
        "operator": {**MINIMAL["operator"], **gate},
        "kueue": {"enabled": True},
        "volcano": {"enabled": True},
        "coscheduling": {"enabled": True},
        "dataCache": {"enabled": True},
    }
    assert opened(stack(tmp_path / "all", everything)) == {
        "jobset-system": [9443, 8443],
        "kueue-system": [9443, 8082, 8443],
        "lws-system": [9443, 8443],
        "volcano-system": [8443, 8080, 8081],
        "scheduler-plugins": [8080, 10259],
        "trainyard-system": [9443, 10443, 8080],
    }
    least = {**MINIMAL, "admission": {"enabled": False}, "jobset": {"enabled": False}}
    assert opened(stack(tmp_path / "least", least)) == {"trainyard-system": [8080]}


@pytest.mark.usefixtures("pins")
def test_a_kubeconfig_in_the_home_folder_is_looked_for_in_that_of_whoever_rolls_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def named(home: str) -> Any:
        monkeypatch.setenv("HOME", home)
        graph = stack(tmp_path / home[1:], {**MINIMAL, "cluster": {"kubeconfig": "~/.kube/prod"}})
        return graph["pulumi:providers:kubernetes cluster"].inputs["kubeconfig"]

    assert named(pwd.getpwuid(os.getuid()).pw_dir) == "~/.kube/prod"
    assert named("/elsewhere") == "/elsewhere/.kube/prod", "the provider does not look there"


@pytest.mark.usefixtures("pins")
def test_a_stack_may_name_the_kubeconfig_and_its_context(tmp_path: Any) -> None:
    graph = stack(tmp_path, {**MINIMAL, "cluster": {"kubeconfig": "/etc/kube", "context": "gpu"}})
    provider = graph["pulumi:providers:kubernetes cluster"].inputs
    assert (provider["kubeconfig"], provider["context"]) == ("/etc/kube", "gpu")
    assert provider["clusterIdentifier"] == "sandbox", "the stack's name, where the settings give none"


@pytest.mark.usefixtures("pins")
def test_the_kubeconfig_of_the_environment_is_left_to_the_provider_which_copies_what_it_is_told(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/etc/kube")
    graph = stack(tmp_path, MINIMAL)
    assert graph["pulumi:providers:kubernetes cluster"].inputs["kubeconfig"] == ""


@pytest.mark.usefixtures("pins")
def test_a_wrong_setting_stops_the_program_before_it_registers_anything(tmp_path: Any) -> None:
    with pytest.raises(pulumi.RunError, match="did you mean operator"):
        stack(tmp_path, {"operater": {}})


EVERYTHING: dict[str, Any] = {
    **MINIMAL,
    "kueue": {"enabled": True},
    "volcano": {"enabled": True},
    "coscheduling": {"enabled": True},
    "dataCache": {"enabled": True},
    "nodePools": {
        "a": {
            "provider": "existing",
            "nodeLabels": {"gpu": "a"},
            "nodes": 1,
            "machine": {"cpu": "8", "memory": "64Gi"},
            "accelerator": {"type": "nvidia-a", "count": 1},
        }
    },
    "accelerators": {"nvidia": {"devicePlugin": "install"}},
}
FETCHED = {
    "store": {"name": "vault"},
    "data": {".dockerconfigjson": {"key": "platform/registry", "property": "config"}},
    "type": "kubernetes.io/dockerconfigjson",
}


@pytest.mark.usefixtures("pins")
def test_secrets_of_the_platforms_pods_are_fetched_into_each_of_their_namespaces(tmp_path: Any) -> None:
    controllers = {"pullSecrets": ["registry"], "externalSecrets": {"registry": FETCHED}}
    graph = stack(tmp_path, {**EVERYTHING, "controllers": controllers})
    found = of_type(graph, "kubernetes:external-secrets.io/v1:ExternalSecret")
    with_pods = {one.inputs["namespace"] for one in of_type(graph, CHARTS)} | {"trainyard-system"}
    assert {one.inputs["metadata"]["namespace"] for one in found} == with_pods
    for one in found:
        assert f"{NAMESPACE} {one.inputs['metadata']['namespace']}" in before(graph, one.key)
        assert one.inputs["spec"] == {
            "refreshInterval": "1h",
            "secretStoreRef": {"kind": "ClusterSecretStore", "name": "vault"},
            "target": {
                "name": "registry",
                "creationPolicy": "Owner",
                "template": {"type": "kubernetes.io/dockerconfigjson"},
            },
            "data": [
                {
                    "secretKey": ".dockerconfigjson",
                    "remoteRef": {"key": "platform/registry", "property": "config"},
                }
            ],
        }


CONTROLLERS = {
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    "priorityClass": "system-cluster-critical",
    "pullSecrets": ["registry"],
}
OF_PODS = {
    "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "imagePullSecrets": [{"name": "registry"}],
}


@pytest.mark.usefixtures("pins")
def test_all_pods_of_the_platform_run_and_are_pulled_as_the_stack_says(tmp_path: Any) -> None:
    graph = stack(tmp_path, {**EVERYTHING, "controllers": CONTROLLERS})
    charts = {one.name: one.inputs["postRenderer"]["args"] for one in of_type(graph, CHARTS)}
    assert charts.keys() == {
        *("jobset", "kueue", "volcano", "scheduler-plugins", "lws", "nvidia-device-plugin"),
    }
    told = {
        name: [json.loads(one[7:]) for one in args if one.startswith("--pods=")]
        for name, args in charts.items()
    }
    assert told == {name: [OF_PODS] for name in charts}
    own = {**OF_PODS, "priorityClassName": "trainyard-operator"}
    for key, wanted in ((OPERATOR, own), ("kubernetes:batch/v1:Job volcano-admission-init", OF_PODS)):
        pod = graph[key].inputs["spec"]["template"]["spec"]
        assert {name: pod.get(name) for name in OF_PODS} == wanted


@pytest.mark.usefixtures("pins")
def test_the_operators_pods_have_the_stacks_priority_where_they_have_none_of_their_own(tmp_path: Any) -> None:
    operator = {**MINIMAL["operator"], "priorityClass": False}
    graph = stack(tmp_path, {"operator": operator, "controllers": CONTROLLERS})
    pod = graph[OPERATOR].inputs["spec"]["template"]["spec"]
    assert pod["priorityClassName"] == "system-cluster-critical"


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize(
    ("says", "told"),
    [({}, ["--budgets", "--restricted"]), ({"disruptionBudgets": False}, ["--restricted"])],
)
def test_a_stack_that_says_nothing_of_pods_changes_nothing_in_them(
    tmp_path: Any, says: dict[str, Any], told: list[str]
) -> None:
    for chart in of_type(stack(tmp_path, {**EVERYTHING, "controllers": says}), CHARTS):
        wanted = [one for one in told if one != "--restricted" or chart.name != "nvidia-device-plugin"]
        assert [one for one in chart.inputs["postRenderer"]["args"] if one.startswith("--")] == wanted


@pytest.mark.usefixtures("pins")
def test_a_chart_has_further_values_of_the_stacks_where_the_platform_states_none(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr("pulumi.log.warn", warned.append)
    manager = {"logLevel": 4, "image": {"tag": "own"}}
    said = {
        "kueue": {"enabled": True, "values": {"controllerManager": {"manager": manager}}},
        "volcano": {"enabled": True, "values": {"custom": {"scheduler_log_level": 5}}},
        "coscheduling": {"enabled": True, "values": {"pluginConfig": []}},
        "jobset": {"values": {"commonLabels": {"team": "platform"}}},
    }
    graph = stack(tmp_path, {**MINIMAL, **said})
    values = {name: graph[f"{CHARTS} {name}"].inputs["values"] for name in ("jobset", "kueue", "volcano")}
    assert values["kueue"]["controllerManager"]["manager"]["logLevel"] == 4
    assert values["kueue"]["controllerManager"]["manager"]["image"]["tag"] == "v0.19.0"
    assert values["volcano"]["custom"]["scheduler_log_level"] == 5
    assert values["volcano"]["custom"]["scheduler_replicas"] == 1
    assert values["jobset"]["commonLabels"] == {"team": "platform"}
    assert graph[f"{CHARTS} scheduler-plugins"].inputs["values"]["pluginConfig"] == []
    assert warned == [
        "trainyard:platform.kueue.values.controllerManager.manager.image.tag: the platform sets "
        "this value itself, and its own takes precedence: remove the line"
    ]


@pytest.mark.usefixtures("pins")
def test_of_several_replicas_of_a_gangs_scheduler_one_leads(tmp_path: Any) -> None:
    several = {part: {"enabled": True, "replicas": 2} for part in ("volcano", "coscheduling")}
    graph = stack(tmp_path, {**MINIMAL, **several})
    volcano = graph[f"{CHARTS} volcano"].inputs["values"]["custom"]
    assert {key: volcano[key] for key in volcano if "replicas" in key or "leader" in key} == {
        "admission_replicas": 2,
        "controller_replicas": 2,
        "scheduler_replicas": 2,
        "leader_elect_enable": True,
    }
    coscheduling = graph[f"{CHARTS} scheduler-plugins"].inputs["values"]
    for part in ("scheduler", "controller"):
        assert (coscheduling[part]["replicaCount"], coscheduling[part]["leaderElect"]) == (2, True)


@pytest.mark.usefixtures("pins")
def test_namespaces_of_the_platforms_pods_hold_them_to_restricted_but_for_device_plugins(
    tmp_path: Any,
) -> None:
    graph = stack(tmp_path, EVERYTHING)
    with_pods = {one.inputs["namespace"] for one in of_type(graph, CHARTS)} | {"trainyard-system"}
    levels = {
        name: graph[f"{NAMESPACE} {name}"].inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
        for name in with_pods
    }
    assert levels == {
        name: "privileged" if name == "trainyard-accelerators" else "restricted" for name in with_pods
    }


@pytest.mark.usefixtures("pins")
def test_the_people_of_a_tenant_may_see_the_flavors_of_its_pools(tmp_path: Path) -> None:
    machine = {"cpu": "8", "memory": "64Gi"}
    pool = {"provider": "kwok", "nodes": 1, "machine": machine, "quota": [{"clusterQueue": "team"}]}
    said = {
        **MINIMAL,
        "kueue": {"enabled": True},
        "nodePools": {"large": pool},
        "queues": {"clusterQueues": {"team": {}}},
        "tenants": {"vision": {"clusterQueue": "team", "viewers": [{"name": "vision"}]}},
    }
    graph = stack(tmp_path, said)
    [role] = [one for one in graph.values() if one.name == "clusterrole-trainyard-queue-viewer-vision"]
    seen = {rule["resources"][0]: rule["resourceNames"] for rule in role.inputs["rules"]}
    assert seen == {"clusterqueues": ["team"], "resourceflavors": ["large"]}


@pytest.mark.usefixtures("pins")
def test_a_storage_class_is_replaced_where_the_api_server_would_refuse_to_change_it(tmp_path: Path) -> None:
    graph = stack(tmp_path, {**MINIMAL, "storage": {"shared": {"provisioner": "efs.csi.aws.com"}}})
    [made] = of_type(graph, "kubernetes:storage.k8s.io/v1:StorageClass")
    assert (made.replaced_on, made.deleted_first) == (("reclaimPolicy", "volumeBindingMode"), True)


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize("said", [None, {"uid": "a", "server": "https://a"}])
def test_the_state_keeps_which_cluster_the_stack_is_rolled_out_to_if_somebody_has_seen_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    exported: dict[str, Any] = {}
    monkeypatch.setattr(pulumi, "export", exported.__setitem__)
    if said is not None:
        monkeypatch.setenv("TRAINYARD_CLUSTER_IDENTITY", json.dumps(said))
    stack(tmp_path, MINIMAL)
    assert exported.get("clusterIdentity") == said
