"""What benchmarks start ends with them, however they end."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import commands
from tests.support.patience import eventually

STARTS_A_CONTROLLER = """
import sys
from pathlib import Path
from benchmarks.controllers import Controller
controller = Controller(
    [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(600)"],
    ready_url="http://127.0.0.1:9/",
    log=Path(sys.argv[1]),
    webhook_url="",
)
controller.start()
"""
PRINTS_ITS_PID = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


def pid_in(file: Path) -> int | None:
    text = file.read_text() if file.exists() else ""
    return int(text) if text else None


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_controller_dies_with_benchmarks_that_are_killed(tmp_path):
    log = tmp_path / "ours.log"
    with subprocess.Popen([sys.executable, "-c", STARTS_A_CONTROLLER, log], cwd=Path.cwd()) as benchmarks:
        pid = eventually("the controller runs", lambda: pid_in(log))
        benchmarks.kill()
    eventually("the controller has ended", lambda: has_ended(pid))


def test_a_command_ends_when_the_benchmark_is_cancelled(tmp_path):
    file = tmp_path / "pid"
    command = (sys.executable, "-c", PRINTS_ITS_PID, str(file))

    async def cancelled() -> int:
        measuring = asyncio.create_task(commands._seconds(command, {}))
        pid: int = await asyncio.to_thread(eventually, "the command runs", lambda: pid_in(file))
        measuring.cancel()
        with pytest.raises(asyncio.CancelledError):
            await measuring
        return pid

    assert has_ended(asyncio.run(cancelled()))
