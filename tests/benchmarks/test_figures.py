"""Many measurements become few figures."""

import pytest
from benchmarks.figures import Figure, percentile, shown, together


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (99, 99), (100, 100), (0, 1), (99.5, 100)], ids=str
)
def test_a_percentile_is_the_value_that_so_many_do_not_exceed(percent, expected):
    assert percentile(range(100, 0, -1), percent) == expected


def test_the_percentile_of_one_value_is_that_value():
    assert percentile([7.0], 99) == 7.0


def test_there_is_no_percentile_of_nothing():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_figure_shows_its_median_and_between_what_it_lay():
    assert str(Figure((52.4, 49.94, 61.0))) == "52.4 (49.9 to 61.0)"


def test_a_figure_of_one_round_has_no_spread():
    assert str(Figure((1234.5,))) == "1234"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (0.0123456, "0.0123"), (1.2345, "1.23"), (12.345, "12.3"), (999.9, "1000"), (-20.04, "-20.0")],
    ids=str,
)
def test_a_number_is_shown_with_the_digits_that_matter(value, expected):
    assert shown(value) == expected


def test_rounds_come_together_by_name_and_one_may_lack_a_figure():
    rounds = [{"jobs/s": 1.0, "p99": 5.0}, {"jobs/s": 3.0}]
    assert together(rounds) == {"jobs/s": Figure((1.0, 3.0)), "p99": Figure((5.0,))}
