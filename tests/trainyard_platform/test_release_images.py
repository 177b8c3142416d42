"""A stack that lists the images of a release names no image of Trainyard elsewhere."""

import re
from typing import Any

import pytest

from trainyard_api.names import RELEASE_IMAGES
from trainyard_api.places import SHIPPED
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.catalog import stack_runtimes
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack import settings
from trainyard_platform.stack.settings import StackSettings

DIGEST = "sha256:" + "0" * 64
IMAGES = {name: f"ghcr.io/acme/train/{name}:1.0.0@{DIGEST}" for name in RELEASE_IMAGES}
MIRROR = {"source": "mirror", "registry": "mirror.example.com/all", "manifests": "https://example.com/files"}


def stack_with(*images: str, artifacts: dict[str, Any] | None = None, **sections: Any) -> StackSettings:
    return settings.of({"artifacts": {**(artifacts or {}), "images": list(images)}, **sections}, "prod")


def installed(stack: StackSettings) -> dict[str, list[str]]:
    """The images of each runtime that the stack installs, in the order of its containers."""
    registry = Artifacts(stack.artifacts, SHIPPED.root).registry
    images: dict[str, list[str]] = {}
    for runtime in stack_runtimes.load(SHIPPED.runtimes, stack, registry):
        jobs = runtime.manifest["spec"]["template"]["spec"]["replicatedJobs"]
        pods = [job["template"]["spec"]["template"]["spec"] for job in jobs]
        images[runtime.name] = [container["image"] for pod in pods for container in pod["containers"]]
    return images


def test_the_operator_and_the_data_cache_have_the_listed_images() -> None:
    listed = stack_with(*IMAGES.values())
    assert listed.images_of_trainyard == {
        "operator.image": IMAGES["operator"],
        "dataCache.initializerImage": IMAGES["initializers"],
        "dataCache.cacheImage": IMAGES["data-cache"],
    }
    assert listed.advice() == {}


def test_the_other_settings_of_these_parts_stay() -> None:
    listed = stack_with(*IMAGES.values(), operator={"replicas": 2}, dataCache={"enabled": True})
    assert (listed.operator.image, listed.operator.replicas) == (IMAGES["operator"], 2)
    assert (listed.data_cache.cache_image, listed.data_cache.enabled) == (IMAGES["data-cache"], True)


def test_a_section_whose_only_key_has_been_removed_has_the_listed_image() -> None:
    listed = stack_with(*IMAGES.values(), operator=None, dataCache=None)
    assert listed.operator.image == IMAGES["operator"]
    assert listed.data_cache.cache_image == IMAGES["data-cache"]
    with pytest.raises(PlatformError, match=r"\n  trainyard:platform.operator: must be a mapping; is None$"):
        stack_with(IMAGES["trainers"], operator=None)


def test_an_image_that_a_setting_names_takes_precedence_and_is_advised_about() -> None:
    own = "registry.example.com/trainyard/operator:1.0.0-of-acme"
    listed = stack_with(*IMAGES.values(), operator={"image": own})
    assert listed.operator.image == own
    assert listed.advice() == {
        "operator.image": "takes precedence over the image operator in artifacts.images: remove one of them"
    }
    assert stack_with(IMAGES["trainers"], operator={"image": own}).advice() == {}


def test_initializers_of_the_data_cache_and_listed_ones_for_the_runtimes_are_both_needed() -> None:
    own = "registry.example.com/acme/initializers:1"
    listed = stack_with(*IMAGES.values(), dataCache={"enabled": True, "initializerImage": own})
    assert listed.data_cache.initializer_image == own
    assert installed(listed)["trl-sft"][0] == IMAGES["initializers"]
    assert listed.advice() == {}


@pytest.mark.parametrize("source", [{}, MIRROR], ids=["upstream", "mirror"])
def test_no_runtime_names_an_image_that_no_release_publishes(source: dict[str, Any]) -> None:
    cached = "torch-distributed-with-cache"
    parts: dict[str, Any] = {"dataCache": {"enabled": True}, "runtimes": {cached: {"enabled": True}}}
    images = installed(stack_with(*IMAGES.values(), artifacts=source, **parts))
    used = {image for names in images.values() for image in names}
    assert [image for image in used if "docker.io/trainyard/" in image] == []
    initializers, trainers = IMAGES["initializers"], IMAGES["trainers"]
    assert images["trl-sft"] == [initializers, initializers, trainers]
    assert images["torch-with-initializers"][:2] == [initializers, initializers]
    assert images["lightgbm-distributed"] == [IMAGES["lightgbm"]]
    assert images[cached][0] == initializers


def test_an_image_that_is_not_listed_and_one_that_the_stack_names_stay() -> None:
    own = "registry.example.com/acme/trl:1"
    changes = {"trl-sft": {"image": own}}
    images = installed(stack_with(IMAGES["operator"], IMAGES["trainers"], runtimes=changes))
    first, second, trainer = images["trl-sft"]
    assert first.startswith("docker.io/trainyard/initializers:")
    assert (second, trainer) == (first, own)
    assert images["trl-dpo"][2] == IMAGES["trainers"]


def test_the_rules_allow_the_listed_images_in_addition_to_the_registries() -> None:
    parameters = {"registries": ["registry.k8s.io", "ghcr.io/acme/train/trainers"]}
    listed = stack_with(*IMAGES.values(), policies={"parameters": parameters})
    assert listed.rules.parameters.registries == (
        "registry.k8s.io",
        "ghcr.io/acme/train/trainers",
        IMAGES["data-cache"],
        IMAGES["initializers"],
        IMAGES["lightgbm"],
    )


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (
            ["ghcr.io/acme/operator:1.0.0"],
            "artifacts.images[0]: must be an image with its registry, tag and digest, as in images.txt of a "
            "release (ghcr.io/acme/trainyard/operator:1.0.0@sha256:...); is 'ghcr.io/acme/operator:1.0.0'",
        ),
        (
            [IMAGES["operator"], IMAGES["trainers"].replace("trainers", "trainer")],
            "artifacts.images: Trainyard has no image 'trainer' (its images: data-cache, initializers, "
            "lightgbm, operator, trainers); did you mean trainers?",
        ),
        (
            [IMAGES["operator"], IMAGES["operator"].replace("ghcr.io", "registry.example.com")],
            "artifacts.images: the image 'operator' is listed twice: remove one of them",
        ),
    ],
    ids=["without a digest", "a misspelt name", "an image twice"],
)
def test_a_list_that_is_wrong_is_one_sentence(images: list[str], message: str) -> None:
    with pytest.raises(PlatformError, match=re.escape(f"\n  trainyard:platform.{message}") + "$"):
        stack_with(*images)


def test_a_list_without_the_operator_does_not_replace_its_setting() -> None:
    with pytest.raises(PlatformError, match=r"\n  trainyard:platform.operator: is required$"):
        stack_with(IMAGES["trainers"])
