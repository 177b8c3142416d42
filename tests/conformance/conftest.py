"""Both controllers, brought up once for all live tests, and taken down after them."""

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack

import pytest

from benchmarks import plane
from tests.support import live


@pytest.fixture(scope="package")
def sides(tmp_path_factory):
    """Our operator and the reference, in this order."""
    plane.build()
    starts = [live.ours, live.reference]
    folders = [tmp_path_factory.mktemp(start.__name__) for start in starts]
    # A controller dies with the thread that started it.
    with ThreadPoolExecutor() as pool, ExitStack() as stack:
        controllers = [start(folder) for start, folder in zip(starts, folders, strict=True)]
        started = [pool.submit(stack.enter_context, controller) for controller in controllers]
        wait(started)
        yield [side.result() for side in started]


@pytest.fixture(scope="package")
def admission(sides):
    """From here on, the webhooks of both controllers are asked."""
    for side in sides:
        live.install_webhooks(side)
