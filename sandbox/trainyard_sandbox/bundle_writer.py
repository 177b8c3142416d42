"""Makes a bundle of what is in the cache: `trainyard sandbox bundle`.

The same content gives the same bytes: names in order, no times, no owners.
"""

from __future__ import annotations

import gzip
import hashlib
import platform
import shutil
import tarfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .bundle import INDEX, Index, Piece
from .downloads import digest_of
from .paths import cache_dir
from .progress import Progress

_THREADS = 2


@dataclass(frozen=True)
class Written:
    """A bundle that was written: where, and the SHA-256 of its index."""

    path: Path
    digest: str


def write(paths: Sequence[str], output: Path, progress: Progress, *, archive: bool = False) -> Written:
    """Write a bundle of pieces into a new folder, named by what they were built from.

    Args:
        paths: The pieces, as paths in the cache; each is there.
        output: The folder in which the bundle's is made. One of the same name is replaced.
        progress: Shows what is written.
        archive: Make a tar of the folder, and leave only that.
    """
    name = hashlib.sha256("\n".join(sorted(paths)).encode()).hexdigest()[:12]
    folder = output / f"trainyard-sandbox-{platform.machine()}-{name}"
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with ThreadPoolExecutor(_THREADS) as pool:
        pieces = dict(zip(paths, pool.map(lambda path: _piece(path, partial, progress), paths), strict=True))
    index = Index(machine=platform.machine(), pieces=dict(sorted(pieces.items())))
    text = index.model_dump_json(by_alias=True, indent=1) + "\n"
    (partial / INDEX).write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    if not archive:
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
        return Written(folder, digest)
    with progress.step(f"pack {folder.name}.tar"):
        whole = folder.with_name(f"{folder.name}.tar")
        unfinished = whole.with_suffix(".partial")
        with tarfile.open(unfinished, "w:") as tar:
            # The index first: whoever reads the archive needs it first.
            for file in sorted(partial.iterdir(), key=lambda file: (file.name != INDEX, file)):
                tar.add(file, file.name, filter=_nobodys)
        unfinished.replace(whole)
        shutil.rmtree(partial)
    return Written(whole, digest)


def _piece(path: str, folder: Path, progress: Progress) -> Piece:
    source = cache_dir() / path
    name = path.partition("/")[2].replace("/", "-")
    target = folder / (name if source.is_file() else f"{name}.tar.gz")
    with progress.step(f"pack {target.name}"):
        if source.is_file():
            shutil.copyfile(source, target)
        else:
            _pack(source, target)
        return Piece(file=target.name, sha256=digest_of(target, "sha256"), size=target.stat().st_size)


def _pack(source: Path, target: Path) -> None:
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|") as tar,
    ):
        for path in sorted(source.rglob("*")):
            tar.add(path, str(path.relative_to(source)), recursive=False, filter=_nobodys)


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member
