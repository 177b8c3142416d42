"""What upstream publishes of the toolchain: fetched, and used only if its digest is the one that we know.

`sandbox/toolchain/releases.yaml` says what there is and what is not, and why.
`TRAINYARD_RELEASES` names a mirror of it. A release that is gone or out of
reach is no error: the toolchain then builds. One with another digest is an
error: it is damaged, or not upstream's.
"""

from __future__ import annotations

import gzip
import os
import platform
import shutil
import tarfile
import zlib
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

import yaml
from pydantic import Field, StringConstraints, model_validator

from trainyard_api import places
from trainyard_api.strict import StrictModel

from .downloads import PROBLEMS, Address, BrokenError, Folder, digest_of, fetch, human, reason, require_safe
from .errors import SandboxError
from .paths import TOOLCHAIN, cache_dir
from .progress import Progress

VARIABLE: Final = "TRAINYARD_RELEASES"
NONE: Final = "none"
"""The value with which nothing is taken from releases."""
FILE: Final = TOOLCHAIN / "releases.yaml"


class Archive(StrictModel):
    """An archive for one kind of machine."""

    url: Annotated[str, StringConstraints(pattern=r"^https://[^?#]+$")]
    """Where upstream has it."""
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """Its digest."""
    sha512: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")] | None = None
    """Or this one."""
    folder: str = ""
    """The folder in it that holds the binaries."""

    @model_validator(mode="after")
    def _one_digest(self) -> Self:
        if (self.sha256 is None) == (self.sha512 is None):
            raise ValueError("must have sha256 or sha512")
        return self

    @property
    def algorithm(self) -> str:
        """What the digest is made with."""
        return "sha256" if self.sha256 else "sha512"

    @property
    def digest(self) -> str:
        """The digest, as hexadecimal digits."""
        return str(self.sha256 or self.sha512)

    @property
    def name(self) -> str:
        """Its address without the scheme, which is its path on a mirror."""
        return self.url.removeprefix("https://")

    @property
    def file(self) -> str:
        """Its own name."""
        return PurePosixPath(self.name).name


class Release(StrictModel):
    """What upstream publishes of a tool."""

    version: str
    """That of the toolchain."""
    archives: Mapping[str, Archive] = Field(default_factory=dict)
    """By machine, as `platform.machine()` says it."""
    digests: str = ""
    """Where the digests were read."""
    built: str = ""
    """Why it is built where there is no archive."""


@dataclass(frozen=True)
class Offer:
    """An archive that can be had now."""

    archive: Archive
    place: Folder | Address
    name: str
    """Its name there."""
    size: int | None
    """Its bytes, None if the server does not say."""

    def __str__(self) -> str:
        """`432 MB from dl.k8s.io`."""
        return " ".join([*([human(self.size)] if self.size else []), "from", source(self.archive)])


@cache
def releases() -> Mapping[str, Release]:
    """All entries of `releases.yaml`, by the tool's name."""
    entries = yaml.load(FILE.read_text(), Loader=yaml.CSafeLoader)
    return {name: Release.model_validate(entry) for name, entry in entries.items()}


def archive(tool: str) -> Archive | None:
    """What upstream publishes of a tool for this machine, if its digest is known."""
    release = releases().get(tool)
    return release.archives.get(platform.machine()) if release else None


def refused() -> bool:
    """Whether the environment says that nothing comes from releases."""
    return os.environ.get(VARIABLE) == NONE


def source(of: Archive) -> str:
    """Where an archive comes from: the host, or the mirror that the environment names."""
    return os.environ.get(VARIABLE) or str(urlsplit(of.url).hostname)


def offers(archives: Mapping[str, Archive]) -> dict[str, Offer | str]:
    """Ask for archives, all at once.

    Returns:
        By the tool's name what can be had, or why not, as a part of a sentence.

    Raises:
        SandboxError: The mirror that the environment names is no folder and no safe address.
    """
    if not archives:
        return {}
    places = {tool: _place(of) for tool, of in archives.items()}

    def ask(tool: str) -> Offer | str:
        place, name = places[tool]
        try:
            return Offer(archives[tool], place, name, place.size(name))
        except FileNotFoundError:
            return "it is gone"
        except PROBLEMS as error:
            return reason(error)

    with ThreadPoolExecutor(len(archives)) as pool:
        return dict(zip(archives, pool.map(ask, archives), strict=True))


def take(offer: Offer, binaries: Collection[str], target: Path, progress: Progress, label: str) -> bool:
    """Fetch an archive, and put its binaries into a folder of the cache, all of them or none.

    Args:
        offer: The archive.
        binaries: The files that are wanted of it.
        target: The folder; one of the same name is replaced.
        progress: Shows how far it is.
        label: The tool and its version.

    Returns:
        False if the archive does not come: then it is to be built.

    Raises:
        SandboxError: The archive that came is another one than the one that is meant.
    """
    partial = cache_dir() / "releases" / f"{offer.archive.digest[:32]}.partial"
    try:
        with progress.step(f"fetch {label} ({offer})", offer.name) as at:
            resumed = partial.exists()
            fetch(offer.place, offer.name, offer.size, partial, at)
            if resumed and _digest(offer, partial) != offer.archive.digest:
                # What was here already may be the beginning of another file: an older one of a mirror.
                partial.unlink()
                fetch(offer.place, offer.name, offer.size, partial, at)
            _check(offer, partial)
            _unpack(offer.archive, partial, binaries, target)
            partial.unlink()
    except FileNotFoundError:
        progress.console.print(f"{offer.archive.file} is gone, so {label} is built here.", soft_wrap=True)
        return False
    except BrokenError as error:
        progress.console.print(
            f"{offer.archive.file} did not come whole ({error.problem}, after {human(error.done)}), so"
            f" {label} is built here.",
            soft_wrap=True,
        )
        return False
    return True


def _place(of: Archive) -> tuple[Folder | Address, str]:
    """Where an archive is, and its name there."""
    where = os.environ.get(VARIABLE)
    if not where:
        host, _, path = of.name.partition("/")
        return Address(f"https://{host}"), path
    if "://" in where:
        require_safe(where, f"{VARIABLE}={where}")
        return Address(where.rstrip("/")), of.name
    folder = Path(os.path.expanduser(where))
    if not folder.is_dir():
        raise SandboxError(
            f"{VARIABLE}={where}: must be {NONE}, a folder, or an address that begins with https://; there"
            " is no such folder."
        )
    return Folder(folder), of.name


def _digest(offer: Offer, partial: Path) -> str:
    return digest_of(partial, offer.archive.algorithm)


def _check(offer: Offer, partial: Path) -> None:
    if (actual := _digest(offer, partial)) != offer.archive.digest:
        partial.unlink()
        digest = offer.archive.algorithm.replace("sha", "SHA-")
        raise SandboxError(
            f"{offer.archive.file} from {source(offer.archive)}: its {digest} is {actual}, and"
            f" {places.shown(FILE)} says {offer.archive.digest}. So it is damaged, another version, or"
            " not upstream's, and nothing of it is used. Build it with --from-source (for other commands,"
            f" {VARIABLE}={NONE}), or name a mirror that has it in {VARIABLE}."
        )


def _unpack(of: Archive, file: Path, binaries: Collection[str], target: Path) -> None:
    folder = target.with_name(f".{target.name}.partial")
    for old in (folder, target):
        shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(parents=True)
    missing = {str(PurePosixPath(of.folder, name)): name for name in binaries}
    try:
        with tarfile.open(file, "r:gz") as tar:
            for member in tar:
                name = missing.pop(str(PurePosixPath(member.name)), None) if member.isfile() else None
                if name and (content := tar.extractfile(member)):
                    with (folder / name).open("wb") as binary:
                        shutil.copyfileobj(content, binary)
                    (folder / name).chmod(0o755)
                if not missing:
                    break
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise SandboxError(
            f"{of.file}: it is the archive that is meant, but cannot be read: {error}."
        ) from error
    if missing:
        raise SandboxError(
            f"{of.file}: it is the archive that is meant, but has no {', '.join(sorted(missing))}. Set the"
            f" right folder in {places.shown(FILE)}."
        )
    folder.rename(target)
