"""Kubeflow Trainer's own controller beside the platform, from its own manifests, in a pod."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.support.cluster import Cluster, from_this_machine
from tests.support.patience import STARTED, eventually
from trainyard_platform.parts.policies.manifests import PAST_THE_WEBHOOK
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.toolchain import Toolchain, artifacts_dir, tools

NAMESPACE = "kubeflow-system"
CONTROLLER = "kubeflow-trainer-controller-manager"
TOOL = "trainer-controller"


@contextmanager
def installed(platform: Cluster, folder: Path) -> Iterator[Cluster]:
    """The cluster as whoever has Trainer sees it: its controller works, and its webhooks are asked.

    In the end it is taken away, but for what the platform has too. The webhooks that the platform has beside
    Trainer's own go first: Trainer keeps them, and writes its authority into them, which ours has not signed.
    So does the policy that lets nothing in past them, which is not on a cluster that has Trainer alone.
    """
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(_kustomization(base(), folder)))
    manifests = platform.kubectl("kustomize", str(folder))
    trainer = platform.within(NAMESPACE)
    validator = ("validatingwebhookconfiguration", "validator.trainer.kubeflow.org")
    platform.kubectl("delete", "--ignore-not-found", *validator)
    platform.kubectl("delete", "--ignore-not-found", "validatingadmissionpolicybinding", PAST_THE_WEBHOOK)
    try:
        trainer.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
        trainer.kubectl("rollout", "status", f"deployment/{CONTROLLER}", f"--timeout={STARTED}")
        eventually("it has taken its Lease", lambda: holder(trainer).startswith(CONTROLLER))
        eventually("its webhooks answer", lambda: _answers(platform))
        yield trainer
    finally:
        shared = ("ClusterTrainingRuntime", "WebhookConfiguration", "-public", "kind: Namespace")
        own = [text for text in manifests.split("\n---\n") if not any(word in text for word in shared)]
        trainer.kubectl("delete", "--ignore-not-found", "-f", "-", stdin="\n---\n".join(own))
        trainer.kubectl("delete", "--ignore-not-found", "configmap/trainyard-adoption")
        trainer.kubectl("delete", "--ignore-not-found", "lease/trainer.kubeflow.org")


def base() -> Path:
    """Trainer's own manifests; they come with its controller, which is built if it is not there."""
    Toolchain([TOOL]).build(Progress())
    return artifacts_dir() / TOOL / tools()[TOOL].version / "manifests" / "base"


def holder(trainer: Cluster) -> str:
    """Who holds the Lease of Trainer's controller, empty for nobody."""
    lease = trainer.get("lease", "trainer.kubeflow.org") or {}
    return str(lease.get("spec", {}).get("holderIdentity") or "")


def _answers(platform: Cluster) -> bool:
    """Only the answer of a webhook says that there is no such runtime."""
    asks = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "asks"},
        "spec": {"runtimeRef": {"name": "nobody-has-made-this-runtime"}},
    }
    said = platform.run(
        "kubectl", "create", "--dry-run=server", "-f", "-", check=False, stdin=yaml.safe_dump(asks)
    )
    return "nobody-has-made-this-runtime" in said.stderr


def _kustomization(base: Path, folder: Path) -> dict[str, object]:
    """Trainer's overlay for a cluster that has CRDs and JobSet; its binary comes from this machine."""
    runs = from_this_machine(CONTROLLER, Toolchain([TOOL]).binary("trainer-controller-manager"))
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "namespace": NAMESPACE,
        "resources": [os.path.relpath(base / part, folder) for part in ("manager", "rbac", "webhook")],
        "secretGenerator": [
            {"name": "kubeflow-trainer-webhook-cert", "options": {"disableNameSuffixHash": True}}
        ],
        "configMapGenerator": [
            {
                "name": "kubeflow-trainer-public",
                "literals": ["kubeflow_trainer_version=v2.3.0"],
                "options": {"disableNameSuffixHash": True},
            }
        ],
        "patches": [{"patch": yaml.safe_dump(runs)}],
    }
