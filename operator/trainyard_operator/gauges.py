"""Gauges, measured when the metrics are read: the state of a replica, and of the TrainJobs it knows."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from trainyard_api import names

from .core import model
from .core.status import display_state
from .watch.cache import Cache, Key

if TYPE_CHECKING:
    from .wiring import Wiring


def state(job: model.TrainJob, jobset: model.JobSet | None = None) -> str:
    """Where a TrainJob stands."""
    return display_state.of(job, job.status, jobset)


class TrainJobs(Collector):
    """The TrainJobs of the cache by state, counted at each reading.

    Most TrainJobs have not changed since the last reading, nor have their JobSets: their state is
    known by their versions.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._known: dict[str, tuple[tuple[str, str], str]] = {}
        """By uid: the versions of it and of its JobSet that were read, and its state."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """See prometheus_client."""
        before, self._known = self._known, {}
        for job in list(self._cache.trainjobs.values()):
            entry = before.get(job.uid)
            seen = self._cache.jobsets.get(Key.of(job))
            versions = (job.resource_version, "" if seen is None else seen.resource_version)
            if entry is None or entry[0] != versions:
                entry = (versions, state(job, None if seen is None else seen.jobset))
            self._known[job.uid] = entry
        counted = Counter(name for _, name in self._known.values())
        family = GaugeMetricFamily("trainyard_trainjobs", "TrainJobs by state", labels=["state"])
        for name in display_state.State:
            family.add_metric([name], counted[name])
        yield family


def _first(*times: datetime | None) -> float:
    return min((moment.timestamp() for moment in times if moment is not None), default=math.nan)


def register(replica: Wiring) -> None:
    """Measure a replica from now on."""
    metrics, cache, queue = replica.metrics, replica.cache, replica.queue
    metrics.registry.register(TrainJobs(cache))
    metrics.gauge("queue_depth", "TrainJobs that are due for a reconciliation", lambda: queue.depth)
    metrics.gauge("queue_delayed", "TrainJobs whose next reconciliation is due later", lambda: queue.delayed)
    metrics.gauge("queue_running", "TrainJobs being reconciled", lambda: queue.running)
    metrics.gauge(
        "queue_oldest_seconds",
        "Seconds that the oldest due reconciliation of a TrainJob has waited",
        lambda: queue.age,
    )
    metrics.gauge("leader", "1 while this replica leads", lambda: float(replica.elector.leading))
    metrics.gauge("ready", "1 while this replica is ready", lambda: float(not replica.unready()))
    metrics.gauge(
        "certificate_expiry_timestamp_seconds",
        "Time at which the certificate of this replica expires, in seconds since 1970 (NaN: no certificate)",
        lambda: _first(replica.webhook.good_until, replica.status.good_until),
    )
    metrics.gauges(
        "cache_objects",
        "Objects held in memory",
        "kind",
        {
            names.TRAINJOB: partial(len, cache.trainjobs),
            names.JOBSET: partial(len, cache.jobsets),
            "runtime": partial(len, cache.runtimes),
            "ControllerRevision": partial(len, cache.revisions),
        },
    )
    metrics.gauges(
        "watch_age_seconds",
        "Seconds since the API server last sent something on a watch "
        "(kopf: since it last listed TrainJobs or runtimes)",
        "watch",
        {
            names.JOBSETS: lambda: time.monotonic() - replica.jobsets.heard,
            "revisions": lambda: time.monotonic() - replica.revisions.heard,
            "failed-pods": lambda: time.monotonic() - replica.failed_pods.heard,
            # Kopf does not tell of bookmarks; a sweep restarts it if it lacks what a list shows.
            "kopf": lambda: time.monotonic() - replica.sweep.heard,
        },
    )
    metrics.gauge(
        "unreadable_objects",
        "Objects that the operator cannot read and therefore skips",
        lambda: len(replica.controller.unreadable) + len(replica.jobsets.unreadable),
    )
