"""`pulumi up`, killed in the middle: one command takes its lock away, and the next `up` goes on."""

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from trainyard_sandbox.paths import PROJECT

from .cluster import Cluster, Object, eventually

pytestmark = pytest.mark.sandbox

UP = ("make", "up", "STACK=sandbox")


def operator(platform: Cluster) -> Object | None:
    return platform.within("trainyard-system").get("deployment", "trainyard-operator")


def ready(platform: Cluster) -> bool:
    found = operator(platform) or {}
    return found.get("status", {}).get("readyReplicas", 0) >= 1


def kill_session(leader: int) -> None:
    """Kill all of a session's processes: Pulumi's plugins are in groups of their own."""
    for pid in (int(folder.name) for folder in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


def test_an_up_that_was_killed_is_taken_up_again_after_one_command(platform: Cluster) -> None:
    platform.kubectl("delete", "deployment", "trainyard-operator", "-n", "trainyard-system", "--wait")
    killed = subprocess.Popen(
        UP,
        cwd=PROJECT,
        env={**os.environ, **platform.sandbox.environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        # It has created the operator anew, and waits for it: the state holds an operation without an end.
        eventually("up is in the middle", lambda: operator(platform), timeout=300)
    finally:
        kill_session(killed.pid)
        killed.wait()
    locked = platform.run(*UP, check=False)
    assert locked.returncode != 0
    assert "the stack is currently locked by 1 lock(s)" in locked.stdout + locked.stderr
    platform.pulumi("cancel", "--stack", "sandbox", "--yes")
    platform.run(*UP)
    eventually("the operator is ready", lambda: ready(platform))
    platform.pulumi("refresh", "--stack", "sandbox", "--clear-pending-creates", "--yes", "--skip-preview")
    state = json.loads(platform.pulumi("stack", "export", "--stack", "sandbox").stdout)
    assert "pending_operations" not in state["deployment"]
