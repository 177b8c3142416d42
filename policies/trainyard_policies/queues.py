"""Which pods Kueue gives tolerations to, as a stack file has it.

Read from the section `queues`, which the platform checks: what no rule needs is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from trainyard_api import pools
from trainyard_api.pools import NodePool, TaintEffect


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, frozen=True)


class _Flavor(_Part):
    node_labels: dict[str, str] = {}
    tolerations: tuple[dict[str, Any], ...] = ()


class _Named(_Part):
    name: str


class _ResourceGroup(_Part):
    flavors: tuple[_Named, ...] = ()


class _Quota(_Part):
    resource_groups: tuple[_ResourceGroup, ...] = ()


class Queues(_Part):
    """The section `queues`."""

    flavors: dict[str, _Flavor] = {}
    cluster_queues: dict[str, _Quota] = {}
    cohorts: dict[str, _Quota] = {}

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> Queues:
        """Read the section; raises pydantic's `ValidationError`."""
        return cls.model_validate(section, by_alias=True)

    def add_tolerations(self, name: str, pool: NodePool) -> bool:
        """Whether pods that Kueue admits to the pool of this name tolerate its taints by that.

        Its own flavor does so, if any quota is of it: the pool's, or that of a queue or a cohort that names
        it. So does a flavor of `flavors` that has quota, leads to the pool's nodes and tolerates its taints.
        """
        with_quota = set(self._with_quota())
        if pool.quota or name in with_quota:
            return True
        labels = pools.labels(name, pool)
        repelling = [taint for taint in pools.taints(pool) if taint.effect != TaintEffect.PREFER_NO_SCHEDULE]
        return any(
            flavor.node_labels.items() <= labels.items()
            and all(
                any(pools.tolerated(taint, toleration) for toleration in flavor.tolerations)
                for taint in repelling
            )
            for of, flavor in self.flavors.items()
            if of in with_quota
        )

    def _with_quota(self) -> Iterator[str]:
        for quota in (*self.cluster_queues.values(), *self.cohorts.values()):
            yield from (flavor.name for group in quota.resource_groups for flavor in group.flavors)
