"""From `dashboards.yaml` to Grafana's JSON: pure.

The JSON is what Grafana imports and its sidecar reads from ConfigMaps; the
data source is chosen in the dashboard, so that it works in any Grafana.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Dashboard = dict[str, Any]

SCHEMA_VERSION = 39
COLUMNS = 24
HEIGHTS = {"timeseries": 8, "stat": 4}
WIDTHS = {"timeseries": 8, "stat": 6}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard(entry: Mapping[str, Any], parts: Sequence[str]) -> Dashboard:
    """One dashboard as Grafana expects it, with the panels about those parts of the platform that exist."""
    panels = [panel for panel in entry["panels"] if needed(panel, parts)]
    return {
        "uid": entry["name"],
        "title": entry["title"],
        "tags": ["trainyard"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
            ]
        },
        "panels": list(_panels(panels)),
    }


def needed(entry: Mapping[str, Any], parts: Sequence[str]) -> bool:
    """Whether the part that it is about exists."""
    return entry.get("needs") is None or entry["needs"] in parts


def _panels(entries: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    x = y = row = 0
    for number, entry in enumerate(entries, start=1):
        kind = entry.get("kind", "timeseries")
        width, height = entry.get("width", WIDTHS[kind]), HEIGHTS[kind]
        if x + width > COLUMNS:
            x, y, row = 0, y + row, 0
        yield _panel(number, kind, entry, {"x": x, "y": y, "w": width, "h": height})
        x, row = x + width, max(row, height)


def _panel(number: int, kind: str, entry: Mapping[str, Any], place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": kind,
        "title": entry["title"],
        "description": entry.get("about", ""),
        "gridPos": dict(place),
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": entry.get("unit", "short"), "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + position), "datasource": _SOURCE, "legendFormat": legend, "expr": query}
            for position, (legend, query) in enumerate(entry["queries"].items())
        ],
    }
