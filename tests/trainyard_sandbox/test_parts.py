"""What a sandbox has only if somebody asks for it."""

import pytest

from trainyard_sandbox import cluster
from trainyard_sandbox.images import Images
from trainyard_sandbox.parts import PARTS, lacking, named
from trainyard_sandbox.toolchain import Toolchain, tools


def test_parts_are_named_one_by_one_or_all_at_once() -> None:
    assert named([]) == ()
    assert named(["mpi", "volcano", "mpi"]) == ("volcano", "mpi")
    assert named(["all"]) == tuple(PARTS)
    assert lacking(["volcano", "mpi"]) == (
        "coscheduling",
        "deepspeed",
        "jax-xgboost",
        "tensorflow",
        "paddle",
        "lightgbm",
        "initializers",
        "data-cache",
        "trainers",
    )


def test_a_name_that_is_none_is_told_which_there_are() -> None:
    with pytest.raises(ValueError, match=r"'mpich': there are volcano, .*, trainers, all"):
        named(["mpich"])


def test_each_part_is_of_tools_or_images_and_each_of_those_is_of_a_part_that_there_is() -> None:
    of_tools = {tool.part for tool in tools().values()}
    of_images = {image.part for image in Images.read(Toolchain([])).images}
    assert of_tools | of_images == {None, *PARTS}


def test_a_sandbox_has_what_is_of_no_part_and_what_was_asked_for() -> None:
    def held(*parts: str) -> set[str]:
        names = {tool.name for tool in Toolchain(cluster._tools(1, "1.35", parts)).tools}
        return names | {image.name for image in Images.read(Toolchain([]), parts).images}

    everything = held(*PARTS)
    assert everything - held() == {
        *("volcano", "volcano-scheduler", "volcano-controller-manager", "volcano-webhook-manager"),
        *("scheduler-plugins", "scheduler-plugins-scheduler", "scheduler-plugins-controller"),
        *("mpi", "deepspeed", "jax-xgboost", "tensorflow", "paddle", "lightgbm", "initializers", "trainers"),
        *("lws", "data-cache"),
    }
    assert held("mpi") - held() == {"mpi"}
