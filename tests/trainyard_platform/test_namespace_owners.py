"""Whose a namespace is that a tenant is to be given."""

from typing import Any

import pytest

from trainyard_platform.parts.tenants import owners as namespace_owners


def namespace(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "web", **metadata}}


@pytest.mark.parametrize(
    ("found", "owner"),
    [
        (namespace(annotations={"meta.helm.sh/release-name": "shop"}), "Helm's release shop"),
        (namespace(annotations={"argocd.argoproj.io/tracking-id": "a:/b"}), "Argo CD (a:/b)"),
        (namespace(labels={"argocd.argoproj.io/instance": "shop"}), "Argo CD's application shop"),
        (namespace(labels={"kustomize.toolkit.fluxcd.io/name": "apps"}), "Flux's Kustomization apps"),
        (namespace(labels={"app.kubernetes.io/managed-by": "Terraform"}), "Terraform"),
        (namespace(ownerReferences=[{"kind": "Workspace", "name": "w"}]), "Workspace w"),
        (namespace(), ""),
        (namespace(labels={"kubernetes.io/metadata.name": "web"}, annotations={"a": "b"}), ""),
        (namespace(labels={"app.kubernetes.io/managed-by": "kustomize"}), ""),
        (
            namespace(labels={"trainyard.dev/tenant": "web", "app.kubernetes.io/managed-by": "Helm"}),
            "",
        ),
    ],
)
def test_who_keeps_a_namespace_is_told_by_what_tools_write_on_it(found: dict[str, Any], owner: str) -> None:
    assert namespace_owners.owner(found) == owner
