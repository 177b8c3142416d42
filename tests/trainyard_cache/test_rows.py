"""Which rows of a table are whose."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainyard_cache.rows import Rows, holders, share

TOTALS = st.integers(0, 10**12)
PARTS = st.integers(1, 300)


@given(TOTALS, PARTS)
def test_shares_are_all_rows_in_their_order_and_differ_by_one_at_most(total: int, parts: int) -> None:
    shares = [share(total, index, parts) for index in range(parts)]
    assert (shares[0].first, shares[-1].end) == (0, total)
    assert all(one.end == after.first for one, after in pairwise(shares))
    assert max(one.count for one in shares) - min(one.count for one in shares) <= 1


@given(TOTALS, PARTS, PARTS, st.data())
def test_the_workers_that_hold_some_of_a_ranks_rows_hold_all_of_them(
    total: int, world: int, workers: int, data: st.DataObject
) -> None:
    asked = share(total, data.draw(st.integers(0, world - 1)), world)
    held = [asked.shared(share(total, index, workers)) for index in holders(asked, total, workers)]
    assert all(part.count for part in held)
    assert sum(part.count for part in held) == asked.count


@given(st.lists(st.integers(0, 20), max_size=20), st.integers(0, 400), st.integers(0, 400))
def test_the_rows_within_runs_are_the_rows(runs: list[int], first: int, count: int) -> None:
    rows = Rows(first, first + count)
    numbered = [(sum(runs[:index]), size) for index, size in enumerate(runs)]
    parts = list(rows.within(numbered, lambda run: run[1]))
    shared = rows.shared(Rows(0, sum(runs)))
    ranges = [range(run[0] + part.first, run[0] + part.end) for run, part in parts]
    assert [number for held in ranges for number in held] == list(range(shared.first, shared.end))
    assert all(0 <= part.first < part.end <= run[1] for run, part in parts)


def test_more_ranks_than_rows_leave_some_without_any() -> None:
    assert [share(2, index, 3).count for index in range(3)] == [1, 1, 0]
    assert holders(share(2, 2, 3), 2, 2) == []


@given(st.integers(0, 2**63), st.integers(0, 2**63))
def test_a_ticket_is_read_back(first: int, count: int) -> None:
    rows = Rows(first, min(first + count, 2**64 - 1))
    assert Rows.of_ticket(rows.ticket()) == rows


@pytest.mark.parametrize("ticket", [b"", b"0", bytes(15), bytes(17), Rows(2, 2).ticket()[:8] + bytes(8)])
def test_what_is_no_ticket_is_refused(ticket: bytes) -> None:
    with pytest.raises(ValueError, match="a ticket"):
        Rows.of_ticket(ticket)
