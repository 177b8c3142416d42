"""Upstream's charts, manifests and images: what `artifacts.yaml` pins, and where a stack gets it.

Everything from other projects comes through here, and so do the images of
Trainyard that a stack lists, so that an air-gapped site changes its source in
one place. Manifests with a known digest are checked here. An image with a known
digest is requested by that digest. Charts have no digest: Helm reads them by
version. It installs nothing: components do.
"""

import hashlib
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from trainyard_api import names

from .errors import PlatformError
from .stack import release_images, settings
from .stack.settings import ArtifactSource

_DIGEST = r"^sha256:[0-9a-f]{64}$"
_TIMEOUT_SECONDS = 60


class _Pin(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ManifestPin(_Pin):
    """A YAML file of an upstream release."""

    path: str
    url: str = Field(pattern=r"^https://")
    digest: str | None = Field(pattern=_DIGEST)


class ChartPin(_Pin):
    """A Helm chart in an OCI registry, or, by its name, in a chart repository."""

    path: str
    url: str = Field(pattern=r"^(oci|https)://")
    name: str | None = None
    version: str

    @model_validator(mode="after")
    def _a_repository_has_names(self) -> "ChartPin":
        if self.url.startswith("oci://") is (self.name is not None):
            raise ValueError("a chart of a repository has a name; one in an OCI registry has none")
        return self


class ImagePin(_Pin):
    """A container image."""

    name: str
    tag: str
    digest: str | None = Field(pattern=_DIGEST)


class ArtifactPin(_Pin):
    """Everything used of one upstream project."""

    version: str
    manifests: tuple[ManifestPin, ...] = ()
    chart: ChartPin | None = None
    image: ImagePin | None = None
    images: tuple[ImagePin, ...] = ()
    """For people who fill a mirror: the chart chooses these itself, and no code reads them."""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """What Helm needs: a chart's address, folder or name in a repository, and the version to look for."""

    chart: str
    version: str | None
    repository: str | None = None


@cache
def pins() -> Mapping[str, ArtifactPin]:
    """The pinned artifacts, by name. Read once: each stack that a process looks at has the same."""
    text = Path(__file__).with_name("artifacts.yaml").read_text(encoding="utf-8")
    content = yaml.load(text, Loader=yaml.CSafeLoader)
    return MappingProxyType(TypeAdapter(dict[str, ArtifactPin]).validate_python(content))


class Artifacts:
    """The pinned artifacts as one stack gets them.

    Args:
        source: The stack's choice of source.
        root: Folder of `Pulumi.yaml`, where relative folders start.
    """

    def __init__(self, source: settings.Artifacts, root: Path) -> None:
        self._source = source
        self._root = root
        self._pins = pins()

    def version(self, name: str) -> str:
        """The pinned version of an artifact, such as `v2.3.0`."""
        return self._pins[name].version

    def manifests(self, name: str) -> list[dict[str, Any]]:
        """Every object in the artifact's manifests, in the order of the pins."""
        pin = self._pins[name]
        objects: list[dict[str, Any]] = []
        for manifest in pin.manifests:
            place, content = self._read(name, pin.version, manifest)
            _check_digest(place, content, manifest.digest)
            documents = yaml.load_all(content, Loader=yaml.CSafeLoader)
            objects.extend(document for document in documents if document is not None)
        return objects

    def chart(self, name: str) -> Chart:
        """The artifact's chart, as Helm needs it."""
        pin = self._pins[name]
        if pin.chart is None:
            raise ValueError(f"artifact {name!r} has no chart")
        match self._source.source:
            case ArtifactSource.UPSTREAM:
                if pin.chart.name:
                    return Chart(chart=pin.chart.name, version=pin.chart.version, repository=pin.chart.url)
                return Chart(chart=pin.chart.url, version=pin.chart.version)
            case ArtifactSource.MIRROR:
                upstream = re.sub("^(oci|https)://", "", pin.chart.url)
                if pin.chart.name:
                    upstream += f"/{pin.chart.name}"
                return Chart(chart=f"oci://{self._source.registry}/{upstream}", version=pin.chart.version)
            case ArtifactSource.FOLDER:
                folder = self._folder(name, pin.version) / pin.chart.path
                if not (folder / "Chart.yaml").is_file():
                    raise PlatformError(f"{folder}: there is no chart here{_way_out(name)}")
                return Chart(chart=str(folder), version=None)

    def image(self, name: str) -> str:
        """The artifact's image, from the mirror where there is one; a folder holds no images."""
        pin = self._pins[name].image
        if pin is None:
            raise ValueError(f"artifact {name!r} has no image")
        digest = f"@{pin.digest}" if pin.digest else ""
        return f"{self.registry(pin.name)}:{pin.tag}{digest}"

    def registry(self, name: str) -> str:
        """Where a registry, or what is in it, is read from: itself, or its mirror.

        An image of Trainyard that the stack lists is read from where the list has it.
        """
        if name.startswith(f"{names.CATALOG_IMAGES}/"):
            listed = release_images.by_name(self._source.images).get(release_images.name(name))
            if listed is not None:
                return listed
        return f"{self._source.registry}/{name}" if self._source.source is ArtifactSource.MIRROR else name

    def _folder(self, name: str, version: str) -> Path:
        return (self._root / os.path.expanduser(self._source.folder or "")).resolve() / name / version

    def _read(self, name: str, version: str, manifest: ManifestPin) -> tuple[str, bytes]:
        match self._source.source:
            case ArtifactSource.UPSTREAM:
                return manifest.url, _download(name, manifest.url)
            case ArtifactSource.MIRROR:
                url = f"{self._source.manifests}/{name}/{version}/{manifest.path}"
                return url, _download(name, url)
            case ArtifactSource.FOLDER:
                path = self._folder(name, version) / manifest.path
                try:
                    return str(path), path.read_bytes()
                except OSError as error:
                    raise PlatformError(f"{path}: {error.strerror}{_way_out(name)}") from error


def _download(name: str, url: str) -> bytes:
    try:
        # The pins and the settings both admit only https://.
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:  # noqa: S310
            content: bytes = response.read()
            return content
    except (urllib.error.URLError, TimeoutError) as error:
        raise PlatformError(f"{url}: {error}{_way_out(name)}") from error


def _way_out(name: str) -> str:
    return (
        f" (artifact {name!r}: check {settings.CONFIG_KEY}.artifacts; "
        "`trainyard sandbox up` fills the sandbox's folder, and source upstream needs no folder)"
    )


def _check_digest(place: str, content: bytes, digest: str | None) -> None:
    if digest is None:
        return
    actual = f"sha256:{hashlib.sha256(content).hexdigest()}"
    if actual != digest:
        raise PlatformError(
            f"{place}: these are not the pinned bytes: {actual}, but artifacts.yaml pins {digest}; "
            "take the pinned version, or update version and digest together"
        )
