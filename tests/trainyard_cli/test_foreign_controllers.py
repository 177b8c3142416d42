"""Controllers of the cluster that a stack would overwrite."""

from typing import Any

import pytest

from tests.support.fake_api import FakeApi, run
from trainyard_cli.cluster import foreign_controllers
from trainyard_delivery.drift.verdicts import Ref

KUEUE = Ref("apps/v1", "Deployment", "kueue-system", "kueue-controller-manager")
NAMESPACE = Ref("v1", "Namespace", "", "kueue-system")
JOBSETS = Ref("v1", "Namespace", "", "jobset-system")
OTHERS = Ref("v1", "Namespace", "", "elsewhere")
PATHS = {
    KUEUE: "/apis/apps/v1/namespaces/kueue-system/deployments/kueue-controller-manager",
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
            return await foreign_controllers.refusals(client, list(PATHS))

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


@pytest.mark.parametrize("manager", ["pulumi-kubernetes-1a2b3c4d", "trainyard-platform"])
def test_what_the_platform_created_is_taken_over_though_no_state_has_it(manager: str) -> None:
    labels = {"app.kubernetes.io/managed-by": "Helm"}
    assert refused({KUEUE: by("kube-controller-manager", manager, labels=labels)}) == []
    assert refused({}) == []
