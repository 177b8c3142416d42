"""A runtime as a stack has it: among all, by itself, or left out."""

import pytest

from trainyard_api.places import SHIPPED
from trainyard_cli.files import stackfile
from trainyard_delivery import stack_names
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import images as catalog_images
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.catalog.images import Images

CATALOG = SHIPPED.runtimes


@pytest.mark.parametrize("name", stack_names.stacks(SHIPPED.stacks))
def test_a_runtime_alone_is_as_it_is_among_all(name: str) -> None:
    stack = stackfile.read(name, SHIPPED.stacks)
    registry = Artifacts(stack.artifacts, SHIPPED.root).registry
    images = Images(catalog_images.load(CATALOG), registry)
    alone = [stack_runtimes.adapt(one, stack, images) for _, one in sorted(catalog.read_all(CATALOG).items())]
    among_all = stack_runtimes.load(CATALOG, stack, registry)
    assert [one for one in alone if one is not None] == list(among_all)
    assert among_all


@pytest.mark.parametrize("enabled", [True, False])
def test_a_runtime_that_starts_a_data_cache_is_left_out_where_there_is_none(enabled: bool) -> None:
    stack = stackfile.read("sandbox", SHIPPED.stacks)
    cache = stack.data_cache.model_copy(update={"enabled": enabled})
    remarks: list[str] = []
    runtimes = stack_runtimes.load(
        CATALOG, stack.model_copy(update={"data_cache": cache}), lambda image: image, remarks.append
    )
    cached = "torch-distributed-with-cache"
    assert (cached in [runtime.name for runtime in runtimes]) is enabled
    remark = f"the runtime {cached} starts a data cache and is left out: dataCache.enabled is false"
    assert remarks == ([] if enabled else [remark])
