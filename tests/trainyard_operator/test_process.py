"""The operator as a process: its settings, logs, probes, metrics, and how it fails to start."""

from __future__ import annotations

import gc
import json
import logging
import sys
from pathlib import Path

import aiohttp
import pytest
import yaml

from tests.support.fake_api import run
from trainyard_operator import main as main_module
from trainyard_operator.logs import JsonFormatter
from trainyard_operator.main import run as run_operator
from trainyard_operator.metrics import Metrics, describe
from trainyard_operator.serve import probes
from trainyard_operator.serve.metrics_server import Exposition
from trainyard_operator.settings import parse


def test_a_log_record_is_one_json_object_on_one_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.LogRecord("n", logging.ERROR, "", 0, "hello %s", ("you",), sys.exc_info())
    line = JsonFormatter().format(record)
    assert "\n" not in line
    entry = json.loads(line)
    assert (entry["level"], entry["logger"], entry["message"]) == ("error", "n", "hello you")
    assert "ValueError" in entry["exception"]


def test_a_missing_kubeconfig_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_operator(parse(["--kubeconfig", str(tmp_path / "none")])) == 2
    error = capsys.readouterr().err
    assert error.startswith("trainyard operator: ")
    assert error.count("\n") == 1


def test_an_unreachable_server_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main_module, "PATIENCE", 0.0)
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    local = ["--metrics-host=127.0.0.1", "--metrics-port=0", "--webhook-host=127.0.0.1", "--webhook-port=0"]
    settings = parse([f"--kubeconfig={tmp_path / 'config'}", "--log-format=text", *local])
    try:
        assert run_operator(settings) == 2
        assert gc.get_freeze_count() > 0, (
            "the collector need not go through what the process was started with"
        )
    finally:
        gc.unfreeze()
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("trainyard")]
    assert "http://127.0.0.1:1 does not answer" in line


def test_a_probe_says_its_reasons_line_by_line() -> None:
    async def test() -> None:
        reasons = ["JobSets have not been read yet", "upstream is alive"]
        exposition = Exposition(Metrics())
        server = probes.server(exposition, alive=list, ready=lambda: reasons, host="127.0.0.1", port=0)
        await server.start()
        base = f"http://127.0.0.1:{server.port}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{base}/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")
            async with session.get(f"{base}/readyz") as answer:
                assert (answer.status, await answer.text()) == (503, "\n".join([*reasons, ""]))
            reasons.clear()
            async with session.get(f"{base}/readyz") as answer:
                assert answer.status == 200
            async with session.get(f"{base}/metrics") as answer:
                assert "trainyard_reconcile_seconds_count" in await answer.text()
        await server.stop()

    run(test)


@pytest.mark.parametrize(
    ("method", "path", "described"),
    [
        ("GET", "/apis/jobset.x-k8s.io/v1alpha2/jobsets?watch=true", ("watch", "jobsets")),
        ("GET", "/apis/jobset.x-k8s.io/v1alpha2/jobsets?limit=500", ("list", "jobsets")),
        ("GET", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/a/jobsets/b", ("get", "jobsets")),
        ("POST", "/api/v1/namespaces/a/events", ("create", "events")),
        ("PATCH", "/apis/t/v1/namespaces/a/trainjobs/b/status", ("patch", "trainjobs/status")),
        ("GET", "/version", ("get", "discovery")),
        ("GET", "/apis/trainer.kubeflow.org/v1alpha1", ("get", "discovery")),
    ],
)
def test_requests_are_counted_as_audit_logs_name_them(
    method: str, path: str, described: tuple[str, str]
) -> None:
    assert describe(method, path) == described


def test_the_metrics_carry_requests_by_verb_resource_and_code() -> None:
    metrics = Metrics()
    metrics.observe_request("POST", "/api/v1/namespaces/a/events", 201)
    expected = 'trainyard_api_requests_total{code="201",resource="events",verb="create"} 1.0'
    assert expected in metrics.render().decode()
