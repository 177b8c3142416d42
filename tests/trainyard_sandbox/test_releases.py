"""What upstream publishes spares a build, and only if it is exactly what our file names.

Tried against servers on loopback with the layout of a mirror; no test reaches
upstream's own addresses.
"""

import gzip
import hashlib
import io
import os
import platform
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from rich.console import Console

from trainyard_sandbox import bundle, bundle_writer, downloads, releases, toolchain
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.estimate import Kind, Part
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.releases import NONE, VARIABLE, Archive, Release
from trainyard_sandbox.toolchain import Tool, Toolchain, tools

from .web import ASKED, Server, serving

ETCD = b"\x7fELF etcd" * 20_000
PULUMI = b"\x7fELF pulumi" * 10
NAME = "example.com/v3.6.6/etcd-v3.6.6.tar.gz"
"""Where upstream has the archive of etcd, and its path on a mirror."""


def packed(**files: bytes) -> bytes:
    """An archive as upstream makes them: more in it than is wanted, under a folder."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in {"README.md": b"read me", **files}.items():
            member = tarfile.TarInfo(f"./etcd-v3.6.6/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    # The same bytes whenever it is made.
    return gzip.compress(archive.getvalue(), compresslevel=0, mtime=0)


def release(tool: str, url: str, content: bytes, folder: str = "etcd-v3.6.6") -> Release:
    archive = Archive(url=url, sha256=hashlib.sha256(content).hexdigest(), folder=folder)
    return Release(version=tools()[tool].version, archives={platform.machine(): archive})


RIGHT = packed(etcd=ETCD)
OLDER = packed(etcd=b"\x7fELF older" * 20_000)
DIGEST = hashlib.sha256(RIGHT).hexdigest()
HOME = f"bin/etcd/v3.6.6-release-{DIGEST[:12]}"


class Go:
    """Leaves what a build leaves."""

    def build(self, tool: Tool, target: Path) -> None:
        target.mkdir(parents=True)
        for name in tool.binaries:
            (target / name).write_bytes(b"built")

    def extract(self, tool: Tool) -> None:
        pass

    def clean(self) -> None:
        pass


@dataclass
class Machine:
    """One with an empty cache, and the mirror that it uses."""

    cache: Path
    server: Server
    said: io.StringIO = field(default_factory=io.StringIO)

    def build(self, *names: str, from_source: bool = False) -> str:
        """Get etcd, or other tools, and tell what was said, without how long each step took."""
        wanted = Toolchain(names or ["etcd"], path="", from_source=from_source)
        wanted.build(Progress(Console(file=self.said, width=400, highlight=False)))
        return re.sub(r" \(\d+s\)\n", "\n", self.said.getvalue()).replace(self.server.url, "MIRROR")

    def refusal(self) -> str:
        with pytest.raises(SandboxError) as refused:
            self.build()
        return str(refused.value).replace(self.server.url, "MIRROR")

    def holds(self) -> dict[str, tuple[bytes, int]]:
        files = [path for path in (self.cache / "bin").rglob("*") if path.is_file()]
        return {
            str(path.relative_to(self.cache)): (path.read_bytes(), path.stat().st_mode & 0o777)
            for path in files
        }

    def publish(self, content: bytes, name: str = NAME) -> None:
        path = self.server.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


FETCHED = {f"{HOME}/etcd": (ETCD, 0o755)}
BUILT = {f"{tools()['etcd'].built()}/etcd": (b"built", 0o644)}
FROM_MIRROR = (
    "From upstream's releases: etcd v3.6.6 (1 MB from MIRROR).\nThis will take less than a minute.\n"
)
FETCH = "... fetch etcd v3.6.6 (1 MB from MIRROR)\nok  fetch etcd v3.6.6 (1 MB from MIRROR)\n"
BUILD = "... build etcd v3.6.6\nok  build etcd v3.6.6\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    known = {
        "etcd": release("etcd", f"https://{NAME}", RIGHT),
        "pulumi": release("pulumi", "https://example.org/pulumi.tgz", packed(pulumi=PULUMI)),
    }
    monkeypatch.setattr(releases, "releases", lambda: known)
    monkeypatch.setattr(toolchain._Go, "find", lambda progress: Go())
    monkeypatch.setattr(downloads, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(downloads, "_STALLED_SECONDS", 0.2)
    monkeypatch.setattr(downloads, "_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(bundle.VARIABLE, raising=False)
    with serving(tmp_path / "upstream", "mirror") as server:
        monkeypatch.setenv(VARIABLE, server.url)
        machine = Machine(tmp_path / "cache", server)
        machine.publish(RIGHT)
        machine.publish(packed(pulumi=PULUMI), "example.org/pulumi.tgz")
        yield machine


def test_what_upstream_has_released_is_fetched_and_not_built(machine: Machine) -> None:
    assert machine.build() == FROM_MIRROR + FETCH
    assert machine.server.asked == [(f"/mirror/{NAME}", ASKED), (f"/mirror/{NAME}", None)]
    assert machine.holds() == FETCHED
    assert list((machine.cache / "releases").iterdir()) == []


def test_it_is_fetched_once(machine: Machine) -> None:
    machine.build()
    machine.server.asked.clear()
    assert Toolchain(["etcd"], path="").binary("etcd") == machine.cache / HOME / "etcd"
    machine.build()
    assert machine.server.asked == []


@pytest.mark.parametrize("other", [OLDER, RIGHT[:-1], b"<html>"], ids=["older", "damaged", "another page"])
def test_an_archive_with_another_digest_is_refused_with_both_digests_and_the_ways_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, other: bytes
) -> None:
    monkeypatch.setattr(toolchain._Go, "find", lambda progress: pytest.fail("it was built"))
    machine.publish(other)
    assert machine.refusal() == (
        f"etcd-v3.6.6.tar.gz from MIRROR: its SHA-256 is {hashlib.sha256(other).hexdigest()}, and"
        f" sandbox/toolchain/releases.yaml says {DIGEST}. So it is damaged, another version, or"
        " not upstream's, and nothing of it is used. Build it with --from-source (for other commands,"
        " TRAINYARD_RELEASES=none), or name a mirror that has it in TRAINYARD_RELEASES."
    )
    assert machine.holds() == {}


def test_a_download_that_is_cut_off_goes_on_from_there(machine: Machine) -> None:
    machine.server.cuts = [50_000, 70_000]
    assert machine.build() == FROM_MIRROR + FETCH
    spans = [span for _, span in machine.server.asked]
    assert spans == [ASKED, None, "bytes=50000-", "bytes=120000-"]
    assert machine.holds() == FETCHED


def test_one_that_stalls_is_given_up_after_a_while_and_goes_on_from_there(machine: Machine) -> None:
    machine.server.stalls = [50_000]
    assert machine.build() == FROM_MIRROR + FETCH
    assert [span for _, span in machine.server.asked] == [ASKED, None, "bytes=50000-"]
    assert machine.holds() == FETCHED


def test_one_that_breaks_too_often_is_built_and_the_next_goes_on_from_there(machine: Machine) -> None:
    machine.server.cuts = [50_000, 10_000, 10_000]
    assert machine.build() == (
        FROM_MIRROR
        + "... fetch etcd v3.6.6 (1 MB from MIRROR)\nFAILED fetch etcd v3.6.6 (1 MB from MIRROR)\n"
        + "etcd-v3.6.6.tar.gz did not come whole (it ended early, after 1 MB), so etcd v3.6.6 is built "
        + "here.\n"
        + BUILD
    )
    assert machine.holds() == BUILT
    [offer] = releases.offers({"etcd": releases.releases()["etcd"].archives[platform.machine()]}).values()
    assert isinstance(offer, releases.Offer)
    assert releases.take(offer, ["etcd"], machine.cache / HOME, Progress(), "etcd v3.6.6")
    assert machine.server.asked[-1] == (f"/mirror/{NAME}", "bytes=70000-")
    assert machine.holds() == {**BUILT, **FETCHED}


def test_on_a_full_disk_nothing_is_fetched_again_and_nothing_is_built(machine: Machine) -> None:
    partial = machine.cache / "releases" / f"{DIGEST[:32]}.partial"
    partial.parent.mkdir(parents=True)
    partial.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        machine.build()
    assert machine.server.asked == [(f"/mirror/{NAME}", ASKED), (f"/mirror/{NAME}", None)]
    assert machine.holds() == {}


def test_a_server_without_ranges_sends_it_again(machine: Machine) -> None:
    machine.server.cuts, machine.server.ranges = [50_000], False
    assert machine.build() == FROM_MIRROR + FETCH
    assert machine.holds() == FETCHED


def test_what_another_server_has_begun_is_not_the_beginning_of_this_one(machine: Machine) -> None:
    left = machine.cache / "releases" / f"{DIGEST[:32]}.partial"
    left.parent.mkdir(parents=True)
    left.write_bytes(OLDER[:50_000])
    assert machine.build() == FROM_MIRROR + FETCH
    assert [span for _, span in machine.server.asked] == [ASKED, "bytes=50000-", None]
    assert machine.holds() == FETCHED


def test_a_release_that_is_gone_is_built(machine: Machine) -> None:
    (machine.server.folder / NAME).unlink()
    assert machine.build() == (
        "Not from a release, because it is gone: etcd v3.6.6.\nBuilt here: etcd v3.6.6.\n"
        "This will take less than a minute.\n" + BUILD
    )
    assert machine.holds() == BUILT


def test_one_that_goes_before_it_is_fetched_is_built(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = releases.offers

    def offers(archives: Any) -> Any:
        answer = asked(archives)
        (machine.server.folder / NAME).unlink()
        return answer

    monkeypatch.setattr(releases, "offers", offers)
    assert machine.build() == (
        FROM_MIRROR
        + "... fetch etcd v3.6.6 (1 MB from MIRROR)\nFAILED fetch etcd v3.6.6 (1 MB from MIRROR)\n"
        + "etcd-v3.6.6.tar.gz is gone, so etcd v3.6.6 is built here.\n"
        + BUILD
    )
    assert machine.holds() == BUILT


def test_without_a_network_all_is_built_which_is_said_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "http://127.0.0.1:1")
    assert machine.build("etcd", "pulumi").splitlines()[:3] == [
        "Not from a release, because Connection refused: pulumi v3.250.0, etcd v3.6.6.",
        "Built here: pulumi v3.250.0, etcd v3.6.6.",
        "This will take about 3 min.",
    ]
    assert {path.split("/")[1] for path in machine.holds()} == {"etcd", "pulumi"}


def test_a_server_that_does_not_answer_is_not_waited_for(machine: Machine) -> None:
    machine.server.silent = True
    assert machine.build().splitlines()[0] == "Not from a release, because timed out: etcd v3.6.6."
    assert machine.holds() == BUILT


def test_a_proxy_of_the_environment_is_asked(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", machine.server.url.removesuffix("/mirror"))
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv(VARIABLE, "http://localhost:1/far")
    machine.build()
    far = f"http://localhost:1/far/{NAME}"
    assert machine.server.asked == [(far, ASKED), (far, None)]
    assert machine.holds() == FETCHED


def test_a_folder_can_be_the_mirror(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(machine.server.folder))
    machine.build()
    assert machine.server.asked == []
    assert machine.holds() == FETCHED


NO_FOLDER = "must be none, a folder, or an address that begins with https://; there is no such folder."


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("http://example.com", "must begin with https://."),
        ("/no/such/folder", NO_FOLDER),
        ("~no-such-user/folder", NO_FOLDER),
    ],
)
def test_a_mirror_that_cannot_be_one_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, where: str, said: str
) -> None:
    monkeypatch.setenv(VARIABLE, where)
    assert machine.refusal() == f"{VARIABLE}={where}: {said}"


def test_from_source_asks_nobody_and_takes_nothing_that_came_from_a_release(machine: Machine) -> None:
    machine.build()
    machine.server.asked.clear()
    machine.build(from_source=True)
    assert machine.server.asked == []
    assert machine.holds() == {**FETCHED, **BUILT}
    assert Toolchain(["etcd"], path="").binary("etcd").read_bytes() == b"built"


def test_an_environment_that_says_none_asks_nobody(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, NONE)
    machine.build()
    assert machine.server.asked == []
    assert machine.holds() == BUILT


def test_a_bundle_goes_before_a_release_and_gives_on_what_came_from_one(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.build()
    progress = Progress(Console(file=io.StringIO()))
    written = bundle_writer.write(tools()["etcd"].pieces(), tmp_path / "out", progress)
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "other"))
    monkeypatch.setenv(bundle.VARIABLE, str(written.path))
    machine.server.asked.clear()
    other = Machine(tmp_path / "other", machine.server)
    other.build()
    assert machine.server.asked == []
    assert other.holds() == FETCHED


def test_the_archive_that_is_meant_without_the_binary_says_what_to_set(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"etcd": release("etcd", f"https://{NAME}", RIGHT, folder="etcd")}
    monkeypatch.setattr(releases, "releases", lambda: known)
    assert machine.refusal() == (
        "etcd-v3.6.6.tar.gz: it is the archive that is meant, but has no etcd/etcd. Set the right folder in "
        "sandbox/toolchain/releases.yaml."
    )
    assert machine.holds() == {}


def test_before_it_begins_it_says_what_comes_from_where_and_how_long_that_takes(machine: Machine) -> None:
    machine.build("pulumi")
    machine.said.truncate(0)
    machine.said.seek(0)
    lines = machine.build("pulumi", "etcd", "volcano", "kueue").splitlines()
    assert lines[:4] == [
        "Already here: pulumi v3.250.0.",
        "From upstream's releases: etcd v3.6.6 (1 MB from MIRROR).",
        "Built here: volcano v1.14.1, kueue v0.19.0.",
        "This will take about 6 min.",
    ]


def test_what_is_here_is_not_listed_where_only_images_are_made(machine: Machine) -> None:
    machine.build()
    said = io.StringIO()
    progress = Progress(Console(file=said, width=200, highlight=False))
    Toolchain(["etcd"], path="").fetch(progress, [Part("image operator", Kind.BUILD, 60)])
    assert said.getvalue() == "Built here: image operator.\nThis will take less than a minute.\n"


# -- the file -------------------------------------------------------------


PUBLISHED = releases.releases()
WITH_BINARIES = {name: tool for name, tool in tools().items() if tool.binaries}


def test_every_tool_with_binaries_has_an_entry_and_none_is_left_over() -> None:
    assert set(PUBLISHED) == set(WITH_BINARIES)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_release_is_of_the_version_that_would_be_built(name: str) -> None:
    entry = PUBLISHED[name]
    version = entry.version.removeprefix("v")
    assert entry.version == tools()[name].version
    assert {url for archive in entry.archives.values() if version not in (url := archive.url)} == set()


@pytest.mark.parametrize("name", PUBLISHED)
def test_where_there_is_no_archive_the_file_says_why_and_where_there_is_one_whose_digest_it_is(
    name: str,
) -> None:
    entry = PUBLISHED[name]
    assert bool(entry.digests) == bool(entry.archives)
    assert bool(entry.built) == (set(entry.archives) != {"x86_64", "aarch64"})


@pytest.mark.parametrize("digests", [{}, {"sha256": "0" * 64, "sha512": "0" * 128}, {"sha256": "0" * 63}])
def test_an_archive_without_exactly_one_whole_digest_is_no_archive(digests: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Archive(url="https://example.com/x.tar.gz", **digests)
