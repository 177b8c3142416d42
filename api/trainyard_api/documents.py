"""YAML as kubectl reads it, with line numbers; and written so that kubectl reads it back.

Called by the command line with text that it has read, and for the runtime
snapshots that Kubeflow Trainer keeps as YAML. Reads no files itself.

It differs from PyYAML's safe loader where kubectl does: `n` and `y` are
booleans, dates stay text, `1:30` is not a number, `1e3` is one, keys become
text. Aliases and merge keys (`<<`) are written out, so that no two fields share
a value. It refuses what no manifest needs: duplicate keys, nesting beyond 50,
more than 3 MiB, and aliases that stand for more than 1 MiB (a few lines of them
expand to gigabytes).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final, cast

import yaml

from .errors import UserError
from .json_types import Json, copied

MAX_BYTES: Final = 3 * 2**20
MAX_ALIASED: Final = 2**20
"""Characters that all aliases of a text together may expand to."""
MAX_DEPTH: Final = 50
_ALIASES: Final = "the aliases of this text stand for more than 1 MiB: write out what you need of it"
_NO_ALIASES: Final = "aliases are not allowed here: write out what the anchor stands for"
_ALIAS_INSIDE: Final = "an alias must not be inside what it stands for"
_NO_OBJECT_TO_MERGE: Final = "a merge key (<<) takes an object, or a list of objects"
_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels"
_VALUE: Final = 32
"""Additional characters per value: for its key, and the indentation of both."""
_NO_OBJECT: Final = "a document must be an object"
_NO_OBJECT_HERE: Final = "an object should be here"
_NO_OBJECT_ITEM: Final = "an item of a List must be an object"
_SHORT: Final = 16 * 2**10
"""Characters of a text that is remembered; its nodes take about 30 bytes for each, its values less."""
_REMEMBERED: Final = 64
"""Texts that are remembered: more than the catalog has files."""
_TOO_LARGE: Final = f"larger than {MAX_BYTES >> 20} MiB"
_UNNAMED: Final = "<text>"
_NOT_CLOSED: Final = {
    "expected ',' or ']', but got '<stream end>'": "a list begins here, and no ']' closes it",
    "expected ',' or '}', but got '<stream end>'": "an object begins here, and no '}' closes it",
    "found unexpected end of stream": "a quoted text begins here, and no quote closes it",
}
"""PyYAML's messages at the end of a text, with our messages at the start of the value."""
_WORDS: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"expected the node content, but found '<stream end>'", "the text ends where a value should be"),
        (r"expected the node content", "a value should be here"),
        (r"expected ',' or '\]'", "a ',' should be here, or the ']' of the list that begins in line {line}"),
        (
            r"expected ',' or '}'",
            "a ',' should be here, or the '}}' of the object that begins in line {line}",
        ),
        (
            r"expected <block end>",
            "no entry can begin here: check the indentation, and quotes before it",
        ),
        (r"found character '\\t'", "a tab is not allowed here: indent with spaces"),
        (r"found character '([@`%])'", "a value that begins with this character must be quoted"),
        (
            r"mapping values are not allowed here",
            "no entry can begin inside a value: quote it, or correct the indentation",
        ),
        (r"could not find expected ':'", "an entry must be 'key: value'"),
        (r"expected a scalar node", "a text or a number should be here"),
        (r"expected a sequence node", "a list should be here"),
        (r"could not determine a constructor for the tag", "YAML tags are not allowed"),
        (r"found undefined alias", "no anchor of this name is above this alias"),
    )
)
"""The beginnings of PyYAML's messages, with our messages instead."""

_NOTHING: Final = re.compile(r"~|null|Null|NULL|")
_TRUTH: Final = re.compile(
    r"y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON|n|N|no|No|NO|false|False|FALSE|off|Off|OFF"
)
_RESOLVERS: Final = (
    ("tag:yaml.org,2002:merge", re.compile("<<"), ["<"]),
    ("tag:yaml.org,2002:null", _NOTHING, ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", _TRUTH, list("yYtToOnNfF")),
    (
        "tag:yaml.org,2002:int",
        re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)"),
        list("-+0123456789"),
    ),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
        ),
        list("-+0123456789."),
    ),
)
_MERGE: Final = "tag:yaml.org,2002:merge"
_OCTAL: Final = re.compile(r"0[0-7]+")
"""Octal numbers in YAML 1.1."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text, counted from 1."""

    line: int
    column: int


START: Final = Position(1, 1)


class DocumentError(UserError, ValueError):
    """Text that is not a manifest: one sentence, after `source:line:column:`.

    Args:
        source: Where the text comes from.
        position: The place in it.
        problem: What is wrong there.
    """

    def __init__(self, source: str, position: Position, problem: str) -> None:
        super().__init__(f"{source}:{position.line}:{position.column}: {problem}")
        self.position = position
        self.problem = problem

    @classmethod
    def of(cls, error: yaml.YAMLError, text: str, source: str) -> DocumentError:
        """PyYAML's error with its place, in plain words."""
        if isinstance(error, yaml.reader.ReaderError):
            before = text[: error.position]
            place = Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
            return cls(source, place, str(error).splitlines()[0])
        if not isinstance(error, yaml.MarkedYAMLError):
            return cls(source, START, " ".join(str(error).split()))
        problem = error.problem or error.context or "not YAML"
        mark = error.problem_mark or error.context_mark
        if problem in _NOT_CLOSED:
            mark = error.context_mark or mark
            problem = _NOT_CLOSED[problem]
        place = Position(mark.line + 1, mark.column + 1) if mark else START
        began = error.context_mark.line + 1 if error.context_mark else place.line
        better = (words.format(line=began) for pattern, words in _WORDS if pattern.match(problem))
        return cls(source, place, next(better, problem))


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document that holds an object, and where it begins."""

    source: str
    line: int
    value: Json
    node: yaml.Node | None = field(default=None, repr=False, compare=False)

    @property
    def place(self) -> str:
        """`source:line`, for messages."""
        return f"{self.source}:{self.line}"

    def position(self, steps: Iterable[str | int]) -> Position:
        """The position of the field at the end of the steps, or of the nearest parent that exists."""
        place, node = Position(self.line, 1), self.node
        for step in steps:
            child = _child(node, str(step))
            if child is None:
                break
            mark, node = child
            place = Position(mark.line + 1, mark.column + 1)
        return place


_Held = tuple[yaml.Node, Any]
"""The root node of a document, and its value."""


def parse(text: str, source: str) -> tuple[Document, ...]:
    """The documents in `text`, empty ones left out; `source` names it in messages.

    Raises `DocumentError` when the text is not YAML, when a document is not an
    object, or when it contains something refused.
    """
    if len(text.encode()) > MAX_BYTES:
        raise DocumentError(source, START, _TOO_LARGE)
    try:
        held = _copies(text) if len(text) <= _SHORT else _held(_nodes(_QuickLoader(text)))
        return tuple(_documents(held, source))
    except yaml.YAMLError:
        return _parse_in_words(text, source)


def items(documents: Iterable[Document]) -> Iterator[Document]:
    """The documents, and in place of a List what is in it, as kubectl applies it.

    Raises `DocumentError` for an item that is not an object.
    """
    for document in documents:
        elements = document.value.get("items")
        if isinstance(elements, list) and str(document.value.get("kind")).endswith("List"):
            yield from items(_item(document, position, value) for position, value in enumerate(elements))
        else:
            yield document


def _item(document: Document, position: int, value: Any) -> Document:
    place = document.position(("items", position))
    if not isinstance(value, dict):
        raise DocumentError(document.source, place, _NO_OBJECT_ITEM)
    held = _child(document.node, "items")
    child = None if held is None else _child(held[1], str(position))
    return Document(document.source, place.line, value, None if child is None else child[1])


def _parse_in_words(text: str, source: str) -> tuple[Document, ...]:
    """Like `parse`, with the parser in Python: a quarter as fast, but its errors say more."""
    try:
        return tuple(_documents(_held(_nodes(_Loader(text))), source))
    except yaml.YAMLError as error:
        raise DocumentError.of(error, text, source) from error


def read(text: str) -> Json:
    """The one document in `text`, for text whose errors are not reported.

    Unlike `parse`, it does not read the text again for a better error, and takes no aliases: programs
    write such text, and they need none.

    Raises:
        DocumentError: The text is not YAML, or is refused, or does not hold exactly one object.
    """
    if len(text.encode()) > MAX_BYTES:
        raise DocumentError(_UNNAMED, START, _TOO_LARGE)
    try:
        value = _StrictLoader(text).get_single_data()
    except yaml.YAMLError as error:
        raise DocumentError.of(error, text, _UNNAMED) from error
    if not isinstance(value, dict):
        raise DocumentError(_UNNAMED, START, _NO_OBJECT)
    return value


def dump(documents: Iterable[Json]) -> str:
    """The objects as YAML documents, keys sorted, quoted wherever kubectl would not read text."""
    return yaml.dump_all(list(documents), Dumper=_Dumper, sort_keys=True, width=2**20, allow_unicode=True)


def _nodes(loader: _Loader) -> tuple[yaml.Node, ...]:
    """The root node of each document."""
    nodes = []
    while loader.check_node():
        nodes.append(cast(yaml.Node, loader.get_node()))
    return tuple(nodes)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(text: str) -> tuple[_Held, ...]:
    """What a short text holds. Commands read the catalog's files several times, once for each stack."""
    return tuple(_held(_nodes(_QuickLoader(text))))


def _copies(text: str) -> Iterator[_Held]:
    """What a short text holds, with values that callers may change."""
    return ((node, copied(value)) for node, value in _remembered(text))


def _held(nodes: Iterable[yaml.Node]) -> Iterator[_Held]:
    """The documents of the nodes."""
    loader = _QuickLoader("")
    for node in nodes:
        yield node, loader.construct_document(node)


def _documents(held: Iterable[_Held], source: str) -> Iterator[Document]:
    """The documents that are not empty; raises `DocumentError` for one that is no object."""
    for node, value in held:
        if value is None:
            continue
        start = Position(node.start_mark.line + 1, node.start_mark.column + 1)
        if not isinstance(value, dict):
            raise DocumentError(source, start, _NO_OBJECT)
        yield Document(source, start.line, value, node)


def _child(node: yaml.Node | None, step: str) -> tuple[yaml.Mark, yaml.Node] | None:
    """An entry's position, and its value."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark, value
    if isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        child = node.value[int(step)]
        return child.start_mark, child
    return None


def _merged(entries: Sequence[tuple[yaml.Node, yaml.Node]]) -> Iterator[tuple[yaml.Node, yaml.Node]]:
    """The entries of an object and its merge keys: its own take precedence, then those of the first."""
    own = [(key, value) for key, value in entries if key.tag != _MERGE]
    taken = {key.value for key, _ in own if isinstance(key, yaml.ScalarNode)}
    yield from own
    for merge, value in entries:
        if merge.tag != _MERGE:
            continue
        for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(source, yaml.MappingNode):
                raise yaml.composer.ComposerError(None, None, _NO_OBJECT_TO_MERGE, source.start_mark)
            added = [
                (key, item)
                for key, item in source.value
                if not (isinstance(key, yaml.ScalarNode) and key.value in taken)
            ]
            taken |= {key.value for key, _ in added if isinstance(key, yaml.ScalarNode)}
            yield from added


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own attribute)
    most_copied: ClassVar[int] = MAX_ALIASED
    """The size of expanded aliases, as `_VALUE` counts it."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._copied_size = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            anchored = self.anchors.get(event.anchor)
            return super().compose_node(parent, index) if anchored is None else self._written_out(anchored)
        self.anchors.pop(event.anchor, None)  # a later anchor of the same name takes its place
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, _TOO_DEEP, event.start_mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        if any(key.tag == _MERGE for key, _ in node.value):
            node.value = list(_merged(node.value))
        return node

    def _written_out(self, anchored: yaml.Node) -> yaml.Node:
        """A copy of an alias's value."""
        mark = self.get_event().start_mark  # type: ignore[no-untyped-call]
        if anchored.end_mark is None:
            raise yaml.composer.ComposerError(None, None, _ALIAS_INSIDE, mark)
        return self._copied(anchored, self._depth + 1, mark)

    def _copied(self, node: yaml.Node, depth: int, mark: yaml.Mark) -> yaml.Node:
        self._copied_size += _VALUE + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if self._copied_size > self.most_copied:
            problem = _ALIASES if self.most_copied else _NO_ALIASES
            raise yaml.composer.ComposerError(None, None, problem, mark)
        if depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, _TOO_DEEP, mark)
        value = node.value
        if isinstance(node, yaml.SequenceNode):
            value = [self._copied(item, depth + 1, mark) for item in value]
        elif isinstance(node, yaml.MappingNode):
            value = [
                (self._copied(key, depth + 1, mark), self._copied(item, depth + 1, mark))
                for key, item in value
            ]
        return type(node)(node.tag, value, node.start_mark, node.end_mark)

    def construct_object_of_texts(self, node: yaml.Node) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, _NO_OBJECT_HERE, node.start_mark)
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _key(self.construct_object(key_node, deep=True), key_node)
            if key in result:
                raise yaml.constructor.ConstructorError(
                    None, None, f"duplicate key {key!r}", key_node.start_mark
                )
            result[key] = self.construct_object(value_node, deep=True)
        return result

    def construct_whole_number(self, node: yaml.ScalarNode) -> int:
        digits = self.construct_scalar(node).replace("_", "")
        unsigned = digits.lstrip("+-")
        if _OCTAL.fullmatch(unsigned):
            digits = digits.replace(unsigned, "0o" + unsigned)
        try:
            number = int(digits, 0)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(None, None, "not a number", node.start_mark) from error
        if abs(number) > sys.float_info.max:
            problem = "a number is too large for JSON: quote it if it is a text"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return number

    def construct_number(self, node: yaml.ScalarNode) -> float:
        text = self.construct_scalar(node)
        try:
            number = float(text)
        except ValueError:
            number = math.inf
        if not math.isfinite(number):
            raise yaml.constructor.ConstructorError(
                None, None, f"{text} is not a JSON number", node.start_mark
            )
        return number

    def construct_text(self, node: yaml.ScalarNode) -> str:
        return self.construct_scalar(node)

    def construct_truth(self, node: yaml.ScalarNode) -> bool:
        text = self.construct_scalar(node)
        if _TRUTH.fullmatch(text) is None:
            raise yaml.constructor.ConstructorError(None, None, "neither true nor false", node.start_mark)
        return text.lower() in ("y", "yes", "true", "on")

    def construct_nothing(self, node: yaml.ScalarNode) -> None:
        if _NOTHING.fullmatch(self.construct_scalar(node)) is None:
            raise yaml.constructor.ConstructorError(None, None, "not null", node.start_mark)


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_object_of_texts)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_whole_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_number)
_Loader.add_constructor("tag:yaml.org,2002:bool", _Loader.construct_truth)
_Loader.add_constructor("tag:yaml.org,2002:null", _Loader.construct_nothing)
_Loader.add_constructor(_MERGE, _Loader.construct_text)
for _kind in ("binary", "omap", "pairs", "set", "timestamp"):  # JSON has none of them
    del _Loader.yaml_constructors[f"tag:yaml.org,2002:{_kind}"]


class _QuickLoader(_Loader):
    """A loader whose events come from the parser in C, where PyYAML has it."""

    def __init__(self, text: str) -> None:
        if not yaml.__with_libyaml__:
            super().__init__(text)
            return
        super().__init__("")
        parser = yaml.CSafeLoader(text)
        for name in ("check_event", "peek_event", "get_event"):
            setattr(self, name, getattr(parser, name))


class _StrictLoader(_QuickLoader):
    """A loader that takes no aliases."""

    most_copied = 0


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own attribute)

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _class in (_Loader, _Dumper):
    for _tag, _pattern, _first in _RESOLVERS:
        _class.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern.pattern})$"), _first)


def _key(value: Any, node: yaml.Node) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise yaml.constructor.ConstructorError(None, None, "a key must be a string", node.start_mark)
