"""Rules over manifests, at the levels of a stack, with exceptions taken into account.

Values in, values out: today is a value too. All gates use it, so they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import islice
from typing import Final, TypeVar

from trainyard_api import names
from trainyard_api.errors import FieldPath, InvalidFieldError, UserError
from trainyard_api.json_types import Json
from trainyard_api.printable import clean

from . import exceptions, manifest, rules, site_rules
from .exceptions import Exemption
from .manifest import Manifest, Workload
from .parameters import Parameters
from .rule import MOST, About, Finding, Level, Rule, StackRule
from .rules import exception_due, exception_form, well_formed
from .settings import DEFAULT, Policies
from .shapes import check as shapes
from .subject import Subject

Result = TypeVar("Result")

MORE: Final = Finding(FieldPath(), f"finds more than the {MOST} reported places")

_LONGEST: Final = 200
"""Characters of an exception that a rule ends with."""

Said = tuple[str, str, str]
"""A finding without its consequences: rule, field and sentence."""


class RuleError(UserError):
    """A rule cannot tell what is wrong: it ends with an exception, or, of all manifests, cannot read one.

    The message is one sentence.

    Args:
        rule: The rule.
        sentence: The message.
    """

    def __init__(self, rule: About, sentence: str) -> None:
        super().__init__(sentence)
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Violation:
    """A finding with what follows from it."""

    rule: About
    level: Level
    subject: str
    """Kind and name of the manifest."""
    finding: Finding
    exemption: Exemption | None = None
    """The exception that holds, if one does."""
    note: str = ""
    """Why an exception that is declared does not hold."""

    @property
    def refuses(self) -> bool:
        """Whether a gate that cannot repair refuses the manifest."""
        return self.exemption is None and self.level.refuses

    @property
    def said(self) -> Said:
        """What identifies the same finding in another version of the manifest."""
        return self.rule.id, self.finding.path.text, self.finding.message

    @property
    def message(self) -> str:
        """Field and sentence, and why an exception does not hold."""
        return self._sentence(self.finding.path.text)

    @property
    def short(self) -> str:
        """The message with only the end of the field's path."""
        return self._sentence(self.finding.path.end)

    @property
    def with_remedy(self) -> str:
        """The message, and the way out."""
        return f"{self.message}{'' if self.message.endswith('?') else '.'} {self.rule.remedy}"

    def _sentence(self, place: str) -> str:
        prefix = f"{place}: " if place else ""
        return f"{prefix}{self.finding.message}" + (f" ({self.note})" if self.note else "")


def subject(value: Json) -> Subject | None:
    """The subject whose levels apply to a runtime or a TrainJob; None for any other object."""
    if not manifest.is_workload(value):
        return None
    return Subject.TRAINJOBS if value["kind"] == names.TRAINJOB else Subject.RUNTIMES


def check(
    value: Json, today: date, policies: Policies = DEFAULT, only: Sequence[Rule] = rules.OF_WORKLOADS
) -> tuple[Violation, ...]:
    """What the rules say about one runtime or TrainJob; nothing about any other object.

    Raises `RuleError` for a rule that ends with an exception.
    """
    target = subject(value)
    if target is None:
        return ()
    try:
        workload = manifest.read(value)
    except InvalidFieldError as error:
        return tuple(_unreadable(value, target, error, policies))
    if not isinstance(workload, Workload):
        return ()
    violations: dict[tuple[str, str, str], Violation] = {}
    made = _exceptions(workload, policies.parameters)
    enabled = [rule for rule in only if policies.level(rule, target) is not Level.DISABLED]
    for rule in enabled:
        findings = _findings(rule, workload, policies.parameters)
        if rule.id in exceptions.RULES:
            findings = _about_exceptions(
                rule,
                workload,
                made,
                today,
                policies.parameters,
                enabled=enabled,
                violations=violations.values(),
            )
        for about, finding in _first(findings, rule):
            # Several rules may report one field that cannot be read, each in its own words.
            sentence = "" if about is well_formed.RULE else finding.message
            key = (about.id, finding.path.text, sentence)
            level = policies.level(about, target)
            violations.setdefault(key, _judged(about, level, workload, finding, made=made, today=today))
    return tuple(violations.values())


def check_all(
    values: Sequence[Json],
    today: date,
    policies: Policies = DEFAULT,
    only: Sequence[StackRule] = rules.OF_THE_STACK,
) -> tuple[tuple[int, Violation], ...]:
    """What the rules say about all manifests together, each with the position of the one it is about.

    A manifest that cannot be read is left out: `check` reports it. Raises `RuleError`
    for a rule that reads more of one than it can, and does not say of which, or that
    ends with another exception.
    """
    manifests: dict[int, Manifest] = {}
    for position, value in enumerate(values):
        try:
            manifests[position] = manifest.read(value)
        except InvalidFieldError:
            continue
    positions = {id(one): position for position, one in manifests.items()}
    made = {position: _exceptions(one, policies.parameters) for position, one in manifests.items()}
    violations = []
    for rule in only:
        level = policies.level(rule, Subject.STACK)
        if level is not Level.DISABLED:
            for about, finding in _together(rule, tuple(manifests.values()), policies.parameters):
                position = positions[id(about)]
                judged = _judged(rule, level, about, finding, made=made[position], today=today)
                violations.append((position, judged))
    return tuple(violations)


def _together(
    rule: StackRule, manifests: Sequence[Manifest], parameters: Parameters
) -> Iterator[tuple[Manifest, Finding]]:
    given = set(map(id, manifests))

    def checked() -> Iterator[tuple[Manifest, Finding]]:
        for about, finding in rule.check(manifests, parameters):
            if id(about) not in given:  # two may be equal
                raise ValueError("a finding comes with one of the manifests that it gets, not with a copy")
            yield about, finding

    try:
        yield from _results(rule, checked)
    except InvalidFieldError as error:
        raise RuleError(
            rule,
            f"the rule {rule.id} cannot read a field: {error}; let the rule report the manifest that has it, "
            "with trainyard_policies.rule.unreadable",
        ) from error


def _exceptions(about: Manifest, parameters: Parameters) -> Mapping[str, Exemption] | None:
    """The exceptions of a manifest; None of a kind that may make none, of which nothing is read."""
    return exceptions.of(about) if about.kind in parameters.exceptions_in else None


def _about_exceptions(
    rule: Rule,
    workload: Workload,
    made: Mapping[str, Exemption] | None,
    today: date,
    parameters: Parameters,
    *,
    enabled: Sequence[Rule],
    violations: Iterable[Violation],
) -> Iterator[tuple[About, Finding]]:
    """What one of the rules about exceptions finds."""
    if made is None:
        return  # reported where one is needed
    if rule is exception_form.RULE:
        findings = exceptions.mistakes(workload, today, parameters.longest_exception)
    elif rule is exception_due.RULE:
        findings = exceptions.due(made, today)
    else:
        findings = exceptions.unused(
            made, {rule.id for rule in enabled}, {violation.rule.id for violation in violations}
        )
    yield from ((rule, finding) for finding in findings)


def _first(findings: Iterator[tuple[About, Finding]], rule: Rule) -> Iterator[tuple[About, Finding]]:
    """As many findings as a rule may have, and `MORE` if there are others."""
    yield from islice(findings, MOST)
    if next(findings, None) is not None:
        yield rule, MORE


def _findings(rule: Rule, workload: Workload, parameters: Parameters) -> Iterator[tuple[About, Finding]]:
    """A rule's findings, and what it could not read as findings of `well-formed`."""
    try:
        for finding in _results(rule, partial(rule.check, workload, parameters)):
            yield rule, finding
    except InvalidFieldError as error:
        yield from ((well_formed.RULE, Finding.of(one)) for one in error.errors)


def _results(rule: About, check: Callable[[], Iterable[Result]]) -> Iterator[Result]:
    """What the check of a rule yields; raises `RuleError` if it ends with an exception of its own."""
    try:
        yield from check()
    except InvalidFieldError:
        raise
    except Exception as error:
        # It may repeat what a tenant has written, and stands in the operator's log.
        text = " ".join(clean(str(error), _LONGEST).split())
        sentence = f"the rule {rule.id} ends with {type(error).__name__}: {text}"
        if not rule.page:
            raise RuleError(rule, f"{sentence}; report this as a bug in the rules") from error
        line = site_rules.line(error, rule.page)
        raise RuleError(rule, f"{rule.page}:{line}: {sentence}; correct the rule") from error


def _unreadable(
    value: Json, target: Subject, error: InvalidFieldError, policies: Policies
) -> Iterator[Violation]:
    level = policies.level(well_formed.RULE, target)
    if level is not Level.DISABLED:
        findings = {finding.path.text: finding for finding in shapes.check(value)[:MOST]}
        for problem in error.errors:
            findings.setdefault(problem.path, Finding.of(problem))
        for finding in findings.values():
            yield Violation(well_formed.RULE, level, str(value.get("kind")), finding)


def _judged(
    rule: About,
    level: Level,
    about: Manifest,
    finding: Finding,
    *,
    made: Mapping[str, Exemption] | None,
    today: date,
) -> Violation:
    if made is None:
        written = exceptions.written(about, rule.id)
        note = f"the exception is invalid: a {about.kind} may not make one" if written else ""
        return Violation(rule, level, about.title, finding, note=note)
    exemption = made.get(rule.id)
    if exemption is None or exemption.holds(today):
        return Violation(rule, level, about.title, finding, exemption)
    note = f"the exception ended on {exemption.until}"
    return Violation(rule, level, about.title, finding, note=note)
