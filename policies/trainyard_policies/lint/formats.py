"""A report as text, JSON, SARIF 2.1.0, JUnit's XML, annotations of GitHub's or GitLab's Code Quality."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree

from .. import rules
from ..engine import Violation
from ..parameters import spelled
from ..rule import About, Level, Severity
from .report import Entry, Report

_SARIF_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_SCORES: Final = {Severity.LOW: "3.0", Severity.MEDIUM: "5.5", Severity.HIGH: "8.0", Severity.CRITICAL: "9.5"}
"""GitHub's code scanning sorts by a number from 0 to 10."""
_GITLABS: Final = {
    Severity.LOW: "minor",
    Severity.MEDIUM: "major",
    Severity.HIGH: "critical",
    Severity.CRITICAL: "blocker",
}
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped."""


def text(report: Report, root: Path) -> str:
    """A line per finding, `file:line:column` first, with the way out below it."""
    lines = []
    for entry in report.entries:
        violation = entry.violation
        lines += [
            f"{_place(entry)}: {word(violation)}: {violation.message} [{violation.rule.id}]",
            f"    {_remark(violation)}",
        ]
    return "".join(f"{line}\n" for line in lines)


def summary(report: Report) -> str:
    """How much was checked, and what was found."""
    words = [word(entry.violation) for entry in report.entries]
    counts = ", ".join(f"{words.count(name)} {name}" for name in ("mandatory", "advisory", "excepted"))
    return f"{report.workloads} runtimes and TrainJobs, {report.others} other objects: {counts}"


def as_json(report: Report, root: Path) -> str:
    """Everything, for programs."""
    findings = [
        {
            "file": entry.source,
            "line": entry.position.line,
            "column": entry.position.column,
            "rule": entry.violation.rule.id,
            "level": word(entry.violation),
            "severity": str(entry.violation.rule.severity),
            "subject": entry.violation.subject,
            "field": str(entry.violation.finding.path),
            "message": entry.violation.message,
            "remedy": entry.violation.rule.remedy,
            "fixable": bool(entry.violation.finding.edits),
            "exception": _exception(entry.violation),
            "docs": entry.violation.rule.docs,
        }
        for entry in report.entries
    ]
    return _json({"findings": findings, "workloads": report.workloads, "others": report.others})


def sarif(report: Report, root: Path) -> str:
    """A SARIF log for code scanning; an exception is a suppression in the source."""
    run = {
        "tool": {"driver": {"name": "trainyard", "rules": [_sarif_rule(rule) for rule in rules.ALL]}},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(entry, root) for entry in report.entries],
    }
    return _json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def github(report: Report, root: Path) -> str:
    """Workflow commands, which GitHub shows on the lines of a pull request."""
    lines = []
    for entry in report.entries:
        violation = entry.violation
        command = "error" if violation.refuses else "notice" if violation.exemption else "warning"
        properties = {
            "file": _relative(entry.source, root),
            "line": str(entry.position.line),
            "col": str(entry.position.column),
            "title": f"{violation.rule.id} ({word(violation)})",
        }
        attributes = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
        lines.append(f"::{command} {attributes}::{_escaped(f'{violation.message}. {_remark(violation)}')}\n")
    return "".join(lines)


def gitlab(report: Report, root: Path) -> str:
    """A Code Quality report, which GitLab shows on the lines of a merge request.

    What only advises is `info`, whatever its severity, so that what refuses stands out.
    """
    seen: Counter[str] = Counter()
    issues = []
    for entry in report.entries:
        violation, path = entry.violation, _relative(entry.source, root)
        # Without the line: GitLab calls a finding with an unknown fingerprint new.
        identity = f"{path}\n{violation.rule.id}\n{violation.subject}\n{violation.message}"
        seen[identity] += 1
        # A name need not be UTF-8 for git.
        counted = f"{identity}\n{seen[identity]}".encode(errors="backslashreplace")
        issues.append(
            {
                "description": f"{violation.message}. {_remark(violation)}",
                "check_name": violation.rule.id,
                "fingerprint": hashlib.sha256(counted).hexdigest(),
                "severity": _GITLABS[violation.rule.severity] if violation.refuses else "info",
                "location": {"path": path, "lines": {"begin": entry.position.line}},
            }
        )
    return _json(issues)


def junit(report: Report, root: Path) -> str:
    """JUnit's XML: a test case for each finding, and one for each rule that has found nothing.

    A refusal is a failure, an exception is skipped, and advice passes with its message as output.
    """
    suite = ElementTree.Element("testsuite", name="trainyard")
    counts: Counter[str] = Counter()
    for entry in report.entries:
        violation, path = entry.violation, _xml(_relative(entry.source, root))
        name = f"{violation.rule.id}: {path}:{entry.position.line}"
        case = ElementTree.SubElement(suite, "testcase", classname="trainyard", name=name, file=path)
        message, remark = _xml(violation.message), _xml(_remark(violation))
        if violation.refuses:
            ElementTree.SubElement(
                case, "failure", message=message
            ).text = f"{path}:{entry.position.line}: {message}\n{remark}"
        elif violation.exemption is not None:
            ElementTree.SubElement(case, "skipped", message=f"{message}. {remark}")
        else:
            ElementTree.SubElement(case, "system-out").text = f"{message}\n{remark}"
        counts["failures"] += violation.refuses
        counts["skipped"] += violation.exemption is not None
    quiet = {rule.id for rule in rules.ALL} - {entry.violation.rule.id for entry in report.entries}
    for name in sorted(quiet):
        ElementTree.SubElement(suite, "testcase", classname="trainyard", name=name)
    suite.attrib |= {
        "tests": str(len(suite)),
        "failures": str(counts["failures"]),
        "skipped": str(counts["skipped"]),
        "errors": "0",
    }
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


FORMATS: Final[Mapping[str, Callable[[Report, Path], str]]] = {
    "text": text,
    "json": as_json,
    "sarif": sarif,
    "junit": junit,
    "github": github,
    "gitlab": gitlab,
}
"""By name; each gets the report and the folder that paths in the repository start from."""


def explanation(rule: About) -> str:
    """Everything about a rule, for `--explain`."""
    levels = ", ".join(f"{subject}: {level}" for subject, level in rule.levels.items())
    lines = [
        f"{rule.id}: {rule.title}.",
        "",
        f"Why:        {rule.why}",
        f"Way out:    {rule.remedy}",
        f"Severity:   {rule.severity}",
        f"Levels:     {levels}",
        f"Parameters: {', '.join(map(spelled, rule.parameters)) or 'none'}",
        f"--fix:      {'repairs what is unambiguous' if rule.fixes else 'leaves it to you'}",
        f'Exception:  policy.trainyard.dev/{rule.id}: "until=YYYY-MM-DD; reason"',
        f"More:       {rule.docs}",
    ]
    return "\n".join(lines) + "\n"


def word(violation: Violation) -> str:
    """What follows from it, in one word."""
    if violation.exemption is not None:
        return "excepted"
    return "mandatory" if violation.level is Level.REMEDIATE else str(violation.level)


def _remark(violation: Violation) -> str:
    if violation.exemption is not None:
        return f"Excepted {violation.exemption}"
    return violation.rule.remedy + (" Or run lint --fix." if violation.finding.edits else "")


def _exception(violation: Violation) -> dict[str, str] | None:
    if violation.exemption is None:
        return None
    return {"until": violation.exemption.until.isoformat(), "reason": violation.exemption.reason}


def _sarif_rule(rule: About) -> dict[str, Any]:
    level = "error" if Level.MANDATORY in rule.levels.values() else "warning"
    return {
        "id": rule.id,
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.remedy, "markdown": f"{rule.remedy}\n\nSee `{rule.docs}`."},
        "defaultConfiguration": {"level": level},
        "properties": {"security-severity": _SCORES[rule.severity], "tags": ["trainyard"]},
    }


def _sarif_result(entry: Entry, root: Path) -> dict[str, Any]:
    violation = entry.violation
    region = {"startLine": entry.position.line, "startColumn": entry.position.column}
    uri = quote(_relative(entry.source, root), errors="surrogateescape")
    result: dict[str, Any] = {
        "ruleId": violation.rule.id,
        "ruleIndex": list(rules.BY_ID).index(violation.rule.id),  # a stack has words of its own for one
        "level": "error" if violation.refuses or violation.exemption else "warning",
        "message": {"text": f"{violation.message}. {violation.rule.remedy}"},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": uri}, "region": region},
                "logicalLocations": [{"fullyQualifiedName": str(violation.finding.path)}],
            }
        ],
    }
    if violation.exemption is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": str(violation.exemption)}]
    return result


def _place(entry: Entry) -> str:
    return f"{entry.source}:{entry.position.line}:{entry.position.column}"


def _relative(source: str, root: Path) -> str:
    path = Path(source).absolute()
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def _escaped(value: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        value = value.replace(character, f"%{ord(character):02X}")
    return value


def _xml(value: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", value)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
