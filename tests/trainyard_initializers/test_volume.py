"""The job's volume: all or nothing, once, and never over somebody else's files."""

import errno
import fcntl
import itertools
import json
import multiprocessing
import os
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trainyard_initializers import request, volume
from trainyard_initializers.failures import Unreachable, VolumeFull, VolumeUnusable
from trainyard_initializers.fetch import fetch
from trainyard_initializers.source import MARKER, Checksum, RemoteFile
from trainyard_initializers.volume import Volume

from .fetching import QUICK, aside, tree


@dataclass
class Memory:
    """A source of bytes that counts what is read of it."""

    content: dict[str, bytes]
    announced: dict[str, int] = field(default_factory=dict)
    version: str = "1"
    read_of: list[str] = field(default_factory=list)

    def files(self) -> Iterable[RemoteFile]:
        return [
            RemoteFile(path, self.announced.get(path, len(body)), self.version)
            for path, body in self.content.items()
        ]

    def checksum(self, file: RemoteFile) -> Checksum | None:
        return None

    def read(self, file: RemoteFile, offset: int) -> Generator[bytes, None, None]:
        self.read_of.append(file.path)
        yield self.content[file.path][offset:]


def fill(target: Path, source: Memory, uri: str = "s3://bucket/x") -> None:
    fetch(request.read("dataset", {"STORAGE_URI": uri}), source, target, QUICK)


def test_a_folder_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    fill(tmp_path / "dataset", Memory({"a": b"1"}))
    second = Memory({"a": b"2"})
    fill(tmp_path / "dataset", second)
    assert (tree(tmp_path / "dataset"), second.read_of) == ({"a": b"1"}, [])


def test_another_source_replaces_it(tmp_path: Path) -> None:
    fill(tmp_path / "dataset", Memory({"a": b"1"}))
    fill(tmp_path / "dataset", Memory({"b": b"2"}), "s3://bucket/y")
    assert tree(tmp_path / "dataset") == {"b": b"2"}
    assert aside(tmp_path / "dataset") == {}


def test_nothing_shows_before_all_is_there_and_what_came_stays_aside(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="b was cut off after 1 B of 2 B"):
        fill(tmp_path / "dataset", Memory({"a": b"1", "b": b"2"}, announced={"b": 2}))
    assert not (tmp_path / "dataset").exists()
    assert sorted(aside(tmp_path / "dataset").values()) == [b"1", b"2"]


def test_what_another_source_left_aside_is_dropped(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        fill(tmp_path / "dataset", Memory({"a": b"1" * 9}, announced={"a": 10}))
    fill(tmp_path / "dataset", Memory({"b": b"2"}), "s3://bucket/y")
    assert (tree(tmp_path / "dataset"), aside(tmp_path / "dataset")) == ({"b": b"2"}, {})


def test_more_than_was_announced_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"^Corrupt: a is not what the source says it is: its size differs$"):
        fill(tmp_path / "dataset", Memory({"a": b"123"}, announced={"a": 2}))
    assert aside(tmp_path / "dataset") == {}


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "dataset").mkdir()
    fill(tmp_path / "dataset", Memory({"a": b"1"}))
    assert tree(tmp_path / "dataset") == {"a": b"1"}


def test_somebody_elses_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine").write_bytes(b"1")
    with pytest.raises(VolumeUnusable) as refused:
        fill(tmp_path / "dataset", Memory({"a": b"1"}))
    assert str(refused.value) == (
        f"VolumeUnusable: {tmp_path}/dataset holds files that no initializer has put there: "
        "use an empty volume, or remove them"
    )
    assert tree(tmp_path / "dataset") == {"mine": b"1"}


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "dataset").symlink_to("elsewhere")
    with pytest.raises(VolumeUnusable, match="dataset is not a folder: remove it"):
        fill(tmp_path / "dataset", Memory({"a": b"1"}))
    assert tree(tmp_path / "elsewhere") == {}


def test_links_laid_aside_lead_nowhere(tmp_path: Path) -> None:
    """Another pod of the same volume may have been there."""
    target = tmp_path / "dataset"
    asked = request.read("dataset", {"STORAGE_URI": "s3://bucket/x"})
    place = Volume(target, asked.identity())
    [file] = Memory({"a": b"1"}).files()
    place.part(file).parent.mkdir(parents=True)
    (tmp_path / "victim").write_bytes(b"untouched")
    place.part(file).symlink_to(tmp_path / "victim")
    with pytest.raises(VolumeUnusable, match="Too many levels of symbolic links"):
        fill(target, Memory({"a": b"1"}))
    assert (tmp_path / "victim").read_bytes() == b"untouched"


def test_too_little_space_is_known_before_anything_is_fetched(tmp_path: Path) -> None:
    source = Memory({"a": b"1"}, announced={"a": 1 << 60})
    with pytest.raises(VolumeFull, match=r"free, 1048576\.0 TiB more are needed: ask for a larger volume"):
        fill(tmp_path / "dataset", source)
    assert source.read_of == []


class Killed(BaseException):
    """The process ends in the middle."""


def fill_and_be_killed(target: Path, source: Memory, renames: int) -> None:
    """Fill the target, but for the renames after so many."""
    done, rename = itertools.count(), Path.rename

    def last(path: Path, to: Path) -> Path:
        if next(done) == renames:
            raise Killed
        return rename(path, to)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", last)
        with pytest.raises(Killed):
            fill(target, source)


def full(_: Path) -> os.statvfs_result:
    return os.statvfs_result((4096, 4096, 10, 0, 0, 10, 0, 0, 0, 255))


@pytest.mark.parametrize("renames", [2, 3, 4], ids=["no file", "one file", "all files"])
def test_what_was_in_its_place_when_an_initializer_was_killed_fits_and_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    content = {"a": b"1", "folder/b": b"2"}
    fill_and_be_killed(tmp_path / "dataset", Memory(content), renames)
    monkeypatch.setattr(os, "statvfs", full)
    second = Memory(content)
    fill(tmp_path / "dataset", second)
    assert (tree(tmp_path / "dataset"), aside(tmp_path / "dataset"), second.read_of) == (content, {}, [])


def test_what_a_killed_initializer_had_put_in_its_place_is_dropped_once_the_source_has_changed(
    tmp_path: Path,
) -> None:
    fill_and_be_killed(tmp_path / "dataset", Memory({"a": b"1", "b": b"1"}), renames=3)
    with pytest.raises(Unreachable):
        fill(tmp_path / "dataset", Memory({"a": b"2", "b": b""}, announced={"b": 1}, version="2"))
    assert sorted(aside(tmp_path / "dataset").values()) == [b"", b"2"]


def test_without_locks_nothing_is_taken_from_an_initializer_that_may_be_putting_its_files_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(_: int, __: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    fill_and_be_killed(tmp_path / "dataset", Memory({"a": b"1", "b": b"1"}), renames=3)
    before = aside(tmp_path / "dataset")
    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(Unreachable):
        fill(tmp_path / "dataset", Memory({"a": b"", "b": b"1"}, announced={"a": 1}))
    assert before.items() <= aside(tmp_path / "dataset").items()


def test_a_link_that_another_pod_has_put_in_the_place_of_a_file_is_not_brought_back(tmp_path: Path) -> None:
    fill_and_be_killed(tmp_path / "dataset", Memory({"folder/a": b"1", "b": b"1"}), renames=4)
    [folder] = (tmp_path / ".trainyard" / "dataset").glob("*/tree-*/folder")
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    second = Memory({"folder/a": b"1", "b": b"1"})
    fill(tmp_path / "dataset", second)
    assert (second.read_of, tree(tmp_path / "elsewhere")) == (["folder/a"], {"a": b"1"})


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_volume_that_fills_up_meanwhile_is_named(tmp_path: Path, code: int) -> None:
    with pytest.raises(VolumeFull) as full, volume.errors(tmp_path):
        raise OSError(code, os.strerror(code))
    assert str(full.value) == f"VolumeFull: {tmp_path} has no space left: ask for a larger volume"


def test_a_volume_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        VolumeUnusable, match=r"^VolumeUnusable: .*/file/\.trainyard/dataset: Not a directory$"
    ):
        fill(tmp_path / "file" / "dataset", Memory({"a": b"1"}))


def fill_slowly(target: Path, started: Event) -> None:
    class Slow(Memory):
        def files(self) -> Iterable[RemoteFile]:
            started.set()
            return super().files()

    fill(target, Slow({str(number): b"1" * 1000 for number in range(200)}))


def test_two_at_once_are_one_after_the_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    started = context.Event()
    first = context.Process(target=fill_slowly, args=(tmp_path / "dataset", started))
    first.start()
    assert started.wait(30)
    second = Memory({"other": b"2"})
    fill(tmp_path / "dataset", second)
    first.join(30)
    assert first.exitcode == 0
    assert second.read_of == []
    assert len(tree(tmp_path / "dataset")) == 200


class Counted(ThreadPoolExecutor):
    """Counts its tasks."""

    submitted: ClassVar[int] = 0

    def submit(self, *arguments: Any, **options: Any) -> Future[Any]:
        Counted.submitted += 1
        return super().submit(*arguments, **options)


def test_many_files_need_no_more_tasks_than_there_are_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainyard_initializers.fetch.ThreadPoolExecutor", Counted)
    content = {str(number): b"1" for number in range(50)}
    fill(tmp_path / "dataset", Memory(content))
    assert (tree(tmp_path / "dataset"), Counted.submitted) == (content, 8)


def test_a_marker_says_what_was_put_there(tmp_path: Path) -> None:
    fill(tmp_path / "dataset", Memory({"a": b"123"}))
    assert json.loads((tmp_path / "dataset" / MARKER).read_text()) == {
        "request": {"source": "s3://bucket/x", "server": None, "allow": [], "ignore": []},
        "files": 1,
        "bytes": 3,
    }
