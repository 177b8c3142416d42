"""What watches over the platform: monitors, alerts and dashboards, from a stack's few settings."""

import json
import re
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.checked_in import ROOT
from trainyard_api import names
from trainyard_platform.parts.kueue import manifests as kueue
from trainyard_platform.parts.observability import dashboards, manifests
from trainyard_platform.parts.observability.component import SERVICE
from trainyard_platform.parts.operator import endpoints as operator
from trainyard_platform.stack.observability import Observability, Scraper

SETTINGS = Observability(enabled=True, labels={"release": "prometheus"}, scrape_interval="15s")
EVERYTHING = ["admission", "kueue", "jobset", "volcano", "coscheduling"]
RUNBOOKS = ROOT / "docs/runbooks.md"
HOME = "trainyard-system"


def monitor(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": HOME, "labels": {"release": "prometheus"}}
    version = "monitoring.coreos.com/v1"
    return {"apiVersion": version, "kind": "ServiceMonitor", "metadata": metadata, "spec": spec}


def test_every_replica_of_the_operator_is_scraped_through_a_service_without_an_address() -> None:
    labels = {"app.kubernetes.io/name": "trainyard-operator-metrics"}
    assert manifests.operator_service(SERVICE, HOME, operator.LABELS, names.METRICS_PORT) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "trainyard-operator-metrics",
            "namespace": HOME,
            "labels": labels,
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "clusterIP": "None",
            "selector": {
                "app.kubernetes.io/name": "trainyard-operator",
                "app.kubernetes.io/part-of": "trainyard",
            },
            "ports": [{"name": "metrics", "port": 8080, "targetPort": 8080, "protocol": "TCP"}],
        },
    }
    assert manifests.operator_monitor(SERVICE, HOME, SETTINGS) == monitor(
        "trainyard-operator",
        {"selector": {"matchLabels": labels}, "endpoints": [{"port": "metrics", "interval": "15s"}]},
    )


def test_an_operator_that_asks_who_reads_is_shown_prometheus_own_token_and_is_known_by_its_authority() -> (
    None
):
    certificate = manifests.Certificate(
        "trainyard-operator-webhook", "trainyard-operator.trainyard-system.svc"
    )
    found = manifests.operator_monitor(SERVICE, HOME, SETTINGS, certificate)
    assert found["spec"]["endpoints"] == [
        {
            "port": "metrics",
            "scheme": "https",
            "interval": "15s",
            "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
            "tlsConfig": {
                "ca": {"secret": {"name": "trainyard-operator-webhook", "key": "ca.crt"}},
                "serverName": "trainyard-operator.trainyard-system.svc",
            },
        }
    ]


def test_kueue_is_scraped_with_prometheus_own_token() -> None:
    selector = kueue.METRICS_SERVICE_LABELS
    assert manifests.kueue_monitor(HOME, "kueue-system", selector, SETTINGS) == monitor(
        "kueue",
        {
            "selector": {
                "matchLabels": {
                    "app.kubernetes.io/name": "kueue",
                    "app.kubernetes.io/instance": "kueue",
                    "app.kubernetes.io/component": "metrics-service",
                }
            },
            "namespaceSelector": {"matchNames": ["kueue-system"]},
            "endpoints": [
                {
                    "port": "https",
                    "scheme": "https",
                    "interval": "15s",
                    "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
                    "tlsConfig": {"insecureSkipVerify": True},
                }
            ],
        },
    )


def test_prometheus_may_find_its_targets_and_read_metrics_and_nothing_else() -> None:
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}]

    def pair(role: str, metadata: dict[str, str], rules: list[Any]) -> list[dict[str, Any]]:
        version, reference = f"{group}/v1", {"apiGroup": group, "kind": role, "name": "trainyard-metrics"}
        return [
            {"apiVersion": version, "kind": role, "metadata": metadata, "rules": rules},
            {
                "apiVersion": version,
                "kind": f"{role}Binding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": subjects,
            },
        ]

    look = ["get", "list", "watch"]
    found = [
        {"apiGroups": [""], "resources": ["endpoints", "pods", "services"], "verbs": look},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": look},
    ]
    scraper = Scraper(namespace="monitoring", name="prometheus")
    assert manifests.may_scrape(scraper, [HOME]) == [
        *pair(
            "ClusterRole",
            {"name": "trainyard-metrics"},
            [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        ),
        *pair("Role", {"name": "trainyard-metrics", "namespace": HOME}, found),
    ]


def groups(parts: list[str]) -> list[dict[str, Any]]:
    manifest = manifests.rules(HOME, parts, SETTINGS)
    assert manifest["metadata"] == {
        "name": "trainyard",
        "namespace": HOME,
        "labels": {"release": "prometheus"},
    }
    found: list[dict[str, Any]] = manifest["spec"]["groups"]
    return found


def test_alerts_are_about_what_there_is() -> None:
    always = ["trainyard-operator", "trainyard-jobs", "trainyard-drift"]
    assert [group["name"] for group in groups([])] == always
    assert {group["name"] for group in groups(EVERYTHING)} == {
        *always,
        "trainyard-admission",
        "trainyard-queues",
        "trainyard-jobset",
        "trainyard-volcano",
        "trainyard-coscheduling",
    }


def test_every_alert_says_what_is_wrong_how_bad_it_is_and_what_to_do() -> None:
    alerts = [rule for group in groups(EVERYTHING) for rule in group["rules"]]
    assert len({alert["alert"] for alert in alerts}) == len(alerts) > 15
    for alert in alerts:
        assert set(alert) == {"alert", "expr", "for", "labels", "annotations"}
        assert alert["labels"] in ({"severity": "critical"}, {"severity": "warning"})
        assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
        assert alert["annotations"]["summary"].endswith((".", "help.", "}}."))
        # A command, a setting, or another alert to look at: something to begin with.
        words = (
            "kubectl",
            "trainyard explain",
            "trainyard drift",
            "pulumi",
            "stack file",
            "operator.",
            "Trainyard",
            "kueue.",
            "quota",
        )
        assert any(word in alert["annotations"]["description"] for word in words), alert["alert"]


def test_each_alert_has_its_section_in_the_runbooks_with_its_meaning_commands_and_the_way_out() -> None:
    sections = re.split(r"^## ", RUNBOOKS.read_text(), flags=re.MULTILINE)[1:]
    texts = dict(section.split("\n", 1) for section in sections)
    assert list(texts) == [rule["alert"] for group in groups(EVERYTHING) for rule in group["rules"]]
    for text in texts.values():
        parts = [
            text.find(mark) for mark in ("**It means**", "**The cause**", "```console\n$ ", "**The way out")
        ]
        assert -1 not in parts
        assert parts == sorted(parts)


@pytest.mark.parametrize("runbooks", ["docs/runbooks.md", "https://docs.example.com/runbooks"])
def test_an_alert_links_to_its_section_where_the_site_has_its_runbooks(runbooks: str) -> None:
    settings = Observability(enabled=True, runbooks=runbooks)
    [link] = {
        rule["annotations"]["runbook_url"]
        for group in manifests.rules(HOME, [], settings)["spec"]["groups"]
        for rule in group["rules"]
        if rule["alert"] == "TrainyardOperatorDown"
    }
    assert link == f"{runbooks}#trainyardoperatordown"


@pytest.mark.parametrize(
    "runbooks", ["", "javascript:alert(1)", "https://a b", "https://a\nb", f"https://{'a' * 999}"]
)
def test_what_is_no_address_of_runbooks_is_refused(runbooks: str) -> None:
    with pytest.raises(ValidationError):
        Observability(runbooks=runbooks)


def test_a_dashboard_is_laid_out_in_rows_and_asks_whichever_prometheus_is_chosen() -> None:
    source = {"type": "prometheus", "uid": "${datasource}"}

    def panel(
        number: int, kind: str, place: tuple[int, int, int, int], unit: str = "short"
    ) -> dict[str, Any]:
        return {
            "id": number,
            "type": kind,
            "title": f"panel {number}",
            "description": "why" if number == 1 else "",
            "gridPos": dict(zip("xywh", place, strict=True)),
            "datasource": source,
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [{"refId": "A", "datasource": source, "legendFormat": "all", "expr": "up"}],
        }

    queries = {"all": "up"}
    entry = {
        "name": "demo",
        "title": "Demo",
        "panels": [
            {"title": "panel 1", "about": "why", "kind": "stat", "queries": queries},
            {"title": "panel 2", "width": 18, "unit": "s", "queries": queries},
            {"title": "of Kueue", "needs": "kueue", "queries": queries},
            {"title": "panel 3", "queries": queries},
        ],
    }
    assert dashboards.dashboard(entry, ["admission"]) == {
        "uid": "demo",
        "title": "Demo",
        "tags": ["trainyard"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
            ]
        },
        "panels": [
            panel(1, "stat", (0, 0, 6, 4)),
            panel(2, "timeseries", (6, 0, 18, 8), "s"),
            panel(3, "timeseries", (0, 8, 8, 8)),
        ],
    }


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ([], ["trainyard-operator", "trainyard-jobs"]),
        (EVERYTHING, ["trainyard-operator", "trainyard-jobs", "trainyard-queues"]),
    ],
)
def test_dashboards_are_config_maps_that_grafana_finds_by_their_label(
    parts: list[str], names: list[str]
) -> None:
    maps = manifests.dashboard_maps(HOME, parts, SETTINGS)
    assert [one["metadata"] for one in maps] == [
        {"name": f"{name}-dashboard", "namespace": HOME, "labels": {"grafana_dashboard": "1"}}
        for name in names
    ]
    for name, one in zip(names, maps, strict=True):
        [(file, text)] = one["data"].items()
        assert (file, json.loads(text)["uid"]) == (f"{name}.json", name)
