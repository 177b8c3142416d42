"""`runtimes/images.yaml`: the digests of the images that the catalog names.

Files of the catalog name an image with its tag, as people read it. What a
stack installs has the digest too, if one is known, and comes from the stack's
mirror. An image that is not listed is used as its file names it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from .. import yamlfile
from ..artifacts import ImagePin

FILE: Final = "images.yaml"

_LISTS: Final = ("initContainers", "containers")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    images: tuple[ImagePin, ...]


@dataclass(frozen=True)
class Images:
    """Where images come from: what they are pinned to, by `name:tag`, and the registry that has them.

    `registry` gives the name of an image in the stack's registry, or the name itself.
    """

    pins: Mapping[str, ImagePin] = field(default_factory=dict)
    registry: Callable[[str], str] = str

    def resolve(self, image: str) -> str:
        """The image as nodes pull it."""
        pin = self.pins.get(image)
        return self.registry(f"{image}@{pin.digest}" if pin is not None and pin.digest else image)


def load(folder: Path, beneath: Path | None = None) -> dict[str, ImagePin]:
    """The pins of a catalog by `name:tag`; none without the file. Raises `PlatformError` with its place.

    Args:
        folder: The catalog, or a site's part of it.
        beneath: The catalog that the site's comes on top of. The two lists become one; of an image that both
            have, the site's entry counts.
    """
    return {**({} if beneath is None else load(beneath)), **_listed(folder / FILE)}


def _listed(path: Path) -> dict[str, ImagePin]:
    if not path.exists():
        return {}
    file = yamlfile.load(path)
    pins: dict[str, ImagePin] = {}
    for position, pin in enumerate(file.validated(_File).images):
        image = f"{pin.name}:{pin.tag}"
        if image in pins:
            raise file.error(f"{image} is listed twice", ["images", position])
        pins[image] = pin
    return pins


def apply(manifest: dict[str, Any], images: Images) -> None:
    """Resolve every image of a runtime, in place: of containers and volumes, and in variables that name a
    pinned one.
    """
    for job in manifest["spec"]["template"]["spec"]["replicatedJobs"]:
        pod = job["template"]["spec"]["template"]["spec"]
        for volume in pod.get("volumes", []):
            if "reference" in (source := volume.get("image") or {}):
                source["reference"] = images.resolve(source["reference"])
        for container in (container for key in _LISTS for container in pod.get(key, [])):
            if "image" in container:
                container["image"] = images.resolve(container["image"])
            for variable in container.get("env", []):
                if variable.get("value") in images.pins:
                    variable["value"] = images.resolve(variable["value"])
