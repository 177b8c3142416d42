"""`python -m trainyard_cache`, as the containers of a cache run it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import botocore.session
import pyarrow as pa
import pytest
from pyarrow import flight

from .tables import parquet

SECONDS = 120.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(tmp_path: Path, role: str, port: int, **environment: str) -> subprocess.Popen[str]:
    (tmp_path / f"{role}-log").touch()
    inherited = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    of_lws = {"LWS_LEADER_ADDRESS": "localhost", "LWS_GROUP_SIZE": "2"}
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "trainyard_cache", role, "127.0.0.1", str(port)),
            *("--termination-log", f"{tmp_path}/{role}-log"),
        ],
        env={**inherited, **of_lws, "HEALTH_PORT": str(free_port()), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_worker_holds_its_share_until_it_is_stopped(tmp_path: Path) -> None:
    port, location = free_port(), parquet(tmp_path / "numbers", 100, 250)
    worker = start(tmp_path, "worker", port, METADATA_LOC=location, LWS_WORKER_INDEX="1")
    try:
        end = time.monotonic() + SECONDS
        while True:
            try:
                with flight.connect(f"grpc://127.0.0.1:{port}") as client:
                    [action] = client.list_actions()
                    break
            except pa.ArrowException:
                assert worker.poll() is None, worker.communicate()
                assert time.monotonic() < end
                time.sleep(0.1)
        assert action.type == "holds"
        worker.send_signal(signal.SIGTERM)
        log, _ = worker.communicate(timeout=SECONDS)
    finally:
        worker.kill()
        worker.wait()
    assert worker.returncode == 0
    lines = [line.split(" ", 1)[1] for line in log.splitlines()]
    assert lines[:2] == [f"{location}: 250 rows in 2 files", "worker 1 of 1 holds rows 0 to 249: 0 MiB"]


@pytest.mark.long
def test_a_role_is_assumed_with_the_access_keys(tmp_path: Path) -> None:
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (half a second, else for each process)
    from moto.sts.models import sts_backends  # noqa: PLC0415

    role = "arn:aws:iam::123456789012:role/reader"
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        session = botocore.session.Session()
        session.set_credentials("AKIATEST", "right")
        client = session.create_client("s3", "us-east-1", endpoint_url=url)
        client.create_bucket(Bucket="tables")
        parquet(tmp_path / "numbers", 10)
        client.put_object(
            Bucket="tables", Key="a.parquet", Body=(tmp_path / "numbers/000000.parquet").read_bytes()
        )
        variables = {
            "METADATA_LOC": "s3://tables/a.parquet",
            "LWS_WORKER_INDEX": "1",
            "ENDPOINT": url,
            "AWS_ENDPOINT_URL_STS": url,
            "REGION": "us-east-1",
            "ACCESS_KEY_ID": "AKIATEST",
            "SECRET_ACCESS_KEY": "right",
            "ROLE_ARN": role,
        }
        worker = start(tmp_path, "worker", free_port(), **variables)
        assert worker.stdout is not None
        lines = [worker.stdout.readline().split(" ", 1)[-1] for _ in range(2)]
        worker.kill()
        worker.wait()
    finally:
        server.stop()
    assert lines == [
        "s3://tables/a.parquet: 10 rows in 1 files\n",
        "worker 1 of 1 holds rows 0 to 9: 0 MiB\n",
    ]
    assert {assumed.role_arn for assumed in sts_backends["123456789012"]["aws"].assumed_roles} == {role}


@pytest.mark.parametrize(
    ("role", "environment", "code", "message"),
    [
        ("head", {"LWS_WORKER_INDEX": "0"}, 10, "InvalidSource: METADATA_LOC is not set"),
        ("head", {"LWS_WORKER_INDEX": "0", "METADATA_LOC": "/none"}, 12, "NotFound: /none does not exist"),
        ("worker", {"LWS_WORKER_INDEX": "0", "METADATA_LOC": "{table}"}, 10, "workers begin at 1"),
    ],
)
def test_what_is_wrong_is_one_line_and_an_exit_code(
    tmp_path: Path, role: str, environment: dict[str, str], code: int, message: str
) -> None:
    location = parquet(tmp_path / "numbers", 10)
    variables = {name: value.format(table=location) for name, value in environment.items()}
    process = start(tmp_path, role, free_port(), **variables)
    log, _ = process.communicate(timeout=SECONDS)
    said = (tmp_path / f"{role}-log").read_text()
    assert (process.returncode, message in said) == (code, True), log
    assert log.splitlines()[-1].endswith(said)
    assert "Traceback" not in log
