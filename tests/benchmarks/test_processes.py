"""What the kernel says about a process is read as it writes it."""

import os
import subprocess

import pytest
from benchmarks.errors import BenchmarkError

from benchmarks import processes

STAT = "4242 (a (strange) name) S 1 4242 4242 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 100 1 1 1"
STATUS = "Name:\tpython\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB\nThreads:\t2\n"


def test_cpu_is_user_and_system_time_whatever_the_process_is_called():
    assert processes.cpu_seconds(STAT) == 200 / os.sysconf("SC_CLK_TCK")


def test_memory_is_what_it_has_now_or_had_at_most():
    assert processes.resident(STATUS) == 100.0
    assert processes.resident(STATUS, "VmHWM") == 200.0


def test_this_process_has_used_some_of_both():
    assert processes.cpu(os.getpid()) > 0
    assert processes.memory(os.getpid()) > 1


def test_a_process_that_has_ended_has_no_memory():
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(BenchmarkError, match="a process that is measured has ended"):
            processes.memory(ended.pid)
    with pytest.raises(BenchmarkError, match=f"process {ended.pid}, which is measured, has ended"):
        processes.cpu(ended.pid)
