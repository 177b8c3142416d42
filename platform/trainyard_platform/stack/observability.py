"""Settings of observability: metrics, alerts and dashboards."""

from enum import StrEnum

from pydantic import Field

from trainyard_api.strict import StrictModel

from .tenants import NAME
from .value_types import Duration


class MonitoringCrds(StrEnum):
    """Who installs the CRDs of the Prometheus Operator."""

    EXISTING = "existing"
    INSTALL = "install"


class Scraper(StrictModel):
    """The ServiceAccount that the cluster's Prometheus runs as."""

    namespace: str = Field(pattern=NAME)
    """Namespace of the ServiceAccount."""
    name: str = Field(min_length=1)
    """Name of the ServiceAccount."""


class Observability(StrictModel):
    """Monitors, alerts and dashboards. The cluster must have the Prometheus Operator and Grafana."""

    enabled: bool = False
    """Whether the stack installs monitors, alerts and dashboards."""
    crds: MonitoringCrds = MonitoringCrds.EXISTING
    """existing: the cluster already has the CRDs of the Prometheus Operator. install: the platform installs
    the CRDs that it needs."""
    labels: dict[str, str] = Field(default={})
    """Labels by which Prometheus selects monitors and rules, such as release: kube-prometheus-stack."""
    dashboard_labels: dict[str, str] = Field(default={"grafana_dashboard": "1"})
    """Labels by which Grafana selects the ConfigMaps with dashboards."""
    runbooks: str = Field(
        default="docs/runbooks.md", pattern=r"^(docs/runbooks\.md|https?://[!-~]+)$", max_length=1000
    )
    """Address of your copy of docs/runbooks.md, such as https://docs.example.com/runbooks. Each alert links
    to its section on this page."""
    scrape_interval: Duration = "30s"
    """Time between two scrapes of the metrics."""
    prometheus: Scraper | None = None
    """ServiceAccount of Prometheus, which gets the right to discover and read the metrics. Default: none."""
