"""Helm post-renderer: a chart's webhooks and APIs stand only while something answers them.

A chart lists its webhook configurations beside the controller that answers
them, without an order. Created first they refuse every write until the
controller is up; left behind on the way down they refuse every write for
ever. So each webhook configuration is made to wait for the chart's
Deployments, and on the way down goes before them, and counts as created only
when the controller has given it its CA. So it is with an APIService: with
nobody behind it no namespace could be deleted any more.

A chart's CRDs are left out, for they are the `crds` component's.

A certificate Secret with nothing in it loses its empty `data`: the controller
fills it, and what we do not state cannot drift.

Helm runs this file by its path, so it imports nothing of ours; it reads
manifests from stdin and writes them to stdout.
"""

import sys
from typing import Any

import yaml

DEPENDS_ON = "config.kubernetes.io/depends-on"
WAIT_FOR = "pulumi.com/waitFor"
CA_INJECTED = "jsonpath={.webhooks[*].clientConfig.caBundle}"
AVAILABLE = "condition=Available"
_WAITS = {
    "MutatingWebhookConfiguration": CA_INJECTED,
    "ValidatingWebhookConfiguration": CA_INJECTED,
    "APIService": AVAILABLE,
}


def order(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same objects but for CRDs, with webhooks that wait for Deployments, Secrets without empty data."""
    objects = [one for one in objects if one["kind"] != "CustomResourceDefinition"]
    deployments = [
        f"apps/namespaces/{one['metadata']['namespace']}/Deployment/{one['metadata']['name']}"
        for one in objects
        if one["kind"] == "Deployment"
    ]
    for one in objects:
        if wait := _WAITS.get(one["kind"]):
            # A chart writes `annotations:` with nothing behind it, too.
            annotations = one["metadata"].get("annotations") or {}
            one["metadata"]["annotations"] = {
                **annotations,
                DEPENDS_ON: ",".join(deployments),
                WAIT_FOR: wait,
            }
        if one["kind"] == "Secret" and not any((one.get("data") or {}).values()):
            one.pop("data", None)
    return objects


def main() -> None:
    """Filter manifests from stdin to stdout."""
    objects = [one for one in yaml.safe_load_all(sys.stdin) if one]
    yaml.safe_dump_all(order(objects), sys.stdout, sort_keys=False)


if __name__ == "__main__":
    main()
