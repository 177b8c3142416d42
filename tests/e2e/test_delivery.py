"""Delivery: the workflows are well formed, and the `make` targets that they call do their work."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.patience import eventually
from trainyard_sandbox.paths import PROJECT
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.toolchain import Toolchain

pytestmark = pytest.mark.sandbox(area="platform")

WORKFLOWS = PROJECT / ".github" / "workflows"
KUBEFLOW = "kubeflow-system"


@pytest.fixture(scope="module")
def actionlint() -> str:
    toolchain = Toolchain(["actionlint"])
    toolchain.build(Progress())
    return str(toolchain.binary("actionlint"))


def complaints(actionlint: str, folder: Path) -> str:
    """What actionlint says about the workflows of a repository, with none of the tools that it may find."""
    files = sorted(str(path) for path in (folder / ".github" / "workflows").iterdir())
    command = [actionlint, "-shellcheck=", "-pyflakes=", "-no-color", *files]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode in (0, 1), answer.stderr
    return answer.stdout


def test_actionlint_finds_nothing_in_the_workflows(actionlint: str) -> None:
    assert complaints(actionlint, PROJECT) == ""


def test_actionlint_would_find_a_mistake_in_them(actionlint: str, tmp_path: Path) -> None:
    shutil.copytree(PROJECT / ".github", tmp_path / ".github")
    (tmp_path / ".git").mkdir()
    flow = tmp_path / ".github" / "workflows" / "deploy.yml"
    text = flow.read_text()
    flow.write_text(text.replace("needs: stacks", "needs: stack").replace("kubeconfig:", "kubconfig:"))
    said = complaints(actionlint, tmp_path)
    assert 'job "up" needs job "stack" which does not exist' in said
    assert 'input "kubconfig" is not defined in action "Pulumi"' in said


@pytest.fixture
def refusals(platform: Cluster) -> Iterator[None]:
    """Kubeflow's namespace is full of ConfigMaps, and the webhook of WorkloadPriorityClasses is down."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "full", "namespace": KUBEFLOW},
        "spec": {"hard": {"count/configmaps": "1"}},
    }
    webhook = {
        "name": "nobody.trainyard.example",
        "clientConfig": {"service": {"namespace": "default", "name": "nobody"}},
        "rules": [
            {
                "apiGroups": ["kueue.x-k8s.io"],
                "apiVersions": ["*"],
                "operations": ["CREATE"],
                "resources": ["workloadpriorityclasses"],
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "down"},
        "webhooks": [webhook],
    }
    kubeflow = platform.within(KUBEFLOW)
    try:
        platform.apply(quota)
        platform.apply(configuration)
        eventually(
            "the quota is counted",
            lambda: (kubeflow.get("resourcequota", "full") or {}).get("status", {}).get("hard"),
        )
        yield
    finally:
        platform.kubectl("delete", "validatingwebhookconfiguration", "down", "--ignore-not-found")
        kubeflow.kubectl("delete", "resourcequota", "full", "--ignore-not-found")


def test_what_a_quota_and_a_webhook_that_is_down_refuse_is_named_and_the_next_up_makes_it(
    platform: Cluster, refusals: None
) -> None:
    kubeflow = platform.within(KUBEFLOW)
    kubeflow.kubectl("delete", "configmap", "kubeflow-trainer-public")
    platform.kubectl("delete", "workloadpriorityclass", "low")
    answer = platform.run("make", "up", "STACK=sandbox", check=False)
    kubeflow.kubectl("delete", "resourcequota", "full")
    platform.kubectl("delete", "validatingwebhookconfiguration", "down")
    platform.run("make", "up", "STACK=sandbox")
    said = answer.stdout + answer.stderr
    assert answer.returncode != 0, said
    assert 'configmaps "kubeflow-trainer-public" is forbidden: exceeded quota: full' in said, said
    assert 'failed calling webhook "nobody.trainyard.example"' in said, said
    assert kubeflow.get("configmap", "kubeflow-trainer-public") is not None
    assert platform.get("workloadpriorityclass", "low") is not None


def test_a_target_that_needs_a_stack_says_so(platform: Cluster) -> None:
    answer = platform.run("make", "preview", check=False)
    assert answer.returncode != 0
    assert "Say which stack: make preview STACK=name" in answer.stderr
