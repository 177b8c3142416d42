"""Trainyard's own images, as the file `images.txt` of a release lists them.

A stack that lists them names no image of Trainyard elsewhere: `filled` gives the settings in `SETTINGS` their
image, and `Artifacts.registry` the runtimes of the catalog.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from trainyard_api import names
from trainyard_api.similar import hint

INITIALIZERS: Final = "initializers"
SETTINGS: Final[Mapping[str, str]] = {
    "operator.image": names.OPERATOR_IMAGE,
    "dataCache.initializerImage": INITIALIZERS,
    "dataCache.cacheImage": "data-cache",
}
"""Settings of a stack that name one image of Trainyard: by their path, the image."""
PINNED: Final = r"^([a-z0-9.-]+\.[a-z0-9-]+|localhost)(:[0-9]+)?/[^\s@]+:[^\s/@]+@sha256:[0-9a-f]{64}$"
WORDS: Final = {
    PINNED: (
        "must be an image with its registry, tag and digest, as in images.txt of a release "
        "(ghcr.io/acme/trainyard/operator:1.0.0@sha256:...)"
    )
}


def name(image: str) -> str:
    """The last part of an image's name, without tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def by_name(images: Iterable[str]) -> dict[str, str]:
    """The images by their `name`."""
    return {name(image): image for image in images}


def filled(stack: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a stack file. Each setting in `SETTINGS` without a value has the listed image."""
    images = _listed(stack)
    settings = dict(stack)
    for path, image_name in SETTINGS.items():
        section, _, key = path.partition(".")
        part = settings.get(section)
        if part is None:  # perhaps its only key has been removed
            part = {}
        if image_name in images and isinstance(part, Mapping) and part.get(key) is None:
            settings[section] = {**part, key: images[image_name]}
    return settings


def _listed(stack: Mapping[str, Any]) -> dict[str, str]:
    """The images in a stack file that nobody has checked yet."""
    artifacts = stack.get("artifacts")
    images = artifacts.get("images") if isinstance(artifacts, Mapping) else None
    return by_name(image for image in images if isinstance(image, str)) if isinstance(images, list) else {}


def _of_a_release(images: tuple[str, ...]) -> tuple[str, ...]:
    published = names.RELEASE_IMAGES
    listed = [name(image) for image in images]
    for position, image_name in enumerate(listed):
        if image_name not in published:
            allowed = f"(its images: {', '.join(published)}){hint(image_name, published)}"
            raise ValueError(f"Trainyard has no image {image_name!r} {allowed}")
        if image_name in listed[:position]:
            raise ValueError(f"the image {image_name!r} is listed twice: remove one of them")
    return images


ReleaseImages = Annotated[tuple[Annotated[str, Field(pattern=PINNED)], ...], AfterValidator(_of_a_release)]
