"""How a Python program of a training ended, as the module says it that each Python of a container reads."""

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trainyard_operator.core.status import termination_message
from trainyard_operator.core.status.termination_message import LastWords
from trainyard_platform.catalog import in_pods

MODULE = Path(in_pods.__file__).with_name("sitecustomize.py")
TORCHRUN = """
import types
class ChildFailedError(Exception):
    def __init__(self, failures):
        self.failures = {rank: types.SimpleNamespace(**failure) for rank, failure in failures.items()}
raise ChildFailedError(FAILURES)
"""
"""What torchrun ends with, as far as it is read: torch.distributed.elastic.multiprocessing.errors."""


def module(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with the module, and the termination message that it writes."""
    message = tmp_path / "termination-log"
    message.touch()
    folder = tmp_path / "module"
    folder.mkdir()
    text = MODULE.read_text().replace('"/dev/termination-log"', repr(str(message)))
    (folder / "sitecustomize.py").write_text(text)
    return folder, message


def ended(tmp_path: Path, script: str, also: Path | None = None, **environment: str) -> tuple[int, str, str]:
    """The exit code of a Python that reads the module, what it printed, and its termination message."""
    folder, message = module(tmp_path)
    path = os.pathsep.join(str(one) for one in (folder, also) if one is not None)
    done = subprocess.run(
        [sys.executable, "-c", script.replace("MESSAGE", repr(str(message)))],
        env={**os.environ, **environment, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr, message.read_text() if message.exists() else ""


def words(message: str, exit_code: int = 1) -> LastWords:
    found = termination_message.of(exit_code, message)
    assert found is not None, message
    return found


def test_a_program_that_ends_well_says_nothing(tmp_path: Path) -> None:
    assert ended(tmp_path, "print(1)") == (0, "", "")


def test_an_exception_is_shown_as_always_and_is_the_termination_message(tmp_path: Path) -> None:
    before = datetime.now(UTC)
    code, shown, message = ended(tmp_path, "raise ValueError('no such column')")
    found = words(message)
    assert (code, found) == (1, LastWords(found.at, 1, False, shown))
    assert before <= found.at <= datetime.now(UTC)
    assert shown.splitlines()[-1] == "ValueError: no such column"


@pytest.mark.parametrize("mistake", ["import no_such_module", "print(no_such_name)", "if:"])
def test_a_mistake_that_would_only_come_again_ends_with_42(tmp_path: Path, mistake: str) -> None:
    code, shown, message = ended(tmp_path, mistake, also=tmp_path)
    assert (code, words(message, 42).exit_code, words(message, 42).said) == (42, 42, shown)


TYPED = "print(no_such_name)\nif\nimport no_such_module\n1 / 0\nprint('goes on')\n"


@pytest.mark.parametrize(
    "arguments",
    [["-i"], ["-c", "import code; code.interact()"]],
    ids=["an interpreter", "a console of the program's own"],
)
def test_an_error_at_a_prompt_is_shown_and_changes_nothing(tmp_path: Path, arguments: list[str]) -> None:
    folder, message = module(tmp_path)
    done = subprocess.run(
        [sys.executable, *arguments],
        input=TYPED,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"^(?:>>> )*(\w+): ", done.stderr, re.MULTILINE)
    assert (done.returncode, done.stdout.replace(">>> ", "").strip(), errors, message.read_text()) == (
        0,
        "goes on",
        ["NameError", "SyntaxError", "ModuleNotFoundError", "ZeroDivisionError"],
        "",
    )


REPLACED = (
    "trainyard: the runtime replaces the PYTHONPATH of the image; if the module is there, "
    "set PYTHONPATH in trainer.env to {0}:<yours>"
)
MISSING = "import no_such_module"
BY_NAME = "import runpy; runpy._run_module_as_main('no_such_module')"
"""As `python -m no_such_module`."""


@pytest.mark.parametrize("script", [MISSING, BY_NAME], ids=["import", "python -m"])
def test_a_missing_module_may_be_where_the_path_of_the_image_was_and_the_log_says_so(
    tmp_path: Path, script: str
) -> None:
    code, shown, message = ended(tmp_path, script)
    hints = [line for line in shown.splitlines() if line.startswith("trainyard: ")]
    assert hints == [REPLACED.format(tmp_path / "module")]
    assert "No module named" in words(message, code).said
    assert "trainyard: " not in message


@pytest.mark.parametrize(
    ("script", "has_own"),
    [
        (MISSING, True),
        ("from os import no_such_name", False),
        ("raise ValueError('No module named x')", False),
        ("import sys; sys.exit('no data')", False),
    ],
    ids=["a path of the job's own", "a missing name", "another exception", "another exit"],
)
def test_the_log_says_nothing_of_the_path_where_it_cannot_be_the_cause(
    tmp_path: Path, script: str, has_own: bool
) -> None:
    _, shown, _ = ended(tmp_path, script, tmp_path if has_own else None)
    assert "trainyard: " not in shown


def test_a_hint_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    code, _, message = ended(tmp_path, f"import os; os.close(2); {MISSING}")
    assert (code, words(message, 42).said.splitlines()[-1]) == (
        42,
        "ModuleNotFoundError: No module named 'no_such_module'",
    )


def test_an_exit_code_of_the_programs_own_stays(tmp_path: Path) -> None:
    assert ended(tmp_path, "raise SystemExit(3)") == (3, "", "")
    shutil.rmtree(tmp_path / "module")
    code, shown, message = ended(tmp_path, "import sys; sys.exit('no data')")
    assert (code, shown, words(message).said) == (1, "no data\n", "no data\n")


@pytest.mark.parametrize("ends", ["sys.exit(0)", "sys.exit()", "exit(None)", "os._exit(0)"])
def test_a_program_that_exits_well_says_nothing(tmp_path: Path, ends: str) -> None:
    script = f"import os, sys; print('warning', file=sys.stderr, flush=True); {ends}"
    assert ended(tmp_path, script) == (0, "warning\n", "")


def test_torchrun_that_was_told_to_end_ends_so_and_leaves_what_a_rank_has_said(tmp_path: Path) -> None:
    """As when it waits for its peers after one of its ranks has failed, and its pod is deleted."""
    script = """
class SignalException(Exception):
    sigval = 15
open(MESSAGE, "w").write("rank 1 failed at 2026-01-01T12:00:00+00:00 with exit code 1\\nValueError: no")
raise SignalException("Process 1 got signal: 15")
"""
    code, _, message = ended(tmp_path, script)
    assert (code, words(message, 143).rank, words(message, 143).said) == (143, 1, "ValueError: no")


def test_a_long_traceback_is_cut_at_its_beginning(tmp_path: Path) -> None:
    _, _, message = ended(tmp_path, "raise ValueError('x' * 9000 + '!')")
    assert (len(message), words(message).said[-2:]) == (2000, "!\n")


def test_without_a_termination_message_it_is_as_always(tmp_path: Path) -> None:
    code, shown, _ = ended(tmp_path, "import os; os.remove(MESSAGE); raise ValueError('no')")
    assert (code, shown.splitlines()[-1]) == (1, "ValueError: no")


GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.7]:2345"


@pytest.mark.parametrize("said", [GLOO, "NCCL error in: ProcessGroupNCCL.cpp:2251 ... ncclRemoteError: ..."])
def test_who_has_lost_another_says_so(tmp_path: Path, said: str) -> None:
    _, _, message = ended(tmp_path, f"raise RuntimeError({said!r})")
    assert words(message).lost_others


@pytest.mark.parametrize(
    ("said", "environment"),
    [
        ("Connection closed by peer", {}),
        ("[Errno 111] Connection refused", {}),
        (GLOO, {"WORLD_SIZE": "1"}),
        (GLOO, {"PET_NNODES": "1"}),
        (GLOO, {"JAX_NUM_PROCESSES": "1"}),
    ],
    ids=["a database", "a server", "torch's world of one", "one node", "JAX's world of one"],
)
def test_who_has_lost_no_other_rank_does_not_say_so(
    tmp_path: Path, said: str, environment: dict[str, str]
) -> None:
    _, _, message = ended(tmp_path, f"raise RuntimeError({said!r})", None, **environment)
    assert not words(message).lost_others


def test_a_rank_leaves_its_traceback_where_torchrun_reads_it(tmp_path: Path) -> None:
    error = tmp_path / "error.json"
    code, shown, message = ended(tmp_path, "raise ValueError('no')", TORCHELASTIC_ERROR_FILE=str(error))
    assert (code, words(message).rank, words(message).said) == (1, 0, shown)
    left = json.loads(error.read_text())["message"]
    assert (left["message"], left["extraInfo"]["py_callstack"]) == ("ValueError: no", shown)
    assert int(left["extraInfo"]["timestamp"]) == int(left["extraInfo"]["at"])


def failure(at: float, exitcode: int = 1, said: str = "") -> dict[str, Any]:
    """As torchrun has it; one that left a file if it said something."""
    extra = {"py_callstack": said, "timestamp": str(int(at)), "at": at, "lost": said == LOST}
    else_said = "To enable traceback see: ..." if exitcode > 0 else "Signal 9 (SIGKILL) received by PID 7"
    message: Any = {"message": said, "extraInfo": extra} if said else else_said
    return {"pid": 7, "timestamp": int(at), "exitcode": exitcode, "message": message}


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


LOST = "RuntimeError: Connection closed by peer"


@pytest.mark.parametrize(
    ("failures", "code", "wanted"),
    [
        ({0: failure(9.2), 1: failure(5.4, said="ValueError: no")}, 1, (5.4, 1, False, "ValueError: no", 1)),
        (
            {0: failure(5.3, said="ValueError: 0"), 1: failure(5.2, said="ValueError: 1")},
            1,
            (5.2, 1, False, "ValueError: 1", 1),
        ),
        ({0: failure(4.9, said=LOST), 1: failure(5.1, exitcode=3)}, 1, (5, 3, False, "", 1)),
        ({0: failure(4.9, said=LOST)}, 1, (4.9, 1, True, LOST, 0)),
        ({2: failure(5, exitcode=-9)}, 1, (5, 137, False, "Signal 9 (SIGKILL) received by PID 7", 2)),
        ({0: failure(5, exitcode=42), 1: failure(6)}, 42, (5, 42, False, "", 0)),
        ({0: failure(5, exitcode=2)}, 42, (5, 2, False, "", 0)),
    ],
    ids=[
        "the first",
        "the first within a second",
        "not who lost others",
        "unless none else failed",
        "a signal",
        "42 stays",
        "a wrong argument",
    ],
)
def test_torchrun_says_which_rank_failed_first_and_what_it_had_left(
    tmp_path: Path, failures: dict[int, Any], code: int, wanted: tuple[float, int, bool, str, int]
) -> None:
    said = ended(tmp_path, TORCHRUN.replace("FAILURES", repr(failures)))
    assert (said[0], words(said[2], code)) == (code, LastWords(at(wanted[0]), *wanted[1:]))


def aborted(pid: int) -> dict[str, Any]:
    """A rank that the kernel ended, with what a process of that number has left long before."""
    lost = failure(5.4, exitcode=-6, said=LOST)
    lost["message"]["extraInfo"]["pid"] = pid
    return lost


def test_of_a_rank_that_a_signal_ended_what_a_process_below_it_left_before_is_not_told(
    tmp_path: Path,
) -> None:
    before = datetime.now(UTC)
    code, _, message = ended(tmp_path, TORCHRUN.replace("FAILURES", repr({2: aborted(pid=8)})))
    found = words(message)
    assert (code, found) == (1, LastWords(found.at, 134, False, "Signal 6", 2))
    assert found.at is not None
    assert before <= found.at <= datetime.now(UTC)


def test_a_rank_that_lost_others_and_was_then_aborted_has_lost_others(tmp_path: Path) -> None:
    """As the threads of a collective end it while it cleans up."""
    code, _, message = ended(tmp_path, TORCHRUN.replace("FAILURES", repr({2: aborted(pid=7)})))
    assert (code, words(message)) == (1, LastWords(at(5.4), 134, True, "Signal 6", 2))


def test_a_rank_leaves_its_number_with_its_traceback(tmp_path: Path) -> None:
    error = tmp_path / "error.json"
    script = "import os; print(os.getpid(), file=os.sys.stderr); raise ValueError('no')"
    _, shown, _ = ended(tmp_path, script, TORCHELASTIC_ERROR_FILE=str(error))
    left = json.loads(error.read_text())["message"]["extraInfo"]
    assert str(left["pid"]) == shown.partition("\n")[0]


def test_a_module_of_its_name_that_it_hides_is_read_all_the_same(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins; builtins.was_read = 'read'")
    said = ended(tmp_path, "raise ValueError(was_read)", also=other)
    assert said[1].splitlines()[-1] == "ValueError: read"


AGENT = "torch.distributed.elastic.agent.server.api"
PATIENT = """
import os, subprocess, sys, time, types
class SimpleElasticAgent:
    def __init__(self, exit_barrier_timeout=300):
        self._exit_barrier_timeout = exit_barrier_timeout
    def get_worker_group(self):
        return types.SimpleNamespace(state=types.SimpleNamespace(name=self.ended))
    def _exit_barrier(self):
        print("waits for %s s" % self._exit_barrier_timeout, file=sys.stderr)
"""
"""Torchrun's agent, as far as it matters how long it waits: `AGENT` of torch 1.13."""
WAITS = f"""
from {AGENT} import SimpleElasticAgent
class LocalElasticAgent(SimpleElasticAgent):
    ended = "ENDED"
LocalElasticAgent()._exit_barrier()
"""


def torch(tmp_path: Path, agent: str = PATIENT) -> Path:
    """A folder with so much of torch."""
    api = tmp_path.joinpath("libraries", *f"{AGENT}.py".removesuffix(".py").split(".")).with_suffix(".py")
    api.parent.mkdir(parents=True)
    api.write_text(agent)
    return tmp_path / "libraries"


@pytest.mark.parametrize(
    ("ended_as", "environment", "seconds"),
    [
        ("FAILED", {}, "10.0"),
        ("FAILED", {"TRAINYARD_EXIT_BARRIER_TIMEOUT": "2.5"}, "2.5"),
        ("FAILED", {"TRAINYARD_EXIT_BARRIER_TIMEOUT": "0"}, "300"),
        ("FAILED", {"TRAINYARD_EXIT_BARRIER_TIMEOUT": "900"}, "300"),
        ("FAILED", {"TRAINYARD_EXIT_BARRIER_TIMEOUT": "soon"}, "10.0"),
        ("FAILED", {"TORCHELASTIC_ERROR_FILE": os.devnull}, "300"),
        ("SUCCEEDED", {}, "300"),
    ],
    ids=["failed", "said", "turned off", "longer", "no number", "a rank's own", "finished"],
)
def test_torchrun_waits_for_its_peers_briefly_once_a_rank_of_its_own_has_failed(
    tmp_path: Path, ended_as: str, environment: dict[str, str], seconds: str
) -> None:
    script = WAITS.replace("ENDED", ended_as)
    waited = ended(tmp_path, script, torch(tmp_path), PET_NNODES="2", **environment)
    assert waited == (0, f"waits for {seconds} s\n", "")


@pytest.mark.parametrize("agent", ["", "SimpleElasticAgent = None"], ids=["without", "another"])
def test_another_torch_is_imported_as_it_is(tmp_path: Path, agent: str) -> None:
    script = f"import {AGENT} as api; print(api.__spec__.name, file=__import__('sys').stderr)"
    assert ended(tmp_path, script, torch(tmp_path, agent), PET_NNODES="2") == (0, f"{AGENT}\n", "")


def test_without_torch_nothing_looks_at_what_is_imported(tmp_path: Path) -> None:
    script = (
        "import sys; sys.stderr.write(str([finder for finder in sys.meta_path if 'Agents' in str(finder)]))"
    )
    assert ended(tmp_path, script) == (0, "[]", "")


RANK = "import os, sys; sys.stdin.read(1); os.write(1, b'step'); sys.stdin.read()"
LAUNCHES = f"""
import subprocess, sys, {AGENT}
rank = subprocess.Popen([sys.executable, "-S", "-c", {RANK!r}], stdin=0, stdout=subprocess.DEVNULL)
print(rank.pid, file=sys.stderr)
sys.exit(rank.wait())
"""


def test_ranks_without_output_and_cpu_are_said_to_be_silent_until_they_no_longer_are(tmp_path: Path) -> None:
    environment = {"PET_NNODES": "1", "TRAINYARD_SILENT_AFTER": "0.1"}
    path = os.pathsep.join([str(MODULE.parent), str(torch(tmp_path))])
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHES],
        env={**os.environ, **environment, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as torchrun:
        assert torchrun.stdin is not None
        assert torchrun.stderr is not None
        pid = torchrun.stderr.readline().strip()
        _, began = torchrun.stderr.readline(), torchrun.stderr.readline()
        torchrun.stdin.write("1")
        torchrun.stdin.flush()
        _, ceased = torchrun.stderr.readline(), torchrun.stderr.readline()
    silent = re.fullmatch(r"trainyard: silent since (\S+): no output and no CPU of PID (\d+)\n", began)
    assert silent is not None, began
    assert abs(datetime.now(UTC) - datetime.fromisoformat(silent[1])).total_seconds() < 60
    assert (silent[2], ceased, torchrun.returncode) == (pid, "trainyard: silent no more\n", 0)


KILLED = "import os, signal; {}; os.kill(os.getpid(), signal.SIGUSR1); os.write(2, b'goes on')"


def test_sigusr1_has_a_program_print_where_it_is(tmp_path: Path) -> None:
    code, shown, message = ended(tmp_path, KILLED.format("pass"))
    first, place, rest = shown.splitlines()
    assert (code, first.split()[0], place, rest, message) == (
        0,
        "Current",
        '  File "<string>", line 1 in <module>',
        "goes on",
        "",
    )


def test_a_handler_of_the_programs_own_is_called_and_no_other(tmp_path: Path) -> None:
    own = "signal.signal(signal.SIGUSR1, lambda *_: os.write(2, b'own, '))"
    assert ended(tmp_path, KILLED.format(own)) == (0, "own, goes on", "")
