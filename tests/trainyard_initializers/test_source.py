"""What is made sure of before anything is written, and checksums."""

import base64
import hashlib
import subprocess
import zlib
from pathlib import Path

import pytest

from trainyard_initializers.failures import NotFound, UnsafeSource
from trainyard_initializers.request import Patterns
from trainyard_initializers.source import MARKER, Checksum, RemoteFile, choose


def named(*paths: str) -> list[RemoteFile]:
    return [RemoteFile(path, 1, "1") for path in paths]


def test_wanted_files_are_sorted_and_a_marker_is_none_of_them() -> None:
    chosen = choose(named("b", "a/c", MARKER, "x.bin"), Patterns(ignore=("*.bin",)), "s3://b")
    assert [file.path for file in chosen] == ["a/c", "b"]


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a//b",
        "./a",
        "a/",
        "",
        "a\nb",
        "a\0b",
        "a\u202eb",
        "a\udc80b",
        "a" * 256,
        "a/" * 600 + "b",
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(UnsafeSource, match="which is not a plain relative path: rename it, or leave it out"):
        choose(named("fine", path), Patterns(), "s3://b")


@pytest.mark.parametrize(
    "path",
    ["Screenshot 9.41.00\u202fAM.png", "a\u00a0b", "a\u3000b", "\U0001f468\u200d\U0001f33e.txt", "e\u0301"],
)
def test_a_name_with_letters_and_spaces_of_any_language_is_fine(path: str) -> None:
    assert choose(named(path), Patterns(), "s3://b") == named(path)


def test_a_bad_name_that_nobody_wants_hurts_nobody() -> None:
    assert choose(named("fine", "../x"), Patterns(ignore=("../*",)), "s3://b") == named("fine")


def test_a_name_that_is_a_file_and_a_folder_is_refused() -> None:
    with pytest.raises(UnsafeSource, match="s3://b holds 'a/b' as a file and as a folder"):
        choose(named("a/b/c/d", "a/b"), Patterns(), "s3://b")


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ([], "NotFound: s3://b: it holds no file"),
        (named("a", "b"), "NotFound: s3://b: none of its 2 files is left: check IGNORE_PATTERNS"),
    ],
)
def test_nothing_to_fetch_is_a_failure(files: list[RemoteFile], text: str) -> None:
    with pytest.raises(NotFound) as refused:
        choose(files, Patterns(ignore=("*",)), "s3://b")
    assert str(refused.value) == text


BODY = b"some content"


@pytest.mark.parametrize(
    "checksum",
    [
        Checksum("sha256", hashlib.sha256(BODY).hexdigest()),
        Checksum("md5", hashlib.md5(BODY, usedforsecurity=False).hexdigest()),
        Checksum.base64("crc32", base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode()),
    ],
    ids=lambda checksum: checksum.algorithm,
)
def test_a_checksum_is_that_of_the_content(checksum: Checksum) -> None:
    hasher = checksum.hasher(len(BODY))
    hasher.update(BODY[:5])
    hasher.update(BODY[5:])
    assert hasher.hexdigest() == checksum.hexdigest


def test_a_git_checksum_is_what_git_says(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(BODY)
    said = subprocess.run(
        ["git", "hash-object", tmp_path / "file"], capture_output=True, text=True, check=True
    )
    hasher = Checksum("git", "").hasher(len(BODY))
    hasher.update(BODY)
    assert hasher.hexdigest() == said.stdout.strip()
