"""The environment of a container, read as upstream's initializers read it."""

import pytest

from trainyard_initializers import request
from trainyard_initializers.failures import InvalidSource
from trainyard_initializers.request import Patterns, Uri


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("hf://tatsu-lab/alpaca", Uri("hf", "tatsu-lab", "alpaca")),
        ("HF://gpt2", Uri("hf", "gpt2", "")),
        ("s3://bucket/a/b?versionId=1#x%20y", Uri("s3", "bucket", "a/b?versionId=1#x%20y")),
        ("file:///data/set", Uri("file", "", "data/set")),
        ("s3://b/at\u202f9\u00a0\u3000\u200d", Uri("s3", "b", "at\u202f9\u00a0\u3000\u200d")),
    ],
)
def test_a_uri_is_taken_literally(text: str, uri: Uri) -> None:
    assert request.read("dataset", {"STORAGE_URI": f" {text}\n"}).uri == uri


@pytest.mark.parametrize(
    "text", ["hf", "hf:owner/name", "://a", "hf://", "s3://a\x1bb", "s3://a\u202eb", "s3://a" + "b" * 2048]
)
def test_what_is_no_uri_is_refused(text: str) -> None:
    with pytest.raises(
        InvalidSource, match=r"^InvalidSource: STORAGE_URI must be scheme://\.\.\., at most 2048"
    ):
        request.read("dataset", {"STORAGE_URI": text})


def test_a_password_in_a_uri_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidSource) as refused:
        request.read("dataset", {"STORAGE_URI": "s3://AKIA:s3cr3t@bucket/data"})
    assert str(refused.value) == (
        "InvalidSource: STORAGE_URI must hold no user, password or port: credentials come from ACCESS_TOKEN "
        "or ACCESS_KEY_ID and SECRET_ACCESS_KEY, addresses from HF_ENDPOINT or ENDPOINT"
    )


def test_a_missing_uri_is_refused_with_the_field_that_gives_one() -> None:
    with pytest.raises(InvalidSource) as refused:
        request.read("model", {})
    assert str(refused.value) == (
        "InvalidSource: STORAGE_URI is not set: set spec.initializer.model.storageUri in the TrainJob, "
        "or the variable in the runtime's container"
    )


UNSAFE_WEIGHTS = ("*.msgpack", "*.h5", "*.bin", "*.pt", "*.pth")
TRAINERS_MODEL_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.gguf")
MODEL_FILES = (*TRAINERS_MODEL_FILES, "*.jinja")


@pytest.mark.parametrize(
    ("step", "uri", "ignore", "patterns"),
    [
        ("dataset", "hf://a/b", None, Patterns()),
        ("dataset", "hf://a/b", " *.bin, docs/ ,,", Patterns(ignore=("*.bin", "docs/*"))),
        ("model", "hf://a/b", None, Patterns(MODEL_FILES, UNSAFE_WEIGHTS)),
        ("model", "hf://a/b", "", Patterns(MODEL_FILES)),
        ("model", "s3://a/b", None, Patterns(ignore=UNSAFE_WEIGHTS)),
        ("model", "s3://a/b", "*.md", Patterns(ignore=("*.md",))),
    ],
)
def test_patterns_are_the_given_ones_or_upstreams_with_chat_templates(
    step: str, uri: str, ignore: str | None, patterns: Patterns
) -> None:
    environment = {"STORAGE_URI": uri} | ({"IGNORE_PATTERNS": ignore} if ignore is not None else {})
    assert request.read(step, environment).patterns == patterns


@pytest.mark.parametrize("path", ["chat_template.jinja", "additional_chat_templates/tool_use.jinja"])
def test_the_chat_templates_of_a_model_are_fetched(path: str) -> None:
    assert request.read("model", {"STORAGE_URI": "hf://a/b"}).patterns.want(path)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("a.bin", False),
        ("deep/a.bin", False),
        ("docs/x", False),
        ("docs", True),
        ("A.BIN", True),
        ("[x]", True),
    ],
)
def test_a_pattern_is_a_glob_over_the_whole_path(path: str, wanted: bool) -> None:
    assert Patterns(ignore=("*.bin", "docs/*")).want(path) is wanted


def test_what_is_secret_is_not_shown_with_a_request() -> None:
    asked = request.read("dataset", {"STORAGE_URI": "hf://a/b", "ACCESS_TOKEN": "hf_secret"})
    assert "hf_secret" not in repr(asked)


@pytest.mark.parametrize(
    ("environment", "endpoint", "region"),
    [
        ({}, None, None),
        ({"AWS_ENDPOINT_URL_S3": "https://stack", "AWS_REGION": "here"}, "https://stack", "here"),
        (
            {
                "AWS_ENDPOINT_URL_S3": "https://stack",
                "AWS_REGION": "here",
                "ENDPOINT": "https://own",
                "REGION": "eu",
            },
            "https://own",
            "eu",
        ),
    ],
    ids=["Amazon's", "the platform's", "the TrainJob's"],
)
def test_the_store_of_a_trainjob_comes_before_that_of_the_platform(
    environment: dict[str, str], endpoint: str | None, region: str | None
) -> None:
    read = request.read("dataset", {"STORAGE_URI": "s3://team/set", **environment})
    assert (read.endpoint, read.region, read.identity()["server"]) == (endpoint, region, endpoint)
