"""A chart's webhooks come after its controller and go before it."""

import json
import subprocess
import sys
from typing import Any

import yaml

from trainyard_platform.charts import order as chart_order

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "c", "namespace": "n"}}


def webhook(kind: str, metadata: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata}


def secret(**content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, **content}


def test_webhooks_wait_for_the_deployments_and_for_their_ca() -> None:
    given = [
        webhook("MutatingWebhookConfiguration", {"name": "m", "annotations": None}),
        webhook("ValidatingWebhookConfiguration", {"name": "v", "annotations": {"a": "b"}}),
        DEPLOYMENT,
    ]
    waits = {
        "config.kubernetes.io/depends-on": "apps/namespaces/n/Deployment/c",
        "pulumi.com/waitFor": "jsonpath={.webhooks[*].clientConfig.caBundle}",
    }
    assert chart_order.order(given) == [
        webhook("MutatingWebhookConfiguration", {"name": "m", "annotations": waits}),
        webhook("ValidatingWebhookConfiguration", {"name": "v", "annotations": {"a": "b", **waits}}),
        DEPLOYMENT,
    ]


def test_an_api_waits_for_the_deployments_that_serve_it() -> None:
    api = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "a"}}
    [_, ordered] = chart_order.order([DEPLOYMENT, api])
    assert ordered["metadata"]["annotations"] == {
        "config.kubernetes.io/depends-on": "apps/namespaces/n/Deployment/c",
        "pulumi.com/waitFor": "condition=Available",
    }


def test_a_controller_behind_webhooks_answers_for_a_moment_after_it_is_told_to_end() -> None:
    def controller(**lifecycle: Any) -> dict[str, Any]:
        containers = [{"name": "a", **lifecycle}]
        return {**DEPLOYMENT, "spec": {"template": {"spec": {"containers": containers}}}}

    hook = webhook("ValidatingWebhookConfiguration", {"name": "v"})
    waits = {"lifecycle": {"preStop": {"sleep": {"seconds": 3}}}}
    own = {"lifecycle": {"preStop": {"sleep": {"seconds": 9}}}}
    assert chart_order.drained([controller(), controller(**own), hook]) == [
        controller(**waits),
        controller(**own),
        hook,
    ]
    assert chart_order.drained([controller()]) == [controller()]


def test_a_charts_crds_are_left_out_and_what_is_named() -> None:
    def one(kind: str, name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}

    given = [
        one("CustomResourceDefinition", "a"),
        one("ClusterRole", "x-rayjob-viewer-role"),
        one("ClusterRole", "x-trainjob-viewer-role"),
        one("Role", "x-rayjob-viewer-role"),
    ]
    assert chart_order.without(given, ["ClusterRole/*-rayjob-*"]) == given[2:]


def test_a_secret_that_the_controller_fills_states_nothing() -> None:
    given = [secret(data={"ca.crt": "", "tls.key": None}), secret(data={"a": "Yg=="}), secret()]
    assert chart_order.order(given) == [secret(), secret(data={"a": "Yg=="}), secret()]


def workload(kind: str, **pod: Any) -> dict[str, Any]:
    metadata = {"name": "c", "namespace": "n"}
    return {"apiVersion": "x/v1", "kind": kind, "metadata": metadata, "spec": {"template": {"spec": pod}}}


PODS = {
    "nodeSelector": {"pool": "control"},
    "tolerations": [{"key": "control", "operator": "Exists"}],
    "priorityClassName": "system-cluster-critical",
    "imagePullSecrets": [{"name": "registry"}],
}


def test_pods_get_what_the_stack_says_beside_what_the_chart_says_or_in_its_place() -> None:
    theirs = {
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "own"}, {"key": "control", "operator": "Exists"}],
        "priorityClassName": "low",
        "imagePullSecrets": None,
        "containers": [],
    }
    given = [
        workload("Deployment", **theirs),
        workload("Job"),
        workload("StatefulSet"),
        workload("DaemonSet"),
    ]
    assert chart_order.placed(given, PODS) == [
        workload(
            "Deployment",
            nodeSelector={"kubernetes.io/os": "linux", "pool": "control"},
            tolerations=theirs["tolerations"],
            priorityClassName="system-cluster-critical",
            imagePullSecrets=[{"name": "registry"}],
            containers=[],
        ),
        workload("Job", **PODS),
        workload("StatefulSet", **PODS),
        workload("DaemonSet", imagePullSecrets=[{"name": "registry"}]),
    ]


def deployment(name: str, replicas: int | None) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "labels": {"a": "b"}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def budget(name: str, selected: str) -> dict[str, Any]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": selected}}}
    metadata = {"name": name, "namespace": "n"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def test_drains_take_one_pod_at_a_time_of_what_has_several_and_no_budget_of_the_charts() -> None:
    given = [
        deployment("two", 2),
        deployment("one", 1),
        deployment("default", None),
        deployment("theirs", 3),
        budget("own", "theirs"),
        secret(),
    ]
    assert chart_order.budgeted(given) == [*given, budget("two", "two")]


def test_pods_say_what_the_level_restricted_wants_to_read_and_keep_what_is_stricter() -> None:
    habit = {"capabilities": {"add": ["DAC_OVERRIDE"], "drop": ["ALL"]}, "readOnlyRootFilesystem": True}
    profile = {"seccompProfile": {"type": "Localhost", "localhostProfile": "own"}, "runAsUser": 1000}
    given = [
        workload("Deployment", containers=[{"name": "says nothing"}]),
        workload(
            "Job",
            securityContext=profile,
            initContainers=[{"name": "first"}],
            containers=[{"name": "main", "securityContext": habit}],
        ),
        secret(),
    ]
    none = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert chart_order.restricted(given) == [
        workload(
            "Deployment",
            securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            containers=[{"name": "says nothing", "securityContext": none}],
        ),
        workload(
            "Job",
            securityContext={**profile, "runAsNonRoot": True},
            initContainers=[{"name": "first", "securityContext": none}],
            containers=[{"name": "main", "securityContext": {**none, "readOnlyRootFilesystem": True}}],
        ),
        secret(),
    ]


def test_other_objects_pass_unchanged() -> None:
    assert chart_order.order([DEPLOYMENT]) == [DEPLOYMENT]


def test_helm_can_run_it_by_its_path() -> None:
    text = yaml.safe_dump_all([DEPLOYMENT, secret(data={"a": ""})]) + "---\n"
    command = [sys.executable, "-P", chart_order.__file__]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    assert list(yaml.safe_load_all(done.stdout)) == [DEPLOYMENT, secret()]
    arguments = [f"--pods={json.dumps(PODS)}", "--budgets", "Secret/*", "Role/*"]
    text = yaml.safe_dump_all([workload("Job"), secret()])
    done = subprocess.run([*command, *arguments], input=text, capture_output=True, text=True, check=True)
    assert list(yaml.safe_load_all(done.stdout)) == [workload("Job", **PODS)]
    text = yaml.safe_dump_all([workload("Job", containers=[])])
    done = subprocess.run([*command, "--restricted"], input=text, capture_output=True, text=True, check=True)
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert list(yaml.safe_load_all(done.stdout)) == [workload("Job", containers=[], securityContext=context)]
