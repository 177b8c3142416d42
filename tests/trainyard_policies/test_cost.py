"""What 256 KB that are meant to harm cost whoever asks the rules about them."""

from __future__ import annotations

from functools import partial
from typing import Final

import pytest

from tests.harness.selection import long_unless
from tests.support import cost
from tests.support.nasties import NASTY, nasty
from tests.support.rule_examples import TODAY
from trainyard_api import names
from trainyard_policies import cluster, engine, rules
from trainyard_policies.parameters import Parameters, Pool
from trainyard_policies.rule import Rule
from trainyard_policies.settings import Policies

POLICIES: Final = Policies(
    parameters=Parameters(
        exceptions_in=(names.TRAINJOB, names.CLUSTER_TRAINING_RUNTIME),
        pools=(Pool(name="a", labels={"a": "b"}, resources={"a.io/a": "1"}),),
    )
)
"""With these, all rules have something to do, and exceptions are read wherever they are."""
DEAREST: Final = (
    "variables",
    "long volumes, and mounts of none",
    "long names",
    "the beginning of a key",
    "ports",
    "limits",
    "privileged containers",
    "exceptions of no rule",
    "a long exception",
    "claims, and mounts of all",
    "jobs",
    "patches",
)
"""What costs some rule the most; the others are looked at in a longer run."""
LARGEST: Final = ("long volumes, and mounts of none", "long names", "variables of two sources")
"""What leads to the longest messages; to measure memory takes long."""
SOME: Final = long_unless(lambda one: one[1] in DEAREST, NASTY)


@pytest.mark.parametrize("rule", rules.OF_WORKLOADS, ids=lambda rule: rule.id)
def test_a_rule_costs_little_whatever_is_sent(rule: Rule) -> None:
    found = {
        one: cost.cpu(partial(engine.check, nasty(*one), TODAY, POLICIES, [rule]))
        for one in NASTY
        if one[1] in DEAREST
    }
    assert {one: seconds for one, seconds in found.items() if seconds > cost.SECONDS} == {}


@pytest.mark.parametrize("one", SOME, ids=": ".join)
def test_an_answer_costs_little_whatever_is_sent(one: tuple[str, str]) -> None:
    answer = partial(cluster.answer, nasty(*one), None, "ada", TODAY, POLICIES)
    assert cost.cpu(answer) < cost.SECONDS
    assert max(map(len, (*answer().refusals, *answer().warnings)), default=0) < 2_000


@pytest.mark.parametrize("one", long_unless(lambda one: one[1] in LARGEST, NASTY), ids=": ".join)
def test_an_answer_takes_little_memory_whatever_is_sent(one: tuple[str, str]) -> None:
    assert cost.peak(partial(cluster.answer, nasty(*one), None, "ada", TODAY, POLICIES)) < cost.BYTES


@pytest.mark.parametrize("of", ["runtime", "trainjob"])
def test_what_the_rules_have_nothing_against_is_asked_about_once_in_an_update(of: str) -> None:
    value = nasty(of, "arguments")
    assert cluster.answer(value, value, "ada", TODAY, POLICIES).refusals == ()
    assert cost.cpu(partial(cluster.answer, value, value, "ada", TODAY, POLICIES)) < cost.SECONDS
