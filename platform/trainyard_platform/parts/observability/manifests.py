"""From settings to what a Prometheus Operator and a Grafana read: pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from trainyard_api import names
from trainyard_api.json_types import Manifest

from ...objects import rights
from ...stack.observability import Observability, Scraper
from . import dashboards

MONITORING = "monitoring.coreos.com/v1"
NAME = "trainyard-metrics"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 (the path of a token, not a token)


@dataclass(frozen=True)
class Certificate:
    """The certificate of a server: a Secret with the authority that signed it, and the name in it."""

    secret: str
    server_name: str


_DISCOVERY = [
    rights.rule("", ["endpoints", "pods", "services"], ["get", "list", "watch"]),
    rights.rule("discovery.k8s.io", ["endpointslices"], ["get", "list", "watch"]),
]

_TAKEN_AS_ANSWERED: Final = {"pulumi.com/skipAwait": "true"}
"""A headless Service needs no wait, but the provider would take what its watch shows first, even the
object before an update, for the result. Pulumi would then not see a change back."""


def operator_service(name: str, namespace: str, selector: Mapping[str, str], port: int) -> Manifest:
    """A Service for the metrics of every replica of the operator; its name is their `job`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": name},
            "annotations": dict(_TAKEN_AS_ANSWERED),
        },
        "spec": {
            "clusterIP": "None",
            "selector": dict(selector),
            "ports": [{"name": "metrics", "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }


def operator_monitor(
    name: str, namespace: str, settings: Observability, certificate: Certificate | None = None
) -> Manifest:
    """How the operator is scraped, through the Service of that name.

    With a `certificate` it authenticates readers, so Prometheus sends its token.
    """
    endpoint: Manifest = {"port": "metrics", "interval": settings.scrape_interval}
    if certificate is not None:
        endpoint |= {
            "scheme": "https",
            "bearerTokenFile": TOKEN,
            "tlsConfig": {
                "ca": {"secret": {"name": certificate.secret, "key": "ca.crt"}},
                "serverName": certificate.server_name,
            },
        }
    return _monitor(names.OPERATOR, namespace, settings, {"app.kubernetes.io/name": name}, endpoint)


def kueue_monitor(
    namespace: str, kueue_namespace: str, selector: Mapping[str, str], settings: Observability
) -> Manifest:
    """How Kueue is scraped.

    It authenticates readers, so Prometheus sends its token. Kueue creates the
    certificate only for this port, at each start, so nothing can know it
    beforehand: there is no way to verify it.
    """
    endpoint = {
        "port": "https",
        "scheme": "https",
        "interval": settings.scrape_interval,
        "bearerTokenFile": TOKEN,
        "tlsConfig": {"insecureSkipVerify": True},
    }
    manifest = _monitor("kueue", namespace, settings, selector, endpoint)
    manifest["spec"]["namespaceSelector"] = {"matchNames": [kueue_namespace]}
    return manifest


def rules(namespace: str, parts: Sequence[str], settings: Observability) -> Manifest:
    """The alerts about those parts of the platform that exist."""
    groups = [
        {"name": group["name"], "rules": [_with_runbook(rule, settings) for rule in group["rules"]]}
        for group in _data("alerts.yaml")
        if dashboards.needed(group, parts)
    ]
    return {
        "apiVersion": MONITORING,
        "kind": "PrometheusRule",
        "metadata": _metadata("trainyard", namespace, settings.labels),
        "spec": {"groups": groups},
    }


def _with_runbook(rule: Mapping[str, Any], settings: Observability) -> dict[str, Any]:
    """The alert with a link to its section, whose anchor is its name."""
    link = {"runbook_url": f"{settings.runbooks}#{rule['alert'].lower()}"}
    return {**rule, "annotations": {**rule["annotations"], **link}}


def dashboard_maps(namespace: str, parts: Sequence[str], settings: Observability) -> list[Manifest]:
    """A ConfigMap for each dashboard about a part of the platform that exists."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(f"{entry['name']}-dashboard", namespace, settings.dashboard_labels),
            "data": {f"{entry['name']}.json": json.dumps(dashboards.dashboard(entry, parts), indent=1)},
        }
        for entry in _data("dashboards.yaml")
        if dashboards.needed(entry, parts)
    ]


def may_scrape(scraper: Scraper, namespaces: Iterable[str]) -> list[Manifest]:
    """Lets Prometheus find the targets in these namespaces, and read metrics that need authentication."""
    subject = rights.account(scraper.name, scraper.namespace)
    roles = [({"name": NAME}, [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])]
    roles += [({"name": NAME, "namespace": namespace}, _DISCOVERY) for namespace in namespaces]
    return [
        manifest
        for metadata, rules in roles
        for manifest in (rights.role(metadata, rules), rights.binding(metadata, NAME, [subject]))
    ]


def _monitor(
    name: str, namespace: str, settings: Observability, selector: Mapping[str, str], endpoint: Manifest
) -> Manifest:
    return {
        "apiVersion": MONITORING,
        "kind": "ServiceMonitor",
        "metadata": _metadata(name, namespace, settings.labels),
        "spec": {"selector": {"matchLabels": dict(selector)}, "endpoints": [endpoint]},
    }


def _metadata(name: str, namespace: str, labels: Mapping[str, str]) -> Manifest:
    # Empty labels must be left out: the API server drops them, which would look like drift forever.
    return {"name": name, "namespace": namespace, **({"labels": dict(labels)} if labels else {})}


def _data(name: str) -> list[dict[str, Any]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return entries
