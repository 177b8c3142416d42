"""What a termination message tells of who failed, when and how."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trainyard_operator.core.status import termination_message
from trainyard_operator.core.status.termination_message import LastWords

AT = datetime(2026, 1, 1, 12, 0, 4, 250000, UTC)


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (
            "failed at 2026-01-01T12:00:04.250000+00:00 with exit code 1\nValueError: no\n",
            LastWords(AT, 1, False, "ValueError: no\n"),
        ),
        (
            "rank 12 lost others at 2026-01-01T12:00:04.250000+00:00 with exit code 137",
            LastWords(AT, 137, True, "", 12),
        ),
        ("", None),
        ("ValueError: no\n", None),
        ("failed at 2026-13-01T12:00:04+00:00 with exit code 1", None),
        ("failed at 0001-01-01T00:00:00+14:00 with exit code 1", None),
        ("lost others at 9999-12-31T23:59:59+00:00 with exit code 1", None),
        ("rank 99999999999 failed at 2026-01-01T12:00:04+00:00 with exit code 1", None),
    ],
)
def test_the_first_line_tells(message: str, wanted: LastWords | None) -> None:
    assert termination_message.of(1, message) == wanted


def test_of_a_container_that_ended_otherwise_it_is_another_programs() -> None:
    assert (
        termination_message.of(137, "failed at 2026-01-01T12:00:04.250000+00:00 with exit code 1\n") is None
    )


PROBE = "failed at 2026-01-01T12:00:04.250000+00:00 with exit code 1\nImportError: no numpy\n"


@pytest.mark.parametrize(
    ("exit_code", "message", "wanted"),
    [
        (137, PROBE, ""),
        (139, PROBE, ""),
        (7, PROBE, PROBE),
        (255, PROBE, PROBE),
        (137, f"rank 1 {PROBE}", f"rank 1 {PROBE}"),
        (137, "epoch 1\n", "epoch 1\n"),
    ],
    ids=[
        "killed",
        "a segfault",
        "a script around the program",
        "the same, with another code",
        "a rank, as it ended torchrun",
        "a log",
    ],
)
def test_what_another_program_left_is_nothing_about_one_that_a_signal_ended(
    exit_code: int, message: str, wanted: str
) -> None:
    assert termination_message.of(exit_code, message) is None
    assert termination_message.said(exit_code, message) == wanted


RULE = "-" * 74
SAID = "epoch 1\nTraceback (most recent call last):\nValueError: no"
EXITED = f"""{SAID}
{RULE}
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
{RULE}
{RULE}
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[51434,1],1]
  Exit code:    3
{RULE}
"""
SIGNALLED = f"""{SAID}
{RULE}
mpirun noticed that process rank 2 with PID 77 on node tj-node-0-1 exited on signal 11 (Segmentation fault).
{RULE}
"""
ABORTED = f"""{SAID}
{RULE}
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 5.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
{RULE}
"""


@pytest.mark.parametrize(
    ("log", "rank", "code"),
    [
        (EXITED, 1, 3),
        (EXITED.replace("mpirun", "prterun").replace("[[51434,1],1]", "[prterun-tj-0-1@1,1]"), 1, 3),
        (SIGNALLED, 2, 139),
        (ABORTED, 1, 5),
    ],
    ids=["exit", "exit of Open MPI 5", "signal", "abort"],
)
def test_mpirun_says_which_rank_ended_first_and_what_is_before_it_are_the_last_words(
    log: str, rank: int, code: int
) -> None:
    assert termination_message.of(code, log) == LastWords(None, code, False, SAID, rank)


TRACEBACK = """Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "/workspace/train.py", line 12, in <module>
    load(rows)
  File "/usr/lib/python3.12/json/__init__.py", line 3, in loads
  File "/opt/venv/lib/python3.12/site-packages/torch/nn.py", line 9, in forward
ValueError: no such column

"""


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (TRACEBACK, "ValueError: no such column (/workspace/train.py:12)"),
        (
            '  File "t.py", line 1\n    if:\n      ^\nSyntaxError: invalid syntax',
            "SyntaxError: invalid syntax (t.py:1)",
        ),
        ("killed\n", "killed"),
        ('no data\n  File "/t.py", line 4, in <module>\n', "no data (/t.py:4)"),
        (
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
            '  File "/usr/lib/python3.12/ctypes/__init__.py", line 5 in string_at\n'
            '  File "/t.py", line 4 in step\n  File "/t.py", line 9 in <module>\n\nExtension modules: a, b',
            "Fatal Python error: Segmentation fault (/t.py:4)",
        ),
        ("x" * 1000, "x" * 300),
        (" \n", ""),
    ],
)
def test_in_short_it_is_the_last_line_and_the_users_own_place(said: str, wanted: str) -> None:
    assert termination_message.short(said) == wanted
