"""A folder becomes one archive: what is in it, what is not, and what is told."""

import gzip
import io
import os
import socket
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from trainyard_assist.workspace import WorkspaceError
from trainyard_cli.files import git, secret_files, workspace
from trainyard_cli.files.workspace import Suspect, pack

WAY_OUT = (
    "Have git ignore what the training does not need (.gitignore), load data with an initializer (s3://, "
    "hf://, pvc://) or from a volume, and put what never changes into the image."
)


def run_git(folder: Path, *arguments: str) -> str:
    me = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
    return subprocess.run(
        ["git", "-C", str(folder), *me, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


def written(folder: Path, **files: str) -> Path:
    """The folder with these files; `__` in a name is a slash."""
    for name, text in files.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = written(tmp_path / "repository", **{"train.py": "print()", "src__model.py": "x = 1"})
    run_git(folder, "init", "--quiet", "--initial-branch", "main")
    return folder


def unpacked(packed: workspace.Workspace) -> tarfile.TarFile:
    return tarfile.TarFile(fileobj=io.BytesIO(gzip.decompress(packed.packed.archive)))


def members(packed: workspace.Workspace) -> dict[str, str]:
    """What is in the archive: by path, the text of a file or where a link leads."""
    with unpacked(packed) as tar:
        return {
            member.name: f"-> {member.linkname}"
            if member.issym()
            else tar.extractfile(member).read().decode()
            for member in tar
        }


def refusal(folder: Path) -> str:
    with pytest.raises(WorkspaceError) as refused:
        pack(folder)
    return refused.value.shown.replace(str(folder), "FOLDER")


def test_what_git_tracks_or_does_not_ignore_is_packed_as_it_is_now(repository: Path) -> None:
    run_git(repository, "add", ".")
    run_git(repository, "commit", "--quiet", "-m", "first")
    written(repository, **{".gitignore": "*.log\ndata/\n", "run.log": "x", "data__big": "x", "new.py": "1"})
    (repository / "train.py").write_text("print(2)")
    (repository / "src" / "model.py").unlink()
    packed = pack(repository)
    assert members(packed) == {".gitignore": "*.log\ndata/\n", "new.py": "1", "train.py": "print(2)"}
    assert (len(packed.paths), packed.size) == (3, 21)
    assert (packed.suspects, packed.remarks) == ((), ())


def test_a_part_of_a_repository_is_packed_from_there(repository: Path) -> None:
    assert members(pack(repository / "src")) == {"model.py": "x = 1"}


def test_commit_branch_and_changes_are_told(repository: Path) -> None:
    def head() -> tuple[str, str, bool]:
        packed = pack(repository).packed
        return packed.commit, packed.branch, packed.dirty

    assert head() == ("", "", True)
    run_git(repository, "add", ".")
    run_git(repository, "commit", "--quiet", "-m", "first")
    commit = run_git(repository, "rev-parse", "HEAD")
    assert head() == (commit, "main", False)
    assert pack(repository, without=["train.py"]).packed.dirty
    written(repository, new="")
    assert head() == (commit, "main", True)
    (repository / "new").unlink()
    run_git(repository, "checkout", "--quiet", "--detach")
    assert head() == (commit, "", False)


def test_the_same_content_is_the_same_archive_whoever_packs_it_when_and_where(tmp_path: Path) -> None:
    first, second = (
        written(tmp_path / name, **{"a.py": "1", "b__c.py": "2", "run.sh": "true"}) for name in ("one", "two")
    )
    for folder, mode, moment in ((first, 0o700, 1), (second, 0o775, 1_700_000_000)):
        (folder / "run.sh").chmod(mode)
        for file in ("a.py", "b/c.py", "run.sh"):
            os.utime(folder / file, (moment, moment))
    assert pack(first).packed == pack(second).packed
    with unpacked(pack(first)) as tar:
        assert [(m.name, m.mode, m.mtime, m.uid, m.gid, m.uname, m.gname) for m in tar] == [
            ("a.py", 0o644, 0, 0, 0, "", ""),
            ("b/c.py", 0o644, 0, 0, 0, "", ""),
            ("run.sh", 0o755, 0, 0, 0, "", ""),
        ]
    (second / "a.py").write_text("2")
    assert pack(first).packed.digest != pack(second).packed.digest


def test_of_a_folder_without_git_all_but_the_usual_caches_is_packed(tmp_path: Path) -> None:
    caches = {"__pycache__/a.pyc": "", ".venv/bin/python": "", "src/node_modules/x.js": "", "b.pyc": ""}
    for name in caches:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    written(tmp_path, **{"a.py": "1", "src__b.py": "2", ".hidden": "3"})
    packed = pack(tmp_path)
    assert members(packed) == {".hidden": "3", "a.py": "1", "src/b.py": "2"}
    assert (packed.packed.commit, packed.packed.dirty) == ("", False)


def test_a_repository_inside_is_packed_as_its_own_git_sees_it(tmp_path: Path, repository: Path) -> None:
    for folder in (repository / "inner", tmp_path / "outer" / "inner"):
        written(folder, **{".gitignore": "ignored", "ignored": "x", "lib.py": "2"})
        run_git(folder, "init", "--quiet")
    inner = {"inner/.gitignore": "ignored", "inner/lib.py": "2"}
    assert members(pack(repository)) == {**inner, "src/model.py": "x = 1", "train.py": "print()"}
    assert members(pack(tmp_path / "outer")) == inner


def test_what_is_no_file_is_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path / "folder", **{"a.py": "1", "src__b.py": "2"})
    (tmp_path / "folder-beside").mkdir()
    links = {
        "inside": "src/b.py",
        "src/up": "../a.py",
        "folder_link": "src",
        "out": "../folder-beside",
        "absolute": str(folder / "a.py"),
        "around": "folder_link/../../folder-beside",
    }
    for name, target in links.items():
        (folder / name).symlink_to(target)
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(folder)  # the name of a socket may not be long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("listening")
        packed = pack(Path())
    assert members(packed) == {
        "a.py": "1",
        "folder_link": "-> src",
        "inside": "-> src/b.py",
        "src/b.py": "2",
        "src/up": "-> ../a.py",
    }
    assert packed.remarks == (
        f"absolute is a link out of the folder ({folder}/a.py): it is left out",
        "around is a link out of the folder (folder_link/../../folder-beside): it is left out",
        "listening is a socket: it is left out",
        "out is a link out of the folder (../folder-beside): it is left out",
        "pipe is a pipe: it is left out",
    )


def test_a_link_to_a_repository_is_a_link(tmp_path: Path, repository: Path) -> None:
    other = written(tmp_path / "other", **{"private.py": "1"})
    run_git(other, "init", "--quiet")
    plain = written(tmp_path / "plain", **{"a.py": "1"})
    (plain / ".git-is-not-here").symlink_to(".")
    for folder in (repository, plain):
        (folder / "out").symlink_to(other)
    (repository / "here").symlink_to(".")
    remarks = (f"out is a link out of the folder ({other}): it is left out",)
    assert members(pack(repository)) == {"here": "-> .", "src/model.py": "x = 1", "train.py": "print()"}
    assert pack(repository).remarks == remarks
    assert members(pack(plain)) == {".git-is-not-here": "-> .", "a.py": "1"}
    assert pack(plain).remarks == remarks


def test_what_git_tracks_in_a_folder_that_is_a_link_now_is_not_packed(
    tmp_path: Path, repository: Path
) -> None:
    run_git(repository, "add", ".")
    (repository / "src").rename(tmp_path / "elsewhere")
    (repository / "src").symlink_to("../elsewhere")
    packed = pack(repository)
    assert members(packed) == {"train.py": "print()"}
    assert packed.remarks == ("src is a link out of the folder (../elsewhere): it is left out",)


def test_names_of_all_kinds_come_back(tmp_path: Path) -> None:
    names = ["ein Wort.py", "-rf", "ü.py", "\udcff.py", "line\nfeed", "x" * 200 + ".py"]
    for name in names:
        (tmp_path / name).write_text("1")
    target = tmp_path.parent / f"{tmp_path.name}-unpacked"
    target.mkdir()
    archive = target / "workspace.tar.gz"
    archive.write_bytes(pack(tmp_path).packed.archive)
    subprocess.run(["tar", "-xzmof", str(archive), "-C", str(target)], check=True)
    archive.unlink()
    assert sorted(os.listdir(target)) == sorted(names)


def test_too_many_files_are_refused_before_all_are_seen(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "IN_SECRET", replace(workspace.IN_SECRET, files=5))
    for folder in (tmp_path / "folder", repository):
        written(folder, **{f"data__{number}": "" for number in range(20)})
        lines = refusal(folder).splitlines()
        assert lines[0] == (
            "FOLDER: has more than 5 files, and no more can travel with a TrainJob. Of the first ones:"
        )
        assert lines[-1] == WAY_OUT
        assert any(line.endswith(" files  data/") for line in lines)


def test_a_large_file_is_refused_unread_and_named(tmp_path: Path) -> None:
    written(tmp_path, **{"train.py": "x" * 3000, "small": "x"})
    with (tmp_path / "model.bin").open("wb") as file:
        file.truncate(2 * 2**30)
    (tmp_path / "model.bin").chmod(0)
    assert refusal(tmp_path) == (
        "FOLDER: has 2.0 GiB, and at most 32.0 MiB can travel with a TrainJob. The largest files:\n"
        "     2.0 GiB  model.bin\n"
        "     2.9 KiB  train.py\n"
        "     1 bytes  small\n"
        f"{WAY_OUT}"
    )


def test_what_is_too_large_when_packed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(800 * 1024))
    (tmp_path / "zeros").write_bytes(bytes(900 * 1024))
    lines = refusal(tmp_path).splitlines()
    assert lines[0].startswith("FOLDER: has 80")
    assert lines[0].endswith(
        " KiB when packed, and at most 700.0 KiB can travel with a TrainJob. The largest files:"
    )
    assert lines[1:] == ["   900.0 KiB  zeros", "   800.0 KiB  noise", WAY_OUT]


def test_a_folder_without_files_or_that_is_not_there_is_told(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty") == "FOLDER: has no file: name another folder"
    assert refusal(tmp_path / "absent") == "FOLDER: there is no such folder"
    (tmp_path / "empty" / ".env").write_text("TOKEN=1")
    with pytest.raises(WorkspaceError, match="has no file besides those that look like secrets: name anothe"):
        pack(tmp_path / "empty", without=[".env"])
    written(repository, **{".gitignore": "*"})
    assert refusal(repository) == "FOLDER: has no file that git does not ignore: name another folder"


def test_what_git_cannot_tell_is_told(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / ".git" / "HEAD").write_text("nonsense")
    with pytest.raises(git.GitError, match="git ls-files: fatal: not a git repository"):
        pack(repository)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(git.GitError, match="git cannot be run: No such file or directory"):
        pack(repository)


def test_the_program_that_the_repository_names_to_watch_its_files_is_not_started(repository: Path) -> None:
    trap = repository.parent / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {repository.parent}/sprung\n")
    trap.chmod(0o755)
    run_git(repository, "config", "core.fsmonitor", str(trap))
    pack(repository)
    assert not (repository.parent / "sprung").exists()


def test_a_file_that_changes_meanwhile_is_sent_as_it_was_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, a="1", b="2", c="3")
    read = workspace._read

    def reading(file: Path, most: int) -> workspace._Content:
        if file.name == "b":
            (tmp_path / "a").write_text("changed")
            (tmp_path / "c").unlink()
        return read(file, most)

    monkeypatch.setattr(workspace, "_read", reading)
    packed = pack(tmp_path)
    assert members(packed) == {"a": "1", "b": "2"}
    assert packed.remarks == (
        "c was deleted while the folder was read: it is left out",
        "a changed while the folder was read: it is sent as it was",
    )


def test_a_file_that_never_stays_the_same_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, **{"run.log": "1"}) / "run.log"
    fstat = os.fstat

    def growing(descriptor: int) -> os.stat_result:
        with file.open("a") as log:
            log.write("x")
        return fstat(descriptor)

    monkeypatch.setattr(os, "fstat", growing)
    assert refusal(tmp_path) == (
        "FOLDER/run.log: changes while it is read: end what writes it, or have git ignore it"
    )


# --- secrets --------------------------------------------------------------------


NAMED = "has the name of a file with secrets"
HOLDS = "holds what looks like a key or a token"


@pytest.mark.parametrize(
    ("path", "content", "reason"),
    [
        *((path, "", NAMED) for path in (".env", "a/.env.production", "prod.env", "id_rsa", "Key.PEM")),
        *((path, "", NAMED) for path in ("kubeconfig", "a/.kube/config", ".docker/config.json", ".netrc")),
        *((path, "", NAMED) for path in ("credentials", "my-credentials.json", "service-account-1.json")),
        *((path, "", NAMED) for path in (".envrc", "a/kaggle.json")),
        *(
            (path, "", "")
            for path in (".env.example", "credentials.py", "id_rsa.pub", "config.json", "keys.md")
        ),
        ("a", "-----BEGIN OPENSSH PRIVATE KEY-----", HOLDS),
        ("a.py", 'token = "hf_' + "a" * 34 + '"', HOLDS),
        ("a.py", "AKIA" + "A" * 16, HOLDS),
        ("a.ini", "aws_secret_access_key = " + "a/B+" * 10, HOLDS),
        ("a.yaml", "    client-key-data: LS0t", HOLDS),
        ("a.py", "boto3.client(aws_secret_access_key=key)", ""),
        ("a.py", "print()", ""),
    ],
)
def test_what_looks_like_a_secret(path: str, content: str, reason: str) -> None:
    assert secret_files.reason(path, content.encode()) == reason


def test_what_looks_like_a_secret_is_told_and_left_out_on_demand(tmp_path: Path) -> None:
    written(tmp_path, **{".env": "A=1", "train.py": "print()", "key.txt": "AKIA" + "A" * 16})
    packed = pack(tmp_path)
    assert packed.suspects == (Suspect(".env", NAMED), Suspect("key.txt", HOLDS))
    assert str(packed.suspects[0]) == ".env has the name of a file with secrets"
    without = pack(tmp_path, without=[suspect.path for suspect in packed.suspects])
    assert (members(without), without.suspects) == ({"train.py": "print()"}, ())


@pytest.mark.parametrize(
    "text", ["a", "aws_secret_access_key", "-----BEGIN A", "AKIA", "client-key-data: ", ".env"]
)
def test_a_look_at_a_file_takes_no_longer_than_its_text(text: str) -> None:
    whole = text * (64 * 1024 // len(text))
    assert secret_files.reason("a", whole.encode()) in {"", HOLDS}
    assert secret_files.reason(whole[:255], b"") in {"", NAMED}
