"""The forecast for a job, in a sentence."""

from __future__ import annotations

from trainyard_api.printable import clean
from trainyard_api.shown import listed

from .lines import amount
from .model import Answer, Short, Verdict


def sentence(verdict: Verdict) -> str:
    """Such as `waits for 4 nvidia.com/gpu more of flavor h100, behind team-a/llama`."""
    return clean(_sentence(verdict))


def _sentence(verdict: Verdict) -> str:
    doubt = "" if verdict.sure else " as far as you may see"
    behind = f", behind {listed(verdict.before)}" if verdict.before else ""
    lacks = "; ".join(filter(None, (*map(_short, verdict.short), verdict.why)))
    match verdict.answer:
        case Answer.STARTS:
            return f"starts now{doubt}{_checks(verdict)}"
        case Answer.PREEMPTS:
            return f"starts{doubt}, and stops {listed(verdict.preempts)} for that{_checks(verdict)}"
        case Answer.NEVER:
            return f"never starts: {lacks}"
        case Answer.WAITS:
            return f"waits{doubt}: {lacks}{behind}" if lacks else f"waits{doubt}{behind}"
        case Answer.UNKNOWN:
            return f"starts or waits: {verdict.why}"


def _checks(verdict: Verdict) -> str:
    if not verdict.checks:
        return ""
    let = "lets" if len(verdict.checks) == 1 else "let"
    return f", if {listed(verdict.checks)} {let} it"


def _short(short: Short) -> str:
    if not short.flavor:
        return f"no flavor of its queue has {short.resource}"
    wanted = amount(short.resource, short.wanted)
    where = f"{wanted} {short.resource} of flavor {short.flavor}"
    if short.wanted > short.most:
        return f"{where}, of which its queue can have {amount(short.resource, short.most)}"
    return f"{where}, of which {amount(short.resource, short.free)} is free"
