"""What nobody wrote down follows from the pools and the queues."""

from collections.abc import Mapping
from typing import Any

import pytest

from trainyard_api.names import CATALOG_IMAGES, RELEASE_IMAGES
from trainyard_api.pools import NodePool
from trainyard_policies.parameters import Parameters
from trainyard_policies.queues import Queues

NONE = Queues()


def pool(nodes: int, cpu: str, memory: str) -> NodePool:
    given = {"provider": "existing", "nodes": nodes, "nodeLabels": {"a": "b"}}
    return NodePool.model_validate({**given, "machine": {"cpu": cpu, "memory": memory}})


POOLS = {"small": pool(2, "8", "900Gi"), "large": pool(3, "180", "64Gi")}


def bounds(parameters: Parameters) -> tuple[int, Mapping[str, str]]:
    return parameters.max_nodes, parameters.bounds


def test_without_pools_nothing_is_asked_for_that_no_machine_has():
    assert bounds(Parameters().with_pools({}, NONE)) == (10_000, {"cpu": "4096", "memory": "128Ti"})


def test_with_pools_no_more_than_their_nodes_hold_and_the_largest_machine_has():
    assert bounds(Parameters().with_pools(POOLS, NONE)) == (550, {"cpu": "180", "memory": "900Gi"})


def test_the_images_of_a_stack_except_its_operator_are_allowed_where_no_registry_allows_them():
    parameters = Parameters(registries=("registry.k8s.io", "ghcr.io/acme"))
    digest = f"sha256:{'0' * 64}"
    trainers = f"localhost:5000/trainers:1.0.0@{digest}"
    images = [f"ghcr.io/acme/lightgbm:1.0.0@{digest}", f"localhost:5000/operator:1.0.0@{digest}", trainers]
    allowed = parameters.with_images(images)
    assert allowed.registries == ("registry.k8s.io", "ghcr.io/acme", trainers)
    assert allowed.with_images(images) == allowed
    assert parameters.with_images([]) == parameters


@pytest.mark.parametrize("left_out", ["", "lightgbm"], ids=["all images", "all but one"])
def test_with_all_images_of_trainyard_the_default_is_without_those_on_docker_hub(left_out: str):
    digest = f"sha256:{'0' * 64}"
    images = [f"ghcr.io/acme/{name}:1@{digest}" for name in RELEASE_IMAGES if name != left_out]
    allowed = Parameters().with_images(images)
    assert (CATALOG_IMAGES in allowed.registries) == bool(left_out)
    assert set(Parameters().registries) - set(allowed.registries) <= {CATALOG_IMAGES}
    assert allowed.with_images(images) == allowed
    kept = Parameters(registries=(CATALOG_IMAGES,)).with_images(images)
    assert kept.registries[0] == CATALOG_IMAGES


def test_what_a_stack_says_itself_stays():
    said = Parameters(max_nodes=10_000, max_resources={"cpu": "256", "nvidia.com/gpu": "8"})
    assert bounds(said.with_pools(POOLS, NONE)) == (
        10_000,
        {"cpu": "256", "memory": "900Gi", "nvidia.com/gpu": "8"},
    )


def test_what_a_stack_says_itself_stays_even_if_it_is_what_holds_without_pools():
    said = Parameters(max_resources={"cpu": "4096"})
    assert bounds(said.with_pools(POOLS, NONE)) == (550, {"cpu": "4096", "memory": "900Gi"})
    assert bounds(said) == (10_000, {"cpu": "4096", "memory": "128Ti"})


def test_many_nodes_are_no_more_than_the_operator_takes():
    assert Parameters().with_pools({"many": pool(1000, "8", "1Gi")}, NONE).max_nodes == 10_000


TAINTED = {"taints": [{"key": "gpu", "value": "h100"}, {"key": "slow", "effect": "PreferNoSchedule"}]}
ITS_OWN = {"quota": [{"clusterQueue": "team"}]}


def quota(*flavors: str) -> dict[str, Any]:
    groups = [{"flavors": [{"name": name, "resources": {"cpu": {"nominal": "8"}}}]} for name in flavors]
    return {"resourceGroups": groups}


def flavor(*tolerations: dict[str, str], **labels: str) -> dict[str, Any]:
    return {"nodeLabels": labels, "tolerations": list(tolerations)}


GPU = {"key": "gpu", "operator": "Exists"}
"""A toleration."""


@pytest.mark.parametrize(
    ("given", "queues", "adds"),
    [
        pytest.param(ITS_OWN, {}, True, id="the pool says whose it is"),
        pytest.param({}, {}, False, id="nobody has quota for it"),
        pytest.param({}, {"clusterQueues": {"team": quota("pool")}}, True, id="a queue names it"),
        pytest.param({}, {"cohorts": {"all": quota("cpu", "pool")}}, True, id="a cohort names it"),
        pytest.param({}, {"clusterQueues": {"team": quota("cpu")}}, False, id="a queue names another"),
        pytest.param(
            {},
            {"flavors": {"any": flavor(GPU, a="b")}, "clusterQueues": {"team": quota("any")}},
            True,
            id="a flavor leads there and tolerates its taints",
        ),
        pytest.param(
            {},
            {"flavors": {"any": flavor(GPU)}, "clusterQueues": {"team": quota("any")}},
            True,
            id="a flavor leads everywhere",
        ),
        pytest.param(
            {}, {"flavors": {"any": flavor(GPU, a="b")}}, False, id="nobody has quota of the flavor"
        ),
        pytest.param(
            {},
            {"flavors": {"any": flavor(GPU, a="c")}, "clusterQueues": {"team": quota("any")}},
            False,
            id="a flavor leads to other nodes",
        ),
        pytest.param(
            {},
            {
                "flavors": {"any": flavor({**GPU, "operator": "Equal"}, a="b")},
                "cohorts": {"all": quota("any")},
            },
            False,
            id="a flavor tolerates another value",
        ),
    ],
)
def test_pods_get_tolerations_where_kueue_admits_them_to_a_flavor_that_has_them(
    given: dict[str, Any], queues: dict[str, Any], adds: bool
) -> None:
    tainted = NodePool.model_validate(
        {**pool(2, "8", "1Gi").model_dump(by_alias=True), **TAINTED, **given}, by_alias=True
    )
    [added] = Parameters().with_pools({"pool": tainted}, Queues.of(queues)).pools
    assert added.adds_tolerations is adds
