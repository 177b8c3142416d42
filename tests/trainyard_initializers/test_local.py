"""`pvc://` and `file://`: what is mounted already."""

import errno
import os
from pathlib import Path

import pytest

from trainyard_initializers import local, request
from trainyard_initializers.failures import Failure, InvalidSource, NotFound, Unauthorized, UnsafeSource
from trainyard_initializers.fetch import fetch

from .fetching import QUICK, get, tree

FILES = {"a.csv": b"1", "deep/b.csv": b"2" * 3_000_000, "empty": b""}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, body in FILES.items():
        path = tmp_path / "claims" / "team-data" / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return tmp_path / "claims" / "team-data" / "set"


def from_claim(target: Path, uri: str, claims: Path) -> None:
    asked = request.read("dataset", {"STORAGE_URI": uri})
    fetch(asked, local.open_claim(asked, claims), target, QUICK)


def test_a_folder_of_a_claim_is_copied(tmp_path: Path, data: Path) -> None:
    from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")
    assert tree(tmp_path / "dataset") == FILES
    assert os.stat(tmp_path / "dataset/a.csv").st_ino != os.stat(data / "a.csv").st_ino


def test_claims_are_mounted_by_name_below_one_folder() -> None:
    assert Path("/mnt/pvc") == local.CLAIMS


def test_a_folder_and_a_file_of_the_container_are_copied(tmp_path: Path, data: Path) -> None:
    get(tmp_path / "dataset", f"file://{data}")
    assert tree(tmp_path / "dataset") == FILES
    get(tmp_path / "model", f"file://{data}/a.csv", "model")
    assert tree(tmp_path / "model") == {"a.csv": b"1"}


def test_links_that_stay_inside_are_followed(tmp_path: Path, data: Path) -> None:
    (data / "link").symlink_to("deep/b.csv")
    from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")
    assert tree(tmp_path / "dataset") == {**FILES, "link": FILES["deep/b.csv"]}
    assert not (tmp_path / "dataset/link").is_symlink()


def test_links_to_folders_that_stay_inside_are_followed(tmp_path: Path, data: Path) -> None:
    other = data.parent / "v3" / "train"
    other.mkdir(parents=True)
    (other / "c.csv").write_bytes(b"3")
    (data / "train").symlink_to("../v3/train")
    from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")
    assert tree(tmp_path / "dataset") == {**FILES, "train/c.csv": b"3"}
    assert not (tmp_path / "dataset/train").is_symlink()


def test_a_link_to_a_folder_that_leads_out_is_refused(tmp_path: Path, data: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (data / "link").symlink_to("../../../theirs")
    with pytest.raises(UnsafeSource, match="'link' is a link that leads out of"):
        from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")


@pytest.mark.parametrize(
    ("links", "name"),
    [
        ({"deep/self": "."}, "deep/self"),
        ({"deep/up": "../.."}, "deep/up"),
        ({"x/to": "../y", "y/to": "../x"}, "[xy]/to/to"),
    ],
    ids=["itself", "above", "each other"],
)
def test_links_to_folders_in_a_circle_are_refused(
    tmp_path: Path, data: Path, links: dict[str, str], name: str
) -> None:
    for path, target in links.items():
        (data / path).parent.mkdir(exist_ok=True)
        (data / path).symlink_to(target)
    with pytest.raises(UnsafeSource, match=f"'{name}' is a link to a folder around it: remove the link"):
        from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")


@pytest.mark.parametrize(
    ("uri", "kind", "text"),
    [
        (
            "pvc://none/x",
            NotFound,
            "NotFound: the claim 'none' is not mounted at {claims}/none: add the volume and its mount",
        ),
        ("pvc:///x", InvalidSource, "InvalidSource: pvc:///x names no claim: pvc://claim/folder"),
        ("pvc://../x", InvalidSource, "InvalidSource: pvc://../x names no claim: pvc://claim/folder"),
        ("pvc://team-data/y", NotFound, "NotFound: pvc://team-data/y does not exist in the container"),
        (
            "pvc://team-data/../other",
            UnsafeSource,
            "UnsafeSource: pvc://team-data/../other leads out of {claims}/team-data",
        ),
    ],
)
def test_a_wrong_claim_is_refused(
    tmp_path: Path, data: Path, uri: str, kind: type[Failure], text: str
) -> None:
    with pytest.raises(kind) as refused:
        from_claim(tmp_path / "dataset", uri, tmp_path / "claims")
    assert str(refused.value) == text.format(claims=tmp_path / "claims")


def test_a_file_uri_with_a_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match="must have three slashes and a path: file:///folder"):
        get(tmp_path / "dataset", "file://host/data")


def test_a_link_that_leads_out_is_refused(tmp_path: Path, data: Path) -> None:
    (tmp_path / "secret").write_text("of somebody else")
    (data / "link").symlink_to("../../../secret")
    with pytest.raises(UnsafeSource, match="'link' is a link that leads out of"):
        from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")
    with pytest.raises(UnsafeSource, match="'link' is a link that leads out of"):
        get(tmp_path / "dataset", f"file://{data}")


def test_a_pipe_is_refused_and_does_not_hang(tmp_path: Path, data: Path) -> None:
    os.mkfifo(data / "pipe")
    with pytest.raises(UnsafeSource, match="'pipe' is not a regular file"):
        from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")


def test_a_link_to_nothing_is_named(tmp_path: Path, data: Path) -> None:
    (data / "link").symlink_to("gone")
    with pytest.raises(NotFound, match="'link' leads nowhere"):
        from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")


def test_a_link_to_itself_is_named(tmp_path: Path, data: Path) -> None:
    (data / "link").symlink_to("link")
    with pytest.raises(NotFound, match="'link' leads nowhere: Too many levels of symbolic links"):
        from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")
    with pytest.raises(NotFound, match="pvc://team-data/set/link does not exist in the container"):
        from_claim(tmp_path / "dataset", "pvc://team-data/set/link", tmp_path / "claims")


@pytest.mark.parametrize(
    ("unreadable", "about"),
    [("", "pvc://team-data/set"), ("a.csv", "pvc://team-data/set: 'a.csv'")],
    ids=["folder", "file"],
)
def test_a_file_or_folder_that_the_initializer_may_not_read_is_named(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch, unreadable: str, about: str
) -> None:
    def status(path: Path, **options: bool) -> os.stat_result:
        if path == data / unreadable:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return os.stat(path, **options)

    monkeypatch.setattr(Path, "stat", status)
    with pytest.raises(Unauthorized) as refused:
        from_claim(tmp_path / "dataset", "pvc://team-data/set", tmp_path / "claims")
    assert str(refused.value) == (
        f"Unauthorized: {about}: Permission denied: user {os.getuid()} needs the right to read it"
    )


def test_the_files_of_a_config_map_are_copied_once(tmp_path: Path) -> None:
    """The kubelet mounts a folder with a time for its name, and links to what is in it."""
    mount = tmp_path / "mounts" / "config"
    for name, body in {"a.csv": b"1", "deep/b.csv": b"2"}.items():
        path = mount / "..2026_11_30_12_00_00.123456789" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    (mount / "..data").symlink_to("..2026_11_30_12_00_00.123456789")
    for name in ("a.csv", "deep"):
        (mount / name).symlink_to(f"..data/{name}")
    get(tmp_path / "dataset", f"file://{mount}")
    assert tree(tmp_path / "dataset") == {"a.csv": b"1", "deep/b.csv": b"2"}
    get(tmp_path / "model", f"file://{mount.parent}", "model")
    assert tree(tmp_path / "model") == {"config/a.csv": b"1", "config/deep/b.csv": b"2"}
