"""Says how a Python program of a training ended, where Kubernetes keeps it when its pod is gone.

Each Python of a container reads this as it starts, from a volume that is made of an annotation of the
pod (docs/adr/0022): so it is short, works with each Python from 3.8 on, and does nothing to a program
that ends well. What a program prints is printed as always. A program that fails leaves its traceback,
or, if it exits without an exception, what it printed last on stderr:

- a rank that torchrun has started, in the file that torchrun reads, as `@record` does;
- torchrun leaves which of its ranks failed first, and what that one had left;
- any other program leaves its own words,

both of these in the container's termination message, whose first line says who failed, when and how
(trainyard_operator.core.status.termination_message reads it). A mistake that would only come again ends
with exit code 42, by which runtimes know that it is of no use to try again.

Of a job that no longer trains two things are seen to in torchrun (docs/adr/0036): once a rank of its own
has failed, it waits for its peers no longer than EXIT_BARRIER; and it says in the log since when none of
its ranks prints or computes. SIGUSR1 has a program print where it is, and changes nothing else.
"""

import atexit
import os
import sys
import time

MESSAGE = "/dev/termination-log"
LONGEST = 2000
GIVES_UP = 42
USAGE = 2
MISTAKES = (SyntaxError, ImportError, NameError)
COLLECTIVES = (
    "torch.distributed",
    "gloo",
    "nccl",
    "c10d",
    "tcpstore",
    "processgroup",
    "rendezvous",
    "coordination",
    "horovod",
    "mpi4py",
    "mpi_err",
    "rabit",
    "/collective",
    "collective op",
    "remote target /job:",
    "lightgbm",
)
"""By which the type or the message of an exception tells that ranks talked to each other."""
LOST = (
    "closed by peer",
    "reset by peer",
    "connection refused",
    "likely closed",
    "broken pipe",
    "failed to connect",
    "store has failed",
    "ncclremoteerror",
    "remote process exit",
    "horovodinternalerror",
    "timed out",
    "timeout",
    "heartbeat",
    "unavailable",
    "aborted",
    "mpi_err_proc_failed",
)
"""What such an exception says where another rank is gone."""
AGENT = "torch.distributed.elastic.agent.server.api"
EXIT_BARRIER = "TRAINYARD_EXIT_BARRIER_TIMEOUT", 10.0
"""Seconds that torchrun waits for its peers once a rank of its own has failed; 0: as long as by itself."""
SILENT_AFTER = "TRAINYARD_SILENT_AFTER", 600.0
"""Seconds without output and CPU after which ranks are silent; 0: they never are."""
IDLE = 0.05
"""Of a CPU: what threads use that only look at a clock."""
LIBRARIES = ("site-packages", "dist-packages", "/lib/python3", "<")
HERE = os.path.dirname(os.path.abspath(__file__))
PID, MAIN = os.getpid(), __import__("_thread").get_ident()
RECORD = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
CLAIMED = "TRAINYARD_LAST_WORDS"
IS_RANK = bool(RECORD) and os.environ.get(CLAIMED) != RECORD
"""Torchrun has started it itself; otherwise a rank may have, and what it says is that rank's business."""
IS_CHILD = os.environ.get(CLAIMED) == MESSAGE
"""Another Python has started it, such as a launcher of ranks."""
RECENT = 30
"""Seconds in which one of several that fail has failed first."""
os.environ[CLAIMED] = RECORD or MESSAGE


class _Seen:
    printed = ""
    printed_at = 0.0
    code: "int | None" = None
    """What it asked to end with."""
    asked_at = 0.0
    place = ""


def _raised(kind, error, trace):
    _shown(kind, error, trace)
    if sys.flags.interactive or hasattr(sys, "ps1"):  # somebody types at a prompt, and it goes on
        return
    _hint(error)
    code = GIVES_UP if issubclass(kind, MISTAKES) else 1
    try:
        _Seen.code = 0  # it leaves more than what it has printed
        code = _noted(kind, error, trace, code)
    except Exception:  # whatever goes wrong here, the program has failed for another reason
        pass
    if code != 1:
        raise SystemExit(code)


def _hint(end):
    """Its PYTHONPATH is the runtime's, not the image's, which no pod can read: the module may be there."""
    try:
        is_missing = isinstance(end, (ModuleNotFoundError, str)) and "No module named" in str(end)
        if is_missing and os.environ.get("PYTHONPATH") == HERE:
            way_out = "set PYTHONPATH in trainer.env to %s:<yours>" % HERE
            _log("the runtime replaces the PYTHONPATH of the image; if the module is there, " + way_out)
    except Exception:  # nobody who reads the log
        pass


def _noted(kind, error, trace, code):
    import traceback

    now = time.time()
    if kind.__name__ == "SignalException":  # torchrun was told to end: a rank may have said why
        return 128 + int(error.sigval)
    if kind.__name__ == "ChildFailedError":
        rank, failure = min(error.failures.items(), key=_when)
        said, at, code = _said(failure), _at(failure), failure.exitcode
        _leave("rank %s " % rank, at, 128 - code if code < 0 else code, said, _extra(failure).get("lost"))
        return GIVES_UP if code in (USAGE, GIVES_UP) else 1
    is_childs = kind.__name__ == "CalledProcessError" and _is_left(0)
    if IS_RANK or not is_childs:
        text = (_left() if is_childs else "") + "".join(traceback.format_exception(kind, error, trace))
        _told(now, code, "%s: %s" % (kind.__name__, error), text, _is_lost(error))
    return code


def _exits(code=None):
    if __import__("_thread").get_ident() == MAIN:  # in another thread, it ends that alone
        _hint(code)  # so ends `python -m` of a module that is missing
        _note_exit(code)
    raise SystemExit(code)


def _exits_at_once(code):
    try:
        if os.getpid() == PID:  # it has not been forked
            _note_exit(code)
            _ended()
    finally:
        _left_at_once(code)


def _note_exit(code):
    _Seen.code = 0 if code is None else code & 255 if isinstance(code, int) else 1
    _Seen.asked_at, _Seen.place = time.time(), _place()


def _place():
    """The line of the user's own that asked for it, as a traceback has it."""
    import traceback

    for frame in reversed(traceback.extract_stack()[:-3]):
        if not any(part in frame.filename for part in LIBRARIES):
            return '  File "%s", line %d, in %s\n' % (frame.filename, frame.lineno or 0, frame.name)
    return ""


def _ended():
    """It ends without an exception: only of a rank it need not be known whether it ends well."""
    code, at = _Seen.code, _Seen.asked_at or time.time()
    if os.getpid() != PID or code == 0 or (code is None and not IS_RANK):
        return
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in _Seen.printed.split("\n")]
    text = "\n".join(lines).rstrip() + "\n" + _Seen.place
    if text.strip() and not (code and _is_left(_Seen.printed_at)):
        _told(at, code, text.strip().partition("\n")[0], text, False)


def _is_left(since):
    """Whether a process that this one has started has said since then why it failed."""
    try:
        left = os.stat(RECORD or MESSAGE)
        return left.st_size > 0 and left.st_mtime >= max(since, STARTED)
    except OSError:
        return False


def _left():
    """What that process has said."""
    import json

    try:
        with open(RECORD) as file:
            return json.load(file)["message"]["extraInfo"]["py_callstack"] + "\n"
    except Exception:  # a file of the user's own
        return ""


def _told(at, code, message, text, lost):
    if RECORD:
        _record(at, message, text, lost)
    is_anothers = RECORD and not (IS_RANK and _is_last_try())
    if code is None or is_anothers or ((RECORD or IS_CHILD) and not _is_first(lost)):
        return
    _leave("rank %s " % os.environ.get("RANK", "0") if RECORD else "", at, code, text, lost)


def _record(at, message, text, lost):
    """As torch.distributed.elastic writes it, and the time more exactly."""
    import json

    more = {"py_callstack": text, "timestamp": str(int(at)), "at": at, "lost": lost, "pid": os.getpid()}
    with open(RECORD, "w") as file:
        json.dump({"message": {"message": message, "extraInfo": more}}, file)


def _is_last_try():
    tries = [os.environ.get("TORCHELASTIC_" + name) for name in ("RESTART_COUNT", "MAX_RESTARTS")]
    return tries[0] == tries[1]


def _is_first(lost):
    """Whether no other of the container has said it: whoever started them may be ended before it does."""
    try:
        with open(MESSAGE) as file:
            said = file.readline()
        is_old = os.stat(MESSAGE).st_mtime < time.time() - RECENT
        return not said or is_old or ("lost others " in said and not lost)
    except OSError:
        return False


def _extra(failure):
    """What it has left; nothing if a signal ended it, and a process below it has left that before."""
    return {} if _is_of_another(failure) else _record_of(failure)


def _record_of(failure):
    return failure.message.get("extraInfo", {}) if isinstance(failure.message, dict) else {}


def _is_of_another(failure):
    return failure.exitcode < 0 and _record_of(failure).get("pid", failure.pid) != failure.pid


def _said(failure):
    """What it has left, or where in Python it was and which signal it received."""
    if failure.exitcode >= 0:
        return _extra(failure).get("py_callstack", "")
    try:
        with open(_fault_file(failure.pid)) as file:
            fault = file.read().partition("\n\nExtension modules")[0]
    except OSError:
        fault = ""
    sys.stderr.write(fault + "\n" if fault else "")
    said = failure.message if isinstance(failure.message, str) else "Signal %d" % -failure.exitcode
    return fault or said


def _at(failure):
    if _is_of_another(failure):  # torchrun has its time from there
        return time.time()
    return float(_extra(failure).get("at") or failure.timestamp)


def _when(found):
    """Who lost others comes last, and behind them whom torchrun told to end."""
    rank, failure = found
    return failure.exitcode == -15, bool(_extra(failure).get("lost")), _at(failure), rank


def _is_lost(error):
    """Whether the first exception of its chain says that a collective has lost another rank."""
    seen = set()
    while id(error) not in seen:
        seen.add(id(error))
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        error = before or error
    text = ("%s.%s: %s" % (type(error).__module__, type(error).__name__, error)).lower()
    is_of = any(word in text for word in COLLECTIVES)
    return is_of and not _is_alone() and any(word in text for word in LOST)


def _is_alone():
    sizes = [os.environ.get(name) for name in ("WORLD_SIZE", "JAX_NUM_PROCESSES", "DMLC_NUM_WORKER")]
    return next((size for size in sizes if size), os.environ.get("PET_NNODES")) == "1"


def _leave(who, at, code, text, lost):
    from datetime import datetime, timezone

    if os.path.exists(MESSAGE):
        when = datetime.fromtimestamp(at, timezone.utc).isoformat()
        did = "lost others" if lost else "failed"
        first = "%s%s at %s with exit code %d\n" % (who, did, when, code)
        room = LONGEST - len(first)
        with open(MESSAGE, "wb") as file:
            file.write(first.encode() + text.encode("utf-8", "replace")[-room:])


def _keep_what_is_printed():
    """The last of what the program prints on stderr, in Python."""
    write = sys.stderr.write

    def kept(text):
        written = write(text)
        _Seen.printed, _Seen.printed_at = (_Seen.printed + text)[-4 * LONGEST :], time.time()
        return written

    setattr(sys.stderr, "write", kept)  # noqa: B010, mypy knows no other way


def _fault_file(pid):
    folder = os.environ.get("TMPDIR", "/tmp")  # noqa: S108, tempfile takes long to import
    return os.path.join(folder, "trainyard-fault-%d" % pid)


def _keep_faults():
    """Where in Python it was that the kernel ended it: of a rank in a file that torchrun reads."""
    import faulthandler

    if faulthandler.is_enabled():
        return
    if IS_RANK:
        file = open(_fault_file(PID), "w")  # noqa: SIM115, it stays open
        atexit.register(_forget, file)
        faulthandler.enable(file, all_threads=False)
    else:
        faulthandler.enable(all_threads=False)


def _forget(file):
    if os.getpid() == PID:
        os.remove(file.name)


def _show_where_it_is():
    """On SIGUSR1, which would end it; a handler that the program sets itself takes this one's place."""
    import faulthandler

    signal = __import__("_signal")  # `signal` takes long to import
    if signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
        faulthandler.register(signal.SIGUSR1)


class _Agents:
    """Sees torchrun's agent being imported, by whatever launcher."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != AGENT:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module
            setattr(spec.loader, "exec_module", lambda module: (load(module), _is_torchrun(module)))  # noqa: B010
        return spec


def _is_torchrun(module):
    try:
        _bound_the_exit_barrier(module)
        after = _seconds(*SILENT_AFTER)
        if after > 0:
            __import__("_thread").start_new_thread(_watch, (after,))
    except Exception:  # another torch, no thread to be had: it runs as it would by itself
        pass


def _seconds(name, default):
    try:
        return float(os.environ.get(name) or default)
    except ValueError:
        return default


def _bound_the_exit_barrier(module):
    class Agent(module.SimpleElasticAgent):  # type: ignore[name-defined, misc]
        _exit_barrier_timeout: float

        def _exit_barrier(self):
            longest = _seconds(*EXIT_BARRIER)
            if self.get_worker_group().state.name == "FAILED" and 0 < longest < self._exit_barrier_timeout:
                self._exit_barrier_timeout = longest
            super()._exit_barrier()

    module.SimpleElasticAgent = Agent


def _watch(after):
    try:
        _say_when_silent(after)
    except Exception:  # no /proc, nobody who reads the log
        pass


def _say_when_silent(after):
    """Say in the log when all ranks of this torchrun have been silent for so long, and when no more."""
    since, before, is_told = time.monotonic(), _used(), False
    pause = min(30.0, max(after, 0.1) / 4)
    few = pause * IDLE * os.sysconf("SC_CLK_TCK")
    while True:
        time.sleep(pause)
        now, seconds = _used(), time.monotonic() - since
        if not now[0] or now[0] != before[0] or not 0 <= now[1] - before[1] <= few:
            since = time.monotonic()
            if is_told:
                _log("silent no more")
            is_told = False
        elif not is_told and seconds >= after:
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds))
            pids = " ".join(sorted(now[0], key=int))
            _log("silent since %s: no output and no CPU of PID %s" % (when, pids))
            is_told = True
        before = now


def _log(text):
    os.write(2, ("\ntrainyard: %s\n" % text).encode())  # behind a progress bar, it begins a line


def _used():
    """What each rank has written so far, by its PID, and the ticks of CPU of all processes below this one."""
    parents, ticks, written = {}, {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as file:
                stat = file.read().rpartition(")")[2].split()
            parents[int(pid)], ticks[int(pid)] = int(stat[1]), int(stat[11]) + int(stat[12])
            if int(stat[1]) == PID:
                with open("/proc/%s/io" % pid) as file:
                    written[pid] = [line for line in file if line.startswith("wchar")]
        except (OSError, ValueError, IndexError):  # it has ended, or belongs to another user
            pass
    return written, sum(ticks[pid] for pid in parents if _is_below(pid, parents))


def _is_below(pid, parents):
    for _ in parents:  # not for ever: while they are read, an identifier may become another's
        pid = parents.get(pid)
        if pid == PID:
            return True
    return False


def _run_the_next():
    """The module of this name that this one hides, if there is one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != HERE])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


def _quits(self, code=None):
    """As `exit` and `quit` do it."""
    try:
        sys.stdin.close()
    except Exception:  # it may be closed, or not be there
        pass
    _note_exit(code)
    raise SystemExit(code)


STARTED = time.time()
_shown, sys.excepthook = sys.excepthook, _raised
_left_at_once, os._exit, sys.exit = os._exit, _exits_at_once, _exits
type(__import__("builtins").exit).__call__ = _quits
atexit.register(_ended)
for _do in (_keep_what_is_printed, _keep_faults, _show_where_it_is):
    try:
        _do()
    except Exception:  # no stderr, no folder to write to
        pass
if not RECORD and "PET_NNODES" in os.environ:
    sys.meta_path.insert(0, _Agents)
_run_the_next()
