"""Settings of what watches over the platform: scraping, alerts and dashboards."""

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
    """Its namespace."""
    name: str = Field(min_length=1)
    """Its name."""


class Observability(StrictModel):
    """Monitors, alerts and dashboards, for a Prometheus Operator and a Grafana that the cluster has."""

    enabled: bool = False
    """True installs them."""
    crds: MonitoringCrds = MonitoringCrds.EXISTING
    """existing: the Prometheus Operator has brought them; install: the platform brings what it needs."""
    labels: dict[str, str] = Field(default={})
    """Labels by which that Prometheus selects monitors and rules, such as release: kube-prometheus-stack."""
    dashboard_labels: dict[str, str] = Field(default={"grafana_dashboard": "1"})
    """Labels by which Grafana finds the ConfigMaps with dashboards."""
    scrape_interval: Duration = "30s"
    """Time between two looks at the metrics."""
    prometheus: Scraper | None = None
    """Whom to give the right to find and read the metrics; if left out, that is arranged elsewhere."""
