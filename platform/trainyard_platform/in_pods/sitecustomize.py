"""Says how a Python program of a training ended, where Kubernetes keeps it when its pod is gone.

Every Python of a container reads this as it starts, from a volume that is made of an
annotation of the pod (docs/adr/0022): so it has to be short, to work with each Python from
3.8 on, and to do nothing to a program that ends well. An exception is shown as always. Then

- a rank that torchrun has started leaves it in the file that torchrun reads, as `@record` does;
- torchrun leaves which of its ranks failed first, and what that one had left;
- any other program leaves the traceback,

both of these in the container's termination message. A mistake that would only come again ends
with exit code 42, by which the runtimes know that it is of no use to try again.
"""

import os
import sys
import time
import traceback

MESSAGE = "/dev/termination-log"
LONGEST = 4000
"""Bytes; kubelet reads 4096."""
GIVES_UP = 42
_MISTAKES = (SyntaxError, ImportError, NameError)
_USAGE = 2
"""Exit code of argparse, and of a Python that finds no such script."""


def _ended(kind, error, trace):
    _shown(kind, error, trace)
    code = GIVES_UP if issubclass(kind, _MISTAKES) else 0
    try:
        text = "".join(traceback.format_exception(kind, error, trace))
        if kind.__name__ == "ChildFailedError":
            first, code = _first_of(error)
            _leave(first)
        elif os.environ.get("TORCHELASTIC_ERROR_FILE"):
            _record(os.environ["TORCHELASTIC_ERROR_FILE"], kind, error, text)
        else:
            _leave(text)
    except Exception:  # whatever goes wrong here, the program has failed for another reason
        pass
    if code:
        raise SystemExit(code)


def _first_of(error):
    """What torchrun knows of the rank that failed first, and the code to end with."""
    rank, failure = min(error.failures.items(), key=lambda found: found[1].timestamp)
    code = GIVES_UP if failure.exitcode in (_USAGE, GIVES_UP) else 0
    said = failure.message
    if isinstance(said, dict):
        said = (said.get("extraInfo") or {}).get("py_callstack") or said.get("message")
    ended = "signal %d" % -failure.exitcode if failure.exitcode < 0 else "exit code %d" % failure.exitcode
    return "%s\nrank %d failed first, with %s" % (str(said or "").rstrip(), rank, ended), code


def _record(path, kind, error, text):
    """As torch.distributed.elastic writes it, so that torchrun finds the rank and the time."""
    import json

    found = {"py_callstack": text, "timestamp": str(int(time.time()))}
    with open(path, "w") as file:
        json.dump({"message": {"message": "%s: %s" % (kind.__name__, error), "extraInfo": found}}, file)


def _leave(text):
    if os.path.exists(MESSAGE):
        with open(MESSAGE, "wb") as file:
            file.write(text.encode("utf-8", "replace")[-LONGEST:])


def _run_the_next():
    """The module of this name that this one hides, if there is one."""
    from importlib import machinery, util

    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [path for path in sys.path if os.path.abspath(path) != here]
    spec = machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        module = util.module_from_spec(spec)
        spec.loader.exec_module(module)


_shown, sys.excepthook = sys.excepthook, _ended
_run_the_next()
