"""What differs between two catalogs is said field by field."""

from typing import Any

from trainyard_platform.catalog.changes import ABSENT, Change, Field, Kind, between


def test_runtimes_come_go_and_change() -> None:
    before: dict[str, Any] = {
        "gone": {"spec": {}},
        "kept": {"spec": {"a": 1}},
        "other": {"spec": {"a": 1, "b": [1, 2]}},
    }
    after: dict[str, Any] = {
        "kept": {"spec": {"a": 1}},
        "new": {"spec": {}},
        "other": {"spec": {"a": 2, "b": [1], "c": 0}},
    }
    assert between(before, after) == (
        Change("gone", Kind.REMOVED),
        Change("new", Kind.ADDED),
        Change(
            "other",
            Kind.CHANGED,
            (Field("spec.a", 1, 2), Field("spec.b", [1, 2], [1]), Field("spec.c", ABSENT, 0)),
        ),
    )


def test_entries_with_names_are_compared_by_name() -> None:
    before = {"rt": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}}
    after = {
        "rt": {
            "env": [{"name": "C", "value": "0"}, {"name": "A", "value": "1"}, {"name": "B", "value": "3"}],
            "labels": {"example.com/a": "b"},
        }
    }
    assert between(before, after) == (
        Change(
            "rt",
            Kind.CHANGED,
            (
                Field("env[B].value", "2", "3"),
                Field("env[C]", ABSENT, {"name": "C", "value": "0"}),
                Field("labels", ABSENT, {"example.com/a": "b"}),
            ),
        ),
    )


def test_a_key_that_is_no_word_stands_in_brackets() -> None:
    assert between({"rt": {"labels": {"a.b/c": "1"}}}, {"rt": {"labels": {"a.b/c": "2"}}}) == (
        Change("rt", Kind.CHANGED, (Field("labels[a.b/c]", "1", "2"),)),
    )
