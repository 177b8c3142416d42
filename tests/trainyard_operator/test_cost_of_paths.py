"""What the nastiest objects that pass the door, and those that do not, cost on each path of the webhooks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from tests.harness.selection import long_unless
from tests.support import cost
from tests.support.nasties import NASTY, nasty
from tests.support.rule_examples import manifest
from trainyard_api import names
from trainyard_api.errors import InvalidFieldError
from trainyard_api.webhook_paths import HOLD_TRAINJOB, MUTATE_TRAINJOB, POLICIES, VALIDATE
from trainyard_operator.core.admit import admission_review, limits
from trainyard_operator.core.decide.views import RuntimeKey, runtime_of
from trainyard_operator.serve.admission import Decider
from trainyard_operator.watch.cache import Cache
from trainyard_operator.work.memory import Memories
from trainyard_operator.work.runtimes import Runtimes
from trainyard_policies.settings import Policies

from .admission_reviews import body

KINDS: Final = {
    "trainjob": names.TRAINJOB,
    "trainingruntime": names.TRAINING_RUNTIME,
    "clustertrainingruntime": names.CLUSTER_TRAINING_RUNTIME,
}
PATHS: Final = (
    MUTATE_TRAINJOB,
    HOLD_TRAINJOB,
    *(f"{path}{kind}" for path in (VALIDATE, POLICIES) for kind in KINDS),
)
DEAREST: Final = ("variables", "patches")
"""The others are sent in a longer run."""


def cases() -> Iterator[tuple[str, str]]:
    for path in PATHS:
        of = "trainjob" if path.endswith("-trainjob") else "runtime"
        yield from ((path, name) for kind, name in NASTY if kind == of)


def decider() -> Decider:
    cache, client = Cache(), None  # nothing is asked of the API server
    good = manifest("runtime")
    good["metadata"] |= {"uid": "uid", "resourceVersion": "1"}
    cluster = names.CLUSTER_TRAINING_RUNTIME
    cache.runtimes.answered(RuntimeKey(cluster, None, "good"), runtime_of(good, cluster))
    runtimes = Runtimes(client, cache, namespace="trainyard-system", memories=Memories(cache))
    return Decider(client, cache, runtimes, synced=lambda: True, policies=Policies())


def sent(path: str, name: str) -> bytes:
    kind = KINDS[path.rpartition("-")[2]]
    value = nasty("trainjob" if kind == names.TRAINJOB else "runtime", name)
    return body({**value, "kind": kind}, kind=kind)


def answered(path: str, review_sent: bytes) -> str:
    """What is said in the end, as JSON."""

    async def answer() -> str:
        _, decide = decider().routes()[path]
        asked = admission_review.read(review_sent)
        try:
            return json.dumps(await decide(asked))
        except InvalidFieldError as error:
            return json.dumps(admission_review.denied(asked, error.errors))

    return asyncio.run(answer())


@pytest.mark.parametrize("case", long_unless(lambda case: case[1] in DEAREST, cases()), ids=": ".join)
def test_a_review_costs_little_on_every_path(case: tuple[str, str]) -> None:
    path, name = case
    asked = sent(path, name)
    spec = json.loads(asked)["request"]["object"]["spec"]
    sizes = limits.sizes_of_trainjob if path.endswith("-trainjob") else limits.sizes_of_runtime
    assert tuple(sizes(spec, limits.DEFAULT)) == (), "the door lets it in"
    answers: list[str] = []
    assert cost.cpu(lambda: answers.append(answered(path, asked))) < cost.SECONDS
    assert len(answers[0]) < 100_000


@pytest.mark.parametrize("case", long_unless(lambda case: case[1] == "long names", cases()), ids=": ".join)
def test_a_review_takes_little_memory_on_every_path(case: tuple[str, str]) -> None:
    assert cost.peak(partial(answered, case[0], sent(*case))) < cost.BYTES


@pytest.mark.parametrize("path", PATHS)
def test_what_the_door_refuses_costs_little(path: str) -> None:
    asked = json.loads(sent(path, "variables"))
    asked["request"]["object"]["spec"]["unknown"] = [[{}]] * 40_000
    large = json.dumps(asked).encode()
    answers: list[str] = []
    assert cost.cpu(lambda: answers.append(answered(path, large))) < cost.SECONDS
    assert "Too long" in answers[0]
