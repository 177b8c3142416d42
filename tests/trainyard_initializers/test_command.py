"""`python -m trainyard_initializers`, as a container runs it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from trainyard_initializers import failures

from . import servers
from .fetching import tree
from .servers import Fault, Server

PROJECT = Path(__file__).parents[2]
TOKEN = "hf_rightRIGHTright"
CONTENT = {"datasets/acme/numbers": {"a.csv": b"1\n", "big.bin": b"x" * 3_000_000}}


@pytest.fixture
def hub() -> Iterator[Server]:
    with servers.hub(CONTENT, TOKEN).running() as server:
        yield server


def start(tmp_path: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    (tmp_path / "termination-log").touch()
    command = [sys.executable, "-m", "trainyard_initializers", *arguments]
    options = ["--target", f"{tmp_path}/dataset", "--termination-log", f"{tmp_path}/termination-log"]
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return subprocess.Popen(
        [*command, *options],
        env={**inherited, "HF_HOME": "/nonexistent", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(tmp_path: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit code, log without times, termination message."""
    process = start(tmp_path, *arguments, **environment)
    output, _ = process.communicate(timeout=120)
    log = re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+0000 ", "", output, flags=re.MULTILINE)
    return process.returncode, log, (tmp_path / "termination-log").read_text()


def test_a_dataset_is_fetched_once_with_progress_in_the_log(tmp_path: Path, hub: Server) -> None:
    settings = {"STORAGE_URI": "hf://acme/numbers", "HF_ENDPOINT": hub.url, "ACCESS_TOKEN": TOKEN}
    code, log, message = run(tmp_path, "dataset", **settings)
    assert (code, message) == (0, "")
    assert log.splitlines()[0] == "fetching 2 files, 2.9 MiB, from hf://acme/numbers"
    ready = rf"{tmp_path}/dataset is ready: 2\.9 MiB of 2\.9 MiB \(100 %\), 2 of 2 files, .* 0 s left"
    assert re.fullmatch(ready, log.splitlines()[-1])
    assert set(tree(tmp_path / "dataset")) == {"a.csv", "big.bin"}
    again = run(tmp_path, "dataset", **settings)
    assert again == (0, f"{tmp_path}/dataset holds hf://acme/numbers already: nothing to fetch\n", "")


def test_others_may_read_what_was_fetched_whatever_the_umask(tmp_path: Path, hub: Server) -> None:
    run(tmp_path, "dataset", STORAGE_URI="hf://acme/numbers", HF_ENDPOINT=hub.url, ACCESS_TOKEN=TOKEN)
    modes = {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "dataset").iterdir()}
    assert modes == {"0o644"}
    assert oct((tmp_path / "dataset").stat().st_mode & 0o777) == "0o755"


def test_a_failure_is_one_line_in_the_log_and_the_termination_message(tmp_path: Path, hub: Server) -> None:
    settings = {"STORAGE_URI": "hf://acme/numbers", "HF_ENDPOINT": hub.url, "ACCESS_TOKEN": "hf_wrong"}
    code, log, message = run(tmp_path, "dataset", **settings)
    assert code == 11
    assert message == (
        f"Unauthorized: the dataset acme/numbers on {hub.url} answers 401; ACCESS_TOKEN is refused, "
        "or may not read it: check the Secret, and that access was granted"
    )
    assert log == f"{message}\n"


@pytest.mark.parametrize(
    ("uri", "code", "start"),
    [
        ("", 10, "InvalidSource: STORAGE_URI is not set"),
        (
            "gs://bucket/x",
            10,
            "InvalidSource: gs://bucket/x is of an unknown kind; there are "
            "cache://, file://, hf://, pvc://, s3://",
        ),
        ("file:///nonexistent", 12, "NotFound: file:///nonexistent does not exist in the container"),
        ("pvc://a/../b", 12, "NotFound: the claim 'a' is not mounted at /mnt/pvc/a"),
    ],
)
def test_each_failure_has_its_exit_code(tmp_path: Path, uri: str, code: int, start: str) -> None:
    seen, log, message = run(tmp_path, "dataset", STORAGE_URI=uri)
    assert (seen, log) == (code, f"{message}\n")
    assert message.startswith(start)


def test_a_server_that_stays_away_is_a_failure_of_its_own(tmp_path: Path, hub: Server) -> None:
    hub.faults = {"a.csv": [Fault(status=503)] * 9}
    settings = {"STORAGE_URI": "hf://acme/numbers", "HF_ENDPOINT": hub.url, "ACCESS_TOKEN": TOKEN}
    code, log, message = run(tmp_path, "dataset", "--attempts", "2", **settings)
    assert code == 16
    assert message == (f"Unreachable: a.csv of the dataset acme/numbers on {hub.url} answers 503")
    assert f"{message}; trying again in 1 s" in log


def test_without_a_uri_an_optional_step_is_done(tmp_path: Path) -> None:
    assert run(tmp_path, "model", "--optional") == (
        0,
        "STORAGE_URI is not set: no model was asked for\n",
        "",
    )


def test_a_secret_is_in_no_log_even_if_a_name_holds_it(tmp_path: Path) -> None:
    secret = "s3cr3t-of-somebody"
    code, log, message = run(
        tmp_path, "dataset", STORAGE_URI=f"file:///{secret}", ACCESS_TOKEN=secret, SECRET_ACCESS_KEY="x"
    )
    assert code == 12
    assert message == "NotFound: file:///[secret] does not exist in the container"
    assert secret not in log


def test_a_pod_that_is_deleted_ends_at_once_and_leaves_what_came_for_the_next(
    tmp_path: Path, hub: Server
) -> None:
    hub.faults = {"a.csv": [Fault(status=503, headers={"Retry-After": "60"})]}
    settings = {"STORAGE_URI": "hf://acme/numbers", "HF_ENDPOINT": hub.url, "ACCESS_TOKEN": TOKEN}
    process = start(tmp_path, "dataset", **settings)
    assert process.stdout is not None
    for line in process.stdout:
        if "trying again" in line:
            break
    deadline = time.monotonic() + 300
    while not hub.ranges_asked("/lfs/datasets/acme/numbers/big.bin") and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not (tmp_path / "dataset").exists()
    assert run(tmp_path, "dataset", **settings)[0] == 0
    assert set(tree(tmp_path / "dataset")) == {"a.csv", "big.bin"}


def test_the_wrong_step_is_a_fault_of_usage(tmp_path: Path) -> None:
    code, log, _ = run(tmp_path, "weights")
    assert code == 2
    assert "invalid choice: 'weights'" in log


def test_exit_codes_are_distinct_and_in_the_help_and_the_guide(tmp_path: Path) -> None:
    _, usage, _ = run(tmp_path, "--help")
    guide = (PROJECT / "docs" / "initializers.md").read_text()
    rows = {
        int(code): (reason, means)
        for code, reason, means in re.findall(r"\| (\d+) \| `(\w+)` \| (.+?) \|", guide)
    }
    assert rows == {kind.exit_code: (kind.reason, kind.means) for kind in failures.FAILURES} | {
        failures.UNEXPECTED: ("Unexpected", "a fault of the initializer: please report it")
    }
    for kind in failures.FAILURES:
        assert f"{kind.exit_code}  {kind.reason}: {kind.means}\n" in usage


def test_the_catalogs_jobs_end_on_what_trying_again_cannot_mend() -> None:
    path = PROJECT / "runtimes" / "torch" / "torch-with-initializers.yaml"
    jobs = yaml.safe_load(path.read_text())["spec"]["template"]["spec"]["replicatedJobs"]
    steps = [job for job in jobs if job["name"] != "node"]
    final = [kind.exit_code for kind in failures.FAILURES if not kind.passing]
    rules = {job["name"]: job["template"]["spec"].get("podFailurePolicy", {}).get("rules") for job in steps}
    expected = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    ]
    assert rules == {
        name: [
            *expected,
            {
                "action": "FailJob",
                "onExitCodes": {"containerName": name, "operator": "In", "values": final},
            },
        ]
        for name in ("dataset-initializer", "model-initializer")
    }
