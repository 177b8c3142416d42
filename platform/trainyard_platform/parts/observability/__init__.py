"""Monitors, alerts and dashboards."""
