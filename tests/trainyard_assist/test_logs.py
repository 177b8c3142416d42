"""The logs of all ranks as one: each line once, in order, and nothing that controls a terminal."""

import time

import pytest

from trainyard_assist import logs
from trainyard_assist.logs import Line, Log, Output, Place, in_order, is_called, label

SECONDS = 2e-6
"""CPU time of a character, as tests/test_expressions.py has it."""
SECOND = "2026-01-01T10:00:{:02}.{:09}"


def stamped(second: int, text: str, nano: int = 0) -> str:
    return f"{SECOND.format(second, nano)}Z {text}\n"


def line(second: int, text: str, nano: int = 0) -> Line:
    return SECOND.format(second, nano), text


def test_a_log_is_its_lines_however_it_is_cut_into_pieces() -> None:
    text = "".join(stamped(number, f"step {number} ünd mehr") for number in range(50)).encode() + b"2026"
    whole = [line(number, f"step {number} ünd mehr") for number in range(50)]
    for size in (1, 2, 7, 64, 10_000):
        log = Log()
        lines = [found for at in range(0, len(text), size) for found in log.feed(text[at : at + size])]
        assert lines == whole
        assert log.end() == [(whole[-1][0], "2026")]
        assert log.end() == []


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("2026-01-01T10:00:01.5Z", "2026-01-01T10:00:01.500000000"),
        ("2026-01-01T10:00:01Z", "2026-01-01T10:00:01.000000000"),
        ("2026-01-01T12:00:01.123456789+02:00", "2026-01-01T10:00:01.123456789"),
        ("2026-01-01T04:30:01.123456789-05:30", "2026-01-01T10:00:01.123456789"),
    ],
)
def test_the_time_of_a_line_is_utc_wherever_its_node_is(stamp: str, time: str) -> None:
    assert Log().feed(f"{stamp} x\n".encode()) == [(time, "x")]


@pytest.mark.parametrize("text", ["no time", "2026-13-41T10:00:01Z x", "0001-01-01T00:00:00Z x", "9" * 30])
def test_a_line_without_a_time_has_that_of_the_line_before(text: str) -> None:
    log = Log()
    assert log.feed(f"{stamped(1, 'a')}{text}\n".encode()) == [line(1, "a"), (line(1, "a")[0], text)]


def test_nothing_in_a_line_controls_a_terminal_and_a_progress_bar_is_its_end() -> None:
    log = Log()
    shown = log.feed(stamped(1, "a\x1b[31mred\x1b]0;title\x07\tb").encode())
    shown += log.feed(stamped(1, " 1%\r 50%\r100%\r").encode())
    shown += log.feed(f"{SECOND.format(1, 0)}Z ".encode() + b"\xff\xfe\n")
    assert [text for _, text in shown] == ["ared b", "100%", "\ufffd\ufffd"]


def test_a_line_has_an_end() -> None:
    log = Log()
    prefix = f"{SECOND.format(1, 0)}Z "
    assert log.feed(prefix.encode()) == []
    for _ in range(100):
        assert log.feed(b"x" * 10_000) == []
    [(_, text)] = log.feed(b"\n")
    assert text == "x" * (logs.LONGEST - len(prefix))


@pytest.mark.parametrize("size", [7, 1000, 65_536, 10**7])
@pytest.mark.parametrize("end", ["", "\r", "\r\r"])
def test_a_progress_bar_of_any_length_shows_its_last_state(size: int, end: str) -> None:
    states = "".join(f"\r{number}/9999 |{'#' * (number // 1000)}" for number in range(10_000)) + end
    log, output = Log(), Output()
    for times in range(2):
        lines, printed = [], []
        data = f"{SECOND.format(1, 0)}Z {states}\n".encode()
        for start in range(0, len(data), size):
            lines += log.feed(data[start : start + size])
            printed += output.feed(data[start : start + size])
            assert max(len(log._rest), len(output._rest)) <= logs.LONGEST + 1
        assert [text for _, text in lines] == ["9999/9999 |#########"] * (1 - times)
        assert printed == ["9999/9999 |#########"]
        log.cut()
        size = size * 2 + 1  # it is the same line in other pieces too


@pytest.mark.parametrize("size", [7, 1000, 65_536, 10**7])
def test_a_long_state_of_a_progress_bar_has_an_end_in_whichever_pieces_it_comes(size: int) -> None:
    prefix = f"{SECOND.format(1, 0)}Z "
    data = f"{prefix}1%\r{'x' * 2 * logs.LONGEST}\r\n".encode()
    log, lines = Log(), []
    for start in range(0, len(data), size):
        lines += log.feed(data[start : start + size])
    assert [text for _, text in lines] == ["x" * (logs.LONGEST - len(prefix))]


def test_after_a_cut_no_line_is_lost_and_none_is_doubled() -> None:
    whole = [stamped(number // 4, f"step {number % 3}", number % 4) for number in range(40)]
    text = "".join(whole)
    expected = [line(number // 4, f"step {number % 3}", number % 4) for number in range(40)]
    for place in range(0, len(text), 13):
        log = Log()
        lines = log.feed(text[:place].encode())
        log.cut()
        since = log.since
        lines += log.feed("".join(found for found in whole if found >= since.removesuffix("Z")).encode())
        assert lines == expected, place


def test_lines_that_are_alike_at_the_same_time_are_as_many_as_were_printed() -> None:
    log = Log()
    alike = stamped(5, "x")
    assert len(log.feed((alike * 3).encode())) == 3
    log.cut()
    assert log.since == "2026-01-01T10:00:04Z"
    assert log.feed((alike * 5 + stamped(6, "y")).encode()) == [line(5, "x")] * 2 + [line(6, "y")]


def test_where_output_and_errors_cross_a_line_keeps_its_place_and_is_not_lost_at_a_cut() -> None:
    log = Log()
    first = stamped(5, "error", 1) + stamped(4, "output", 999_999_999)
    assert log.feed(first.encode()) == [line(5, "error", 1), line(5, "output", 1)]
    log.cut()
    late = stamped(4, "late", 999_999_998)
    assert log.feed((first + late).encode()) == [line(5, "late", 1)]


def test_of_the_end_of_a_log_no_line_before_it_comes_after_a_cut() -> None:
    log = Log(only_end=True)
    assert log.feed(stamped(5, "last", 500).encode()) == [line(5, "last", 500)]
    log.cut()
    again = stamped(5, "before", 499) + stamped(5, "last", 500) + stamped(5, "next", 501)
    assert log.feed(again.encode()) == [line(5, "next", 501)]


def test_after_a_cut_the_log_of_the_next_run_is_told_by_its_first_line() -> None:
    log = Log()
    first = stamped(5, "begins")
    log.feed(first.encode())
    log.cut()
    again = stamped(5, "begins", 1).encode()
    assert log.feed(again[:10]) == []
    assert log.feed(again[10:] + b"2026-") == []
    assert log.feed(b"01") == []
    assert log.other == again + b"2026-01"
    log.cut()
    assert (log.other, log.is_caught_up) == (b"", False)
    assert log.feed((first + stamped(6, "last words")).encode()) == [line(6, "last words")]
    assert (log.other, log.is_caught_up) == (b"", True)


def test_of_a_log_that_was_empty_nothing_is_of_another() -> None:
    log = Log()
    log.cut()
    assert log.feed(stamped(5, "begins").encode()) == [line(5, "begins")]
    assert (log.other, log.is_caught_up) == (b"", True)


def test_half_a_line_after_a_cut_is_not_yet_one() -> None:
    log = Log()
    log.feed(stamped(5, "begins").encode())
    log.cut()
    log.feed(stamped(5, "begins").encode()[:-3])
    assert (log.end(), log.is_caught_up) == ([], False)


def test_the_kubelets_own_words_are_printed_once() -> None:
    log = Log()
    words = b"failed to watch file: too many open files\n"
    assert [text for _, text in log.feed(stamped(5, "x").encode() + words)] == ["x", words.decode().strip()]
    log.cut()
    assert log.feed(stamped(5, "x").encode() + words) == []
    assert (log.other, log.is_caught_up) == (b"", True)


def test_a_log_of_which_nothing_was_read_begins_where_it_was_to_begin() -> None:
    assert Log().since == ""
    assert Log("2026-01-01T10:00:00Z").since == "2026-01-01T10:00:00Z"


def test_what_is_remembered_for_a_cut_is_bounded() -> None:
    log = Log()
    for second in range(50):
        log.feed("".join(stamped(second, "x", number) for number in range(1000)).encode())
        assert len(log._recent) <= 3000


def test_lines_are_taken_in_order_and_only_if_none_can_come_before_them() -> None:
    pending = {"a": [line(1, "a1"), line(3, "a3")], "b": [line(2, "b2"), line(9, "b9")]}
    times = {second: line(second, "")[0] for second in (1, 2, 3, 9)}
    assert in_order(pending, {"a", "b"}) == [
        (times[1], "a", "a1"),
        (times[2], "b", "b2"),
        (times[3], "a", "a3"),
    ]
    assert pending == {"a": [], "b": [line(9, "b9")]}
    assert in_order(pending, {"b"}) == [(times[9], "b", "b9")]
    pending["a"] = [line(1, "late")]
    assert in_order(pending, set()) == [(times[1], "a", "late")]


def test_lines_of_the_same_time_stay_in_the_order_of_their_log() -> None:
    lines = [line(1, str(number)) for number in range(100)]
    taken = in_order({"a": list(lines), "b": list(lines)}, set())
    assert [text for _, of, text in taken if of == "b"] == [text for _, text in lines]


@pytest.mark.parametrize(
    ("place", "jobs", "mark"),
    [
        (Place("node", 3), {"node"}, "3"),
        (Place("node", 3), {"node", "dataset-initializer"}, "3"),
        (Place("dataset-initializer", 0), {"node", "dataset-initializer"}, "dataset-initializer-0"),
        (Place("node", 3), {"node", "launcher"}, "node-3"),
        (Place("launcher", 0), {"node", "launcher"}, "launcher-0"),
    ],
)
def test_a_rank_is_its_number_unless_its_name_is_needed(place: Place, jobs: set[str], mark: str) -> None:
    assert label(place, jobs) == mark
    assert is_called(place, str(place))
    assert is_called(place, str(place.index)) == place.is_rank
    assert not is_called(place, "7")


@pytest.mark.parametrize("unit", [b"x", b"\x1b", b"\x1b]", b"\r", b"1", b"2026-01-01T10:00:00Z "])
def test_a_hostile_line_costs_no_more_than_its_length(unit: bytes) -> None:
    text = unit * (logs.LONGEST // len(unit))
    began = time.process_time()
    assert len(Log().feed(text + b"\n")) == 1
    assert time.process_time() - began < 20 * SECONDS * logs.LONGEST


def test_the_words_of_a_kubelet_that_has_no_log_are_none_of_the_job() -> None:
    log = Log()
    assert log.feed(b"unable to retrieve container logs for containerd://0123\n") == []
    [(_, text)] = log.feed(b"2026-01-01T00:00:00Z unable to retrieve container logs for me\n")
    assert text == "unable to retrieve container logs for me"
