"""Measures how long plugins take, and how often they fail: they have no clock themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ..core.build.framework import Framework
from ..metrics import Metrics


def measured(framework: Framework, metrics: Metrics) -> Framework:
    """The same plugins, with each one's part in building counted in the metrics."""
    names = [plugin.name for plugin in framework.plugins]
    seconds = {name: metrics.plugin_seconds.labels(name) for name in names}
    errors = {name: metrics.plugin_errors.labels(name) for name in names}

    @contextmanager
    def around(name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        except Exception:
            errors[name].inc()
            raise
        finally:
            seconds[name].observe(time.perf_counter() - start)

    return Framework(framework.plugins, around)
