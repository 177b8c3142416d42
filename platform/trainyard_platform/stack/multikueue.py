"""Settings of MultiKueue: jobs wait in one cluster, the manager, and run in others, the workers."""

from collections.abc import Collection, Iterator

from pydantic import Field

from trainyard_api.similar import hint
from trainyard_api.strict import StrictModel

from .value_types import ObjectName


class Worker(StrictModel):
    """A worker cluster, which runs jobs of this cluster."""

    kubeconfig_secret: str = Field(min_length=1)
    """A Secret that you create in Kueue's namespace. Its key `kubeconfig` holds the worker's kubeconfig."""


class Dispatch(StrictModel):
    """An admission check: the job gets its quota here, then runs in the first worker that admits it."""

    workers: tuple[str, ...] = Field(min_length=1, max_length=20)
    """Names in `workers`, the preferred cluster first."""


class MultiKueue(StrictModel):
    """Queues across several clusters. Each cluster needs the queue and the namespace under the same name."""

    workers: dict[ObjectName, Worker] = Field(default={})
    """In the manager cluster: worker clusters, by name."""
    dispatch: dict[ObjectName, Dispatch] = Field(default={})
    """In the manager cluster: admission checks, by name, for queues whose jobs run in worker clusters."""
    accepts_jobs: bool = False
    """In a worker cluster: whether to create the ServiceAccount `trainyard-multikueue`, which manager
    clusters use."""

    @property
    def is_used(self) -> bool:
        """Whether the cluster is a manager or a worker."""
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
