"""`hf://` against a Hub on this machine, over real HTTP."""

from collections.abc import Iterator
from pathlib import Path

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

TOKEN = "hf_rightRIGHTright"
LARGE = bytes(range(256)) * 8192  # 2 MiB: more than a chunk
DATASET = {
    "README.md": b"# numbers\n",
    "data/train.csv": b"1\n2\n3\n",
    "data/train.parquet": LARGE,
    "data/odd name + \xc3\xa4.txt".encode("latin1").decode(): b"odd",
}
MODEL = {"config.json": b"{}", "model.safetensors": LARGE, "pytorch_model.bin": b"pickle", "logo.png": b"png"}
CONTENT = {"datasets/acme/numbers": DATASET, "models/acme/tiny": MODEL, "models/gpt2": {"config.json": b"[]"}}


@pytest.fixture
def hub() -> Iterator[Server]:
    with servers.hub(CONTENT, TOKEN).running() as server:
        yield server


@pytest.fixture
def settings(hub: Server) -> dict[str, str]:
    return {"HF_ENDPOINT": hub.url, "ACCESS_TOKEN": TOKEN}


def test_a_dataset_arrives_whole_and_alone(tmp_path: Path, settings: dict[str, str]) -> None:
    get(tmp_path / "dataset", "hf://acme/numbers", **settings)
    assert tree(tmp_path / "dataset") == DATASET
    assert aside(tmp_path / "dataset") == {}


def test_of_a_model_come_the_files_that_upstream_takes(tmp_path: Path, settings: dict[str, str]) -> None:
    get(tmp_path / "model", "hf://acme/tiny", "model", **settings)
    assert tree(tmp_path / "model") == {"config.json": b"{}", "model.safetensors": LARGE}


@pytest.mark.parametrize(
    ("uri", "step", "files"),
    [
        ("hf://acme/numbers@v1/data/train.csv", "dataset", {"data/train.csv": b"1\n2\n3\n"}),
        ("hf://datasets/acme/numbers/README.md", "dataset", {"README.md": b"# numbers\n"}),
        ("hf://gpt2", "model", {"config.json": b"[]"}),
    ],
)
def test_a_uri_may_name_a_revision_and_a_part(
    tmp_path: Path, settings: dict[str, str], uri: str, step: str, files: dict[str, bytes]
) -> None:
    get(tmp_path / "it", uri, step, **settings)
    assert tree(tmp_path / "it") == files


def test_ignored_files_are_not_fetched(tmp_path: Path, hub: Server, settings: dict[str, str]) -> None:
    get(tmp_path / "dataset", "hf://acme/numbers", IGNORE_PATTERNS="*.parquet, README*", **settings)
    assert set(tree(tmp_path / "dataset")) == {"data/train.csv", "data/odd name + ä.txt"}
    assert hub.ranges_asked("train.parquet") == []


def test_the_token_goes_to_the_hub_and_not_to_where_it_redirects(
    tmp_path: Path, hub: Server, settings: dict[str, str]
) -> None:
    get(tmp_path / "dataset", "hf://acme/numbers", **{**settings, "ACCESS_TOKEN": f"{TOKEN}\n"})
    sent = {path.split("/")[1]: headers.get("Authorization") for _, path, headers in hub.asked}
    assert sent == {"api": f"Bearer {TOKEN}", "datasets": f"Bearer {TOKEN}", "lfs": None}


@pytest.mark.parametrize(
    "case",
    [
        (
            "hf://acme/numbers",
            {"ACCESS_TOKEN": "hf_wrong"},
            Unauthorized,
            "Unauthorized: the dataset acme/numbers on {hub} answers 401; ACCESS_TOKEN is refused, "
            "or may not read it: check the Secret, and that access was granted",
        ),
        (
            "hf://acme/numbers",
            {"ACCESS_TOKEN": ""},
            Unauthorized,
            "Unauthorized: the dataset acme/numbers on {hub} answers 401; it does not exist, "
            "or needs a token: set ACCESS_TOKEN with the initializer's secretRef",
        ),
        (
            "hf://acme/numbers",
            {"ACCESS_TOKEN": "two words"},
            Unauthorized,
            "Unauthorized: ACCESS_TOKEN holds characters that no token has: check the Secret",
        ),
        ("hf://acme/none", {}, NotFound, "NotFound: the dataset acme/none on {hub} does not exist (404)"),
        (
            "hf://acme/numbers@v9",
            {},
            NotFound,
            "NotFound: the dataset acme/numbers at v9 on {hub} does not exist (404)",
        ),
        ("hf://acme/numbers/none", {}, NotFound, "NotFound: hf://acme/numbers/none: it holds no file"),
        (
            "hf://acme/--bad--",
            {},
            InvalidSource,
            "InvalidSource: 'acme/--bad--' is not a repository's name: hf://owner/name",
        ),
        (
            "hf://@/x",
            {},
            InvalidSource,
            "InvalidSource: hf://@/x must be hf://owner/name, with an optional @revision and /folder",
        ),
        (
            "hf://acme/numbers",
            {"HF_ENDPOINT": "http://user:pw@hub"},
            InvalidSource,
            "InvalidSource: HF_ENDPOINT must be http(s)://host, without user and password",
        ),
        (
            "hf://acme/numbers",
            {"HF_ENDPOINT": "http://127.0.0.1:9"},
            Unreachable,
            "Unreachable: the dataset acme/numbers on http://127.0.0.1:9: "
            "[Errno 111] Connection refused (ConnectError)",
        ),
    ],
)
def test_a_failure_says_what_and_what_to_do(
    tmp_path: Path,
    hub: Server,
    settings: dict[str, str],
    case: tuple[str, dict[str, str], type[Failure], str],
) -> None:
    uri, environment, kind, text = case
    with pytest.raises(kind) as failed:
        get(tmp_path / "dataset", uri, **{**settings, **environment})
    assert str(failed.value) == text.format(hub=hub.url)
    assert not (tmp_path / "dataset").exists()


def test_server_errors_pass(tmp_path: Path, hub: Server, settings: dict[str, str]) -> None:
    hub.faults = {
        "/api/datasets/acme/numbers": [Fault(status=503), Fault(status=502)],
        "train.csv": [Fault(status=429, headers={"Retry-After": "0"}), Fault(status=500)],
    }
    get(tmp_path / "dataset", "hf://acme/numbers", **settings)
    assert tree(tmp_path / "dataset") == DATASET


def test_server_errors_that_stay_are_a_failure(tmp_path: Path, hub: Server, settings: dict[str, str]) -> None:
    hub.faults = {"train.csv": [Fault(status=503)] * 9}
    with pytest.raises(Unreachable, match=r"train\.csv of the dataset .* answers 503$"):
        get(tmp_path / "dataset", "hf://acme/numbers", **settings)
    assert len(hub.ranges_asked("train.csv")) == 4
    assert not (tmp_path / "dataset").exists()


def test_what_is_cut_off_is_taken_up_where_it_ended(
    tmp_path: Path, hub: Server, settings: dict[str, str]
) -> None:
    cut = len(LARGE) // 2
    hub.faults = {"/lfs/datasets/acme/numbers/data/train.parquet": [Fault(after=cut)]}
    get(tmp_path / "dataset", "hf://acme/numbers/data/train.parquet", **settings)
    assert tree(tmp_path / "dataset") == {"data/train.parquet": LARGE}
    first, second = hub.ranges_asked("/lfs/datasets/acme/numbers/data/train.parquet")
    assert first is None
    assert second is not None
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= cut


def test_a_restarted_pod_goes_on_where_the_last_one_ended(
    tmp_path: Path, hub: Server, settings: dict[str, str]
) -> None:
    hub.faults = {
        "/lfs/datasets/acme/numbers/data/train.parquet": [Fault(after=1 << 20)] + [Fault(status=500)] * 9
    }
    with pytest.raises(Unreachable):
        get(tmp_path / "dataset", "hf://acme/numbers", **settings)
    hub.faults, hub.asked = {}, []
    get(tmp_path / "dataset", "hf://acme/numbers", **settings)
    assert tree(tmp_path / "dataset") == DATASET
    assert hub.ranges_asked("data/train.csv") == [], "complete files are not fetched again"
    [rest] = hub.ranges_asked("/lfs/datasets/acme/numbers/data/train.parquet")
    assert rest is not None


def test_a_server_without_ranges_is_no_trouble(tmp_path: Path, hub: Server, settings: dict[str, str]) -> None:
    hub.ranges = False
    hub.faults = {"/lfs/datasets/acme/numbers/data/train.parquet": [Fault(after=(1 << 20) + 5)]}
    get(tmp_path / "dataset", "hf://acme/numbers", **settings)
    assert tree(tmp_path / "dataset") == DATASET


@pytest.mark.parametrize("name", ["data/train.csv", "data/train.parquet"])
def test_what_does_not_fit_its_checksum_is_fetched_again(
    tmp_path: Path, hub: Server, settings: dict[str, str], name: str
) -> None:
    end = f"lfs/datasets/acme/numbers/{name}" if name.endswith("parquet") else name
    hub.faults = {end: [Fault(flip=True)]}
    get(tmp_path / "dataset", "hf://acme/numbers", **settings)
    assert tree(tmp_path / "dataset") == DATASET
    assert len(hub.ranges_asked(end)) == 2


def test_what_never_fits_its_checksum_is_a_failure(
    tmp_path: Path, hub: Server, settings: dict[str, str]
) -> None:
    hub.faults = {"train.csv": [Fault(flip=True)] * 9}
    with pytest.raises(
        Corrupt, match=r"^Corrupt: data/train\.csv is not what the source says it is: its git differs$"
    ):
        get(tmp_path / "dataset", "hf://acme/numbers", **settings)
    assert not (tmp_path / "dataset").exists()


def test_what_is_no_hub_is_said_to_be_none(tmp_path: Path, hub: Server, settings: dict[str, str]) -> None:
    with pytest.raises(
        NotFound, match=r"^NotFound: the dataset acme/numbers on .*/nothing does not exist \(404\)$"
    ):
        get(tmp_path / "dataset", "hf://acme/numbers", **{**settings, "HF_ENDPOINT": f"{hub.url}/nothing"})
