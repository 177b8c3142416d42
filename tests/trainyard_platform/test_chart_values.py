"""Values of upstream's charts: known before they are sent, and what the platform states stands."""

import json
from typing import Any

import pytest

from trainyard_platform.errors import PlatformError
from trainyard_platform.stack import chart_values, settings

OPERATOR = {"image": "docker.io/trainyard/operator:1"}


def test_the_platform_states_what_it_states_and_the_stack_the_rest() -> None:
    given = {"manager": {"logLevel": 4, "image": {"tag": "own"}}, "extra": [1], "replicas": 3}
    ours = {"manager": {"image": {"tag": "v1", "repository": "r"}}, "replicas": 3, "config": "x"}
    assert chart_values.merged(given, ours) == {
        "manager": {"logLevel": 4, "image": {"tag": "v1", "repository": "r"}},
        "extra": [1],
        "replicas": 3,
        "config": "x",
    }
    assert list(chart_values.overruled(given, ours, "kueue.values")) == ["kueue.values.manager.image.tag"]


def test_a_charts_keys_are_told_by_what_they_hold_and_parts_of_pods_are_kubernetes_affair() -> None:
    values = {
        "replicas": 1,
        "name": "a",
        "enabled": False,
        "env": [],
        "empty": {},
        "unset": None,
        "manager": {"logLevel": 2, "podSecurityContext": {"runAsNonRoot": True}},
        "default_csc": {"runAsUser": 1000},
    }
    assert chart_values.tree(values) == {
        "replicas": "a number or text",
        "name": "a number or text",
        "enabled": "true or false",
        "env": "a list",
        "empty": "any",
        "unset": "any",
        "manager": {"logLevel": "a number or text", "podSecurityContext": "any"},
        "default_csc": "any",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"kueue": {"enabled": True, "values": {"controllerManger": {"replicas": 2}}}},
            "kueue.values.controllerManger: the chart has no such value; did you mean controllerManager?",
        ),
        (
            {"volcano": {"values": {"custom": {"scheduler_enable": "yes"}}}},
            "volcano.values.custom.scheduler_enable: must be true or false; is 'yes'",
        ),
        (
            {"coscheduling": {"values": {"pluginConfig": {"name": "Coscheduling"}}}},
            "coscheduling.values.pluginConfig: must be a list; is {'name': 'Coscheduling'}",
        ),
        (
            {"jobset": {"values": {"image": "jobset:1"}}},
            "jobset.values.image: must be a mapping, of pullPolicy, pullSecrets, repository, tag; "
            "is 'jobset:1'",
        ),
        (
            {"kueue": {"enabled": True, "controller": "existing", "values": {"fullnameOverride": "k"}}},
            "kueue.values: kueue.controller existing has no use for it: remove it",
        ),
    ],
    ids=["a typo", "no boolean", "no list", "no mapping", "a chart that is not installed"],
)
def test_a_value_that_the_chart_does_not_know_is_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PlatformError) as stopped:
        settings.load(json.dumps({"operator": OPERATOR, **given}), "demo")
    assert str(stopped.value) == f"stacks/Pulumi.demo.yaml is not valid:\n  trainyard:platform.{message}"


def test_whatever_a_chart_hands_on_to_kubernetes_is_let_through() -> None:
    given = {
        "kueue": {
            "enabled": True,
            "values": {"controllerManager": {"manager": {"podSecurityContext": {"runAsUser": 7}}}},
        },
        "jobset": {"values": {"controller": {"affinity": {"nodeAffinity": {}}}}},
    }
    settings.load(json.dumps({"operator": OPERATOR, **given}), "demo")
