"""Stacks for clusters of others, previewed by the real engine with the real charts: what no mock shows."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.checked_in import hold
from tests.support.cluster import Cluster, Object, sandbox_of_its_own
from trainyard_platform.stack import chart_values
from trainyard_sandbox.paths import PROJECT

pytestmark = pytest.mark.sandbox(area="platform")

USERS = re.compile(r'"(runAsUser|runAsGroup|fsGroup|supplementalGroups|seLinuxOptions)"')
WITH_PODS = ("Deployment", "DaemonSet", "StatefulSet", "Job", "ClusterTrainingRuntime")


@pytest.fixture(scope="module")
def empty() -> Iterator[Cluster]:
    """A cluster without a platform: what is there already would be compared with."""
    with sandbox_of_its_own("empty", "--control-plane-only") as cluster:
        yield cluster


def preview(empty: Cluster, stack: str, folder: Path, **more: Any) -> list[Object]:
    """What `pulumi up` would make of a stack file that says more, with the sandbox's charts."""
    document = yaml.safe_load((PROJECT / "stacks" / f"Pulumi.{stack}.yaml").read_text())
    artifacts = {"source": "folder", "folder": str(PROJECT / ".sandbox" / "artifacts")}
    document["config"]["trainyard:platform"] |= {"artifacts": artifacts, **more}
    file = folder / f"Pulumi.{stack}.yaml"
    file.write_text(yaml.safe_dump(document))
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "trainyard", "runtime": "python"}))
    (folder / "state").mkdir()
    settings = (f"PULUMI_BACKEND_URL=file://{folder}/state", f"PULUMI_OPTION_CONFIG_FILE={file}")
    pulumi = ("env", *settings, "pulumi")
    empty.run(*pulumi, "stack", "init", stack, "--non-interactive", "--cwd", str(folder))
    answer = empty.run(*pulumi, "preview", "--stack", stack, "--json", "--non-interactive")
    return [step["newState"] for step in json.loads(answer.stdout)["steps"] if step["op"] == "create"]


def with_pods(resources: list[Object]) -> Iterator[Object]:
    for one in resources:
        if one["type"].rpartition(":")[2] in WITH_PODS:
            yield one


def test_a_stack_on_premises_is_previewed_down_to_what_its_charts_hold(
    empty: Cluster, tmp_path: Path
) -> None:
    controllers = {
        "nodeSelector": {"pool": "control"},
        "tolerations": [{"key": "control", "operator": "Exists"}],
        "priorityClass": "system-cluster-critical",
        "pullSecrets": ["registry"],
    }
    resources = preview(empty, "onprem", tmp_path, controllers=controllers)
    names = {one["inputs"]["metadata"]["name"] for one in with_pods(resources)}
    assert {"jobset-controller", "kueue-controller-manager", "trainyard-operator"} <= names
    assert any(USERS.search(json.dumps(one["inputs"])) for one in with_pods(resources)), "users are named"
    kinds = {
        (one["type"].rpartition(":")[2], one["inputs"]["metadata"]["name"])
        for one in resources
        if "metadata" in one.get("inputs", {})
    }
    assert {name for kind, name in kinds if kind == "PodDisruptionBudget"} == {
        "kueue-controller-manager",
        "trainyard-operator",
    }
    for one in with_pods(resources):
        if one["type"].endswith("ClusterTrainingRuntime"):
            continue
        pod = one["inputs"]["spec"]["template"]["spec"]
        assert {"name": "registry"} in pod["imagePullSecrets"], one["urn"]
        if not one["type"].endswith("DaemonSet"):
            assert pod["nodeSelector"]["pool"] == "control", one["urn"]
            assert {"key": "control", "operator": "Exists"} in pod["tolerations"], one["urn"]
            assert pod["priorityClassName"] in ("system-cluster-critical", "trainyard-operator"), one["urn"]


EVERYTHING = {
    "volcano": {"enabled": True, "replicas": 2},
    "coscheduling": {"enabled": True, "replicas": 2},
    "observability": {"enabled": True},
    "accelerators": {},
    "nodePools": {},
}
"""All that has pods, but for what the sandbox has no chart of: device plugins and LeaderWorkerSet."""


def too_much(pod: Object) -> list[str]:
    """What the Pod Security level `restricted` refuses of a pod. Source: Pod Security Standards."""
    context = pod.get("securityContext") or {}
    containers = [*pod.get("initContainers", ()), *pod["containers"]]
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC") if pod.get(field)]
    found += [f"volume {one['name']}" for one in pod.get("volumes", ()) if "hostPath" in one]
    for one in containers:
        own = one.get("securityContext") or {}
        said = {**context, **own}
        capabilities = own.get("capabilities") or {}
        allowed = {
            "runAsNonRoot": said.get("runAsNonRoot") is True and said.get("runAsUser") != 0,
            "seccompProfile": (said.get("seccompProfile") or {}).get("type")
            in ("RuntimeDefault", "Localhost"),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "capabilities": "ALL" in capabilities.get("drop", ())
            and {*(capabilities.get("add") or ())} <= {"NET_BIND_SERVICE"},
            "privileged": not own.get("privileged"),
            "hostPort": not any(port.get("hostPort") for port in one.get("ports", ())),
        }
        found += [f"{one['name']}.{field}" for field, fine in allowed.items() if not fine]
    return found


def test_the_values_that_charts_know_are_recorded_as_they_are(empty: Cluster) -> None:
    folder = PROJECT / ".sandbox" / "artifacts"
    found = {}
    for artifact in chart_values.CHARTS.values():
        (values,) = folder.glob(f"{artifact}/*/chart/values.yaml")
        found[artifact] = chart_values.tree(yaml.safe_load(values.read_text()))
    hold(chart_values.FILE, chart_values.text(found))


def test_every_pod_of_a_whole_stack_passes_restricted_and_every_namespace_of_theirs_is_closed(
    empty: Cluster, tmp_path: Path
) -> None:
    resources = preview(empty, "onprem", tmp_path, **EVERYTHING)
    pods = {
        f"{one['inputs']['metadata']['namespace']}/{one['inputs']['metadata']['name']}": one["inputs"][
            "spec"
        ]["template"]["spec"]
        for one in with_pods(resources)
        if not one["type"].endswith("ClusterTrainingRuntime")
    }
    assert {name.partition("/")[0] for name in pods} == {
        *("jobset-system", "kueue-system", "scheduler-plugins", "trainyard-system", "volcano-system"),
    }
    assert {name: found for name, pod in pods.items() if (found := too_much(pod))} == {}

    def of(kind: str) -> list[Object]:
        return [one["inputs"] for one in resources if one["type"].endswith(f":{kind}")]

    closed = {one["metadata"]["namespace"] for one in of("NetworkPolicy")}
    assert {name.partition("/")[0] for name in pods} <= closed
    several = {
        one["metadata"]["name"]: one["spec"]["selector"]
        for one in of("Deployment")
        if one["spec"].get("replicas", 1) > 1
    }
    assert len(several) >= 7
    spared = [one["spec"]["selector"] for one in of("PodDisruptionBudget")]
    assert [name for name, selector in several.items() if selector not in spared] == []


def test_on_openshift_nothing_names_a_user_down_to_what_its_charts_hold(
    empty: Cluster, tmp_path: Path
) -> None:
    resources = preview(empty, "openshift", tmp_path)
    names = {one["inputs"]["metadata"]["name"] for one in with_pods(resources)}
    assert {"jobset-controller", "trainyard-operator", "volcano-scheduler", "volcano-admission-init"} <= names
    named = {
        one["urn"]: found.group()
        for one in with_pods(resources)
        if (found := USERS.search(json.dumps(one["inputs"])))
    }
    assert named == {}
