"""Container images without a registry: built here, kept unpacked, keyed by their input.

`sandbox/images/images.yaml` lists them. Each is built, or taken from a bundle,
once for its content (a change in its Dockerfile, files, binaries, wheels or
base gives a new key) and imported into a containerd store, which new sandboxes
get as hard links.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from trainyard_api import places

from .bundle import sizes, take
from .commands import FETCHES, new_log, run_logged
from .errors import SandboxError
from .estimate import Kind, Part
from .isolation import die_with_parent
from .locks import locked
from .node import containerd_config
from .parts import PARTS
from .paths import cache_dir
from .progress import Progress
from .toolchain import Toolchain, artifacts_dir

IMAGES = "sandbox/images"
_UNPACKED_AT_ONCE = 2
_UNPACK = "unpack"
_UNPACK_SECONDS = 68.0
"""Of all images, two at a time."""
_ANY_KEY = 16 * "?"
_RECIPE = "2"
"""Part of every key: raise it when this module builds differently."""


@dataclass(frozen=True)
class Base:
    """A Debian root file system to build on."""

    name: str
    suite: str
    packages: Sequence[str]
    seconds: float = 0.0
    python: str = "3.11"
    """The version of its Python, for which wheels are fetched: the suite's."""

    def key(self) -> str:
        """A key that changes with the suite and the packages."""
        return _digest([_RECIPE, self.suite, *self.packages])

    def piece(self) -> str:
        """Its archive, as a path in the cache."""
        return f"images/base-{self.name}-{self.key()}.tar"


@dataclass(frozen=True)
class Image:
    """One entry of `images.yaml`."""

    name: str
    tag: str
    dockerfile: str = ""
    base: str | None = None
    binaries: Sequence[str] = ()
    files: Sequence[str] = ()
    artifacts: Sequence[str] = ()
    wheels: str | None = None
    sources: Sequence[str] = ()
    """Packages of `wheels` of which there is only the source."""
    seconds: float = 0.0
    part: str | None = None
    """Of a sandbox, if it can do without it (`parts`)."""

    @property
    def dockerfile_path(self) -> Path:
        """Where its Dockerfile is."""
        return places.shipped(self._dockerfile)

    @property
    def _dockerfile(self) -> str:
        return self.dockerfile or f"{IMAGES}/{self.name}/Dockerfile"

    def key(self, bases: Mapping[str, Base | Image], toolchain: Toolchain) -> str:
        """A key that changes with everything that goes into the image."""
        base = bases[self.base] if self.base else None
        under = base.key(bases, toolchain) if isinstance(base, Image) else base.key() if base else ""
        parts = [_RECIPE, self.tag, under]
        single = [self._dockerfile, *([self.wheels] if self.wheels else [])]
        for name, path in [*((name, places.shipped(name)) for name in single), *self._own_files()]:
            parts += [name, hashlib.sha256(path.read_bytes()).hexdigest()]
        parts += [hashlib.sha256((artifacts_dir() / one).read_bytes()).hexdigest() for one in self.artifacts]
        # A binary's folder is named by what it was built from.
        parts += [toolchain.binary(name).parent.name for name in self.binaries]
        return _digest(parts)

    def piece(self, key: str) -> str:
        """Its archive, as a path in the cache."""
        return f"images/{self.name}-{key}.tar"

    def _own_files(self) -> Iterator[tuple[str, Path]]:
        """What is in `files`: each with its path in a clone, which it also has in the build context."""
        for folder in self.files:
            place = places.shipped(folder)
            for path in sorted(place.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield f"{folder}/{path.relative_to(place)}", path

    def python(self, bases: Mapping[str, Base | Image]) -> str:
        """The version of Python of what it is built on."""
        base = bases[self.base] if self.base else None
        return base.python(bases) if isinstance(base, Image) else base.python if base else Base.python

    def fill(self, context: Path, bases: Mapping[str, Base | Image], toolchain: Toolchain, log: Path) -> None:
        """Put everything that the Dockerfile copies into the folder `context`."""
        shutil.copyfile(self.dockerfile_path, context / "Dockerfile")
        for name in self.binaries:
            shutil.copy(toolchain.binary(name), context / name)
        for artifact in self.artifacts:
            shutil.copyfile(artifacts_dir() / artifact, context / Path(artifact).name)
        for name, path in self._own_files():
            target = context / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        if self.wheels:
            requirements = places.shipped(self.wheels)
            shutil.copyfile(requirements, context / requirements.name)
            # All of them are in the file; what it leaves out on purpose is not to come in by another.
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
            forms = ["--only-binary", ":all:", *(f"--no-binary={package}" for package in self.sources)]
            options = [*forms, "--python-version", self.python(bases), "-d", str(context / "wheels")]
            arguments = [*pip, *options, "-r", str(requirements)]
            run_logged(arguments, log, f"fetch the wheels of {self.wheels}", tries=FETCHES)


@dataclass(frozen=True)
class Images:
    """Images of `images.yaml`, and how to build them."""

    toolchain: Toolchain
    bases: Mapping[str, Base | Image] = field(default_factory=dict)
    images: Sequence[Image] = ()

    @classmethod
    def read(cls, toolchain: Toolchain, parts: Iterable[str] = PARTS) -> Images:
        """Those of a sandbox with these parts, from `images.yaml`; with all of them by default."""
        chosen = {None, *parts}
        text = places.shipped(f"{IMAGES}/images.yaml").read_text()
        document: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
        images = {name: Image(name, **entry) for name, entry in document["images"].items()}
        used = {image.base for image in images.values()}
        bases: dict[str, Base | Image] = {
            **{name: Base(name, **entry) for name, entry in document["bases"].items()},
            **{name: image for name, image in images.items() if name in used},
        }
        return cls(toolchain, bases, [image for image in images.values() if image.part in chosen])

    def of(self, parts: Collection[str]) -> Images:
        """Those that are of one of these parts."""
        return replace(self, images=[image for image in self.images if image.part in parts])

    def keys(self) -> dict[str, str]:
        """Tag and key of every image."""
        return {image.tag: image.key(self.bases, self.toolchain) for image in self.images}

    def parts(self) -> list[Part]:
        """The work that is left, as far as it can be known before the toolchain is there."""
        held = _store().keys()
        left = []
        for image in self.images:
            key = self._key(image)
            if key is None or held.get(image.tag) != key:
                left.append(image)
        under = [self.bases[image.base] for image in left if image.base]
        lacking = [base for base in under if isinstance(base, Image) and not self._is_archived(base)]
        made = {image.name: image for image in (*lacking, *left)}
        used = {image.base for image in made.values()}
        bases = [base for base in self.bases.values() if isinstance(base, Base) and base.name in used]
        parts = [_part(f"base {base.name}", base.piece(), base.seconds) for base in bases]
        parts += [
            _part(f"image {image.name}", image.piece(self._key(image) or _ANY_KEY), image.seconds)
            for image in made.values()
        ]
        share = sum(image.seconds for image in left) / sum(image.seconds for image in self.images)
        unpacked = [Part(_UNPACK, Kind.FINISH, share * _UNPACK_SECONDS)] if left else []
        return [*(part for part in parts if part), *unpacked]

    def _is_archived(self, image: Image) -> bool:
        key = self._key(image)
        return key is not None and (cache_dir() / image.piece(key)).exists()

    def _key(self, image: Image) -> str | None:
        """None where it depends on what is still to come."""
        try:
            return image.key(self.bases, self.toolchain)
        except (SandboxError, FileNotFoundError):
            return None

    def archived(self, progress: Progress) -> list[Path]:
        """The archives of the images; builds what is missing.

        Raises:
            SandboxError: If one can't be built, with the end of its log.
        """
        with _locked():
            keyed = [(image, image.key(self.bases, self.toolchain)) for image in self.images]
            return [self._archive(image, key, progress) for image, key in keyed]

    def bases_archived(self, progress: Progress) -> list[Path]:
        """The archives of what images are built on; makes what is missing.

        Raises:
            SandboxError: As `archived`.
        """
        with _locked():
            return [self._base(base, progress) for base in self.bases.values() if isinstance(base, Base)]

    def build_ahead(self, progress: Progress) -> None:
        """Build those that need nothing of the toolchain, which may still be building.

        Raises:
            SandboxError: If one can't be built, with the end of its log.
        """
        with _locked():
            self._archives([one for one in self.images if not (one.binaries or one.artifacts)], progress)

    def store(self, progress: Progress) -> Store:
        """A store with the current content of all images.

        Raises:
            SandboxError: If one can't be built, with the end of its log.
        """

        def fill() -> None:
            if archives := self._archives(self.images, progress):
                names = ", ".join(one.name for one in self.images if one.tag in archives)
                with progress.step(f"unpack {names}", _UNPACK):
                    _store().load(archives, self.keys())

        with _locked():
            fill()
        return Store(_store().folder, fill)

    def _archives(self, images: Iterable[Image], progress: Progress) -> dict[str, Path]:
        """The archives, by tag, of those whose current content the store does not hold."""
        held = _store().keys()
        keyed = [(image, image.key(self.bases, self.toolchain)) for image in images]
        return {
            image.tag: self._archive(image, key, progress)
            for image, key in keyed
            if held.get(image.tag) != key
        }

    def _archive(self, image: Image, key: str, progress: Progress) -> Path:
        archive = cache_dir() / image.piece(key)
        if archive.exists() or take(image.piece(key), progress):
            return archive
        arguments: list[str | Path] = []
        if image.base:
            arguments = ["--build-arg", f"BASE=oci-archive:{self._under(self.bases[image.base], progress)}"]
        log = new_log(f"image-{image.name}")
        with progress.step(f"build image {image.name}", f"image {image.name}"), _builder(log) as builder:
            image.fill(builder.context, self.bases, self.toolchain, log)
            builder.build(image.tag, arguments, archive)
        _forget_older(archive, image.name)
        return archive

    def _under(self, base: Base | Image, progress: Progress) -> Path:
        if isinstance(base, Base):
            return self._base(base, progress)
        return self._archive(base, base.key(self.bases, self.toolchain), progress)

    def _base(self, base: Base, progress: Progress) -> Path:
        archive = cache_dir() / base.piece()
        if archive.exists() or take(base.piece(), progress):
            return archive
        log = new_log(f"base-{base.name}")
        with (
            progress.step(f"build base {base.name} ({base.suite})", f"base {base.name}"),
            _builder(log) as builder,
        ):
            exclude = ("man", "doc", "locale", "info", "lintian")
            bootstrap = [
                "mmdebstrap",
                "--quiet",
                "--variant=minbase",
                f"--include={','.join(base.packages)}",
                *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in exclude),
                base.suite,
                str(builder.context / "rootfs.tar"),
            ]
            run_logged(bootstrap, log, f"make the base {base.name}", tries=FETCHES)
            (builder.context / "Dockerfile").write_text("FROM scratch\nADD rootfs.tar /\n")
            builder.build(f"docker.io/trainyard/base-{base.name}:sandbox", [], archive)
        _forget_older(archive, f"base-{base.name}")
        return archive


def _part(name: str, piece: str, seconds: float) -> Part | None:
    """The work of an archive; None if it is there."""
    if (cache_dir() / piece).exists():
        return None
    for path, size in sizes([piece]).items():
        return Part.download(path, size)
    return Part(name, Kind.BUILD, seconds)


def _store() -> Store:
    return Store(cache_dir() / "store")


def _locked() -> AbstractContextManager[None]:
    return locked(cache_dir() / "locks" / "images.lock", "another build of images")


class _Builder:
    """buildah with a temporary storage of its own."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.context = folder / "context"
        self.context.mkdir()
        self._log = log
        self._buildah: list[str | Path] = [
            "buildah",
            "--storage-driver=vfs",
            "--root",
            folder / "root",
            "--runroot",
            folder / "runroot",
        ]

    def build(self, tag: str, arguments: Sequence[str | Path], archive: Path) -> None:
        build = ["build", "--quiet", "--isolation=chroot", "--format=oci", *arguments, "--tag", tag]
        run_logged([*self._buildah, *build, self.context], self._log, f"build the image {tag}")
        archive.parent.mkdir(parents=True, exist_ok=True)
        partial = archive.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        run_logged(
            [*self._buildah, "push", "--quiet", tag, f"oci-archive:{partial}:{tag}"],
            self._log,
            f"write the image {tag}",
        )
        partial.rename(archive)


@contextmanager
def _builder(log: Path) -> Iterator[_Builder]:
    scratch = cache_dir() / "images"
    scratch.mkdir(parents=True, exist_ok=True)
    for left in scratch.glob(".building-*"):  # by a killed build: only one build holds the lock
        shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=".building-", dir=scratch))
    try:
        yield _Builder(folder, log)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Store:
    """containerd's root folder with every image unpacked, to be copied as hard links.

    Args:
        folder: Where it is.
        fill: Adds the images that it lacks; called with the lock held.
    """

    def __init__(self, folder: Path, fill: Callable[[], None] = lambda: None) -> None:
        self.folder = folder
        self._fill = fill
        self._root = folder / "root"
        self._keys = folder / "keys.json"

    def keys(self) -> dict[str, str]:
        """Tag and key of the images in the store."""
        try:
            keys: dict[str, str] = json.loads(self._keys.read_text())
        except FileNotFoundError:
            return {}
        return keys

    def load(self, archives: Mapping[str, Path], keys: Mapping[str, str]) -> None:
        """Import archives (by tag) with a containerd that runs just for this."""
        self._root.mkdir(parents=True, exist_ok=True)
        others = {tag: key for tag, key in self.keys().items() if tag not in archives}
        # If this is interrupted, nobody knows whether these tags have their old content or the new one.
        self._record(others)
        log = new_log("store")
        with tempfile.TemporaryDirectory(prefix="trainyard-") as scratch:
            socket = f"{scratch}/containerd.sock"
            config = Path(scratch, "config.toml")
            config.write_text(containerd_config(self._root, Path(scratch), socket))
            with log.open("ab") as output:
                # Mounts made while unpacking stay in a namespace of their own.
                containerd = subprocess.Popen(
                    ["unshare", "--mount", "/usr/bin/containerd", "--config", config],
                    stdout=output,
                    stderr=output,
                    stdin=subprocess.DEVNULL,
                    # It holds a lock on the store, for which the next one would wait forever.
                    preexec_fn=die_with_parent,  # noqa: PLW1509 (as in `commands`)
                )
            try:
                _wait_for(Path(socket), containerd, log)
                load(archives.values(), socket, log)
            finally:
                containerd.terminate()
                containerd.wait()
        self._record({**others, **{tag: keys[tag] for tag in archives}})

    def _record(self, keys: Mapping[str, str]) -> None:
        partial = self._keys.with_suffix(".partial")
        partial.write_text(json.dumps(keys, indent=1))
        partial.replace(self._keys)

    def clone(self, target: Path) -> None:
        """Make `target` a containerd root of its own: hard links, but its databases are copies.

        Unpacked layers are never written again, only replaced or removed, so
        sandboxes can share them. On another file system they are copied.
        """
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked():
            # Meanwhile another checkout may have replaced these images with its own.
            self._fill()
            linked = subprocess.run(["cp", "-al", self._root, target], capture_output=True, check=False)
            if linked.returncode:
                shutil.rmtree(target, ignore_errors=True)
                run_logged(["cp", "-a", self._root, target], new_log("clone"), "copy the images")
                return
            # One in the folder of each plugin. What an image holds under such a name may lead anywhere.
            for database in target.glob("*/*.db"):
                copy = database.with_suffix(".copy")
                shutil.copyfile(database, copy)
                copy.replace(database)


def load(archives: Iterable[Path], socket: str, log: Path) -> None:
    """Import archives of images into the containerd that answers at a socket.

    Raises:
        SandboxError: If one can't be, with the end of the log.
    """
    ctr = ["ctr", "--address", socket, "--namespace", "k8s.io", "images", "import"]

    def unpack(archive: Path) -> None:
        run_logged([*ctr, archive], log, f"unpack {archive.name}")

    with ThreadPoolExecutor(_UNPACKED_AT_ONCE) as pool:
        # The largest first: else one core would wait for it at the end.
        list(pool.map(unpack, sorted(archives, key=lambda archive: -archive.stat().st_size)))


def _wait_for(socket: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 180
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise SandboxError("containerd did not start.", log)
        time.sleep(0.05)


def _forget_older(archive: Path, name: str) -> None:
    """Keep only the newest archive of an image; the store has it unpacked."""
    for other in archive.parent.glob(f"{name}-{_ANY_KEY}.tar"):
        if other != archive:
            other.unlink()


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def context(name: str, folder: Path) -> None:
    """Recreate `folder` with everything that the Dockerfile of an image of `images.yaml` copies.

    Raises:
        SandboxError: If there is no such image, or its wheels can't be fetched.
    """
    toolchain = Toolchain([])
    listed = Images.read(toolchain)
    images = {image.name: image for image in listed.images}
    if name not in images:
        raise SandboxError(f"NAME={name}: no such image; there are: {', '.join(sorted(images))}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    images[name].fill(folder, listed.bases, toolchain, new_log(f"context-{name}"))
