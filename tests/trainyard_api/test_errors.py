"""Field errors read as Kubernetes prints them."""

import pytest

from trainyard_api.errors import ErrorType, FieldError, FieldPath, InvalidFieldError, UserError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FieldError(ErrorType.INVALID, "spec.a", "x", "must be y"), 'spec.a: Invalid value: "x": must be y'),
        (FieldError(ErrorType.INVALID, "spec.a", 2, "must be 1"), "spec.a: Invalid value: 2: must be 1"),
        (FieldError(ErrorType.INVALID, "spec.a", None, "must be"), "spec.a: Invalid value: null: must be"),
        (FieldError(ErrorType.INVALID, "spec.a", True), "spec.a: Invalid value: true"),
        (
            FieldError(ErrorType.INVALID, "spec.ref", {"name": "a&b", "kind": "Ü"}, "no"),
            'spec.ref: Invalid value: {"name":"a\\u0026b","kind":"Ü"}: no',
        ),
        (FieldError(ErrorType.FORBIDDEN, "spec.a", "x", "not now"), "spec.a: Forbidden: not now"),
        (FieldError(ErrorType.REQUIRED, "spec.a", None), "spec.a: Required value"),
        (FieldError(ErrorType.DUPLICATE, "spec.a[1]", "x"), 'spec.a[1]: Duplicate value: "x"'),
        (
            FieldError(ErrorType.NOT_SUPPORTED, "spec.a", "x", 'supported values: "y"'),
            'spec.a: Unsupported value: "x": supported values: "y"',
        ),
        (FieldError(ErrorType.INTERNAL, "spec.a", None, "oh"), "spec.a: Internal error: oh"),
        (FieldError(ErrorType.TOO_LONG, "spec.a", "xx", "at most 1"), "spec.a: Too long: at most 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_reads(error, text):
    assert str(error) == text


def test_a_path_is_made_of_fields_positions_and_keys():
    path = FieldPath("spec").child("jobs").index(2).child("limits").key("nvidia.com/gpu")
    assert str(path) == "spec.jobs[2].limits[nvidia.com/gpu]"
    assert str(FieldPath().child("spec", "a")) == "spec.a"


def test_an_exception_says_all_its_errors():
    errors = (FieldError(ErrorType.REQUIRED, "a", None), FieldError(ErrorType.REQUIRED, "b", None))
    assert str(InvalidFieldError(*errors)) == "a: Required value; b: Required value"


def test_a_path_comes_apart_into_its_steps():
    path = FieldPath("spec").child("jobs").index(2).child("labels").key("example.com/a.b")
    assert path.text == "spec.jobs[2].labels[example.com/a.b]"
    assert path.steps == ("spec", "jobs", "2", "labels", "example.com/a.b")
    assert FieldPath().steps == ()


@pytest.mark.parametrize(
    ("path", "end"),
    [
        ("", ""),
        ("spec", "spec"),
        ("spec.template.containers[0].image", "containers[0].image"),
        ("metadata.annotations[example.com/a.b]", "metadata.annotations[example.com/a.b]"),
        ("a.b.c[0][1]", "b.c[0][1]"),
    ],
)
def test_the_end_of_a_path_is_what_people_know_a_field_by(path: str, end: str) -> None:
    assert FieldPath(path).end == end


def test_an_error_for_users_keeps_its_lines_and_controls_no_terminal() -> None:
    error = UserError("f.yaml:1: no \x1b[31mkey\x1b[0m\n  f.yaml:2: \u202ewrong\x07")
    assert (error.shown, error.exit_code) == ("f.yaml:1: no key\n  f.yaml:2: wrong", 2)
