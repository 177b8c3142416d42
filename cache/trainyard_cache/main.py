"""The command: one process of a cache, its head or one of its workers."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from . import health, rows, settings, table
from .failures import FAILURES, Failure, InvalidSource
from .head import Head
from .settings import PORT, Settings
from .worker import Worker

UNEXPECTED: Final = 1
"""Exit code of a fault in this program."""

_LOOK: Final = 1.0
"""Seconds after which a signal is heard at the latest."""

_log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in this process's environment; returns its exit code if it cannot serve.

    Args:
        arguments: Of the command line; the process's by default.
    """
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z"
    )
    _end_on_signals()
    codes: list[int] = []
    # Reading is not interrupted by a signal, and this thread is the one that hears them.
    work = threading.Thread(target=lambda: codes.append(_guarded(options)), name="cache", daemon=True)
    work.start()
    # A signal that comes just before this thread waits, or to another thread, does not wake it.
    while work.is_alive():
        work.join(_LOOK)
    return codes[0]


def _end_on_signals() -> None:
    """End at once on a signal: a cache leaves nothing.

    The first process of a container has no default action for a signal.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))


def _guarded(options: argparse.Namespace) -> int:
    """Serve, and return why that has ended."""
    try:
        _run(options, os.environ)
    except Failure as failure:
        return _failed(str(failure), failure.exit_code, options.termination_log)
    except Exception as error:
        _log.exception("this should not have happened; please report it")
        text = f"Unexpected: {type(error).__name__}: {' '.join(str(error).split())}"
        return _failed(text, UNEXPECTED, options.termination_log)
    return 0


def _run(options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    given = settings.read(environment)
    os.environ.update(given.sdk)
    served: Head | Worker | None = None
    health.serve(given.health_port, lambda: _lacks(served))
    address = f"grpc://{options.host}:{options.port}"
    start = time.monotonic()
    source = table.open_table(given.location, given.store)
    total = table.rows_of(source)
    _log.info("%s: %d rows in %d files", given.table, total, len(source.files))
    if options.role == "head":
        workers = [f"grpc://{host}:{PORT}" for host in given.hosts()]
        head = Head(address, total, workers, table.fingerprint(source))
        threading.Thread(target=head.follow, name="workers", daemon=True).start()
        served = head
    else:
        served = _worker(given, source, address)
        _log.info("read in %.1f s", time.monotonic() - start)
    served.wait()


def _lacks(served: Head | Worker | None) -> str:
    """What is missing before ranks can be served, for people; empty: nothing."""
    if served is None:
        return "the table is being read"
    return served.lacks if isinstance(served, Head) else ""


def _worker(given: Settings, source: table.Table, address: str) -> Worker:
    if not given.index:
        raise InvalidSource("LWS_WORKER_INDEX=0 is the head's: workers begin at 1")
    share = rows.share(table.rows_of(source), given.index - 1, given.workers)
    held = table.load(source, share, given.location)
    _log.info(
        "worker %d of %d holds rows %d to %d: %d MiB",
        given.index,
        given.workers,
        share.first,
        share.end - 1,
        held.nbytes >> 20,
    )
    return Worker(address, held, share.first, table.fingerprint(source))


def _parser() -> argparse.ArgumentParser:
    codes = [f"  {kind.exit_code:3}  {kind.reason}: {kind.means}" for kind in FAILURES]
    parser = argparse.ArgumentParser(
        prog="python -m trainyard_cache",
        description="Hold the table that METADATA_LOC names, in the memory of workers, and stream it to the "
        "ranks of a training over Arrow Flight. A LeaderWorkerSet runs the head and the workers.",
        epilog=f"exit codes:\n    0  stopped\n  {UNEXPECTED:3}  Unexpected: a fault of this program\n"
        + "\n".join(codes),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("role", choices=["head", "worker"], help="which process of the cache this is")
    parser.add_argument("host", nargs="?", default="0.0.0.0", help="address to serve on (default: all)")  # noqa: S104
    parser.add_argument("port", nargs="?", type=int, default=PORT, help="port (default: %(default)s)")
    parser.add_argument(
        "--termination-log",
        type=Path,
        default=Path("/dev/termination-log"),
        help="file for the reason of a failure, if it exists (default: %(default)s, which the kubelet reads)",
    )
    return parser


def _failed(text: str, code: int, termination_log: Path) -> int:
    _log.error("%s", text)
    try:
        with open(os.open(termination_log, os.O_WRONLY | os.O_TRUNC), "w") as log:
            log.write(text[:4096])
    except OSError:
        pass  # outside a container there is none
    return code
