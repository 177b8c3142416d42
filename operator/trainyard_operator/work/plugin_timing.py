"""Measures how long plugins take, and how often they fail: they have no clock themselves."""

from __future__ import annotations

import time
from types import TracebackType

from prometheus_client import Counter, Histogram

from ..core.build.framework import Framework
from ..metrics import Metrics


class _Part:
    """One plugin's part in building. A generator would take as long as most plugins do."""

    __slots__ = ("_errors", "_seconds", "_start")

    def __init__(self, seconds: Histogram, errors: Counter) -> None:
        self._seconds = seconds
        self._errors = errors

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, Exception):
            self._errors.inc()
        self._seconds.observe(time.perf_counter() - self._start)


def measured(framework: Framework, metrics: Metrics) -> Framework:
    """The same plugins, with each one's part in building counted in the metrics."""
    names = [plugin.name for plugin in framework.plugins]
    seconds = {name: metrics.plugin_seconds.labels(name) for name in names}
    errors = {name: metrics.plugin_errors.labels(name) for name in names}
    return Framework(framework.plugins, lambda name: _Part(seconds[name], errors[name]))
