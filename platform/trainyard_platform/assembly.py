"""A platform while its parts are put together.

`program` calls `install` of each part's component in order. A part
reads from the assembly what earlier parts have left there, and leaves what
later ones need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pulumi

from trainyard_policies.settings import Policies

from .artifacts import Artifacts
from .catalog.files import Runtime
from .objects.protection import Ports
from .stack.settings import StackSettings

Part = TypeVar("Part", bound=pulumi.Resource)


@dataclass(frozen=True)
class Served:
    """A namespace of the platform, and what its pods serve."""

    name: str
    namespace: pulumi.Resource
    ports: Ports


@dataclass(kw_only=True)
class Assembly:
    """What the parts are made from, and what exists so far."""

    stack: StackSettings
    artifacts: Artifacts
    runtimes: Sequence[Runtime]
    """Those of the catalog that the stack installs."""
    options: pulumi.ResourceOptions
    """Of components with objects in the cluster."""
    renders: bool = False
    """Whether manifests are only rendered, and nothing is created."""
    parts: list[pulumi.Resource] = field(default_factory=list)
    """The components so far, in order."""
    deleted_with: pulumi.Resource = field(init=False)
    """The resource that is removed only with the whole stack, from the CRDs on; others name it as their
    `deletedWith`."""
    served: list[Served] = field(default_factory=list)
    """The namespaces so far whose pods serve something."""
    unserved: dict[str, pulumi.Resource] = field(default_factory=dict)
    """The other namespaces so far, by name."""

    @property
    def rules(self) -> Policies | None:
        """The rules that the cluster itself enforces, if it does."""
        return self.stack.rules if self.stack.admission.holds_rules else None

    def add(self, part: Part) -> Part:
        """The part, now known to the assembly."""
        self.parts.append(part)
        return part

    def find(self, kind: type[Part]) -> Part | None:
        """The part of this class, if the stack has it."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def after(self, *kinds: type[pulumi.Resource]) -> list[pulumi.Resource]:
        """The parts of these classes that the stack has, for a part that comes after them."""
        return [part for kind in kinds if (part := self.find(kind)) is not None]
