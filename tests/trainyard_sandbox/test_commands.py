"""What the sandbox runs other programs with."""

import subprocess
import sys
import time
from pathlib import Path

RUNS = """
import sys
from pathlib import Path
from trainyard_sandbox.commands import run_logged
run_logged(["sh", "-c", "echo $$; exec sleep 600"], Path(sys.argv[1]), "wait")
"""


def test_what_runs_ends_with_whoever_has_started_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with subprocess.Popen([sys.executable, "-c", RUNS, log]) as caller:
        while not (log.exists() and log.read_text().endswith("\n")):
            time.sleep(0.05)
        caller.terminate()
    running = Path("/proc", log.read_text().strip(), "cmdline")
    for _ in range(100):
        if not running.exists() or not running.read_bytes():  # gone, or nobody has collected it yet
            return
        time.sleep(0.1)
    raise AssertionError(running.read_bytes())
