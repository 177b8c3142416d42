"""Changes that recreate a stack's objects."""

from typing import Any

import pytest

from trainyard_delivery import replacements
from trainyard_platform.stack import settings

IDENTIFIER = (
    "cluster.identifier: {} -> {} makes Pulumi recreate every object of the stack and then delete the old "
    "one: in the cluster they are the same objects, and queues, tenants and quotas go"
)
MOVED = (
    "cluster.{}: {} -> {} moves the stack, if that is another cluster: what it has in the old one stays "
    "there, and nothing manages it"
)


def stack(**cluster: Any) -> settings.StackSettings:
    operator = {"image": "example.com/operator:1"}
    return settings.of({"operator": operator, "cluster": cluster}, "lab")


@pytest.mark.parametrize(
    ("before", "after", "sentences"),
    [
        ({}, {"version": "1.35"}, []),
        ({}, {"identifier": "lab"}, []),
        ({}, {"identifier": "lab2"}, [IDENTIFIER.format("lab", "lab2")]),
        ({"identifier": "lab"}, {"identifier": "lab2"}, [IDENTIFIER.format("lab", "lab2")]),
        ({}, {"context": "b"}, [MOVED.format("context", "none", "b")]),
        ({"kubeconfig": "/a"}, {"kubeconfig": "/b"}, [MOVED.format("kubeconfig", "/a", "/b")]),
    ],
)
def test_what_a_change_of_the_stack_file_does_to_the_whole_stack(
    before: dict[str, Any], after: dict[str, Any], sentences: list[str]
) -> None:
    assert list(replacements.of_stack("lab", stack(**before), stack(**after))) == sentences


def test_of_many_objects_the_flag_names_all() -> None:
    told = replacements.refusal([f"ClusterQueue/{number}" for number in range(7)])
    assert "ClusterQueue/4 and 2 more and then" in told
    assert told.endswith('add --replace "all"')
