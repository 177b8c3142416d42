"""The scenarios as data: measure, sides, rounds and sizes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import measures
from .bench import FAST, KUEUE_ALONE, NOBODY, OF_TRAINJOBS, OURS, REFERENCE, Side
from .commands import commands, platform
from .companions import QUEUE_ALONE, TO_PODS, Company


@dataclass(frozen=True)
class Scenario:
    """One table.

    Attributes:
        name: As the command line has it.
        title: What is measured, in a sentence.
        measure: What measures it.
        sides: The sides to compare, ours first.
        much: Arguments of `measure`.
        quick: The same for a quick run.
        rounds: How often each side has its turn.
        webhooks: Whether the API server calls the controllers' webhooks.
        company: Who is there besides the controller that is measured.
        charts: Figures that are drawn, at each size if they are measured at several.
        baseline: The side whose figures are subtracted before sides are compared.
        asked_for: Whether it runs only if the command line names it, since it takes long.
        only_here: Whether it measures programs that another side would not change, so that there is nothing
            to compare.
    """

    name: str
    title: str
    measure: measures.Measure
    sides: tuple[Side, ...]
    much: Mapping[str, Any]
    quick: Mapping[str, Any]
    rounds: int = 3
    webhooks: bool = False
    company: Company | None = None
    charts: tuple[str, ...] = ()
    baseline: Side | None = None
    asked_for: bool = False
    only_here: bool = False

    @property
    def everybody(self) -> tuple[Side, ...]:
        """The sides, and the baseline if there is one."""
        return self.sides if self.baseline is None else (*self.sides, self.baseline)


ALL = (
    Scenario(
        "burst",
        "Suspended TrainJobs at once, until each has its JobSet and first status; no webhooks",
        measures.burst,
        (OURS, REFERENCE, FAST),
        {"sizes": (300, 1000)},
        {"sizes": (200,)},
        charts=("1000: jobs/s", "1000: API server CPU a job, ms"),
    ),
    Scenario(
        "burst-webhooks",
        "The same with every TrainJob going through the controller's webhooks",
        measures.burst,
        (OURS, REFERENCE, FAST),
        {"sizes": (1000,)},
        {"sizes": (200,)},
        webhooks=True,
        charts=("1000: jobs/s",),
    ),
    Scenario(
        "steady",
        "TrainJobs that arrive at a rate, each JobSet done half a second after it was made",
        measures.steady,
        (OURS, REFERENCE),
        {"rates": (5, 20, 40), "seconds": 10},
        {"rates": (20,), "seconds": 3},
        charts=("20/s: creation to JobSet, p99, ms", "20/s: JobSet change to status, p99, ms"),
    ),
    Scenario(
        "life",
        "Whole lives at 20 jobs/s: created, run for 3 s, completed",
        measures.life,
        (OURS, REFERENCE),
        {"jobs": 200, "rate": 20, "seconds": 3},
        {"jobs": 20, "rate": 20, "seconds": 1},
        charts=("API server CPU a job, ms",),
        baseline=NOBODY,
    ),
    Scenario(
        "end-to-end",
        "TrainJobs of a queue at once, through Kueue and JobSet to pods on simulated nodes",
        measures.end_to_end,
        (OURS, REFERENCE, OF_TRAINJOBS),
        {"jobs": 1000},
        {"jobs": 50},
        rounds=1,
        company=TO_PODS,
        asked_for=True,
        charts=("creation to running pod, p99, ms",),
    ),
    Scenario(
        "queue",
        "TrainJobs of a queue at once through Kueue, each JobSet done as soon as it is resumed; no pods",
        measures.queue,
        (OURS, REFERENCE, KUEUE_ALONE),
        {"jobs": 15_000},
        {"jobs": 300},
        rounds=1,
        company=QUEUE_ALONE,
        asked_for=True,
        charts=("jobs/s",),
    ),
    Scenario(
        "queue-large",
        "The same with 50,000",
        measures.queue,
        (OURS,),
        {"jobs": 50_000},
        {"jobs": 1_000},
        rounds=1,
        company=QUEUE_ALONE,
        asked_for=True,
    ),
    Scenario(
        "standing",
        "5,000 suspended TrainJobs: memory and restarts; then all are done, and nothing happens for a minute",
        measures.standing,
        (OURS,),
        {"jobs": 5000, "restarts": 3, "seconds": 60},
        {"jobs": 200, "restarts": 1, "seconds": 5},
        rounds=1,
    ),
    Scenario(
        "fairness",
        "100 small TrainJobs alone, and behind one of 10,000 nodes",
        measures.fairness,
        (OURS, REFERENCE),
        {"jobs": 100, "nodes": 10_000},
        {"jobs": 30, "nodes": 10_000},
    ),
    Scenario(
        "foreign",
        "Bursts of 100 before and among 50,000 ConfigMaps and Secrets that are none of the controller's",
        measures.foreign,
        (OURS,),
        {"objects": 50_000, "jobs": 100},
        {"objects": 2_000, "jobs": 100},
        rounds=1,
    ),
    Scenario(
        "ladder",
        "Suspended TrainJobs in waves, up to 10,000",
        measures.burst,
        (OURS,),
        {"sizes": (100, 1000, 5000, 10_000)},
        {"sizes": (100, 300)},
        rounds=1,
        charts=("creation to JobSet, p99, ms", "controller memory, MiB"),
    ),
    Scenario(
        "commands",
        "What people wait for at the command line, the start of Python included",
        commands,
        (OURS,),
        {"runtimes": 1000, "jobs": 10_000, "times": 3},
        {"runtimes": 100, "jobs": 100, "times": 1},
        rounds=1,
        only_here=True,
    ),
    Scenario(
        "platform",
        "The sandbox stack on a cluster with a real node",
        platform,
        (OURS,),
        {"times": 3},
        {"times": 1},
        rounds=1,
        asked_for=True,
        only_here=True,
    ),
)
