"""The report of a pull request, as Markdown for reviewers; pure.

Called by `report`. The part above the folds has at most 40 lines and 4,000
characters, the worst first; the rest is folded below. Text from files, Pulumi
or a cluster is always formatted as code, so that it cannot act as a link, a
mention or HTML.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trainyard_api import shown
from trainyard_api.printable import clean
from trainyard_delivery.impact import Field
from trainyard_policies.lint import formats
from trainyard_policies.lint.report import Report

from . import impact
from .report_change import Change, Row, Stack, let_through, rows_of

MOST_CHARACTERS: Final = 60_000
"""The most characters of the whole report; GitHub accepts 65,536."""
_MOST_LINES: Final = 40
_MOST_SHOWN: Final = 4_000
"""Characters; both above the folds."""
_MOST_OBJECTS: Final = 10
"""Rows of the table; fewer if the rest needs the room."""
_MOST_JOBS: Final = 3
_MOST_REFUSED: Final = 3
_MOST_MEANT: Final = 5
_MOST_GRANTED: Final = 3
_MOST_FAILED: Final = 3
_LONG: Final = 150
"""Characters of a sentence above the folds."""
_CELL: Final = 48
"""Characters of a cell of the table."""
_VALUE: Final = 16
_FOLDED: Final = 400
"""Characters of a value below the folds."""
_WHOLE: Final = 100_000
"""Characters of a value that are looked at for what differs."""
_MARKS: Final = re.compile("`+")


def text(change: Change) -> str:
    """The report."""
    rows = rows_of(change.stacks)
    run = [f"[The run]({change.run})"] if change.run else []
    for most in range(_MOST_OBJECTS, -1, -1):
        above = _above(change, rows, most)
        shown = "\n\n".join([*above, *run])
        if shown.count("\n") < _MOST_LINES and len(shown) < _MOST_SHOWN:
            break
    return "\n\n".join([*above, *_folded(change, rows), *run]) + "\n"


def _above(change: Change, rows: Sequence[Row], most: int) -> list[str]:
    """The sections above the folds, with at most `most` objects."""
    sections = [
        [f"## {_headline(change, rows)}"],
        _refused(change.findings),
        _replaced(change),
        _table(rows, change, most),
        _jobs(rows),
        _means(rows),
        _granted(change),
        _previews(change),
        _besides(change),
    ]
    return ["\n".join(lines) for lines in sections if lines]


def _headline(change: Change, rows: Sequence[Row]) -> str:
    """The worst first; says what is fine only if nothing is wrong."""
    headlines = [*_worst(change, rows)]
    if not headlines:
        if not change.stacks:
            return "It touches no stack"
        number = len(rows) + sum(bool(stack.settings) or stack.is_new for stack in change.stacks)
        what = _many(number, "other change" if change.versions else "change")
        headlines = [f"{what} on {_many(len(change.stacks), 'stack')}; nothing is refused"]
        if rows and not any(stack.not_seen for stack in change.stacks):
            headlines.append("no TrainJob loses anything")
    if change.versions:
        headlines.insert(
            0, f"Trainyard {' becomes '.join(_code(version, 40) for version in change.versions)}"
        )
    line = "; ".join(headlines)
    return line[0].upper() + line[1:]


def _worst(change: Change, rows: Sequence[Row]) -> Iterator[str]:
    refused = [entry for entry in change.findings.entries if entry.violation.refuses]
    if refused:
        files = len({entry.source for entry in refused})
        yield f"refused: {_many(len(refused), 'mistake')} in {_many(files, 'file')}"
    elif broken := [stack.name for stack in change.stacks if stack.not_compared]:
        yield f"not compared: {_names(broken)}"
    if replaced := [stack.name for stack in change.stacks if stack.replaced]:
        yield f"all of {_names(replaced)} is replaced or left behind"
    if failed := [one.name for one in change.stacks if one.fails]:
        yield f"the preview fails on {_names(failed)}"
    if warned := [stack.name for stack in change.stacks if stack.warns]:
        yield f"make up refuses it on {_names(warned)}"
    losing = {_who(job): job for row in rows for job in row.jobs if job["loses"]}
    if losing:
        running = sum(job["state"] == "running" for job in losing.values())
        verb = "loses" if len(losing) == 1 else "lose"
        yield f"{_many(len(losing), 'TrainJob')} {verb} something, {running or 'none'} of them running"
    if gone := sum(row.change["change"] == "removed" for row in rows):
        yield f"{_many(gone, 'object')} removed"
    if change.removed:
        yield f"the file of {_names(change.removed)} is gone"
    if granted := len(let_through(change)):
        yield f"{_many(granted, 'thing')} newly let through"
    if change.has_results and (missing := [one.name for one in change.stacks if one.preview is None]):
        yield f"no preview of {_names(missing)}"
    elif change.has_results and (unseen := [one.name for one in change.stacks if one.not_seen]):
        yield f"TrainJobs not seen on {_names(unseen)}"


def _refused(findings: Report) -> list[str]:
    refused = [entry for entry in findings.entries if entry.violation.refuses]
    lines = [
        f"- {_code(f'{entry.source}:{entry.position.line}', 80)} {_code(entry.violation.short, _LONG)}"
        for entry in refused[:_MOST_REFUSED]
    ]
    return _capped("**Refused**", lines, len(refused))


def _replaced(change: Change) -> list[str]:
    lines = [
        f"- {_code(stack.name, 40)}: {_code(sentence, 2 * _LONG)}"
        for stack in change.stacks
        for sentence in stack.replaced
    ]
    return _capped("**Replaced or left behind**", lines[:_MOST_REFUSED], len(lines))


def _table(rows: Sequence[Row], change: Change, most: int) -> list[str]:
    lines = [
        f"| {_code(row.name, _CELL, cell=True)} | {_becomes(row.change)} "
        f"| {_on(row.stacks, change.stacks)} | {_reached(row)} |"
        for row in rows
    ]
    lines += [
        f"| {_code(stack.file, _CELL, cell=True)} | {_differs(stack.settings)} "
        f"| {_on([stack.name], change.stacks)} | |"
        for stack in change.stacks
        if stack.settings
    ]
    lines += [
        f"| {_code(stack.file, _CELL, cell=True)} | a new stack | | |"
        for stack in change.stacks
        if stack.is_new
    ]
    if not lines:
        return []
    more = [f"| and {len(lines) - most} more, below | | | |"] if lines[most:] else []
    return ["| what | becomes | on | TrainJobs |", "|---|---|---|---|", *lines[:most], *more]


def _becomes(change: Mapping[str, Any]) -> str:
    if change["change"] != "changed":
        return str(change["change"])
    return _differs([Field(one["path"], one["before"], one["after"]) for one in change["fields"]])


def _differs(fields: Sequence[Field]) -> str:
    if not fields:
        return "changed"
    first, more = fields[0], len(fields) - 1
    beside = f" and {_many(more, 'field')} more" if more else ""
    if verb := _as_a_whole(first):
        return f"{_code(first.path, _CELL, cell=True)} {verb}{beside}"
    path = first.path.rpartition(".")[2] or first.path
    before, after = (clean(impact.text_of(value), _WHOLE) for value in (first.before, first.after))
    pair = shown.apart(before, after, _VALUE)
    values = " → ".join(_code(value, _VALUE, cell=True) for value in pair)
    return f"{_code(path, 24, cell=True)}: {values}{beside}"


def _as_a_whole(field: Field) -> str:
    """The verb for a part of a file that is added or removed as a whole; empty otherwise."""
    if field.after is None and isinstance(field.before, Mapping):
        return "removed"
    return "added" if field.before is None and isinstance(field.after, Mapping) else ""


def _reached(row: Row) -> str:
    if row.change["change"] == "added":
        return "none"
    if not row.jobs:
        return "not asked" if row.not_seen else "none"
    states = Counter(job["state"] for job in row.jobs)
    counted = ", ".join(f"{count} {state}" for state, count in sorted(states.items(), reverse=True))
    counted += ", not all seen" if row.not_seen else ""
    return counted + (f", **{row.losing} lose{'s' if row.losing == 1 else ''}**" if row.losing else "")


def _jobs(rows: Sequence[Row]) -> list[str]:
    """Effects on TrainJobs, equal ones together; running ones with losses first."""
    alike: dict[tuple[str, str, str], dict[str, None]] = defaultdict(dict)
    for row in rows:
        for job in row.jobs:
            alike[job["loses"], job["state"], job["keeps"]][_who(job)] = None
    groups = sorted(
        alike.items(), key=lambda group: (not group[0][0], group[0][1] != "running", -len(group[1]))
    )
    lines = []
    for (loses, state, keeps), jobs in groups[:_MOST_JOBS]:
        verb = ("keeps", "loses") if len(jobs) == 1 else ("keep", "lose")
        does = f"{verb[0]} {_code(keeps, 70)}" + (f", **{verb[1]}** {_code(loses, 90)}" if loses else "")
        lines.append(f"- {len(jobs)} {state} {does}: {_code(_names([*jobs], 2), 60)}")
    return _capped("**TrainJobs**", lines, len(groups))


def _means(rows: Sequence[Row]) -> list[str]:
    """Effects of the changes other than on TrainJobs."""
    lines = [
        f"- {_code(row.name, _CELL)}: {_code(sentence, _LONG)}"
        for row in rows
        for sentence in row.change["means"]
    ]
    return _capped("**Rights, and what stays**", lines[:_MOST_MEANT], len(lines))


def _granted(change: Change) -> list[str]:
    granted = let_through(change)
    lines = [
        f"- {_code(sentence, _LONG)} ({_on(stacks, change.stacks) if stacks else 'on no stack'})"
        for sentence, stacks in granted.items()
    ]
    return _capped("**Newly let through**", lines[:_MOST_GRANTED], len(lines))


def _previews(change: Change) -> list[str]:
    if not change.has_results:
        return []
    failed = [one for one in change.stacks if one.fails]
    lines = [
        f"- fails on {_code(stack.name, 40)}: {_code(stack.outcome, _LONG)}"
        for stack in failed[:_MOST_FAILED]
    ]
    warned = [stack for stack in change.stacks if stack.warns]
    lines += [
        f"- make up refuses on {_code(stack.name, 40)}: {_code(stack.outcome, _LONG)}"
        for stack in warned[:_MOST_FAILED]
    ]
    if fine := [f"{one.name} ({one.outcome})" for one in change.stacks if one.passes]:
        lines.append(f"- passes on {_code(', '.join(fine), 300)}")
    if missing := [one.name for one in change.stacks if one.preview is None]:
        lines.append(f"- not asked, its job ended before: {_code(_names(missing), 80)}")
    return _capped("**Preview**", lines, len(lines) + len(failed[_MOST_FAILED:]) + len(warned[_MOST_FAILED:]))


def _besides(change: Change) -> list[str]:
    lines = []
    if mended := [stack.name for stack in change.stacks if stack.was_invalid]:
        why = "because the files were invalid before, see the preview"
        lines.append(f"Not compared, {why}: {_code(_names(mended), 100)}")
    if broken := [stack.name for stack in change.stacks if stack.not_compared and not stack.was_invalid]:
        lines.append(f"Not compared until it is fixed: {_code(_names(broken), 100)}")
    if change.not_installed:
        lines.append(f"Changed, and installed by no stack: {_code(_names([*change.not_installed]), 100)}")
    if change.removed:
        lines.append(f"{_code(_names(change.removed), 80)}: not destroyed by this; run `make destroy` first.")
    if change.versions:
        lines.append(f"What version {_code(change.versions[1], 40)} changes on a cluster is in its preview.")
    if change.unjudged:
        also = _code(", ".join(change.unjudged), 100)
        lines.append(f"Changed as well, for every stack, see the preview: {also}")
    advice = [
        entry
        for entry in change.findings.entries
        if not entry.violation.refuses and not entry.violation.exemption
    ]
    if advice:
        lines.append(f"Advice on files of this change: {len(advice)}, below.")
    return lines


def _folded(change: Change, rows: Sequence[Row]) -> Iterator[str]:
    details = []
    for row in rows:
        details += [f"{row.name}: {row.change['change']} ({', '.join(row.stacks)})"]
        details += impact.details({**row.change, "trainJobs": row.jobs})
    for stack in change.stacks:
        if stack.settings:
            details.append(f"{stack.file}: changed")
            details += [_detail(field) for field in stack.settings]
        not_read = stack.preview.not_read if stack.preview else ""
        whys = (stack.not_compared, stack.not_seen if change.has_results else "", not_read)
        details += [f"{stack.name}: {' '.join(why.split())}" for why in whys if why]
    if granted := let_through(change):
        details += ["newly let through:", *(f"  {one}" for one in granted)]
    share = MOST_CHARACTERS // 4
    if details:
        yield _fold("Each field, and each TrainJob", "\n".join(details), share)
    if change.findings.entries:
        yield _fold("All that is refused, advised and excepted", formats.text(change.findings, Path()), share)
    previewed = [
        stack for stack in change.stacks if stack.preview is not None and stack.preview.output.strip()
    ]
    for stack in previewed:
        output = stack.preview.output if stack.preview else ""
        yield _fold(f"What the preview of {stack.name} says", output, share // len(previewed), end=True)


def _detail(field: Field) -> str:
    before, after = shown.apart(impact.text_of(field.before), impact.text_of(field.after), _FOLDED)
    return f"  {field.path}: {before} -> {after}"


def _capped(title: str, lines: Sequence[str], number: int) -> list[str]:
    """The lines under a title, and how many of `number` are left out."""
    if not lines:
        return []
    more = number - len(lines)
    return [title, *lines, *([f"- and {more} more, below"] if more > 0 else [])]


def _who(job: Mapping[str, Any]) -> str:
    return f"{job['namespace']}/{job['name']} on {job['stack']}"


def _on(names: Sequence[str], stacks: Sequence[Stack]) -> str:
    if len(names) == len(stacks) > 1:
        return "every one" if len(names) > 2 else "both"
    return _code(_names(names, 2), _CELL, cell=True)


def _names(names: Sequence[str], most: int = 3) -> str:
    return shown.listed(names, most)


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _code(text: str, most: int = 200, *, cell: bool = False) -> str:
    """The text as code on one line, so that nothing in it acts as Markdown; also for a cell of a table."""
    shown = clean(text, most) or " "
    fence = "`" * (1 + max(map(len, _MARKS.findall(shown)), default=0))
    edge = " " if shown[0] == "`" or shown[-1] == "`" else ""
    code = f"{fence}{edge}{shown}{edge}{fence}"
    return code.replace("|", "\\|") if cell else code


def _fold(title: str, text: str, share: int, *, end: bool = False) -> str:
    """A folded section with the text; if too long, only its beginning, or with `end` its end."""
    shown = "\n".join(_lines(text))
    if len(shown) > share:
        cut = "(the rest is left out; see the run)"
        # The end of a log has the diagnostics, the policies and the counts.
        shown = f"{cut.replace('rest', 'beginning')}\n{shown[-share:]}" if end else f"{shown[:share]}\n{cut}"
    fence = "`" * max(3, 1 + max(map(len, _MARKS.findall(shown)), default=0))
    return f"<details><summary>{title}</summary>\n\n{fence}text\n{shown}\n{fence}\n\n</details>"


def _lines(text: str) -> Iterable[str]:
    for line in text.strip("\n").splitlines():
        indent = line[: len(line) - len(line.lstrip(" "))]
        yield indent + clean(line.lstrip(" "))
