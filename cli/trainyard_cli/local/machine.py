"""Resources of this machine: free ports, GPUs and programs.

Called by `run` of this package.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from typing import Final

from trainyard_assist.local.plan import GPUS
from trainyard_assist.local.variables import ADDRESS

_PATIENCE: Final = 10.0
"""Seconds for the driver's answer."""
_LISTED: Final = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")


def free_ports(count: int) -> list[int]:
    """The given number of free ports."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((ADDRESS, 0))
        return [listener.getsockname()[1] for listener in sockets]


def gpus(shell: Mapping[str, str]) -> list[str]:
    """NVIDIA's GPUs, as CUDA_VISIBLE_DEVICES names them; those that the shell lets programs see."""
    visible = shell.get(GPUS)
    if visible is not None:
        # As CUDA reads it: a number below zero, such as the -1 that hides all, ends the list.
        names = (name.strip() for name in visible.split(","))
        return list(takewhile(lambda name: name and not name.startswith("-"), names))
    try:
        answer = subprocess.run(_LISTED, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return answer.stdout.split()


def has(program: str, folder: Path, environment: Mapping[str, str]) -> bool:
    """Whether a process in that folder, with that environment, would find the program."""
    if os.sep in program:
        return os.access(folder / program, os.X_OK)
    return shutil.which(program, path=environment.get("PATH", os.defpath)) is not None
