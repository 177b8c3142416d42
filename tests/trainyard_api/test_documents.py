"""YAML is read as kubectl reads it, and written so that kubectl reads it back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_api.documents import Document, DocumentError, Position, dump, items, parse, read


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: n", False),
        ("a: Yes", True),
        ("a: ~", None),
        ("a:", None),
        ("a: 010", 8),
        ("a: 0o10", 8),
        ("a: 0x1f", 31),
        ("a: 1_000", 1000),
        ("a: !!bool 'on'", True),
        ("a: !!null", None),
        ("a: -0b11", -3),
        ("a: 1:30", "1:30"),
        ("a: 1e3", 1000.0),
        ("a: .5", 0.5),
        ("a: 2026-01-01", "2026-01-01"),
        ("a: '1'", "1"),
        ("a: 089", 89.0),
        ("a:\tb", "b"),
        ("a: [1, {b: c}]", [1, {"b": "c"}]),
    ],
)
def test_a_value_is_read(text, value):
    assert parse(text, "f")[0].value == {"a": value}
    assert read(text) == {"a": value}


@pytest.mark.parametrize(("key", "name"), [("n", "false"), ("on", "true"), ("8", "8"), ("'n'", "n")])
def test_a_key_becomes_text(key, name):
    assert parse(f"{key}: x", "f")[0].value == {name: "x"}


def test_documents_know_their_lines_and_empty_ones_are_left_out():
    assert parse("# head\na: 1\n---\n---\n# note\nb: 2\n", "f.yaml") == (
        Document("f.yaml", 2, {"a": 1}),
        Document("f.yaml", 6, {"b": 2}),
    )


@pytest.mark.parametrize(
    ("steps", "position"),
    [
        ([], Position(2, 1)),
        (["a"], Position(2, 1)),
        (["a", 1], Position(4, 7)),
        (["a", "1", "x.y/z"], Position(4, 7)),
        (["a", 0, "f"], Position(3, 8)),
        (["a", 2, "x"], Position(2, 1)),
        (["c", "d"], Position(5, 1)),
    ],
    ids=str,
)
def test_a_document_knows_where_each_field_or_its_nearest_parent_stands(steps, position):
    [document] = parse("# head\na:\n    - {f: 1}\n    - x.y/z: 1\nc: text\n", "f.yaml")
    assert document.position(steps) == position


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)
"""Ten to the ninth values in nine lines."""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &x {p: [1]}\nb: *x", {"a": {"p": [1]}, "b": {"p": [1]}}),
        ("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}),
        ("a: &x {p: 1, q: 2}\nb: {<<: *x, p: 3}", {"a": {"p": 1, "q": 2}, "b": {"p": 3, "q": 2}}),
        ("b: {<<: [{p: 1}, {p: 2, q: 3}]}", {"b": {"p": 1, "q": 3}}),
        ("b: {'<<': 1}\nc: <<", {"b": {"<<": 1}, "c": "<<"}),
    ],
)
def test_aliases_and_merge_keys_are_written_out(text, value):
    assert parse(text, "f")[0].value == value


def test_what_an_alias_stands_for_is_a_value_of_its_own_and_known_by_the_place_of_its_anchor():
    [document] = parse("a: &x {p: [1]}\nb: *x", "f")
    document.value["b"]["p"].append(2)
    assert document.value == {"a": {"p": [1]}, "b": {"p": [1, 2]}}
    assert (document.position(["b"]), document.position(["b", "p"])) == (Position(2, 1), Position(1, 8))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "f:2:1: duplicate key 'a'"),
        ("b: *x", "f:1:4: no anchor of this name is above this alias"),
        ("a: &x [*x]", "f:1:8: an alias must not be inside what it stands for"),
        ("a: {<<: 1}", "f:1:9: a merge key (<<) takes an object, or a list of objects"),
        (BOMB, "f:5:15: the aliases of this text stand for more than 1 MiB: write out what you need of it"),
        (
            f"a: &x {'x' * 2**16}\nb: [{', '.join(['*x'] * 20)}]",
            "f:2:65: the aliases of this text stand for more than 1 MiB: write out what you need of it",
        ),
        (f"a: &x {'[' * 30}{']' * 30}\nb: {'[' * 30}*x{']' * 30}", "f:2:34: nested deeper than 50 levels"),
        ("a: .nan", "f:1:4: .nan is not a JSON number"),
        (f"a: 0x{'f' * 4000}", "f:1:4: a number is too large for JSON: quote it if it is a text"),
        (f"a: {'9' * 400}", "f:1:4: a number is too large for JSON: quote it if it is a text"),
        (f"a: {'9' * 5000}", "f:1:4: not a number"),
        ("~: 1", "f:1:1: a key must be a string"),
        ("\n- 1", "f:2:1: a document must be an object"),
        ("a: !!python/name:os.system x", "f:1:4: YAML tags are not allowed"),
        ("a: !!timestamp 2026-11-31", "f:1:4: YAML tags are not allowed"),
        ("a: !!int ''", "f:1:4: not a number"),
        ("a: !!bool maybe", "f:1:4: neither true nor false"),
        ("a: !!null none", "f:1:4: not null"),
        ("a: !!int [1]", "f:1:4: a text or a number should be here"),
        ("a: !!seq x", "f:1:4: a list should be here"),
        ("a: !!map x", "f:1:4: an object should be here"),
        ("a: {<<: {[x]: 1}}", "f:1:10: a key must be a string"),
        ("b: 1\na: \x07", "f:2:4: unacceptable character #x0007: special characters are not allowed"),
        ("a: " + "[" * 60 + "]" * 60, "f:1:53: nested deeper than 50 levels"),
        ("a: " + "x" * 3 * 2**20, "f:1:1: larger than 3 MiB"),
    ],
    ids=lambda value: value[:30],
)
def test_what_a_manifest_has_no_use_for_is_refused_with_its_place(text, message):
    with pytest.raises(DocumentError) as raised:
        parse(text, "f")
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [", "f:2:5: the text ends where a value should be"),
        ("a: [1}", "f:1:6: a ',' should be here, or the ']' of the list that begins in line 1"),
        ("a: [\n  1\nb: 2", "f:3:2: a ',' should be here, or the ']' of the list that begins in line 1"),
        ("a: [1", "f:1:4: a list begins here, and no ']' closes it"),
        ("a: {b: 1", "f:1:4: an object begins here, and no '}' closes it"),
        ("a: {b: 1]", "f:1:9: a ',' should be here, or the '}' of the object that begins in line 1"),
        ("a: ]", "f:1:4: a value should be here"),
        (
            "a:\n    b: 1\n  c: 2",
            "f:3:3: no entry can begin here: check the indentation, and quotes before it",
        ),
        ("a: 'x' y", "f:1:8: no entry can begin here: check the indentation, and quotes before it"),
        ("a:\n\tb: 1", "f:2:1: a tab is not allowed here: indent with spaces"),
        ("a: `b`", "f:1:4: a value that begins with this character must be quoted"),
        ("a: 'b", "f:1:4: a quoted text begins here, and no quote closes it"),
        ("a: b: c", "f:1:5: no entry can begin inside a value: quote it, or correct the indentation"),
        ("a: 1\nb\nc: 1", "f:3:1: an entry must be 'key: value'"),
    ],
)
def test_a_mistake_in_yaml_is_one_sentence_with_line_and_column(text, message):
    with pytest.raises(DocumentError) as raised:
        parse(text, "f")
    assert str(raised.value) == message


def test_text_that_kubectl_would_take_for_something_else_is_quoted():
    assert dump([{"n": "y", "a": "1e3", "b": "2026-01-01", "c": "010"}]) == (
        "a: '1e3'\nb: 2026-01-01\nc: '010'\n'n': 'y'\n"
    )


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=8)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    TEXT,
    st.sampled_from(["n", "1e3", "0o7", "~", "<<", "="]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)


@given(value=st.dictionaries(TEXT, VALUES, max_size=4))
def test_what_is_written_reads_back_the_same(value):
    assert parse(dump([value]), "f")[0].value == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a",
        "a: 1\n---\nb: 2",
        "a: [",
        "a: &x 1\nb: *x",
        "a: 1\na: 2",
        "a: " + "[" * 60 + "]" * 60,
        "a: " + "x" * (3 * 2**20),
    ],
    ids=["nothing", "no object", "two", "no YAML", "an alias", "a duplicate key", "deep", "large"],
)
def test_what_is_read_quickly_is_refused_as_what_is_parsed(text):
    with pytest.raises(DocumentError):
        read(text)


LISTED = """\
kind: A
---
kind: List
items:
- kind: B
  spec: {x: 1}
- kind: CList
  items:
  - kind: C
"""


def test_a_text_that_is_read_again_is_another_value_with_the_place_of_its_own_source():
    text = "a: {b: [1]}"
    [first], [second] = parse(text, "f"), parse(text, "g")
    first.value["a"]["b"].append(2)
    assert (second.value, second.place, parse(text, "f")[0].value) == (
        {"a": {"b": [1]}},
        "g:1",
        {"a": {"b": [1]}},
    )


def test_the_items_of_a_list_are_documents_with_their_places():
    found = list(items(parse(LISTED, "f")))
    assert found == [
        Document("f", 1, {"kind": "A"}),
        Document("f", 5, {"kind": "B", "spec": {"x": 1}}),
        Document("f", 9, {"kind": "C"}),
    ]
    assert found[1].position(["spec", "x"]) == Position(6, 10)


@pytest.mark.parametrize("text", ["{kind: List}", "{kind: List, items: x}", "{kind: Playlist, items: {}}"])
def test_what_is_no_list_of_objects_is_a_document(text):
    assert list(items(parse(text, "f"))) == list(parse(text, "f"))


def test_an_item_that_is_not_an_object_is_refused_with_its_place():
    with pytest.raises(DocumentError, match=r"^f:3:3: an item of a List must be an object$"):
        list(items(parse("kind: List\nitems:\n- 7\n", "f")))
