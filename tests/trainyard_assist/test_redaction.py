"""What is removed before somebody sends objects and logs away, and what stays."""

import json
from functools import partial
from typing import Any

import pytest

from tests.support import cost
from trainyard_assist import redaction
from trainyard_assist.redaction import REMOVED

SECRET = "hunter2-of-ada"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"Authorization: Bearer {SECRET}.x", "Authorization: (removed)"),
        ("-H 'authorization: Basic dXNlcjpw' x", "-H 'authorization: (removed)' x"),
        (f"sent Bearer {SECRET} to it", "sent Bearer (removed) to it"),
        (f"HF_TOKEN={SECRET} python x.py", "HF_TOKEN=(removed) python x.py"),
        (f"export AWS_SECRET_ACCESS_KEY='{SECRET} x'", "export AWS_SECRET_ACCESS_KEY=(removed)"),
        (f"aws_secret_access_key = {SECRET}", "aws_secret_access_key = (removed)"),
        (f"STORAGE_KEY={SECRET}", "STORAGE_KEY=(removed)"),
        (f"wandb: Api key: {SECRET}", "wandb: Api key: (removed)"),
        (f"train --hub-token {SECRET} --lr 1", "train --hub-token (removed) --lr 1"),
        (f"train --password={SECRET} --lr 1", "train --password=(removed) --lr 1"),
        (f"{{'password': '{SECRET} x', 'lr': 1}}", "{'password': (removed), 'lr': 1}"),
        (rf'{{"api_key": "{SECRET}\"x", "lr": 1}}', '{"api_key": (removed), "lr": 1}'),
        (rf"{{\"token\":\"{SECRET}\",\"lr\":1}}", r"{\"token\":(removed),\"lr\":1}"),
        (f"https://ada:{SECRET}/x@host/x", "https://(removed)@host/x"),
        (f"https://{SECRET}@github.com/x", "https://(removed)@github.com/x"),
        (f"https://host/x?X-Amz-Signature={SECRET}&a=1", "https://host/x?X-Amz-Signature=(removed)&a=1"),
        (
            f"https://a.blob.core.windows.net/x?sig={SECRET}%3D&sv=1",
            "https://a.blob.core.windows.net/x?sig=(removed)&sv=1",
        ),
        (f"az://x?sv=1&sig={SECRET}", "az://x?sv=1&sig=(removed)"),
        ("AKIAABCDEFGHIJKLMNOP x", "(removed) x"),
        ("hf_" + "a" * 34, "(removed)"),
        ("ghp_" + "a" * 36, "(removed)"),
        ("AIza" + "a" * 35, "(removed)"),
        ("got eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrOHMi.abc-_def", "got (removed)"),
    ],
)
def test_a_line_loses_what_looks_like_a_secret_and_nothing_else(line: str, shown: str) -> None:
    assert redaction.text(line) == shown
    assert redaction.text(shown) == shown


@pytest.mark.parametrize(
    "line",
    [
        "KeyError: 'input_ids'",
        "step 3 loss 0.12 tokens/s 3345 max_tokens=1024",
        "tokens: 512",
        "key: nvidia.com/gpu",
        "git clone git@github.com:team/x",
        "s3://bucket/models/a@b",
        "the author is ada",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_what_is_no_secret_stays(line: str) -> None:
    assert redaction.text(line) == line


def test_a_private_key_is_removed_over_all_of_its_lines() -> None:
    key = f"a\n-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n{SECRET}\n-----END RSA PRIVATE KEY-----\nb"
    assert redaction.text(key) == "a\n(removed)\nb"
    assert SECRET not in redaction.text(key.partition("-----END")[0])
    assert redaction.value({"lines": key.split("\n")}) == {"lines": ["a", "(removed)", "b"]}


def test_of_a_private_key_that_begins_before_the_text_the_end_is_removed() -> None:
    lines = ["a", "9f8QkX0+/=", f"{'x' * 64}\r", "-----END PRIVATE KEY-----", "b"]
    shown = ["a", "(removed)", "(removed)", "(removed)", "b"]
    assert redaction.text("\n".join(["of that", *lines])).split("\n") == ["of that", "(removed)", *shown[1:]]
    assert redaction.value({"log": ["of that", *lines]}) == {"log": ["of that", "(removed)", *shown[1:]]}


def test_an_object_loses_what_repeats_it_and_the_values_of_secret_names() -> None:
    env = [
        {"name": "HF_TOKEN", "value": SECRET},
        {"name": "DB_PASS", "value": SECRET},
        {"name": "MY_KEY_2", "value": SECRET},
        {"name": "LR", "value": "1e-4"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
        {"name": "DATABASE", "value": f"postgres://ada:{SECRET}@db/x"},
    ]
    pod = {
        "metadata": {
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": SECRET,
                "example.com/api-token": SECRET,
                "example.com/author": "ada",
                "example.com/original": json.dumps({"env": [{"name": "HF_TOKEN", "value": SECRET}]}),
            },
        },
        "spec": {
            "imagePullSecrets": [{"name": "registry"}],
            "volumes": [{"secret": {"secretName": "hub"}}],
            "containers": [
                {"command": ["train", "--api-key", SECRET, "--lr", "1"], "args": [f"--token={SECRET}"]},
                {"env": env},
            ],
            "password": SECRET,
            "tolerations": [{"key": "nvidia.com/gpu"}],
        },
    }
    assert redaction.value(pod) == {
        "metadata": {
            "annotations": {
                "example.com/api-token": REMOVED,
                "example.com/author": "ada",
                "example.com/original": '{"env":[{"name":"HF_TOKEN","value":"(removed)"}]}',
            },
        },
        "spec": {
            "imagePullSecrets": [{"name": "registry"}],
            "volumes": [{"secret": {"secretName": "hub"}}],
            "containers": [
                {"command": ["train", "--api-key", REMOVED, "--lr", "1"], "args": [f"--token={REMOVED}"]},
                {
                    "env": [
                        {"name": "HF_TOKEN", "value": REMOVED},
                        {"name": "DB_PASS", "value": REMOVED},
                        {"name": "MY_KEY_2", "value": REMOVED},
                        {"name": "LR", "value": "1e-4"},
                        env[4],
                        {"name": "DATABASE", "value": f"postgres://{REMOVED}@db/x"},
                    ]
                },
            ],
            "password": REMOVED,
            "tolerations": [{"key": "nvidia.com/gpu"}],
        },
    }


def nested(depth: int) -> Any:
    value: Any = SECRET
    for _ in range(depth):
        value = {"a": [value]}
    return value


def test_an_object_is_read_only_so_deep() -> None:
    assert redaction.value(nested(10)) == nested(10)
    assert SECRET not in json.dumps(redaction.value(nested(400)))
    text = "[" * 100_000
    assert redaction.value({"metadata": {"annotations": {"a": text}}}) == {
        "metadata": {"annotations": {"a": text}}
    }


def test_a_tuple_is_read_as_a_list_is() -> None:
    flags = ["--token", SECRET]
    assert redaction.value({"command": tuple(flags)}) == redaction.value({"command": flags})
    assert SECRET not in json.dumps(redaction.value({"command": tuple(flags)}))


UNITS = (
    *("token", "--", "-", "://a:", "://" + ":" * 256, "://" + "a" * 300, "-----BEGIN PRIVATE KEY-----"),
    *("authorization", "authorization:", "bearer ", "api_key", "A_KEY", "A_KEY_ID", "token=", 'token="\\'),
    *("--token", "--a", "eyJ", "eyJaaaaaaaa.", "AIza", "token \t", "\\", '"'),
)


def test_it_takes_time_in_proportion_whatever_a_log_holds() -> None:
    for unit in UNITS:
        line = "key" + unit * (32_000 // len(unit))
        assert cost.cpu(partial(redaction.text, line)) < cost.SECONDS, unit
