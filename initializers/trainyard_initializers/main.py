"""The command: reads the environment, fetches, and logs in one line how it ended."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import local, request
from .cache.cluster import Cluster
from .cache.settings import SCHEME
from .cache.start import start
from .failures import FAILURES, UNEXPECTED, Failure, InvalidSource
from .fetch import fetch
from .request import DATASET, MODEL, Request
from .retry import Backoff
from .source import Source


def _hub(storage_request: Request) -> Source:
    from . import hub  # noqa: PLC0415 - its library takes longer to import than most files to fetch

    return hub.open_hub(storage_request)


def _s3(storage_request: Request) -> Source:
    from . import s3  # noqa: PLC0415 - so does botocore

    return s3.open_s3(storage_request)


SOURCES: Mapping[str, Callable[[Request], Source]] = {
    "file": local.open_file,
    "hf": _hub,
    "pvc": local.open_claim,
    "s3": _s3,
}

_SECRETS = ("ACCESS_TOKEN", "HF_TOKEN", "SECRET_ACCESS_KEY", "SESSION_TOKEN")
_SHORTEST_SECRET = 4

_log = logging.getLogger(__name__)


class _Formatter(logging.Formatter):
    """Lines with a time, and without secrets."""

    def __init__(self, secrets: Sequence[str]) -> None:
        super().__init__("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return self.redact(super().format(record))

    def redact(self, text: str) -> str:
        """The text without the secrets."""
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in this process's environment and return its exit code.

    Args:
        arguments: Of the command line; the process's by default.
    """
    options = _parser().parse_args(arguments)
    formatter = _Formatter(_secrets(os.environ))
    _log_with(formatter)
    _end_on_signals()
    os.umask(0o022)
    try:
        _run(options, os.environ)
    except Failure as failure:
        return _failed(str(failure), failure.exit_code, formatter, options.termination_log)
    except Exception as error:
        _log.exception("this should not have happened; please report it")
        text = f"Unexpected: {type(error).__name__}: {' '.join(str(error).split())}"
        return _failed(text, UNEXPECTED, formatter, options.termination_log)
    return 0


def _run(options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    if options.optional and not environment.get("STORAGE_URI", "").strip():
        _log.info("STORAGE_URI is not set: no %s was asked for", options.step)
        return
    storage_request = request.read(options.step, environment)
    backoff = Backoff(attempts=options.attempts)
    if storage_request.uri.scheme == SCHEME and options.step == DATASET:
        start(storage_request, Cluster.around(environment), backoff)
        return
    if storage_request.uri.scheme not in SOURCES:
        others = [SCHEME] if options.step == DATASET else []
        schemes = ", ".join(f"{scheme}://" for scheme in sorted([*SOURCES, *others]))
        raise InvalidSource(f"{storage_request.uri} is of an unknown kind; there are {schemes}")
    target = options.target or Path("/workspace", options.step)
    fetch(
        storage_request,
        SOURCES[storage_request.uri.scheme](storage_request),
        target,
        backoff,
    )


def _parser() -> argparse.ArgumentParser:
    codes = [f"  {kind.exit_code:3}  {kind.reason}: {kind.means}" for kind in FAILURES]
    parser = argparse.ArgumentParser(
        prog="python -m trainyard_initializers",
        description="Fetch the dataset or model that STORAGE_URI names (hf://, s3://, pvc:// or file://) "
        "into the volume of a training job. It appears at the target completely or not at all. "
        "For cache://, start a cache of a table in the cluster.",
        epilog="exit codes:\n    0  done, or it was there already\n"
        + f"  {UNEXPECTED:3}  Unexpected: a fault of this program\n"
        + "\n".join(codes),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("step", choices=[DATASET, MODEL], help="what to fetch")
    parser.add_argument("--target", type=Path, help="folder to fill; /workspace/<step> by default")
    parser.add_argument(
        "--optional", action="store_true", help="succeed without fetching if STORAGE_URI is not set"
    )
    parser.add_argument(
        "--attempts",
        type=int,
        default=Backoff.attempts,
        help="attempts in a row without progress before it gives up (default: %(default)s)",
    )
    parser.add_argument(
        "--termination-log",
        type=Path,
        default=Path("/dev/termination-log"),
        help="file for the reason of a failure, if it exists (default: %(default)s, which the kubelet reads)",
    )
    return parser


def _secrets(environment: Mapping[str, str]) -> list[str]:
    names = [name for name in environment if name.removeprefix("AWS_") in _SECRETS]
    values = {value for name in names for value in (environment[name], environment[name].strip())}
    return sorted((value for value in values if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)


def _log_with(formatter: logging.Formatter) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(__package__).setLevel(logging.INFO)


def _end_on_signals() -> None:
    """End at once on a signal: what has arrived is kept for the next pod.

    The first process of a container has no default action for a signal.
    """

    def end(number: int, _frame: object) -> None:
        os.write(2, b"ended by a signal; what has arrived so far is kept for the next attempt\n")
        os._exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def _failed(text: str, code: int, formatter: _Formatter, termination_log: Path) -> int:
    line = formatter.redact(text)
    _log.error("%s", line)
    try:
        with open(os.open(termination_log, os.O_WRONLY | os.O_TRUNC), "w") as log:
            log.write(line[:4096])
    except OSError:
        pass  # outside a container there is none
    return code
