"""What 256 KB that are meant to harm cost whoever asks the rules about them."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

import pytest

from tests.support import cost
from tests.support.rule_examples import TODAY, manifest
from trainyard_api import names
from trainyard_policies import cluster
from trainyard_policies.parameters import Parameters
from trainyard_policies.settings import Policies

KINDS: Final = (names.TRAINJOB, names.CLUSTER_TRAINING_RUNTIME)
EVERYWHERE: Final = Policies(parameters=Parameters(exceptions_in=KINDS))
SIZE: Final = 256 * 1000


def answered(value: dict[str, Any], policies: Policies = EVERYWHERE, today: date = TODAY) -> cluster.Answer:
    return cluster.answer(value, None, "ada", today, policies)


@pytest.mark.parametrize("of", ["trainjob", "runtime"])
@pytest.mark.parametrize(
    "annotations",
    [
        {"policy.trainyard.dev/image-tag": f"until=2026-12-31;x{' ' * SIZE}y"},
        {f"policy.trainyard.dev/imag{n:x}-digst": "" for n in range(SIZE // 40)},
    ],
    ids=["spaces", "many"],
)
def test_exceptions_cost_little_however_they_are_written(of: str, annotations: dict[str, str]) -> None:
    value = manifest(of)
    value["metadata"] |= {"annotations": annotations}
    answered(value)
    assert cost.cpu(lambda: answered(value)) < cost.SECONDS
    assert cost.peak(lambda: answered(value)) < cost.BYTES
