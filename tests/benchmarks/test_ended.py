"""Benchmarks that are ended early take down what they have brought up."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.plane import NAME

from tests.harness.leftovers import note
from tests.support.patience import eventually
from trainyard_sandbox.cluster import Sandbox
from trainyard_sandbox.paths import PROJECT, Instance

pytestmark = pytest.mark.sandbox(area="sandbox")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_no_api_server_outlives_benchmarks_that_a_signal_ends(number: signal.Signals) -> None:
    note(NAME)
    sandbox = Sandbox(Instance(NAME))
    command = [sys.executable, "-m", "benchmarks", "--quick", "burst"]
    with subprocess.Popen(command, cwd=PROJECT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None

        def api_server() -> int | None:
            assert process.poll() is None, "the benchmarks have ended by themselves"
            return sandbox.status().components.get("kube-apiserver", {}).get("pid")

        pid = eventually("an API server runs", api_server)
        process.send_signal(number)
        said = process.stderr.read().splitlines()
    assert (process.returncode, said[-1]) == (
        130,
        "Ended early. Everything that it had started has ended, too.",
    )
    assert (Path("/proc", str(pid)).exists(), sandbox.instance.dir.exists()) == (False, False)
