"""A bundle gives a machine what another has built: whole, checked, and from wherever it is."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from trainyard_sandbox import bundle, bundle_writer, downloads, toolchain
from trainyard_sandbox.bundle import VARIABLE, Bundle
from trainyard_sandbox.bundle_writer import Written
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.toolchain import Toolchain, tools

from .web import Server, serving

OTHERWISE = f"Without {VARIABLE}, it is built here."
PIECES = ("bin/etcd/v3-abc", "artifacts/kueue/0.19/crds", "images/pause-1.tar")
CONTENT = {
    "bin/etcd/v3-abc/etcd": (b"\x7fELF etcd" * 5000, 0o755),
    "bin/etcd/v3-abc/etcdctl": (b"etcdctl", 0o755),
    "artifacts/kueue/0.19/crds/deep/queues.yaml": (b"kind: X", 0o644),
    "images/pause-1.tar": (bytes(range(256)) * 300, 0o644),
}


@dataclass
class Machine:
    """A cache of its own, and the bundle that another has made."""

    cache: Path
    bundle: Written
    said: io.StringIO = field(default_factory=io.StringIO)

    def take(self, *paths: str) -> list[bool]:
        progress = Progress(Console(file=self.said, width=200, highlight=False))
        return [bundle.take(path, progress) for path in paths or PIECES]

    def holds(self) -> dict[str, tuple[bytes, int]]:
        files = [path for path in self.cache.rglob("*") if path.is_file()]
        return {
            str(path.relative_to(self.cache)): (path.read_bytes(), path.stat().st_mode & 0o777)
            for path in files
        }


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "_PAUSE_SECONDS", 0.0)
    bundle._bundle.cache_clear()


def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, archive: bool = False) -> Machine:
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "theirs"))
    for name, (content, mode) in CONTENT.items():
        path = tmp_path / "theirs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    progress = Progress(Console(file=io.StringIO()))
    written = bundle_writer.write(PIECES, tmp_path / "out", progress, archive=archive)
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "mine"))
    monkeypatch.setenv(VARIABLE, str(written.path))
    return Machine(tmp_path / "mine", written)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return make(tmp_path, monkeypatch)


@pytest.fixture
def server(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving(machine.bundle.path) as server:
        monkeypatch.setenv(VARIABLE, f"{server.url}#sha256={machine.bundle.digest}")
        yield server


def refusal(machine: Machine, *paths: str) -> str:
    with pytest.raises(SandboxError) as refused:
        machine.take(*paths)
    return str(refused.value)


@pytest.mark.parametrize("archive", [False, True], ids=["a folder", "an archive"])
def test_what_is_built_on_one_machine_is_on_another_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archive: bool
) -> None:
    machine = make(tmp_path, monkeypatch, archive=archive)
    assert machine.take() == [True, True, True]
    assert machine.holds() == CONTENT


def test_a_web_server_that_has_the_folder_gives_the_same(machine: Machine, server: Server) -> None:
    assert machine.take() == [True, True, True]
    assert machine.holds() == CONTENT


def test_the_same_content_is_the_same_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make(tmp_path / "a", monkeypatch).bundle
    second = make(tmp_path / "b", monkeypatch).bundle
    assert (first.path.name, first.digest) == (second.path.name, second.digest)


def test_what_a_bundle_does_not_have_is_not_taken(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.take("bin/etcd/v4-def") == [False]
    monkeypatch.delenv(VARIABLE)
    assert machine.take() == [False, False, False]
    assert machine.holds() == {}


def test_a_tool_that_is_in_the_bundle_is_not_built(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(*_: Any) -> Any:
        raise AssertionError("it was built")

    monkeypatch.setattr(toolchain._Go, "find", built)
    piece = tools()["pause"].built()
    monkeypatch.setenv("TRAINYARD_CACHE", str(tmp_path / "theirs"))
    program = tmp_path / "theirs" / piece / "pause"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"pause")
    written = bundle_writer.write([piece], tmp_path / "out", Progress(Console(file=io.StringIO())))
    monkeypatch.setenv("TRAINYARD_CACHE", str(machine.cache))
    monkeypatch.setenv(VARIABLE, str(written.path))
    pause = Toolchain(["pause"], path="")
    progress = Progress(Console(file=machine.said, width=300, highlight=False))
    assert pause.uncompiled() == [tools()["pause"]]
    pause.fetch(progress)
    assert pause.uncompiled() == []
    pause.build(progress)
    assert pause.binary("pause").read_bytes() == b"pause"
    assert machine.said.getvalue().startswith(
        f"From the bundle {written.path}: 1 part, 1 MB.\nThis will take less than a minute.\n"
    )


def test_a_connection_that_breaks_goes_on_from_where_it_was(machine: Machine, server: Server) -> None:
    server.cuts = [1000, 5000]
    assert machine.take("images/pause-1.tar") == [True]
    assert [wanted for _, wanted in server.asked] == [None, None, "bytes=1000-", "bytes=6000-"]
    assert machine.holds() == {"images/pause-1.tar": CONTENT["images/pause-1.tar"]}


def test_a_server_without_ranges_sends_it_again(machine: Machine, server: Server) -> None:
    server.cuts, server.ranges = [1000], False
    assert machine.take("images/pause-1.tar") == [True]
    assert machine.holds() == {"images/pause-1.tar": CONTENT["images/pause-1.tar"]}


def test_one_that_breaks_too_often_says_how_far_it_came_and_the_next_goes_on(
    machine: Machine, server: Server
) -> None:
    server.cuts = [20000, 10000, 10000]
    assert refusal(machine, "images/pause-1.tar").endswith(
        ", after 1 MB of 1 MB. Run it again, and it goes on from there. " + OTHERWISE
    )
    assert machine.take("images/pause-1.tar") == [True]
    assert server.asked[-1] == ("/trainyard/pause-1.tar", "bytes=40000-")
    assert machine.holds() == {"images/pause-1.tar": CONTENT["images/pause-1.tar"]}


def test_a_file_that_is_gone_is_built(machine: Machine, server: Server) -> None:
    (machine.bundle.path / "pause-1.tar").unlink()
    assert machine.take() == [True, True, False]
    assert "pause-1.tar is no longer in the bundle, so it is built here.\n" in machine.said.getvalue()


def test_a_file_with_another_content_is_not_used(machine: Machine, server: Server) -> None:
    file = machine.bundle.path / "pause-1.tar"
    meant = hashlib.sha256(file.read_bytes()).hexdigest()
    file.write_bytes(b"x" * file.stat().st_size)
    actual = hashlib.sha256(file.read_bytes()).hexdigest()
    where = f"{server.url}#sha256={machine.bundle.digest}"
    assert refusal(machine, "images/pause-1.tar") == (
        f"pause-1.tar of {VARIABLE}={where}: its SHA-256 is {actual}, and the index says {meant}."
        f" It is not used. Get the bundle anew. {OTHERWISE}"
    )
    assert machine.holds() == {}


def test_another_index_than_the_one_that_is_meant_is_not_believed(
    machine: Machine, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = f"{server.url}#sha256={'0' * 64}"
    monkeypatch.setenv(VARIABLE, where)
    assert refusal(machine) == (
        f"{VARIABLE}={where}: the SHA-256 of its index.json is {machine.bundle.digest}. This is not the "
        f"bundle that is meant, so nothing of it is used. {OTHERWISE}"
    )


def test_a_proxy_of_the_environment_is_asked(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(machine.bundle.path) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/trainyard"))
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv(VARIABLE, f"http://localhost:1/far#sha256={machine.bundle.digest}")
        assert machine.take("images/pause-1.tar") == [True]
    assert [path for path, _ in proxy.asked] == [
        "http://localhost:1/far/index.json",
        "http://localhost:1/far/pause-1.tar",
    ]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("http://example.com/x#sha256=" + "0" * 64, "must begin with https://."),
        ("ftp://example.com/x", "must begin with https://."),
        (
            "https://example.com/x",
            "must end with #sha256= and the SHA-256 of the bundle's index.json, "
            "which `trainyard sandbox bundle` prints.",
        ),
        ("/no/such/bundle", f"there is no such file or folder. {OTHERWISE}"),
        ("~no-such-user/bundle", f"there is no such file or folder. {OTHERWISE}"),
        ("/dev/null", f"it is no tar: empty file. {OTHERWISE}"),
        (__file__, f"it is no tar: invalid header. {OTHERWISE}"),
        ("http://127.0.0.1:1/x#sha256=" + "0" * 64, f"Connection refused. {OTHERWISE}"),
    ],
)
def test_a_bundle_that_cannot_be_had_is_named_with_the_way_out(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, where: str, said: str
) -> None:
    monkeypatch.setenv(VARIABLE, where)
    assert refusal(machine) == f"{VARIABLE}={where}: {said}"


def index(**changes: Any) -> str:
    return json.dumps(
        {"apiVersion": bundle.API_VERSION, "machine": platform.machine(), "pieces": {}, **changes}
    )


FILE = {"file": "x", "sha256": "0" * 64, "size": 1}


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        index(apiVersion="bundle.trainyard.dev/v9"),
        index(more=1),
        index(pieces={"../../etc": FILE}),
        index(pieces={"bin/../../x": FILE}),
        index(pieces={"logs/x": FILE}),
        index(pieces={"bin/x": {**FILE, "file": "../x"}}),
        index(pieces={"bin/x": {**FILE, "sha256": "md5"}}),
        index(pieces={"bin/x": {**FILE, "size": -1}}),
        index(machine="s390x"),
    ],
)
def test_an_index_that_says_anything_else_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / bundle.INDEX).write_text(text)
    with pytest.raises(SandboxError) as refused:
        Bundle.read(str(tmp_path))
    assert str(refused.value).startswith(f"{VARIABLE}={tmp_path}: ")
    assert str(refused.value).endswith(OTHERWISE)
    assert "\n" not in str(refused.value)


def outside(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("../../out")
    member.size = 3
    tar.addfile(member, io.BytesIO(b"out"))


def link(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("link")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    tar.addfile(member)


def link_behind_a_link(tar: tarfile.TarFile) -> None:
    """By its name it stays inside: `again` is the folder itself."""
    member = tarfile.TarInfo("again/again/out")
    member.type, member.linkname = tarfile.SYMTYPE, "../.."
    tar.addfile(member)


def hard_link(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("link")
    member.type, member.linkname = tarfile.LNKTYPE, "../out"
    tar.addfile(member)


def device(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("device")
    member.type = tarfile.CHRTYPE
    tar.addfile(member)


def harmless(tar: tarfile.TarFile) -> None:
    for name, kind, target in (
        ("lib", tarfile.DIRTYPE, ""),
        ("lib/a", tarfile.REGTYPE, ""),
        ("lib/b", tarfile.SYMTYPE, "../lib/a"),
        ("c", tarfile.LNKTYPE, "lib/a"),
    ):
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        tar.addfile(member)


def inside(write: Callable[[tarfile.TarFile], None], folder: Path) -> list[str]:
    """The members that a Python without filters extracts into a folder."""
    (folder / "again").symlink_to(".")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        write(tar)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        return [member.name for member in bundle._inside(tar, folder)]


@pytest.mark.parametrize("hostile", [outside, link, link_behind_a_link, hard_link, device])
def test_a_python_without_filters_refuses_what_reaches_out_of_its_folder_too(
    tmp_path: Path, hostile: Callable[[tarfile.TarFile], None]
) -> None:
    with pytest.raises(tarfile.TarError):
        inside(hostile, tmp_path)


def test_a_python_without_filters_extracts_all_else(tmp_path: Path) -> None:
    assert inside(harmless, tmp_path) == ["lib", "lib/a", "lib/b", "c"]


@pytest.mark.parametrize("hostile", [outside, link])
def test_a_piece_that_reaches_out_of_its_folder_is_refused(
    machine: Machine, hostile: Callable[[tarfile.TarFile], None]
) -> None:
    file = machine.bundle.path / "etcd-v3-abc.tar.gz"
    with tarfile.open(file, "w:gz") as tar:
        hostile(tar)
    value = json.loads((machine.bundle.path / bundle.INDEX).read_text())
    piece = value["pieces"]["bin/etcd/v3-abc"]
    piece |= {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "size": file.stat().st_size}
    (machine.bundle.path / bundle.INDEX).write_text(json.dumps(value))
    said = refusal(machine, "bin/etcd/v3-abc")
    assert said.startswith(f"etcd-v3-abc.tar.gz of {VARIABLE}={machine.bundle.path}: ")
    assert not list(machine.cache.rglob("*out*"))
    assert not (machine.cache / "bin/etcd/v3-abc").exists()
