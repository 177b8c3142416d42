"""A runtime as a stack has it: among all, and alone."""

import pytest

from trainyard_cli.files import stackfile
from trainyard_delivery import stack_names
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import images as catalog_images
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.catalog.images import Images

CATALOG = stackfile.PROJECT / "runtimes"


@pytest.mark.parametrize("name", stack_names.stacks(stackfile.STACKS))
def test_a_runtime_alone_is_as_it_is_among_all(name: str) -> None:
    stack = stackfile.read(name, stackfile.STACKS)
    registry = Artifacts(stack.artifacts, stackfile.PROJECT).registry
    images = Images(catalog_images.load(CATALOG), registry)
    alone = [stack_runtimes.adapt(one, stack, images) for _, one in sorted(catalog.read_all(CATALOG).items())]
    among_all = stack_runtimes.load(CATALOG, stack, registry)
    assert [one for one in alone if one is not None] == list(among_all)
    assert among_all
