"""Helm post-renderer: a chart's webhooks and APIs exist only while something answers them.

A chart lists its webhook configurations and the controller that answers them
without an order. Webhooks created first refuse every write until the
controller is up; webhooks left behind on removal refuse every write forever.
So each webhook configuration waits for the chart's Deployments, is deleted
before them, and counts as created only when the controller has given it its
CA. The same holds for an APIService: with nobody behind it, no namespace could
be deleted.

A chart's CRDs are left out, since the `crds` component installs them, and so
is what the arguments name: patterns of KIND/NAME.

Its pods get the stack's settings for the platform's pods (`--pods`, fields of a
pod's spec as JSON), those of a DaemonSet only the pull secrets: it runs where
its devices are. With `--budgets`, a drain evicts one pod at a time of each
Deployment that has several.

A controller that is asked, by webhooks or as an API, still answers for a moment
after it is told to end: until then, requests are still sent to its pod.

With `--restricted`, its pods ask for no more than the Pod Security level
`restricted` allows: a chart that says nothing about it, or adds a needless
capability, still runs where that level is enforced.

An empty certificate Secret loses its empty `data`: the controller fills it,
and what we do not set cannot drift.

Helm runs this file by its path, so it imports nothing of ours; it reads
manifests from stdin and writes them to stdout.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _Loader  # ten times as fast, with a chart's CRDs of megabytes
except ImportError:
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

DEPENDS_ON = "config.kubernetes.io/depends-on"
WAIT_FOR = "pulumi.com/waitFor"
CA_INJECTED = "jsonpath={.webhooks[*].clientConfig.caBundle}"
AVAILABLE = "condition=Available"
_WAITS = {
    "MutatingWebhookConfiguration": CA_INJECTED,
    "ValidatingWebhookConfiguration": CA_INJECTED,
    "APIService": AVAILABLE,
}
_DRAIN_SECONDS = 3
"""Kubernetes tells a pod to end at once, and each node stops sending requests to it a moment later."""

_PULL_SECRETS = "imagePullSecrets"
_PLACED = ("nodeSelector", "tolerations", "priorityClassName", _PULL_SECRETS)
_FIELDS_OF = {"Deployment": _PLACED, "StatefulSet": _PLACED, "Job": _PLACED, "DaemonSet": (_PULL_SECRETS,)}
"""The fields that the pods of a kind get."""


def placed(objects: list[dict[str, Any]], fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same objects, with these fields in their pods: added to what the chart says, or replacing it."""
    for manifest in objects:
        for name in _FIELDS_OF.get(manifest["kind"], ()):
            if name in fields:
                pod = manifest["spec"]["template"]["spec"]
                pod[name] = _joined(pod.get(name), fields[name])
    return objects


def _joined(chart_value: Any, stack_value: Any) -> Any:
    if isinstance(stack_value, dict):
        return {**(chart_value or {}), **stack_value}
    if isinstance(stack_value, list):
        return [*(chart_value or []), *(item for item in stack_value if item not in (chart_value or []))]
    return stack_value


def restricted(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same objects, with pods that meet the Pod Security level `restricted`.

    Source: kubernetes.io, Pod Security Standards. Stricter settings of a chart stay.
    """
    for manifest in objects:
        if manifest["kind"] not in _FIELDS_OF:
            continue
        pod = manifest["spec"]["template"]["spec"]
        context = pod["securityContext"] = pod.get("securityContext") or {}
        context["runAsNonRoot"] = True
        context.setdefault("seccompProfile", {"type": "RuntimeDefault"})
        for container in (*(pod.get("initContainers") or ()), *pod["containers"]):
            container_context = container["securityContext"] = container.get("securityContext") or {}
            container_context["allowPrivilegeEscalation"] = False
            container_context["capabilities"] = {"drop": ["ALL"]}
    return objects


def budgeted(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same objects, and a PodDisruptionBudget for each Deployment of several pods without one."""
    selectors = [
        manifest["spec"].get("selector") for manifest in objects if manifest["kind"] == "PodDisruptionBudget"
    ]
    return [
        *objects,
        *(
            _budget(manifest)
            for manifest in objects
            if manifest["kind"] == "Deployment"
            and (manifest["spec"].get("replicas") or 1) > 1
            and manifest["spec"]["selector"] not in selectors
        ),
    ]


def _budget(deployment: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: deployment["metadata"][name] for name in ("name", "namespace")}
    spec = {"maxUnavailable": 1, "selector": deployment["spec"]["selector"]}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def without(objects: list[dict[str, Any]], patterns: Sequence[str]) -> list[dict[str, Any]]:
    """The objects that are neither CRDs nor named by a pattern."""
    unwanted = ("CustomResourceDefinition/*", *patterns)
    return [
        manifest
        for manifest in objects
        if not any(
            fnmatchcase(f"{manifest['kind']}/{manifest['metadata']['name']}", pattern) for pattern in unwanted
        )
    ]


def order(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same objects, with webhooks that wait for the Deployments and Secrets without empty data."""
    deployments = [
        f"apps/namespaces/{manifest['metadata']['namespace']}/Deployment/{manifest['metadata']['name']}"
        for manifest in objects
        if manifest["kind"] == "Deployment"
    ]
    for manifest in objects:
        if wait := _WAITS.get(manifest["kind"]):
            # Some charts write `annotations:` with nothing after it.
            annotations = manifest["metadata"].get("annotations") or {}
            manifest["metadata"]["annotations"] = {
                **annotations,
                DEPENDS_ON: ",".join(deployments),
                WAIT_FOR: wait,
            }
        if manifest["kind"] == "Secret" and not any((manifest.get("data") or {}).values()):
            manifest.pop("data", None)
    return objects


def drained(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same objects; where the chart has webhooks or an API, its Deployments end a moment later."""
    if any(manifest["kind"] in _WAITS for manifest in objects):
        for manifest in objects:
            if manifest["kind"] == "Deployment":
                for container in manifest["spec"]["template"]["spec"]["containers"]:
                    container.setdefault("lifecycle", {"preStop": {"sleep": {"seconds": _DRAIN_SECONDS}}})
    return objects


def main() -> None:
    """Filter manifests from stdin to stdout."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--pods", type=json.loads, default={}, help="fields of the pods' spec, as JSON")
    parser.add_argument("--budgets", action="store_true", help="have drains take one pod at a time")
    parser.add_argument("--restricted", action="store_true", help="have pods pass the level `restricted`")
    parser.add_argument("without", nargs="*", help="patterns of KIND/NAME to leave out")
    arguments = parser.parse_args()
    objects = [manifest for manifest in yaml.load_all(sys.stdin, Loader=_Loader) if manifest]
    objects = drained(order(placed(without(objects, arguments.without), arguments.pods)))
    objects = restricted(objects) if arguments.restricted else objects
    yaml.safe_dump_all(budgeted(objects) if arguments.budgets else objects, sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
