"""Plugins whose time and errors are counted, though they know no clock themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from ..core import framework
from ..core.framework import Plugin
from ..metrics import Metrics

PHASES = ("enforce_ml_policy", "enforce_pod_group_policy", "identify_network", "build")
"""What is measured: the methods by which a plugin takes part in building children."""


class Measured:
    """A plugin with the phases of building that `plugin` has, each of them measured."""

    def __init__(self, plugin: Plugin, metrics: Metrics) -> None:
        self.name = plugin.name
        self.implements = plugin.implements
        self._seconds = metrics.plugin_seconds.labels(plugin.name)
        self._errors = metrics.plugin_errors.labels(plugin.name)
        # A plugin takes part in a phase by having its method, and so must this one.
        for phase in PHASES:
            if hasattr(plugin, phase):
                setattr(self, phase, self._measured(getattr(plugin, phase)))

    def _measured(self, method: Callable[[framework.Info], Any]) -> Callable[[framework.Info], Any]:
        def call(info: framework.Info) -> Any:
            start = time.perf_counter()
            try:
                return method(info)
            except Exception:
                self._errors.inc()
                raise
            finally:
                self._seconds.observe(time.perf_counter() - start)

        return call


def measured(plugins: Iterable[Plugin], metrics: Metrics) -> tuple[Plugin, ...]:
    """The plugins in their order, measured."""
    return tuple(Measured(plugin, metrics) for plugin in plugins)
