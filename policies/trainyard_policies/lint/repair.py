"""Edits made in the text of a file, so that everything else in it stays as it is.

Comments, order, quotes and layout belong to the author: an edit touches only
the lines of its field. The result is read again, and is refused if it is
anything but the edited object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from trainyard_api import documents
from trainyard_api.documents import Document

from ..engine import Said, Violation
from ..rule import Edit, Rename, edited
from .files import CannotLintError

_ROUNDS: Final = 100
"""Repairs that may lead to further ones; more would mean that rules contradict each other."""

Judge = Callable[[Document], Iterable[Violation]]


@dataclass(frozen=True, slots=True)
class Repair:
    """An edit that was made."""

    line: int
    """Of the field in the text at that point, or of its nearest parent."""
    rule: str
    edit: Edit | Rename


def repaired(text: str, source: str, judge: Judge) -> tuple[str, tuple[Repair, ...]]:
    """The text with all edits made that remove their finding, and what was done, in order.

    The text is judged again after each repair. One that leaves its finding is taken back.

    Args:
        text: What the file holds.
        source: Its name, for messages.
        judge: What is to be repaired in a document.

    Raises:
        CannotLintError: An edit cannot be made in the text.
        DocumentError: The text is not a manifest.
    """
    made: list[Repair] = []
    futile: set[tuple[int, Said]] = set()
    for _ in range(_ROUNDS):
        repairable = _next(_read(text, source), judge, futile)
        if repairable is None:
            return text, tuple(made)
        position, violation = repairable
        attempt, repairs = text, []
        for edit in violation.finding.edits:
            line = _read(attempt, source)[position].position(edit.path.steps).line
            attempt = _apply(attempt, source, position, edit)
            repairs.append(Repair(line, violation.rule.id, edit))
        left = judge(_read(attempt, source)[position])
        if violation.said in {other.said for other in left}:
            futile.add((position, violation.said))
        else:
            text = attempt
            made += repairs
    raise CannotLintError(f"{source}: repairs do not end: report this as a bug in the rules")


def _read(text: str, source: str) -> tuple[Document, ...]:
    return tuple(documents.items(documents.parse(text, source)))


def _next(
    manifests: Sequence[Document], judge: Judge, futile: Collection[tuple[int, Said]]
) -> tuple[int, Violation] | None:
    for position, document in enumerate(manifests):
        for violation in judge(document):
            is_left = violation.exemption is not None or (position, violation.said) in futile
            if violation.finding.edits and not is_left:
                return position, violation
    return None


def _apply(text: str, source: str, position: int, edit: Edit | Rename) -> str:
    before = _read(text, source)
    document = before[position]
    result = _Surgeon(text).apply(document.node, edit)
    expected = [edited(other.value, [edit] if other is document else []) for other in before]
    try:
        is_right = result is not None and [other.value for other in _read(result, source)] == expected
    except documents.DocumentError:
        is_right = False
    if not is_right or result is None:
        line = document.position(edit.path.steps).line
        raise CannotLintError(f"{source}:{line}: {edit.path} could not be repaired: change it by hand")
    return result


class _Surgeon:
    """Edits a text at the places that its YAML nodes name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def apply(self, root: yaml.Node | None, edit: Edit | Rename) -> str | None:
        """The text with the edit made; None if it cannot be."""
        if isinstance(edit, Rename):
            return self._rename(root, edit)
        *parents, last = edit.path.steps
        node, value = root, edit.value
        for depth, step in enumerate(parents):
            child = _value(node, step)
            if child is None or _is_null(child):
                if value is None:
                    return self.text
                return self._set(node, step, _nested([*parents[depth + 1 :], last], value))
            node = child
        return self._remove(node, last) if value is None else self._set(node, last, value)

    def _rename(self, node: yaml.Node | None, edit: Rename) -> str | None:
        *parents, last = edit.path.steps
        for step in parents:
            node = _value(node, step)
        entry = _entry(node, last) if isinstance(node, yaml.MappingNode) else None
        if entry is None:
            return self.text
        key = entry[0]
        return self._replaced(key.start_mark.index, key.end_mark.index, edit.name)

    def _set(self, node: yaml.Node | None, key: str, value: Any) -> str | None:
        if not isinstance(node, yaml.MappingNode):
            return None
        entry = _entry(node, key)
        if node.flow_style:
            return self._set_in_flow(node, entry, key, value)
        column = node.start_mark.column
        lines = documents.dump([{key: value}]).rstrip("\n").splitlines()
        margin = self.newline + " " * column
        block = margin.join(lines)
        if entry is None:
            end = self._end(node)
            stop = self.text.find(self.newline, end)
            stop = len(self.text) if stop < 0 else stop
            return self._replaced(stop, stop, margin + block)
        return self._replaced(entry[0].start_mark.index, self._end(entry[1]), block)

    def _set_in_flow(
        self, node: yaml.MappingNode, entry: tuple[yaml.Node, yaml.Node] | None, key: str, value: Any
    ) -> str:
        written = f"{json.dumps(key)}: {json.dumps(value)}"
        if entry is not None:
            return self._replaced(entry[0].start_mark.index, self._end(entry[1]), written)
        if node.value:
            end = self._end(node.value[-1][1])
            return self._replaced(end, end, f", {written}")
        return self._replaced(node.start_mark.index, node.end_mark.index, f"{{{written}}}")

    def _remove(self, node: yaml.Node | None, key: str) -> str | None:
        if not isinstance(node, yaml.MappingNode):
            return None
        keys = [one.value for one, _ in node.value]
        if key not in keys:
            return self.text
        if len(keys) == 1:
            return self._replaced(node.start_mark.index, self._end(node), "{}")
        position = keys.index(key)
        start = node.value[position][0].start_mark.index
        end = self._end(node.value[position][1])
        line = self.text.rfind("\n", 0, start) + 1
        if not node.flow_style and not self.text[line:start].strip():
            stop = self.text.find("\n", end)
            return self._replaced(line, len(self.text) if stop < 0 else stop + 1, "")
        if position + 1 < len(keys):
            following = node.value[position + 1][0].start_mark.index
            return None if "#" in self.text[end:following] else self._replaced(start, following, "")
        return self._replaced(self._end(node.value[position - 1][1]), end, "")

    def _end(self, node: yaml.Node) -> int:
        """Where a node's own text ends: PyYAML counts what follows a block as part of it."""
        if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            last = node.value[-1]
            return self._end(last[1] if isinstance(last, tuple) else last)
        start, end = int(node.start_mark.index), int(node.end_mark.index)
        return start + len(self.text[start:end].rstrip())

    def _replaced(self, start: int, end: int, new: str) -> str:
        return self.text[:start] + new + self.text[end:]


def _entry(node: yaml.MappingNode, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    return next(((k, v) for k, v in node.value if k.value == key), None)


def _value(node: yaml.Node | None, step: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        entry = _entry(node, step)
        return entry[1] if entry else None
    if isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        child: yaml.Node = node.value[int(step)]
        return child
    return None


def _is_null(node: yaml.Node) -> bool:
    return node.tag == "tag:yaml.org,2002:null"


def _nested(steps: Sequence[str], value: Any) -> Any:
    for step in reversed(steps):
        value = {step: value}
    return value
