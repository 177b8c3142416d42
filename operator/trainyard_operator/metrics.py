"""What the operator counts and measures, under `trainyard_` names."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
CAUSES = ("api", "conflict", "refused", "internal")
MILESTONES = ("jobset", "running", "complete", "failed")
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Metrics:
    """All metrics of one operator process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reconcile_seconds = Histogram(
            "trainyard_reconcile_seconds",
            "Seconds that one reconciliation of a TrainJob took, including its requests to the API server",
            buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
            registry=self.registry,
        )
        self.reconcile_errors = Counter(
            "trainyard_reconcile_errors_total",
            f"Reconciliations that failed and were queued again, by cause ({', '.join(CAUSES)})",
            ["cause"],
            registry=self.registry,
        )
        self.api_requests = Counter(
            "trainyard_api_requests_total",
            "Requests to the API server by verb, resource and HTTP status code (0: no answer)",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self.writes = Counter(
            "trainyard_writes_total",
            "Successful writes during reconciliations of TrainJobs, by kind of write",
            ["write"],
            registry=self.registry,
        )
        self.admissions = Counter(
            "trainyard_admission_requests_total",
            "Webhook requests by webhook and outcome "
            "(allowed, denied, malformed, unavailable, overloaded, timeout, failed)",
            ["webhook", "outcome"],
            registry=self.registry,
        )
        self.admission_seconds = Histogram(
            "trainyard_admission_seconds",
            "Seconds from the start of a webhook request to the answer of the operator",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self.registry,
        )
        self.plugin_seconds = Histogram(
            "trainyard_plugin_seconds",
            "Seconds that one plugin took for one phase of building the objects of a TrainJob",
            ["plugin"],
            buckets=(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5),
            registry=self.registry,
        )
        self.plugin_errors = Counter(
            "trainyard_plugin_errors_total",
            "Errors of a plugin while it built the objects of a TrainJob, such as invalid fields",
            ["plugin"],
            registry=self.registry,
        )
        self.trainjob_seconds = Histogram(
            "trainyard_trainjob_seconds",
            "Seconds from the creation of a TrainJob to a milestone: its first JobSet exists, if the "
            "TrainJob was not blocked (jobset), a Job of the JobSet is ready or has ended (running), or "
            "the TrainJob has ended (complete, failed)",
            ["until"],
            buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 43200, 86400, 604800),
            registry=self.registry,
        )
        self.reports = Counter(
            "trainyard_status_reports_total",
            "Reports of training processes to the status server, by HTTP status code of the answer",
            ["code"],
            registry=self.registry,
        )
        self.retired = Counter(
            "trainyard_trainjobs_retired_total",
            "Finished TrainJobs that the operator deleted because of the retention settings or an annotation",
            registry=self.registry,
        )
        self.writes_undone = Counter(
            "trainyard_writes_undone_total",
            "Repeated writes to an object, after another client had reverted them at least three times",
            registry=self.registry,
        )
        self.kopf_restarts = Counter(
            "trainyard_kopf_restarts_total",
            "Restarts of Kopf's watches since this process started",
            registry=self.registry,
        )
        # A series that begins with its first event hides that event from rate() and increase().
        for cause in CAUSES:
            self.reconcile_errors.labels(cause)
        for milestone in MILESTONES:
            self.trainjob_seconds.labels(milestone)

    def gauge(self, name: str, help_text: str, value: Callable[[], float]) -> None:
        """Measure `value` whenever the metrics are read."""
        Gauge(f"trainyard_{name}", help_text, registry=self.registry).set_function(value)

    def gauges(self, name: str, help_text: str, label: str, values: dict[str, Callable[[], float]]) -> None:
        """Measure each of `values` whenever the metrics are read, told apart by `label`."""
        gauge = Gauge(f"trainyard_{name}", help_text, [label], registry=self.registry)
        for value_of_label, value in values.items():
            gauge.labels(value_of_label).set_function(value)

    def observe_request(self, method: str, path: str, code: int) -> None:
        """Count a request to the API server; `path` may carry a query."""
        verb, resource = describe(method, path)
        self.api_requests.labels(verb, resource, str(code)).inc()

    def render(self) -> bytes:
        """Everything in Prometheus' text format."""
        return generate_latest(self.registry)


def describe(method: str, path: str) -> tuple[str, str]:
    """The verb and the resource (with subresource) of a request, as audit logs name them."""
    url = urlsplit(path)
    parts = url.path.strip("/").split("/")
    if parts[0] == "api":
        rest = parts[2:]
    elif parts[0] == "apis":
        rest = parts[3:]
    else:
        rest = []
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if not rest:
        return VERBS.get(method, method.lower()), "discovery"
    resource = "/".join([rest[0], *rest[2:3]])
    if method == "GET" and parse_qs(url.query).get("watch") == ["true"]:
        return "watch", resource
    if method == "GET" and len(rest) == 1:
        return "list", resource
    return VERBS.get(method, method.lower()), resource
