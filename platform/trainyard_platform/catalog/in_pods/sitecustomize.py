"""Says how a Python program of a training ended, where Kubernetes keeps it when its pod is gone.

Each Python of a container reads this as it starts, from a volume that is made of an annotation of the
pod (docs/adr/0022): so it is short, works with each Python from 3.8 on, and does nothing to a program
that ends well. An exception is shown as always. Then

- a rank that torchrun has started leaves it in the file that torchrun reads, as `@record` does;
- torchrun leaves which of its ranks failed first, and what that one had left;
- any other program leaves its traceback,

both of these in the container's termination message, whose first line says who failed, when and how
(trainyard_operator.core.last_words reads it). A mistake that would only come again ends with exit
code 42, by which runtimes know that it is of no use to try again.
"""

import os
import sys

MESSAGE = "/dev/termination-log"
LONGEST = 2000
GIVES_UP = 42
USAGE = 2
MISTAKES = (SyntaxError, ImportError, NameError)
LOST = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
    "SignalException",
    "ncclRemoteError",
    "remote process exited",
)
"""What a rank says that failed for want of another."""


def _ended(kind, error, trace):
    _shown(kind, error, trace)
    code = GIVES_UP if issubclass(kind, MISTAKES) else 1
    try:
        code = _noted(kind, error, trace, code)
    except Exception:  # whatever goes wrong here, the program has failed for another reason
        pass
    if code != 1:
        raise SystemExit(code)


def _noted(kind, error, trace, code):
    import time
    import traceback

    now = time.time()
    text = "".join(traceback.format_exception(kind, error, trace))
    if kind.__name__ == "ChildFailedError":
        rank, failure = min(error.failures.items(), key=_when)
        said, at, code = _said(failure), _at(failure), failure.exitcode
        _leave("rank %s " % rank, at, 128 - code if code < 0 else code, said)
        return GIVES_UP if code in (USAGE, GIVES_UP) else 1
    if os.environ.get("TORCHELASTIC_ERROR_FILE"):
        _record(os.environ["TORCHELASTIC_ERROR_FILE"], now, "%s: %s" % (kind.__name__, error), text)
    else:
        _leave("", now, code, text)
    return code


def _record(path, now, message, text):
    """As torch.distributed.elastic writes it, and the time more exactly."""
    import json

    more = {"py_callstack": text, "timestamp": str(int(now)), "at": now}
    with open(path, "w") as file:
        json.dump({"message": {"message": message, "extraInfo": more}}, file)


def _extra(failure):
    return failure.message.get("extraInfo", {}) if isinstance(failure.message, dict) else {}


def _said(failure):
    """Its traceback, or which signal it received; what only exited has said nothing here."""
    return _extra(failure).get("py_callstack") or (failure.message if failure.exitcode < 0 else "")


def _at(failure):
    return float(_extra(failure).get("at") or failure.timestamp)


def _when(found):
    rank, failure = found
    return _is_lost(_said(failure)), _at(failure), rank


def _is_lost(text):
    return any(word in text for word in LOST)


def _leave(who, at, code, text):
    from datetime import datetime, timezone

    if os.path.exists(MESSAGE):
        did = "lost others" if _is_lost(text) else "failed"
        when = datetime.fromtimestamp(at, timezone.utc).isoformat()
        first = "%s%s at %s with exit code %d\n" % (who, did, when, code)
        room = LONGEST - len(first)
        with open(MESSAGE, "wb") as file:
            file.write(first.encode() + text.encode("utf-8", "replace")[-room:])


def _run_the_next():
    """The module of this name that this one hides, if there is one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    spec = PathFinder.find_spec("sitecustomize", [path for path in sys.path if os.path.abspath(path) != here])
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_shown, sys.excepthook = sys.excepthook, _ended
_run_the_next()
