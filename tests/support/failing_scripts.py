"""Scripts that fail, each with who is to blame: run with the module that every Python of a pod reads.

Torch is not needed: `AGENT` starts the ranks of a node and ends as torchrun
does, by the files and the exception that torch.distributed.elastic documents.
"""

# ruff: noqa: E501 (a script is a line of the table)
from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from trainyard_operator.core.status import attempts, termination_message
from trainyard_platform.catalog import in_pods

MODULE = Path(in_pods.__file__).with_name("sitecustomize.py")

AGENT = """
import json, os, subprocess, sys, time
from types import SimpleNamespace

class ChildFailedError(Exception):
    def __init__(self, failures):
        self.failures = failures

def failure(process, error_file):
    if os.path.isfile(error_file):
        message = json.load(open(error_file))["message"]
        at = int(message["extraInfo"]["timestamp"])
    else:
        message, at = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html", int(time.time())
        if process.returncode < 0:
            message = "Signal %d (SIG) received" % -process.returncode
    return SimpleNamespace(pid=process.pid, exitcode=process.returncode, message=message, timestamp=at)

folder, node, each, world, *scripts = sys.argv[1:]
ranks = {}
for local, script in enumerate(scripts):
    rank = int(node) * int(each) + local
    error_file = os.path.join(folder, "error-%d.json" % rank)
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": world, "TORCHELASTIC_ERROR_FILE": error_file}
    ranks[rank] = subprocess.Popen([sys.executable, script], env=environment), error_file
while not any(process.poll() for process, _ in ranks.values()) and any(p.poll() is None for p, _ in ranks.values()):
    time.sleep(0.002)
time.sleep(0.03)
for process, _ in ranks.values():
    if process.poll() is None:
        process.terminate()
    process.wait()
failures = {rank: failure(*how) for rank, how in ranks.items() if how[0].returncode}
if failures:
    raise ChildFailedError(failures)
"""

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.42.0.7]:2345"
VICTIM = f"time.sleep(0.05)\nraise RuntimeError({GLOO!r})"
AT_ONCE = f"raise RuntimeError({GLOO!r})"
NCCL = (
    "NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or there was a network error, "
    "NCCL version 2.27.5\\nncclRemoteError: A call failed possibly due to a network error or a remote "
    "process exiting prematurely."
)
WAITS = "time.sleep(30)"
BEGUN = "os.environ['TMPDIR'] + '/begun'"
"""A file by which a script waits for another, which may start later."""
PREFACE = "import asyncio, os, signal, subprocess, sys, threading, time\n"


@dataclass(frozen=True, slots=True)
class Failing:
    """A training whose culprit is known."""

    name: str
    scripts: tuple[str, ...]
    """Of each rank."""
    culprit: int
    """Its rank, or its node where there is no torchrun."""
    code: int
    says: str
    """The end of the sentence about it, without its place."""
    line: int | None = None
    """Of the script, where it is told."""
    each: int = 1
    """Ranks of a node."""
    torchrun: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    core: bool = False
    """Whether it is fast, and one of those that every change is tried with."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of who failed first."""

    who: int | None
    code: int
    says: str


def told(case: Failing, folder: Path) -> Told:
    """Run each node's container, and tell which failed first as the operator does."""
    ends = sorted(_ends(case, folder), key=lambda end: end[0])
    _, node, exit_code, words, said = ends[0]
    if words is None:
        return Told(node, exit_code, termination_message.short(said))
    return Told(
        node if words.rank is None else words.rank, words.exit_code, termination_message.short(words.said)
    )


_End = tuple[tuple[bool, datetime, bool, datetime], int, int, termination_message.LastWords | None, str]


def _ends(case: Failing, folder: Path) -> Iterator[_End]:
    running = list(enumerate(_started(case, folder)))
    for node, process in running:
        log = process.communicate(timeout=60)[1]
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        if code == 0:
            continue
        message = (folder / f"message-{node}").read_text() or log[-2048:]
        words = termination_message.of(code, message)
        finished = datetime.fromtimestamp((folder / f"message-{node}").stat().st_mtime).astimezone()
        at, lost = (finished, False) if words is None else (words.at or finished, words.lost_others)
        yield attempts.order(at, code if words is None else words.exit_code, lost), node, code, words, message


def _started(case: Failing, folder: Path) -> Iterator[subprocess.Popen[str]]:
    paths = []
    for rank, script in enumerate(case.scripts):
        paths.append(folder / f"rank-{rank}.py")
        paths[-1].write_text(PREFACE + script)
    for node in range(len(paths) // case.each):
        message, module = folder / f"message-{node}", folder / f"module-{node}"
        message.touch()
        module.mkdir()
        text = MODULE.read_text().replace('"/dev/termination-log"', repr(str(message)))
        (module / "sitecustomize.py").write_text(text)
        own = [str(path) for path in paths[node * case.each : (node + 1) * case.each]]
        world = str(len(paths))
        agent = ["-c", AGENT, str(folder), str(node), str(case.each), world] if case.torchrun else []
        sizes = {"PET_NNODES": str(len(paths) // case.each)} if case.torchrun else {"WORLD_SIZE": world}
        environment = {**os.environ, "PYTHONPATH": str(module), "TMPDIR": str(folder), **sizes}
        yield subprocess.Popen(
            [sys.executable, *agent, *own],
            env={**environment, **case.environment},
            stderr=subprocess.PIPE,
            text=True,
        )


REFUSED = "ConnectionRefusedError: [Errno 111] Connection refused"
DATABASE = "import socket\nsocket.create_connection(('127.0.0.1', 1))"
ARGUMENTS = "import argparse\nparser = argparse.ArgumentParser('train.py')\nparser.add_argument('--lr', required=True)\nparser.parse_args()"
NO_LR = "train.py: error: the following arguments are required: --lr"

CASES: tuple[Failing, ...] = (
    Failing("an exception", ("raise ValueError('no')", VICTIM), 0, 1, "ValueError: no", 2, core=True),
    Failing("an exception of rank 1", (VICTIM, "raise ValueError('no')"), 1, 1, "ValueError: no", 2),
    Failing("a wrong argument", (ARGUMENTS, VICTIM), 0, 2, NO_LR, 5, core=True),
    Failing("a wrong argument of all", (ARGUMENTS,), 0, 2, NO_LR, 5, torchrun=False, core=True),
    Failing(
        "an exit with a message",
        (WAITS, "sys.exit('no data in /data/train')"),
        1,
        1,
        "no data in /data/train",
        2,
        each=2,
        core=True,
    ),
    Failing("the same without torchrun", ("sys.exit('no data')",), 0, 1, "no data", 2, torchrun=False),
    Failing("a raised exit", ("raise SystemExit('no data')",), 0, 1, "no data", core=True),
    Failing(
        "a raised exit without torchrun", ("raise SystemExit('no data')",), 0, 1, "no data", torchrun=False
    ),
    Failing("a silent exit", ("sys.exit(3)", VICTIM), 0, 3, "", 2),
    Failing(
        "an exit after a message",
        ("print('disk is full', file=sys.stderr)\nexit(3)", VICTIM),
        0,
        3,
        "disk is full",
        3,
        core=True,
    ),
    Failing("quit", ("print('done for', file=sys.stderr)\nquit(4)",), 0, 4, "done for", 3, torchrun=False),
    Failing(
        "an exit at once",
        (VICTIM, "print('watchdog', file=sys.stderr)\nos._exit(5)"),
        1,
        5,
        "watchdog",
        3,
        core=True,
    ),
    Failing(
        "an exit at once from a thread",
        ("threading.Timer(0.01, lambda: (print('hung', file=sys.stderr), os._exit(6))).start()\n" + WAITS,),
        0,
        6,
        "hung",
        2,
    ),
    Failing(
        "an exit with a message after a progress bar",
        ("for i in range(900): sys.stderr.write('\\r%d%%' % i)\nsys.exit('\\nno')",),
        0,
        1,
        "no",
        3,
    ),
    Failing(
        "a segfault",
        ("def step():\n    import ctypes\n    ctypes.string_at(0)\nstep()", VICTIM),
        0,
        139,
        "Fatal Python error: Segmentation fault",
        4,
    ),
    Failing(
        "a segfault without torchrun",
        ("import ctypes\nctypes.string_at(0)",),
        0,
        139,
        "Fatal Python error: Segmentation fault",
        3,
        torchrun=False,
    ),
    Failing("an abort", (VICTIM, "os.abort()"), 1, 134, "Fatal Python error: Aborted", 2),
    Failing("a kill", ("os.kill(os.getpid(), 9)", VICTIM), 0, 137, "Signal 9 (SIG) received"),
    Failing(
        "a kill of the second of a node",
        (WAITS, "os.kill(os.getpid(), 9)", VICTIM, VICTIM),
        1,
        137,
        "Signal 9 (SIG) received",
        each=2,
    ),
    Failing("a SyntaxError", ("if:", WAITS), 0, 42, "SyntaxError: invalid syntax", 2, each=2),
    Failing(
        "a missing module",
        ("import no_such",),
        0,
        42,
        "ModuleNotFoundError: No module named 'no_such'",
        2,
        torchrun=False,
        core=True,
    ),
    Failing(
        "a database that refuses",
        (
            DATABASE,
            f"time.sleep(0.1)\ntry:\n    raise RuntimeError({GLOO!r})\nexcept RuntimeError as error:\n    raise SystemError('my wrapper') from error",
        ),
        0,
        1,
        REFUSED,
        3,
        core=True,
    ),
    Failing(
        "a database that refuses, and a victim that is faster",
        (
            "time.sleep(0.05)\n" + DATABASE,
            f"try:\n    raise RuntimeError({GLOO!r})\nexcept RuntimeError as error:\n    raise SystemError('my wrapper') from error",
        ),
        0,
        1,
        REFUSED,
        4,
    ),
    Failing(
        "a bucket that resets",
        (
            "time.sleep(0.04)\nclass ClientError(Exception): pass\nraise ClientError('S3: Connection reset by peer')",
            AT_ONCE,
        ),
        0,
        1,
        "ClientError: S3: Connection reset by peer",
        4,
    ),
    Failing(
        "a hub that is not there",
        (
            "time.sleep(0.04)\ntry:\n    raise ConnectionError('Connection refused')\nexcept ConnectionError as error:\n    raise OSError('cannot reach huggingface.co') from error",
            AT_ONCE,
        ),
        0,
        1,
        "OSError: cannot reach huggingface.co",
        6,
    ),
    Failing(
        "a broken pipe to a process of one's own",
        ("time.sleep(0.04)\nraise BrokenPipeError('Broken pipe')", AT_ONCE),
        0,
        1,
        "BrokenPipeError: Broken pipe",
        3,
    ),
    Failing(
        "a mistake, and a barrier that fails as it cleans up",
        (
            f"time.sleep(0.04)\ntry:\n    raise KeyError('label')\nfinally:\n    raise RuntimeError({GLOO!r})",
            AT_ONCE,
        ),
        0,
        1,
        f"RuntimeError: {GLOO}",
        6,
    ),
    Failing(
        "a victim that hides its cause",
        (
            "time.sleep(0.04)\nraise ValueError('no')",
            f"try:\n    raise RuntimeError({GLOO!r})\nexcept RuntimeError:\n    raise SystemError('step failed')",
        ),
        0,
        1,
        "ValueError: no",
        3,
    ),
    Failing(
        "a victim of NCCL within a millisecond",
        (
            f"while not os.path.exists({BEGUN}): time.sleep(0.001)\nraise RuntimeError('{NCCL}')",
            f"open({BEGUN}, 'w').close(); raise ValueError('no')",
        ),
        1,
        1,
        "ValueError: no",
        2,
        each=2,
    ),
    Failing(
        "a victim first on another node",
        (AT_ONCE, AT_ONCE, "time.sleep(0.1)\nraise ValueError('no')", WAITS),
        2,
        1,
        "ValueError: no",
        3,
        each=2,
    ),
    Failing("all lost each other", (AT_ONCE, WAITS), 0, 1, f"RuntimeError: {GLOO}", 2, each=2),
    Failing("a world of one that says so", (AT_ONCE,), 0, 1, f"RuntimeError: {GLOO}", 2),
    Failing(
        "a rendezvous that fails, and why",
        (
            "class RendezvousConnectionError(Exception): pass\nraise RendezvousConnectionError('The connection to the C10d store has failed.')",
            "time.sleep(0.05)\nraise ValueError('no')",
        ),
        1,
        1,
        "ValueError: no",
        3,
        torchrun=False,
    ),
    Failing(
        "a heartbeat of JAX",
        (
            "raise RuntimeError('UNAVAILABLE: The tasks have crashed. Coordination service: heartbeat timeout')",
            "time.sleep(0.05)\nraise ValueError('no')",
        ),
        1,
        1,
        "ValueError: no",
        3,
        torchrun=False,
        environment={"JAX_NUM_PROCESSES": "2"},
    ),
    Failing(
        "a tracker of XGBoost",
        (
            "class XGBoostError(Exception): pass\nraise XGBoostError('/src/collective/comm.cc: Connection reset by peer')",
            "time.sleep(0.05)\nraise ValueError('no')",
        ),
        1,
        1,
        "ValueError: no",
        3,
        torchrun=False,
    ),
    Failing(
        "a collective of TensorFlow",
        (
            "raise RuntimeError('Collective ops is aborted by: connection reset by peer')",
            "time.sleep(0.05)\nsys.exit('no data')",
        ),
        1,
        1,
        "no data",
        3,
        torchrun=False,
    ),
    Failing(
        "a collective of PaddlePaddle",
        (
            "raise RuntimeError('[/third_party/gloo/gloo/transport/tcp/pair.cc:584] TIMEOUT self_rank = 0 pair_rank = 1')",
            "time.sleep(0.05)\nsys.exit('no data')",
        ),
        1,
        1,
        "no data",
        3,
        torchrun=False,
    ),
    Failing(
        "the sockets of LightGBM",
        (
            "class LightGBMError(Exception): pass\nraise LightGBMError('Socket recv error, Connection reset by peer (code: 104)')",
            "time.sleep(0.05)\nsys.exit('no data')",
        ),
        1,
        1,
        "no data",
        3,
        torchrun=False,
    ),
    Failing(
        "a parameter server of TensorFlow",
        (
            "raise RuntimeError('failed to connect to all addresses\\nAdditional GRPC error information from "
            "remote target /job:ps/replica:0/task:0')",
            "time.sleep(0.05)\nsys.exit('no data')",
        ),
        1,
        1,
        "no data",
        3,
        torchrun=False,
    ),
    Failing(
        "a worker of a data loader",
        (
            "time.sleep(0.04)\ntry:\n    raise ChildProcessError('Connection reset by peer')\nexcept OSError as error:\n    raise RuntimeError('DataLoader worker (pid 14) is killed by signal: Killed.') from error",
            AT_ONCE,
        ),
        0,
        1,
        "RuntimeError: DataLoader worker (pid 14) is killed by signal: Killed.",
        6,
    ),
    Failing(
        "a process that was forked, and its parent",
        (
            "from multiprocessing import get_context\ndef work():\n    sys.exit('worker')\nprocess = get_context('fork').Process(target=work)\nprocess.start()\nprocess.join()\nif process.exitcode:\n    raise RuntimeError('a worker died')",
            VICTIM,
        ),
        0,
        1,
        "RuntimeError: a worker died",
        9,
    ),
    Failing(
        "a launcher of its own",
        (
            "child = 'import sys; sys.exit(\"no data\")'\nsubprocess.run([sys.executable, '-c', child], check=True)",
        ),
        0,
        1,
        "no data",
        torchrun=False,
    ),
    Failing(
        "a rank whose command failed",
        (
            "child = 'import sys; sys.exit(\"no index\")'\nsubprocess.run([sys.executable, '-c', child], check=True)",
            VICTIM,
        ),
        0,
        1,
        f"subprocess.CalledProcessError: Command '[{sys.executable!r}, '-c', 'import sys; sys.exit(\"no index\")']' "
        "returned non-zero exit status 1.",
        3,
    ),
    Failing(
        "a launcher that exits as its child did",
        ("sys.exit(subprocess.call([sys.executable, '-c', 'raise ValueError(3)']))",),
        0,
        1,
        "ValueError: 3",
        torchrun=False,
    ),
    Failing(
        "a launcher of its own, of several ranks",
        (
            "fails = [sys.executable, '-c', 'raise ValueError(3)']\n"
            f"loses = [sys.executable, '-c', 'import time; time.sleep(0.3); raise RuntimeError(\"{GLOO}\")']\n"
            "sys.exit(max(child.wait() for child in [subprocess.Popen(fails), subprocess.Popen(loses)]))",
        ),
        0,
        1,
        "ValueError: 3",
        torchrun=False,
    ),
    Failing(
        "a child that failed, and did not matter",
        ("subprocess.call([sys.executable, '-c', 'raise ValueError(3)'])\nos.kill(os.getpid(), 9)",),
        0,
        137,
        "Signal 9",
    ),
    Failing(
        "a thread that failed, and its main",
        (
            "thread = threading.Thread(target=lambda: 1 / 0)\nthread.start()\nthread.join()\nsys.exit('the loader died')",
            VICTIM,
        ),
        0,
        1,
        "the loader died",
        5,
    ),
    Failing(
        "a task of asyncio",
        (
            "async def load():\n    raise ValueError('no')\nasync def main():\n    await asyncio.gather(load())\nasyncio.run(main())",
            VICTIM,
        ),
        0,
        1,
        "ValueError: no",
        3,
    ),
    Failing(
        "an exit within asyncio",
        ("async def main():\n    sys.exit('no')\nasyncio.run(main())",),
        0,
        1,
        "no",
        3,
    ),
    Failing(
        "a group of exceptions",
        ("raise ValueError('a') from KeyError('Connection refused')", VICTIM),
        0,
        1,
        "ValueError: a",
        2,
    ),
    Failing(
        "an exit that was caught before",
        ("try:\n    sys.exit('first')\nexcept SystemExit:\n    pass\nraise ValueError('no')",),
        0,
        1,
        "ValueError: no",
        6,
        torchrun=False,
        core=True,
    ),
)
