"""Bounds that nobody wrote down follow from the pools."""

from trainyard_api.pools import NodePool
from trainyard_policies.parameters import Parameters


def pool(nodes: int, cpu: str, memory: str) -> NodePool:
    given = {"provider": "existing", "nodes": nodes, "nodeLabels": {"a": "b"}}
    return NodePool.model_validate({**given, "machine": {"cpu": cpu, "memory": memory}})


POOLS = {"small": pool(2, "8", "900Gi"), "large": pool(3, "180", "64Gi")}


def bounds(parameters: Parameters) -> tuple[int, dict[str, str]]:
    return parameters.max_nodes, parameters.max_resources


def test_without_pools_nothing_is_asked_for_that_no_machine_has():
    assert bounds(Parameters().with_pools({})) == (10_000, {"cpu": "4096", "memory": "128Ti"})


def test_with_pools_no_more_than_their_nodes_hold_and_the_largest_machine_has():
    assert bounds(Parameters().with_pools(POOLS)) == (550, {"cpu": "180", "memory": "900Gi"})


def test_what_a_stack_says_itself_stays():
    said = Parameters(max_nodes=10_000, max_resources={"cpu": "256", "nvidia.com/gpu": "8"})
    assert bounds(said.with_pools(POOLS)) == (
        10_000,
        {"cpu": "256", "memory": "900Gi", "nvidia.com/gpu": "8"},
    )


def test_many_nodes_are_no_more_than_the_operator_takes():
    assert Parameters().with_pools({"many": pool(1000, "8", "1Gi")}).max_nodes == 10_000
