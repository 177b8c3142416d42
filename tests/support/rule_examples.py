"""The specification of the rules: `examples/<rule-id>.yaml`, one table a rule, for all gates.

An example is a manifest of `manifests/` with fields `set` (null takes one
away), or `manifests` in full for a rule about all of them; the `parameters` of
a stack; and the findings, as whole objects. No findings means that it passes.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from trainyard_api import documents
from trainyard_api.errors import FieldPath, invalid
from trainyard_policies import rules
from trainyard_policies.parameters import Parameters
from trainyard_policies.rule import Edit, Finding, Rename, StackRule, edited
from trainyard_policies.settings import Policies

TODAY = date(2026, 11, 21)
"""The day of the examples."""
HERE = Path(__file__).parents[1] / "trainyard_policies"
FOLDER = HERE / "examples"


class OnThatDay(date):
    """In place of `date`, where a gate asks for today itself."""

    @classmethod
    def today(cls) -> Any:
        return TODAY


@dataclass(frozen=True)
class Example:
    rule: Any
    name: str
    manifests: tuple[dict[str, Any], ...]
    policies: Policies
    findings: tuple[tuple[int, Finding], ...]
    """Each with the position of the manifest that it is about."""

    @property
    def manifest(self) -> dict[str, Any]:
        [manifest] = self.manifests
        return manifest

    def __str__(self) -> str:
        return f"{self.rule.id}: {self.name}"


def manifest(name: str) -> dict[str, Any]:
    return deepcopy(_read(name))


def changed(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return edited(_read(name), [Edit(FieldPath(path), value) for path, value in fields.items()])


@cache  # hundreds of examples are of a few manifests
def _read(name: str) -> dict[str, Any]:
    path = HERE / "manifests" / f"{name}.yaml"
    [document] = documents.parse(path.read_text(), str(path))
    return dict(document.value)


@cache
def all_examples() -> tuple[Example, ...]:
    return tuple(_examples())


def _examples() -> Iterator[Example]:
    for rule in rules.ALL:
        for entry in _table(FOLDER / f"{rule.id}.yaml"):
            given = entry.get("manifests") or [changed(entry["manifest"], entry.get("set", {}))]
            yield Example(
                rule,
                entry["name"],
                tuple(given),
                Policies(parameters=Parameters.model_validate(entry.get("parameters", {}))),
                tuple((one.get("of", 0), _finding(one)) for one in entry.get("findings", [])),
            )


def of_workloads() -> list[Example]:
    return [example for example in all_examples() if not isinstance(example.rule, StackRule)]


def of_the_stack() -> list[Example]:
    return [example for example in all_examples() if isinstance(example.rule, StackRule)]


STRICT = (
    'the rule chart-hooks cannot read a field: spec: Invalid value: "x": must be an object; let the rule '
    "report the manifest that has it, with trainyard_policies.rule.unreadable"
)
"""What every gate says of `strict_rule`."""


def strict_rule() -> Any:
    """A rule that does not handle what it cannot read."""
    return ending_with(invalid("spec", "x", "must be an object"), "chart-hooks")


def ending_with(error: Exception, name: str) -> Any:
    """That rule, with an exception in its check."""

    def check(*_: Any) -> Iterator[Any]:
        yield from ()
        raise error

    rule: Any = rules.BY_ID[name]
    return replace(rule, check=check)


def _table(path: Path) -> list[dict[str, Any]]:
    [document] = documents.parse(f"examples:\n{path.read_text()}", str(path))
    return list(document.value["examples"])


def _finding(entry: dict[str, Any]) -> Finding:
    edits = tuple(_edit(one) for one in entry.get("edits", []))
    return Finding(FieldPath(entry["path"]), entry["message"], edits)


def _edit(entry: dict[str, Any]) -> Edit | Rename:
    path = FieldPath(entry["path"])
    return Rename(path, entry["rename"]) if "rename" in entry else Edit(path, entry.get("value"))
