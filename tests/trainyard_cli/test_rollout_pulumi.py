"""Pulumi, as it is run for a roll-out."""

import io
import os
import signal
import threading
from pathlib import Path

import pytest

from trainyard_cli.commands import rollout_pulumi
from trainyard_cli.commands.rollout_pulumi import Echo


class EndsIt(Echo):
    """Sends SIGTERM to this process while its main thread waits for the second line."""

    def hear(self, line: str) -> None:
        super().hear(line)
        # Then the read does not end by the signal, as if the signal had come right before it.
        signal.siginterrupt(signal.SIGTERM, False)
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()


def test_a_signal_right_before_a_read_is_passed_on_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "pulumi"
    script.write_text("#!/bin/sh\necho begun\nexec sleep 3600\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    out, err = io.StringIO(), io.StringIO()
    assert rollout_pulumi.pulumi(["preview"], "prod", EndsIt(out, err), {}) == 128 + signal.SIGINT
    assert (out.getvalue(), err.getvalue()) == (
        "begun\n",
        "error: SIGINT ended pulumi. A preview changes nothing: run the same command again\n",
    )
