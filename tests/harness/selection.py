"""Which cases of a parametrized test `make check` has and the core has, and which a run asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def core_if(of_core: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """The cases as parameters, those marked that are of the core."""
    return [pytest.param(one, marks=pytest.mark.core) if of_core(one) else one for one in cases]


def long_unless(short: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """The cases as parameters, those marked `long` that are not among the short ones."""
    return [case if short(case) else pytest.param(case, marks=pytest.mark.long) for case in cases]


def asked_for(request: pytest.FixtureRequest, parameter: str, *, every: Sequence[Any] = ()) -> list[Any]:
    """The values of a parameter in the tests of the fixture's module that this run has, in their order.

    Args:
        request: The fixture's.
        parameter: Its name.
        every: The answer if a test of this run has the fixture and not the parameter: it is about all.
    """
    found: list[Any] = []
    for item in request.session.items:
        if item.path != request.path or not isinstance(item, pytest.Function):
            continue
        values = item.callspec.params if hasattr(item, "callspec") else {}
        if parameter in values and values[parameter] not in found:
            found.append(values[parameter])
        if every and parameter not in values and request.fixturename in item.fixturenames:
            return list(every)
    return found
