"""Controllers of the cluster that a stack would overwrite."""

from typing import Any

import pytest

from tests.support.fake_api import FakeApi, run
from trainyard_cli.cluster import foreign_controllers
from trainyard_delivery.drift.verdicts import Ref

KUEUE = Ref("apps/v1", "Deployment", "kueue-system", "kueue-controller-manager")
OPERATOR = Ref("apps/v1", "Deployment", "trainyard-system", "trainyard-operator")
NAMESPACE = Ref("v1", "Namespace", "", "kueue-system")
JOBSETS = Ref("v1", "Namespace", "", "jobset-system")
OTHERS = Ref("v1", "Namespace", "", "elsewhere")
WEBHOOKS = Ref(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "",
    "jobset-validating-webhook-configuration",
)
PATHS = {
    KUEUE: "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager",
    OPERATOR: "/apis/apps/v1/namespaces/trainyard-system/deployments/trainyard-operator",
    WEBHOOKS: f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{WEBHOOKS.name}",
    **{ref: f"/api/v1/namespaces/{ref.name}" for ref in (NAMESPACE, JOBSETS, OTHERS)},
}
RELEASE = {"annotations": {"meta.helm.sh/release-name": "kueue"}, "managedFields": [{"manager": "helm"}]}


def by(*managers: str, **metadata: Any) -> dict[str, Any]:
    return {**metadata, "managedFields": [{"manager": manager} for manager in managers]}


def refused(live: dict[Ref, dict[str, Any]]) -> list[str]:
    api = FakeApi()
    for ref, metadata in live.items():
        api.put(PATHS[ref], {"metadata": metadata})

    async def test() -> list[str]:
        async with api.client() as client:
            return await foreign_controllers.refusals(client, list(PATHS), "prod")

    return run(test)


def test_somebody_elses_controller_is_refused_with_the_setting_that_keeps_it() -> None:
    live = {KUEUE: RELEASE, NAMESPACE: by("kubectl-create"), JOBSETS: by("argocd"), OTHERS: {}}
    overwritten = (
        "The roll-out would overwrite what the stack also has, and the removal of the stack would delete it. "
    )
    assert refused(live) == [
        "refused: the cluster already has Namespace/elsewhere, of somebody else. "
        f'{overwritten}To take it over, run `up` with --replace "Namespace/elsewhere"',
        "refused: the cluster already has Namespace/jobset-system, of argocd. "
        f"{overwritten}If the cluster is to keep it, set jobset.enabled: false in the stack file. "
        'To take it over, run `up` with --replace "Namespace/jobset-system"',
        "refused: the cluster already has Namespace/kueue-system and "
        "Deployment/kueue-system/kueue-controller-manager, of Helm's release kueue and kubectl-create. "
        f"{overwritten}If the cluster is to keep it, set kueue.controller: existing in the stack file. "
        'To take it over, run `up` with --replace "Namespace/kueue-system '
        'Deployment/kueue-system/kueue-controller-manager"',
    ]


def test_the_webhooks_of_a_jobset_in_another_namespace_are_refused_with_the_setting_that_keeps_it() -> None:
    owned = {"annotations": {"meta.helm.sh/release-name": "trainer"}, "managedFields": [{"manager": "helm"}]}
    assert refused({WEBHOOKS: owned}) == [
        f"refused: the cluster already has {WEBHOOKS.key}, of Helm's release trainer. The roll-out would "
        "overwrite what the stack also has, and the removal of the stack would delete it. If the cluster is "
        "to keep it, set jobset.enabled: false in the stack file. To take it over, run `up` with --replace "
        f'"{WEBHOOKS.key}"'
    ]


@pytest.mark.parametrize("manager", ["pulumi-kubernetes-1a2b3c4d", "trainyard-platform"])
def test_what_the_platform_created_is_taken_over_though_no_state_has_it(manager: str) -> None:
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    assert refused({KUEUE: by("kube-controller-manager", manager, labels=labels)}) == []
    assert refused({}) == []


def of_stack(annotations: dict[str, str] | None) -> dict[Ref, dict[str, Any]]:
    """The cluster's operator, as a roll-out created it."""
    return {OPERATOR: by("pulumi-kubernetes-1a2b3c4d", annotations=annotations)}


def test_the_platform_of_another_stack_is_refused_with_the_ways_to_the_right_cluster_or_stack() -> None:
    assert refused(of_stack({"trainyard.dev/stack": "dev"})) == [
        "refused: this cluster has the platform of the stack dev, and the roll-out would replace it with the "
        "platform of prod. If this is the wrong cluster, select the right one in the kubeconfig: kubectl "
        "config use-context NAME. Otherwise, first remove the platform: trainyard destroy --stack dev. If "
        "Pulumi's state of dev is lost, run `up` with --replace "
        '"Deployment/trainyard-system/trainyard-operator"'
    ]


@pytest.mark.parametrize("annotations", [{"trainyard.dev/stack": "prod"}, {}, None])
def test_the_platform_of_this_stack_and_one_that_names_no_stack_are_taken_over(
    annotations: dict[str, str] | None,
) -> None:
    assert refused(of_stack(annotations)) == []
