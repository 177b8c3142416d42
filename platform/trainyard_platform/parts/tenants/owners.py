"""Who owns a namespace that is to become a tenant's: pure.

A roll-out would silently take it over. Two tools would then write into one
namespace, and the tenant's limits and network policy would apply to what was
never made for them.
"""

from __future__ import annotations

from typing import Final

from trainyard_api import names
from trainyard_api.json_types import Json

_MARKS: Final = (
    ("annotations", "meta.helm.sh/release-name", "Helm's release {}"),
    ("annotations", "argocd.argoproj.io/tracking-id", "Argo CD ({})"),
    ("labels", "argocd.argoproj.io/instance", "Argo CD's application {}"),
    ("labels", "kustomize.toolkit.fluxcd.io/name", "Flux's Kustomization {}"),
    ("labels", "helm.toolkit.fluxcd.io/name", "Flux's HelmRelease {}"),
    ("annotations", "objectset.rio.cattle.io/id", "Rancher ({})"),
    ("labels", "kapp.k14s.io/app", "kapp's app {}"),
    ("labels", "addonmanager.kubernetes.io/mode", "the cluster's addon manager ({})"),
    ("labels", "app.kubernetes.io/managed-by", "{}"),
)
"""What tools write on their objects, and what they are called; the most telling ones first."""
_NO_OWNERS: Final = frozenset({"kustomize", "kubectl"})
"""They write once, and do not manage the object."""


def owner(namespace: Json) -> str:
    """Who else manages a namespace of the cluster; empty for nobody, and for a tenant's."""
    metadata = namespace["metadata"]
    if names.TENANT_LABEL in (metadata.get("labels") or {}):
        return ""
    for reference in metadata.get("ownerReferences") or ():
        return f"{reference['kind']} {reference['name']}"
    for section, key, words in _MARKS:
        mark = (metadata.get(section) or {}).get(key)
        if mark and mark not in _NO_OWNERS:
            return words.format(mark)
    return ""


def refusal(name: str, owned_by: str) -> str:
    """Why a tenant cannot have the namespace, and what to do."""
    return (
        f"refused: Namespace {name} already exists, and {owned_by} owns it. Give the tenant another name, "
        f"or have its owner let the namespace go, then label it {names.TENANT_LABEL}={name}"
    )
