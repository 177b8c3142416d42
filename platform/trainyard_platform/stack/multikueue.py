"""Settings of MultiKueue: jobs that wait in one cluster, the manager, and run in another, a worker."""

from collections.abc import Collection, Iterator

from pydantic import Field

from trainyard_api.similar import hint
from trainyard_api.strict import StrictModel


class Worker(StrictModel):
    """A cluster that runs jobs of this one."""

    kubeconfig_secret: str = Field(min_length=1)
    """A Secret in kueue-system that you make: what its key `kubeconfig` holds leads to the cluster."""


class Dispatch(StrictModel):
    """An admission check: the job gets its quota here, then runs in the first cluster that takes it."""

    workers: tuple[str, ...] = Field(min_length=1, max_length=20)
    """Clusters of `workers`, the preferred first."""


class MultiKueue(StrictModel):
    """Queues over several clusters. Each of them has the queue and the namespace under the same name."""

    workers: dict[str, Worker] = Field(default={})
    """In the manager: clusters that jobs may be sent to, by name."""
    dispatch: dict[str, Dispatch] = Field(default={})
    """In the manager: admission checks, by name, for the queues whose jobs are sent."""
    accepts_jobs: bool = False
    """In a worker: true makes the ServiceAccount `trainyard-multikueue`, which a manager comes as."""

    @property
    def is_used(self) -> bool:
        """Whether the cluster sends jobs to others, or takes theirs."""
        return bool(self.workers or self.dispatch or self.accepts_jobs)

    def problems(self, checks: Collection[str]) -> Iterator[str]:
        """What is wrong with it, each with its path.

        Args:
            checks: Names of the other admission checks.
        """
        for name, dispatch in self.dispatch.items():
            if name in checks:
                yield f"dispatch.{name}: admissionChecks already has one of this name"
            for position, worker in enumerate(dispatch.workers):
                place = f"dispatch.{name}.workers[{position}]"
                if worker not in self.workers:
                    yield f"{place}: there is no worker {worker!r}{hint(worker, self.workers)}"
                if worker in dispatch.workers[:position]:
                    yield f"{place}: {worker!r} is listed twice"
