"""Events of Pulumi's engine, as values.

Each line of `pulumi ... --json` is an event, `EngineEvent` of Pulumi's
`apitype`. A preview and the update after it are in one stream.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from trainyard_api.json_types import Json

from ..drift.verdicts import Ref, going
from ..pulumi_state import inputs, stack_of


class Op(StrEnum):
    """The operation on a resource."""

    SAME = "same"
    CREATE = "create"
    TAKE_OVER = "take over"
    """The stack does not have it yet, and the cluster has it: it stays the same object."""
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    LEAVE = "leave"
    """The stack no longer has it, and nobody deletes it."""


_OPS: Final = {
    "same": Op.SAME,
    "create": Op.CREATE,
    "import": Op.CREATE,
    "update": Op.UPDATE,
    "replace": Op.REPLACE,
    "delete": Op.DELETE,
}
"""Other operations are parts of a replacement, reads, or internal."""
_AT_THE_SERVER: Final = re.compile(
    r'(Preview failed: )?resource "?urn:\S+ was not successfully \w+ by the Kubernetes API server: '
)
"""The provider's words before those of the API server; they repeat the name of the resource."""
_NOISE: Final = re.compile(r"using pulumi-\S+ from \$PATH|context canceled$")
"""Messages to drop: places of plug-ins, and consequences of an error that is reported itself."""
_TRIED_AGAIN: Final = re.compile(r"Retry #\d+; \w+ failed: ")
"""The provider's words before those of the API server, while it retries until its timeout."""


@dataclass(frozen=True, slots=True)
class Step:
    """The operation on one resource; components of the program do not count."""

    urn: str
    op: Op
    before: Json
    """Inputs or outputs of the resource; for an object of the cluster, its manifest."""
    after: Json
    retained: bool = False
    going: str = ""
    """Since when the object is being deleted, and what holds it."""
    platform_of: str = ""
    """The stack whose platform the object is part of, as it says in the cluster."""

    @property
    def ref(self) -> Ref | None:
        """The object of the cluster that it is; None for other resources, such as those of a cloud."""
        manifest = self.after or self.before
        return Ref.of(manifest) if "kind" in manifest and "metadata" in manifest else None

    @property
    def name(self) -> str:
        """As users know it: `Kind name`, `Kind namespace/name`, or Pulumi's type and name."""
        if self.ref is None:
            _, _, kind, name = self.urn.split("::", 3)
            return f"{kind.rpartition(':')[2]} {name}"
        place = f"{self.ref.namespace}/" if self.ref.namespace else ""
        return f"{self.ref.kind} {place}{self.ref.name}"


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned or started operation on a resource."""

    step: Step
    preview: bool


@dataclass(frozen=True, slots=True)
class Done:
    """A resource has been checked, in a preview, or is as wanted."""

    urn: str
    preview: bool


class Severity(StrEnum):
    """How bad a message is."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message of the program, the engine or a provider."""

    severity: Severity
    urn: str
    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The condition that a provider waits for until a resource is ready."""

    urn: str
    text: str


@dataclass(frozen=True, slots=True)
class Violation:
    """A policy's violation by a resource."""

    policy: str
    mandatory: bool
    urn: str
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The preview or the update has ended."""

    preview: bool
    succeeded: bool


Event = Planned | Done | Diagnostic | Waiting | Violation | Ended


def read(line: str) -> Event | None:
    """The event of a line; None for one that users need not see.

    Raises:
        ValueError: The line is not an event of Pulumi.
    """
    event = json.loads(line)
    if not isinstance(event, dict):
        raise ValueError("not an object")
    if start := event.get("resourcePreEvent"):
        step = _step(start["metadata"])
        return None if step is None else Planned(step, bool(start.get("planning")))
    if outputs := event.get("resOutputsEvent"):
        metadata = outputs["metadata"]
        if not (metadata.get("new") or metadata.get("old") or {}).get("custom"):
            return None
        return Done(metadata["urn"], bool(outputs.get("planning")))
    if diagnostic := event.get("diagnosticEvent"):
        return _diagnostic(diagnostic)
    if violation := event.get("policyEvent"):
        return Violation(
            violation["policyName"],
            violation["enforcementLevel"] == "mandatory",
            violation.get("resourceUrn", ""),
            _plain(violation["message"]),
        )
    if summary := event.get("summaryEvent"):
        return Ended(bool(summary.get("isPreview")), summary.get("result", "succeeded") == "succeeded")
    return None


def _step(metadata: Json) -> Step | None:
    old, new = metadata.get("old") or {}, metadata.get("new") or {}
    op = _OPS.get(metadata["op"])
    if op is None or not (new or old).get("custom") or metadata["type"].startswith("pulumi:"):
        return None
    outputs = old.get("outputs") or {}
    return Step(
        metadata["urn"],
        op,
        inputs(old),
        inputs(new),
        retained=bool(old.get("retainOnDelete")),
        going=going(outputs) if "metadata" in outputs else "",
        platform_of=stack_of(outputs),
    )


def _diagnostic(diagnostic: Json) -> Diagnostic | Waiting | None:
    severity, urn = diagnostic["severity"], diagnostic.get("urn", "")
    text = _AT_THE_SERVER.sub("", _plain(diagnostic["message"]))
    if not text or severity not in tuple(Severity) or _NOISE.search(text):
        return None
    if not diagnostic.get("ephemeral"):
        return Diagnostic(Severity(severity), urn, text)
    if refused := _TRIED_AGAIN.match(text):
        return Diagnostic(Severity.WARNING, urn, text[refused.end() :])
    return Waiting(urn, text) if urn else None


def _plain(text: str) -> str:
    """Without Pulumi's marks for colors, such as `<{%reset%}>`."""
    while "<{%" in text:
        before, _, rest = text.partition("<{%")
        text = before + rest.partition("%}>")[2]
    return text.strip()
