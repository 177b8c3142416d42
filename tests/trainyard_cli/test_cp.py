"""`trainyard cp`: with the tar of this machine as that of the pod."""

from __future__ import annotations

import io
import json
import os
import resource
import socket
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import Containers
from tests.support.fake_api import run as run_test
from trainyard_api.errors import UserError
from trainyard_assist.archives import Kind, Member
from trainyard_cli.cluster import connection
from trainyard_cli.commands import cp as command
from trainyard_cli.files import copies
from trainyard_cli.files.copies import Tally, Unpacking, entries, size
from trainyard_cli.output import Output
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials


def copied(
    api: Containers, monkeypatch: pytest.MonkeyPatch, *places: str, **options: Any
) -> tuple[int, str, str]:
    """The exit code, the output and what is said."""
    out, err = io.StringIO(), io.StringIO()

    def ask(_: Credentials, __: str, question: Any) -> Any:
        async def answer() -> Any:
            async with api.serving() as url, Client(Credentials(server=url, tls=None)) as client:
                return await question(client)

        return run_test(answer, timeout=120)

    credentials = Credentials("http://127.0.0.1:1", None, source="here", namespace="team")
    monkeypatch.setattr(connection, "load", lambda *_: credentials)
    monkeypatch.setattr(connection, "ask", ask)
    return command.run(*places, **options, out=out, err=err), out.getvalue(), err.getvalue()


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    folder = tmp_path / "pod"
    folder.mkdir()
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


def files(folder: Path) -> dict[str, str]:
    """By path what is in each file, and after an executable's name a star."""
    return {
        f"{path.relative_to(folder)}{'*' if path.stat().st_mode & 0o100 else ''}": path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def checkpoint(folder: Path) -> Path:
    top = folder / "run"
    (top / "step-1").mkdir(parents=True)
    (top / "step-1" / "model.pt").write_text("weights" * 20_000)
    (top / "empty").write_text("")
    (top / "go.sh").write_text("#!/bin/sh")
    (top / "go.sh").chmod(0o755)
    (top / "latest").symlink_to("step-1")
    return top


WHOLE = {
    "empty": "",
    "go.sh*": "#!/bin/sh",
    "latest/model.pt": "weights" * 20_000,
    "step-1/model.pt": "weights" * 20_000,
}


# --- from a rank --------------------------------------------------------------------


def test_a_folder_is_copied_with_what_links_in_it_lead_to(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(pod)
    answer = copied(Containers(pod), monkeypatch, "tj:run", str(here / "new"))
    # tar sends a file that has two names once.
    assert answer == (0, "", f"Copied 4 files (136.7 KiB) to {here}/new\n")
    assert files(here / "new") == WHOLE


def test_into_a_folder_that_is_there_it_goes_under_its_own_name(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(pod)
    api = Containers(pod)
    assert copied(api, monkeypatch, f"tj:{pod}/run", str(here))[0] == 0
    assert files(here / "run") == WHOLE
    assert copied(api, monkeypatch, "tj:run/empty", str(here))[0] == 0
    assert copied(api, monkeypatch, "tj:run/.", str(here))[0] == 0
    assert (here / "empty").read_text() == ""
    assert files(here).keys() == {*WHOLE, *(f"run/{name}" for name in WHOLE)}


def test_a_file_gets_the_name_that_is_said_and_replaces_what_is_there(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pod / "-v").write_text("new")
    (here / "elsewhere").write_text("mine")
    (here / "model.pt").symlink_to("elsewhere")
    assert copied(Containers(pod), monkeypatch, "tj:-v", str(here / "model.pt"))[0] == 0
    assert files(here) == {"elsewhere": "mine", "model.pt": "new"}


def test_what_was_copied_can_be_had_as_json(pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (pod / "a").write_text("1")
    _, out, _ = copied(Containers(pod), monkeypatch, "tj:a", str(here), output=Output.JSON)
    assert json.loads(out) == {
        "apiVersion": "copies.trainyard.dev/v1alpha1",
        "kind": "Copy",
        "target": f"{here}/a",
        "files": 1,
        "bytes": 1,
        "leftOut": [],
        "leftOutCount": 0,
    }


def test_what_is_not_there_is_what_tar_says(pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"^no of rank 0 of TrainJob team/tj was not copied: tar: no: "):
        copied(Containers(pod), monkeypatch, "tj:no", str(here))
    assert files(here) == {}


def test_a_link_that_leads_nowhere_is_told_and_the_rest_copied(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pod / "d").mkdir()
    (pod / "d" / "a").write_text("1")
    (pod / "d" / "gone").symlink_to("nowhere")
    code, _, err = copied(Containers(pod), monkeypatch, "tj:d", str(here))
    assert code == 1
    assert err.startswith(f"Copied 1 file (1 bytes) to {here}/d\nLook at the copy: tar: d/gone: ")
    assert files(here) == {"d/a": "1"}


def test_more_than_is_allowed_is_refused_and_says_what_remains(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pod / "d").mkdir()
    (pod / "d" / "a").write_text("1" * 600)
    (pod / "d" / "b").write_text("2" * 600)
    with pytest.raises(
        UserError, match=r"^more than 1.0 KiB, with d/.: see --max-size; of the files that were"
    ):
        copied(Containers(pod), monkeypatch, "tj:d", str(here), max_size="1Ki")
    assert len(files(here)) == 1


def test_a_cut_leaves_no_half_file(pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (pod / "large").write_text("1" * 5_000_000)
    api = Containers(pod)
    api.cut = True
    with pytest.raises(
        UserError, match=r"^here: the connection was cut: of the files that were copied, 0 are"
    ):
        copied(api, monkeypatch, "tj:large", str(here))
    assert list(here.iterdir()) == []


# --- hostile archives ---------------------------------------------------------------


def unpacked(target: Path, *members: Member | bytes, most_bytes: int = 1000) -> Tally:
    tally = Tally()
    with Unpacking(target, "m", most_bytes=most_bytes, tally=tally) as unpacking:
        for member in members:
            unpacking.take(member)
    return tally


FOLDER = Member("m", Kind.FOLDER)


@pytest.mark.parametrize(
    "members",
    [
        (Member("../x", Kind.FILE, 1), b"1"),
        (Member("/x", Kind.FILE, 1), b"1"),
        (Member("m/../../x", Kind.FILE, 1), b"1"),
        (Member("n/x", Kind.FILE, 1), b"1"),
        (FOLDER, Member("m/out/x", Kind.FILE, 1), b"1"),
        (FOLDER, Member("m/out", Kind.FOLDER), Member("m/out/x", Kind.FILE, 1), b"1"),
        (FOLDER, Member("m/x", Kind.HARD_LINK, target="m/out/secret")),
        (FOLDER, Member("m/x", Kind.HARD_LINK, target="../secret")),
        (FOLDER, Member("m/x", Kind.HARD_LINK, target="m/link")),
        (FOLDER, Member("m/x", Kind.HARD_LINK, target="m/no")),
        (FOLDER, Member("m", Kind.HARD_LINK, target="m/x")),
        (FOLDER, Member("m/f", Kind.FILE, 1), b"1", Member("m/f/x", Kind.FILE, 1), b"1"),
        (FOLDER, Member("m/d", Kind.FOLDER), Member("m/d", Kind.FILE, 1), b"1"),
        (FOLDER, Member(f"m/{'n' * 300}", Kind.FILE, 1), b"1"),
        (Member("m", Kind.FILE, 1001),),
        (FOLDER, b"no file"),
    ],
)
def test_nothing_is_written_outside_of_the_target_nor_through_a_link(
    here: Path, members: tuple[Member | bytes, ...]
) -> None:
    (here / "secret").write_text("secret")
    target = here / "target"
    target.mkdir()
    (target / "out").symlink_to("..")
    (target / "link").symlink_to("../secret")
    with pytest.raises(UserError):
        unpacked(target, *members)
    assert sorted(path.name for path in here.iterdir()) == ["secret", "target"]
    assert (here / "secret").read_text() == "secret"
    assert not list(target.rglob(".trainyard-*"))


def test_links_and_devices_are_left_out_and_told(here: Path) -> None:
    others = [Member(f"m/l{number}\x1b[2J", Kind.OTHER) for number in range(7)]
    tally = unpacked(here / "m", FOLDER, *others)
    assert (tally.left_out, tally.others) == ([f"m/l{number}" for number in range(5)], 2)
    assert list((here / "m").iterdir()) == []


def test_a_hard_link_is_another_name_of_a_file_that_was_sent(here: Path) -> None:
    tally = unpacked(
        here / "m",
        FOLDER,
        Member("m/a", Kind.FILE, 2),
        b"1",
        b"2",
        Member("m/d/b", Kind.HARD_LINK, target="m/a"),
    )
    assert files(here) == {"m/a": "12", "m/d/b": "12"}
    assert (tally.files, tally.bytes) == (2, 2)


def test_a_disk_that_is_full_is_told_and_leaves_no_half_file(here: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, before[1]))
    try:
        with pytest.raises(UserError, match=r"/m: File too large$"):
            unpacked(here / "m", Member("m", Kind.FILE, 30_000), *[b"x" * 5_000] * 6, most_bytes=100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(here.iterdir()) == []


def test_files_are_counted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MOST", 3)
    with pytest.raises(UserError, match=r"^there are more than 3 files"):
        unpacked(here / "m", FOLDER, *(Member(f"m/{number}", Kind.FILE) for number in range(3)))


def test_folders_above_files_count_as_files(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MOST", 3)
    with pytest.raises(UserError, match=r"^there are more than 3 files"):
        unpacked(here / "m", *(Member(f"m/{name}/x", Kind.FILE) for name in ("a/b/c", "d")))


# --- to a rank ----------------------------------------------------------------------


def test_a_folder_is_sent_and_links_in_it_are_followed(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = copied(Containers(pod), monkeypatch, str(checkpoint(here)), "tj:new")
    assert answer == (0, "", "Copied 4 files (273.4 KiB) to tj:new\n")
    assert files(pod) == {f"new/{name}": text for name, text in WHOLE.items()}


def test_into_a_folder_of_the_pod_it_goes_under_its_own_name(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / ("long" * 40)).write_text("1")
    assert copied(Containers(pod), monkeypatch, str(here / ("long" * 40)), f"tj:{pod}")[0] == 0
    assert copied(Containers(pod), monkeypatch, str(here / ("long" * 40)), "tj:")[0] == 0
    assert files(pod) == {"long" * 40: "1"}


def test_what_is_neither_file_nor_folder_is_left_out(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = here / "d"
    top.mkdir()
    (top / "a").write_text("1")
    (top / "again").symlink_to(".")
    (top / "gone").symlink_to("nowhere")
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as unix:
        monkeypatch.chdir(top)
        unix.bind("socket")
        code, _, err = copied(Containers(pod), monkeypatch, str(top), "tj:d")
    assert code == 1
    assert err.splitlines()[1] == "Left out, neither files nor folders: again, gone, pipe, socket"
    assert files(pod) == {"d/a": "1"}


def test_what_cannot_be_sent_is_said_before_anybody_is_asked(
    here: Path, pod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "secret").write_text("1" * 2000)
    (here / "d").mkdir()
    api = Containers(pod)
    with pytest.raises(UserError, match=r"/no: No such file or directory$"):
        copied(api, monkeypatch, str(here / "no"), "tj:x")
    os.mkfifo(here / "pipe")
    with pytest.raises(UserError, match=r"/pipe is neither a file nor a folder$"):
        copied(api, monkeypatch, str(here / "pipe"), "tj:x")
    with pytest.raises(UserError, match=r"/secret has more than 1.0 KiB: see --max-size$"):
        copied(api, monkeypatch, str(here / "secret"), "tj:x", max_size="1Ki")
    (here / "d" / "out").symlink_to("../secret")
    with pytest.raises(UserError, match=r"/d/out is a link out of .*/d, to .*/secret: copy that by itself"):
        copied(api, monkeypatch, str(here / "d"), "tj:x")
    monkeypatch.setattr(copies, "MOST", 1)
    with pytest.raises(UserError, match=r"has more than 1 files: pack it, and copy the archive$"):
        copied(api, monkeypatch, str(here), "tj:x")
    assert api.requests == []


def test_a_folder_that_is_not_there_and_an_image_without_tar_are_told(
    pod: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "a").write_text("1")
    with pytest.raises(
        UserError, match=r"^no/b of rank 0 of TrainJob team/tj was not copied whole: tar: no: "
    ):
        copied(Containers(pod), monkeypatch, str(here / "a"), "tj:no/b")
    monkeypatch.setenv("PATH", str(here))
    with pytest.raises(
        UserError, match=r"^the image of rank 0 of TrainJob team/tj has no tar, which copies: "
    ):
        copied(Containers(pod), monkeypatch, str(here / "a"), "tj:b")


def test_a_file_that_becomes_shorter_meanwhile_ends_the_copy(here: Path) -> None:
    (here / "a").write_text("12")
    whole = entries(here / "a", most_bytes=10, tally=Tally())
    (here / "a").write_text("1")
    with pytest.raises(UserError, match=r"/a became shorter while it was copied: copy it again$"):
        list(copies.packed(whole, "a", Tally()))


def test_what_is_packed_is_an_archive_that_belongs_to_nobody(here: Path) -> None:
    checkpoint(here)
    for path in ("run/go.sh", "run"):
        os.utime(here / path, (0, 1_000_000_000))
    whole = entries(here / "run", most_bytes=10**9, tally=Tally())
    archive = io.BytesIO(b"".join(copies.packed(whole, "name", Tally())))
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        members = [(member.name, member.isdir(), member.mode, member.uid) for member in tar]
        times = {tar.getmember("name/go.sh").mtime, tar.getmember("name").mtime}
    assert times == {1_000_000_000}
    assert members == [
        ("name", True, 0o755, 0),
        ("name/empty", False, 0o644, 0),
        ("name/go.sh", False, 0o755, 0),
        ("name/latest", True, 0o755, 0),
        ("name/latest/model.pt", False, 0o644, 0),
        ("name/step-1", True, 0o755, 0),
        ("name/step-1/model.pt", False, 0o644, 0),
    ]


# --- the command --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("places", "options", "words"),
    [
        (("a", "b"), {}, "name one path on this machine and one of a TrainJob: JOB:PATH"),
        (("tj:a", "tj:b"), {}, "name one path on this machine and one of a TrainJob: JOB:PATH"),
        (("A_B:a", "b"), {}, "'A_B' is not a valid name of a TrainJob; a file of this name is ./A_B:a"),
        (("tj:a", "b"), {"namespace": "A"}, "'A' is not a valid name of an object"),
        (("tj:a", "b"), {"max_size": "much"}, "--max-size "),
        (("tj:a", "/no/such/b"), {}, "/no/such is not a folder: create it first"),
        (("tj:a", "b"), {"kubeconfig": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_cannot_be_copied_is_one_sentence(
    places: tuple[str, str], options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "kubeconfig" not in options:
        monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    with pytest.raises(UserError) as refused:
        command.run(*places, **options)
    assert words in str(refused.value)


def test_ctrl_c_says_what_there_is(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None))
    monkeypatch.setattr(connection, "ask", interrupted)
    with pytest.raises(UserError, match=r"^interrupted: nothing was copied$"):
        command.run("tj:a", str(here))


def test_progress_is_one_line_of_a_terminal_and_nothing_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(command, "_EVERY", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    shown = []
    for out, term in ((Terminal(), "xterm"), (Terminal(), "dumb"), (io.StringIO(), "xterm")):
        monkeypatch.setenv("TERM", term)
        progress = command._Progress(out)
        progress.show(Tally(files=3, bytes=3 * 2**30, expected=4 * 2**30))
        progress.end()
        shown.append(out.getvalue())
    lines = shown[0].split("\r\x1b[K")
    assert lines[1].startswith("3.0 GiB of 4.0 GiB, ")
    assert [len(line) <= 39 for line in lines] == [True] * 3
    assert shown[1:] == ["", ""]


def test_sizes_are_those_that_people_read() -> None:
    assert [size(count) for count in (0, 1, 1023, 1024, 1536, 2**30, 2**60)] == [
        "0 bytes",
        "1 bytes",
        "1023 bytes",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 GiB",
        "1048576.0 TiB",
    ]
