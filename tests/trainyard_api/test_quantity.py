"""Quantities are read, added and printed as the API server does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_api.quantity import NANO, Notation, Quantity, canonical, parse


@pytest.mark.parametrize(
    ("given_", "printed"),
    [
        (2, "2"),
        (2.0, "2"),
        (0.5, "500m"),
        ("2", "2"),
        ("+2", "2"),
        ("-1500m", "-1500m"),
        ("0", "0"),
        ("0Gi", "0"),
        ("1500m", "1500m"),
        ("1.5", "1500m"),
        ("2000m", "2"),
        ("1000", "1k"),
        ("100", "100"),
        ("1000k", "1M"),
        (".5", "500m"),
        ("5.", "5"),
        ("1024Mi", "1Gi"),
        ("0.5Gi", "512Mi"),
        ("1.5Gi", "1536Mi"),
        ("1000Mi", "1000Mi"),
        ("512", "512"),
        ("0.5Ki", "512"),
        ("0.0001Ki", "102400u"),
        ("1Ei", "1Ei"),
        ("1E", "1E"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("12e6", "12e6"),
        ("1e4", "10e3"),
        ("1e-1", "100e-3"),
        ("5e0", "5"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1e-999999999999", "1e-9"),
        ("1e999999999999", "9223372036854775807"),
        ("20Ei", "9223372036854775807"),
        (2**80, "9223372036854775807"),
    ],
)
def test_a_quantity_is_printed_in_its_canonical_form(given_, printed):
    assert canonical(given_) == printed


@pytest.mark.parametrize(
    "given_",
    [
        "",
        "x",
        "1x",
        "1 Gi",
        " 1",
        "1KI",
        "1ki",
        "--1",
        "1.2.3",
        "1e",
        "e3",
        "Gi",
        "9" * 65,
        None,
        True,
        [],
        float("nan"),
    ],
)
def test_what_is_no_quantity_is_refused(given_):
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(given_)


def test_a_sum_keeps_the_notation_of_its_first_term_that_is_not_zero():
    assert str(parse("1Gi") + parse("1Mi")) == "1025Mi"
    assert str(parse("0") + parse("1Gi")) == "1Gi"
    assert str(parse("500m").times(3)) == "1500m"


@pytest.mark.parametrize(("text", "whole"), [("2500m", 3), ("1", 1), ("1n", 1), ("0", 0), ("-1500m", -1)])
def test_ceil_is_the_next_whole_number(text, whole):
    assert parse(text).ceil() == whole


AMOUNTS = st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1)


@given(amount=AMOUNTS, notation=st.sampled_from(list(Notation)))
def test_what_is_printed_reads_back_as_the_same_amount_and_its_canonical_form_is_stable(amount, notation):
    printed = str(Quantity(amount, notation))
    assert parse(printed).nano == amount
    assert canonical(canonical(printed)) == canonical(printed)


@given(whole=st.integers(min_value=0, max_value=2**53))
def test_a_number_means_the_same_as_int_float_and_text(whole):
    assert parse(whole).nano == parse(float(whole)).nano == parse(str(whole)).nano == whole * NANO
