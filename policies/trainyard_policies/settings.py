"""The section `policies` of a stack file: levels by subject and rule, and parameters.

The defaults are the rules' own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, JsonValue
from pydantic.config import JsonDict

from trainyard_api.pools import NodePool
from trainyard_api.similar import hint
from trainyard_api.strict import StrictModel

from . import rules
from .parameters import Parameters
from .queues import Queues
from .rule import About, Level
from .subject import Subject


def _known(levels: dict[str, Level]) -> dict[str, Level]:
    for rule in levels:
        if rule not in rules.BY_ID:
            raise ValueError(f"there is no rule {rule!r}{hint(rule, rules.BY_ID)}")
    return levels


def _of(subject: Subject) -> JsonDict:
    """For completion in editors: the rules that apply to the subject."""
    ids: list[JsonValue] = [rule.id for rule in rules.ALL if subject in rule.levels]
    return {"propertyNames": {"enum": ids}}


ByRule = Annotated[dict[str, Level], AfterValidator(_known)]


class Levels(StrictModel):
    """Levels that replace the rules' defaults, by subject and rule."""

    runtimes: ByRule = Field(default={}, json_schema_extra=_of(Subject.RUNTIMES))
    """Levels for ClusterTrainingRuntimes and TrainingRuntimes, by rule."""
    train_jobs: ByRule = Field(default={}, json_schema_extra=_of(Subject.TRAINJOBS))
    """Levels for TrainJobs, by rule."""
    stack: ByRule = Field(default={}, json_schema_extra=_of(Subject.STACK))
    """Levels for all manifests of the stack together, by rule."""


class Policies(StrictModel):
    """Levels and parameters of the rules in this stack."""

    levels: Levels = Levels()
    """Levels that replace the rules' defaults: disabled, advisory, remediate or mandatory."""
    parameters: Parameters = Parameters()
    """Registries, limits and pools of this stack. The rules compare manifests with them."""

    def with_images(self, images: Iterable[str]) -> Policies:
        """These policies, for a stack with these images in `artifacts.images`."""
        return self.model_copy(update={"parameters": self.parameters.with_images(images)})

    def with_pools(self, declared: Mapping[str, NodePool], queues: Queues) -> Policies:
        """These policies, for a stack with these `nodePools` and `queues`."""
        return self.model_copy(update={"parameters": self.parameters.with_pools(declared, queues)})

    def with_kueue(self, namespace: str) -> Policies:
        """These policies, for a cluster whose Kueue runs in this namespace."""
        return self.model_copy(update={"parameters": self.parameters.with_kueue(namespace)})

    def level(self, rule: About, subject: Subject) -> Level:
        """The level at which a rule applies to a subject."""
        if subject not in rule.levels:
            return Level.DISABLED
        chosen: Mapping[Subject, dict[str, Level]] = {
            Subject.RUNTIMES: self.levels.runtimes,
            Subject.TRAINJOBS: self.levels.train_jobs,
            Subject.STACK: self.levels.stack,
        }
        return chosen[subject].get(rule.id, rule.levels[subject])


def of_known_rules(section: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[tuple[str, str]]]:
    """The section without levels of rules that do not exist here, and the subject and id of each of those."""
    levels = section.get("levels")
    if not isinstance(levels, Mapping):
        return section, []
    unknown = [
        (subject, rule)
        for subject, by_rule in levels.items()
        if isinstance(by_rule, Mapping)
        for rule in by_rule
        if rule not in rules.BY_ID
    ]
    known = {
        subject: {rule: by_rule[rule] for rule in by_rule if rule in rules.BY_ID}
        if isinstance(by_rule, Mapping)
        else by_rule
        for subject, by_rule in levels.items()
    }
    return {**section, "levels": known}, unknown


DEFAULT = Policies()
"""The rules as shipped."""
