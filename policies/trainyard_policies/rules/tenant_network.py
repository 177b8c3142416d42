"""A tenant's namespace has a network policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainyard_api import names
from trainyard_api.errors import FieldPath

from ..manifest import Manifest
from ..parameters import Parameters
from ..rule import Finding, Level, Severity, StackRule
from ..subject import Subject


def check(manifests: Sequence[Manifest], parameters: Parameters) -> Iterator[tuple[Manifest, Finding]]:
    """Each Namespace with the tenant's label has, among all manifests, a NetworkPolicy for all its pods."""
    fenced = {
        manifest.namespace
        for manifest in manifests
        if manifest.api_version == "networking.k8s.io/v1"
        and manifest.kind == "NetworkPolicy"
        and _is_for_all_pods(manifest)
    }
    for manifest in manifests:
        is_namespace = (manifest.api_version, manifest.kind) == ("v1", "Namespace")
        if is_namespace and names.TENANT_LABEL in manifest.labels and manifest.name not in fenced:
            message = "must have a NetworkPolicy of what may connect to its pods, for all of them"
            yield manifest, Finding(FieldPath("metadata.name"), message)


def _is_for_all_pods(policy: Manifest) -> bool:
    spec = policy.value.get("spec")
    if not isinstance(spec, dict) or "Ingress" not in (spec.get("policyTypes") or ["Ingress"]):
        return False
    selector = spec.get("podSelector") or {}
    return isinstance(selector, dict) and not any(selector.values())


RULE = StackRule(
    id="tenant-network",
    title="A tenant's namespace has a network policy",
    why=(
        "Without one, every pod of every tenant can connect to the ports of training processes, which need "
        "no password."
    ),
    remedy=(
        "Declare the tenant under tenants in the stack file, which creates one, or add a NetworkPolicy with "
        "an empty podSelector, for Ingress."
    ),
    severity=Severity.HIGH,
    levels={Subject.STACK: Level.MANDATORY},
    check=check,
)
