"""`s3://` against an S3 on this machine that checks signatures and fails when told to."""

import functools
from collections.abc import Iterator
from pathlib import Path

import botocore.loaders
import botocore.session
import pytest

from trainyard_initializers.failures import (
    Corrupt,
    Failure,
    InvalidSource,
    NotFound,
    Unauthorized,
    Unreachable,
)

from . import servers
from .fetching import aside, get, tree
from .servers import Fault, Server

LARGE = bytes(range(256)) * 8192
OBJECTS = {
    "sets/numbers/train.csv": b"1\n2\n",
    "sets/numbers/deep/big.bin": LARGE,
    "sets/numbers/odd +%#? name": b"odd",
    "sets/numbers/folder/": b"",
    "sets/numbers-2/other.csv": b"not this one",
    "sets/one.csv": b"one",
}
NUMBERS = {"train.csv": b"1\n2\n", "deep/big.bin": LARGE, "odd +%#? name": b"odd"}


@pytest.fixture(scope="module", autouse=True)
def described_once() -> Iterator[None]:
    """Each session of botocore reads what AWS offers, 3 MB of JSON: those of this file read it together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.session, "create_loader", functools.cache(botocore.loaders.create_loader))
        yield


@pytest.fixture
def s3() -> Iterator[Server]:
    with servers.s3(
        {"team": OBJECTS, "bad": {"a/../../x": b"1"}}, "AKIATEST:right/secret"
    ).running() as server:
        yield server


@pytest.fixture
def settings(s3: Server, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return {"ENDPOINT": s3.url, "ACCESS_KEY_ID": "AKIATEST", "SECRET_ACCESS_KEY": "right/secret"}


def test_what_lies_below_a_folder_arrives_whole_and_alone(tmp_path: Path, settings: dict[str, str]) -> None:
    get(tmp_path / "dataset", "s3://team/sets/numbers", **settings)
    assert tree(tmp_path / "dataset") == NUMBERS
    assert aside(tmp_path / "dataset") == {}


@pytest.mark.parametrize("uri", ["s3://team/sets/one.csv", "s3://team//sets/one.csv/"])
def test_a_uri_may_name_one_object(tmp_path: Path, settings: dict[str, str], uri: str) -> None:
    get(tmp_path / "dataset", uri, **settings)
    assert tree(tmp_path / "dataset") == {"one.csv": b"one"}


def test_a_uri_may_name_a_whole_bucket(tmp_path: Path, settings: dict[str, str]) -> None:
    get(tmp_path / "dataset", "s3://team", IGNORE_PATTERNS="*.bin", **settings)
    wanted = {key for key in OBJECTS if not key.endswith(("/", ".bin"))}
    assert set(tree(tmp_path / "dataset")) == wanted


@pytest.mark.parametrize(
    "case",
    [
        (
            "s3://team/sets",
            {"SECRET_ACCESS_KEY": "wrong"},
            Unauthorized,
            "Unauthorized: s3://team on {s3} answers 403; check ACCESS_KEY_ID, SECRET_ACCESS_KEY "
            "and the bucket's policy (S3 says SignatureDoesNotMatch)",
        ),
        (
            "s3://team/sets",
            {"ACCESS_KEY_ID": "AKIANONE"},
            Unauthorized,
            "Unauthorized: s3://team on {s3} answers 403; check ACCESS_KEY_ID, SECRET_ACCESS_KEY "
            "and the bucket's policy (S3 says InvalidAccessKeyId)",
        ),
        (
            "s3://team/sets",
            {"ACCESS_KEY_ID": "", "SECRET_ACCESS_KEY": ""},
            Unauthorized,
            "Unauthorized: s3://team on {s3} answers 403; check ACCESS_KEY_ID, SECRET_ACCESS_KEY "
            "and the bucket's policy (S3 says AccessDenied)",
        ),
        (
            "s3://team/sets",
            {"SECRET_ACCESS_KEY": ""},
            InvalidSource,
            "InvalidSource: SECRET_ACCESS_KEY is not set, but its companion is: check the Secret",
        ),
        (
            "s3://team/sets",
            {"ACCESS_KEY_ID": "", "SECRET_ACCESS_KEY": "", "ROLE_ARN": "arn:aws:iam::123456789012:role/r"},
            Unauthorized,
            "Unauthorized: ROLE_ARN is set, but there are no credentials to assume the role with",
        ),
        ("s3://none/x", {}, NotFound, "NotFound: s3://none on {s3} does not exist (404)"),
        ("s3://team/none", {}, NotFound, "NotFound: s3://team/none: it holds no file"),
        ("s3:///x", {}, InvalidSource, "InvalidSource: s3:///x names no bucket: s3://bucket/folder"),
        (
            "s3://a b/x",
            {},
            InvalidSource,
            "InvalidSource: s3://a b on {s3}: not a valid name of a bucket or key",
        ),
        (
            "s3://team/x",
            {"ENDPOINT": "minio:9000"},
            InvalidSource,
            "InvalidSource: ENDPOINT or AWS_ENDPOINT_URL_S3 must be http(s)://host[:port], "
            "without user and password",
        ),
        (
            "s3://team/x",
            {"ENDPOINT": "http://127.0.0.1:9"},
            Unreachable,
            "Unreachable: s3://team on http://127.0.0.1:9: EndpointConnectionError",
        ),
        (
            "s3://bad",
            {},
            Failure,
            "UnsafeSource: s3://bad holds the name 'a/../../x', which is not a plain relative path: "
            "rename it, or leave it out with IGNORE_PATTERNS",
        ),
    ],
)
def test_a_failure_says_what_and_what_to_do(
    tmp_path: Path, s3: Server, settings: dict[str, str], case: tuple[str, dict[str, str], type[Failure], str]
) -> None:
    uri, environment, kind, text = case
    with pytest.raises(kind) as failed:
        get(tmp_path / "dataset", uri, **{**settings, **environment})
    assert str(failed.value) == text.format(s3=s3.url)
    assert not (tmp_path / "dataset").exists()
    assert not (tmp_path / "x").exists()


def test_server_errors_pass(tmp_path: Path, s3: Server, settings: dict[str, str]) -> None:
    s3.faults = {"/team": [Fault(status=503)], "train.csv": [Fault(status=500), Fault(status=429)]}
    get(tmp_path / "dataset", "s3://team/sets/numbers", **settings)
    assert tree(tmp_path / "dataset") == NUMBERS


def test_what_is_cut_off_is_taken_up_where_it_ended(
    tmp_path: Path, s3: Server, settings: dict[str, str]
) -> None:
    # The first request for it asks for its checksum.
    s3.faults = {"big.bin": [Fault(), Fault(after=(1 << 20) + 5)]}
    get(tmp_path / "dataset", "s3://team/sets/numbers", **settings)
    assert tree(tmp_path / "dataset") == NUMBERS
    first, second = s3.ranges_asked("big.bin")
    assert first is None
    assert second is not None


def test_what_does_not_fit_its_checksum_is_fetched_again_and_then_a_failure(
    tmp_path: Path, s3: Server, settings: dict[str, str]
) -> None:
    s3.faults = {"train.csv": [Fault(), Fault(flip=True)]}
    get(tmp_path / "dataset", "s3://team/sets/numbers", **settings)
    assert tree(tmp_path / "dataset") == NUMBERS
    s3.faults = {"train.csv": [Fault(flip=True)] * 9}
    with pytest.raises(Corrupt, match=r"train\.csv is not what the source says it is: its md5 differs"):
        get(tmp_path / "again", "s3://team/sets/numbers", **settings)


def test_an_object_that_changes_meanwhile_is_never_mixed(
    tmp_path: Path, s3: Server, settings: dict[str, str]
) -> None:
    changed = dict(OBJECTS)
    s3.content = {"team": changed}
    s3.faults = {"big.bin": [Fault(), Fault(after=1 << 20), Fault(status=503)] + [Fault(status=503)] * 9}
    with pytest.raises(Unreachable):
        get(tmp_path / "dataset", "s3://team/sets/numbers", **settings)
    changed["sets/numbers/deep/big.bin"] = LARGE[::-1]
    s3.faults = {}
    get(tmp_path / "dataset", "s3://team/sets/numbers", **settings)
    assert tree(tmp_path / "dataset") == {**NUMBERS, "deep/big.bin": LARGE[::-1]}


def test_a_public_bucket_needs_no_keys(tmp_path: Path, s3: Server, settings: dict[str, str]) -> None:
    s3.secret = None
    get(tmp_path / "dataset", "s3://team/sets/one.csv", ENDPOINT=s3.url)
    assert tree(tmp_path / "dataset") == {"one.csv": b"one"}
    assert [headers.get("Authorization") for _, _, headers in s3.asked] == [None] * len(s3.asked)
