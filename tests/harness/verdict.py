"""What two looks at the cluster tests come to, and how it is told. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeVar
from xml.etree import ElementTree

from .budget import Budget
from .results import Failure, Results

LINES = 80
"""Of the end, in which everything has to be said."""
MOST_UNSTEADY = 2
"""With more unsteady tests the run has failed."""
SECOND_LOOK = "second look"
"""The name of the phase in which what failed is run again."""
MAKE_FAILED = 2
"""The exit code of make: of a phase that lints and looks at types as well, it does not say what failed."""
_WIDTH = 240
T = TypeVar("T")


@dataclass(frozen=True)
class Phase:
    """A part of the run, as it went.

    Attributes:
        name: As the user called it.
        seconds: That it took.
        code: Its exit code; negative if a signal ended it.
        results: Of its tests, if it ran any.
        last: The last lines that it printed.
        limit: Seconds after which it was ended; None if it ended by itself.
        budget: What it may take; None if nobody has said.
    """

    name: str
    seconds: float
    code: int
    results: Results = field(default_factory=Results)
    last: Sequence[str] = ()
    limit: float | None = None
    budget: Budget | None = None


@dataclass(frozen=True)
class Unsteady:
    """A test that failed at the first look and passed at the second."""

    first: Failure
    took: float
    passed_in: float


@dataclass(frozen=True)
class Verdict:
    """What has failed, and what is unsteady.

    Attributes:
        failed: By test, why: at the first look, and at the second if there was one and it failed again.
        unsteady: Each with both times.
        broken: Phases that failed in another way than by a test.
    """

    failed: Sequence[Sequence[Failure]] = ()
    unsteady: Sequence[Unsteady] = ()
    broken: Sequence[Phase] = ()

    @property
    def good(self) -> bool:
        """Whether the run has passed."""
        causes = {one.first.cause for one in self.unsteady}
        return not self.failed and not self.broken and len(causes) <= MOST_UNSTEADY


def judged(phases: Sequence[Phase]) -> Verdict:
    """The verdict on these phases; a second look is at what failed in the one before it."""
    failed: dict[str, list[Failure]] = {}
    unsteady = []
    for phase, after in zip_longest(phases, phases[1:]):
        second = after.results if after is not None and after.name == SECOND_LOOK else Results()
        for test, failure in phase.results.failures.items():
            if test in second.passed:
                unsteady.append(Unsteady(failure, phase.results.seconds[test], second.seconds[test]))
            else:
                failed.setdefault(test, []).append(failure)
    return Verdict(list(failed.values()), unsteady, [phase for phase in phases if _is_broken(phase)])


def _is_broken(phase: Phase) -> bool:
    """Whether it failed in another way than by tests: make says 2 where pytest, within it, says 1."""
    by_tests = phase.results.failures and phase.code in (1, MAKE_FAILED)
    return phase.limit is not None or bool(phase.results.unfinished) or bool(phase.code and not by_tests)


def told(phases: Sequence[Phase], verdict: Verdict, load: str, logs: str) -> str:
    """All that somebody needs who asks what happened, in `LINES` lines.

    Args:
        phases: As they went.
        verdict: On them.
        load: The machine's, now.
        logs: The folder with the logs of sandboxes on which a test failed.
    """
    lines = [line for phase in phases for line in _lines(phase)]
    head = ["", "== where the time went", *lines, f"   load now: {load}"]
    end = [_sentence(phases, verdict)]
    sections = [
        ("did not come to an end", [_broken(phase) for phase in verdict.broken]),
        (
            "may have failed by more than tests: the last lines",
            [_broken(phase) for phase in phases if phase.code == MAKE_FAILED and phase not in verdict.broken],
        ),
        (
            f"unsteady: failed, and passed when run again, alone (more than {MOST_UNSTEADY} fail the run)",
            [_unsteady(*ones) for ones in _by_cause(verdict.unsteady, lambda one: one.first)],
        ),
        (
            f"failed{'; the logs of the sandboxes: ' if logs else ''}{logs}",
            [_failed(*ones) for ones in _by_cause(verdict.failed, lambda failures: failures[0])],
        ),
    ]
    left = LINES - len(head) - len(end) - 1
    body: list[str] = []
    for title, entries in sections:
        if entries:
            body += ["", f"== {title}"]
            body += _fitting(entries, left - len(body))
    return "\n".join([*head, *body, "", *end])


def _by_cause(entries: Sequence[T], first: Callable[[T], Failure]) -> list[list[T]]:
    """The entries, those together that failed for one fixture."""
    found: dict[tuple[str, ...], list[T]] = {}
    for entry in entries:
        found.setdefault(first(entry).cause, []).append(entry)
    return list(found.values())


def _fitting(entries: Sequence[Sequence[str]], lines: int) -> list[str]:
    """The entries, each cut to its share of the lines, so that each is named while there is room."""
    share = max(1, lines // len(entries))
    shown = [line for entry in entries for line in _cut(entry, share)]
    if len(shown) <= lines:
        return shown
    return [*shown[: max(lines - 1, 0)], f"   ... and more: {len(entries)} in all"]


def _cut(entry: Sequence[str], lines: int) -> Sequence[str]:
    """The first line and the last ones."""
    return entry if len(entry) <= lines else [entry[0], *entry[len(entry) - lines + 1 :]]


def _lines(phase: Phase) -> Iterator[str]:
    """How long it took, of what it may take; and what has grown since that was decided."""
    results, budget = phase.results, phase.budget
    skipped = f", {len(results.skipped)} skipped" if results.skipped else ""
    counted = f"{len(results.passed)} passed, {len(results.failures)} failed{skipped}"
    said = counted if results.seconds else ("" if phase.code == 0 else f"exit code {phase.code}")
    allowed = f" of {duration(budget.seconds)}" if budget else ""
    yield f"   {phase.name:<12} {duration(phase.seconds):>12}{allowed}   {said}".rstrip()
    for file in budget.grown(results.seconds) if budget else ():
        yield f"      has grown since the budget was set: {file}"


def _broken(phase: Phase) -> list[str]:
    why = (
        f"was ended after {duration(phase.limit)}, its limit"
        if phase.limit is not None
        else f"ended with exit code {phase.code}"
    )
    running = [f"   was running: {test}" for test in phase.results.unfinished]
    return [f"{phase.name} {why}", *running, *(f"   {line}"[:_WIDTH] for line in phase.last)]


def _unsteady(one: Unsteady, *others: Unsteady) -> list[str]:
    times = f"failed after {duration(one.took)}{_then(one.first)}, then passed in {duration(one.passed_in)}"
    where = f"   in {one.first.when}, {one.first.place}: {times}"
    return [one.first.test + _and(others), where, *_reason(one.first)]


def _failed(failures: Sequence[Failure], *others: Sequence[Failure]) -> list[str]:
    first, *again = failures
    where = f"   in {first.when}, {first.place}{_then(first)}"
    lines = [first.test + _and(others), where, *_reason(first)]
    for failure in again:
        same = failure.reason == first.reason
        lines += ["   and again for the same reason" if same else "   and again:"]
        lines += [] if same else _reason(failure)
    return lines


def _and(others: Sequence[object]) -> str:
    return f" and {len(others)} more tests with the same fixture" if others else ""


def _then(failure: Failure) -> str:
    load = f", load {failure.load}" if failure.load else ""
    return (f" at {time.strftime('%H:%M:%S', time.localtime(failure.at))}" if failure.at else "") + load


def _reason(failure: Failure) -> list[str]:
    """Its first sentence, and its last lines: of what was waited for, the last is what there was."""
    lines = [line.rstrip() for line in failure.reason.splitlines() if line.strip()] or ["(nothing was said)"]
    shown = lines if len(lines) <= 5 else [lines[0], "...", *lines[-3:]]
    return [f"   {line if len(line) <= _WIDTH else line[: _WIDTH - 4] + ' ...'}" for line in shown]


def _sentence(phases: Sequence[Phase], verdict: Verdict) -> str:
    took = duration(sum(phase.seconds for phase in phases))
    counts = f"{len(verdict.failed)} failed, {len(verdict.unsteady)} unsteady"
    broken = "".join(f", {phase.name} did not come to an end" for phase in verdict.broken)
    return f"{'PASSED' if verdict.good else 'FAILED'} in {took}: {counts}{broken}."


def duration(seconds: float) -> str:
    """`48 s`, `9 min 5 s`."""
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def junit(phases: Sequence[Phase], verdict: Verdict) -> str:
    """All tests as JUnit's XML; an unsteady one has passed, with a `flakyFailure` as Surefire writes it.

    A test that was running when its phase ended is an error, and so is a phase that came to no end.
    """
    failed = {failures[0].test: failures for failures in verdict.failed}
    unsteady = {one.first.test: one for one in verdict.unsteady}
    skipped = {test: why for phase in phases for test, why in phase.results.skipped.items()}
    unfinished = {test: phase.name for phase in phases for test in phase.results.unfinished}
    every = dict.fromkeys([*failed, *unfinished], 0.0)
    for phase in reversed(phases):  # what the first look says last
        every |= phase.results.seconds
    suite = ElementTree.Element(
        "testsuite",
        name="trainyard",
        tests=str(len(every) + len(verdict.broken)),
        failures=str(len(failed)),
        errors=str(len(unfinished) + len(verdict.broken)),
        skipped=str(len(skipped)),
    )
    for test, seconds in every.items():
        file, _, name = test.partition("::")
        attributes = {"classname": file, "name": name, "time": f"{seconds:.3f}"}
        case = ElementTree.SubElement(suite, "testcase", attributes)
        for failure in failed.get(test, ()):
            _failure(case, "failure", failure)
        if test in unsteady:
            _failure(case, "flakyFailure", unsteady[test].first, time=f"{unsteady[test].took:.3f}")
            case.set("time", f"{unsteady[test].passed_in:.3f}")
        if test in unfinished:
            _element(case, "error", f"was running when {unfinished[test]} ended")
        if test in skipped:
            _element(case, "skipped", skipped[test])
    for phase in verdict.broken:
        attributes = {"classname": "phase", "name": phase.name, "time": f"{phase.seconds:.3f}"}
        why, *lines = _broken(phase)
        _element(ElementTree.SubElement(suite, "testcase", attributes), "error", why, "\n".join(lines))
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True)


def _failure(case: ElementTree.Element, tag: str, failure: Failure, **attributes: str) -> None:
    message = failure.reason.partition("\n")[0]
    text = f"{failure.place}\n{failure.reason}"
    _element(case, tag, message, text, type=failure.when, **attributes)


def _element(case: ElementTree.Element, tag: str, message: str, text: str = "", **attributes: str) -> None:
    element = ElementTree.SubElement(case, tag, {"message": _printable(message), **attributes})
    element.text = _printable(text) or None


def _printable(text: str) -> str:
    """XML has no words for the rest."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in text)
