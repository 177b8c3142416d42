"""The operator, which notes for how long it held its threads: `python held.py FILE [argument ...]`.

FILE says, in seconds of CPU, which step of the loop, which look at a TrainJob
and which call of the webhooks beside the loop took longest so far. CPU and not
time: others hold the cores too. The loop is Python's own, because uvloop's
cannot be watched.
"""

import json
import sys
import threading
import time
import types
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from pathlib import Path
from typing import Any

from trainyard_operator import main, settings
from trainyard_operator.serve.admission import Aside
from trainyard_operator.work.controller import Controller


class Longest:
    """The longest of each kind so far, in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds = {"step": 0.0, "look": 0.0, "aside": 0.0}
        self._writing = threading.Lock()

    def note(self, kind: str, seconds: float) -> None:
        """It took so long."""
        with self._writing:
            if seconds > self._seconds[kind]:
                self._seconds[kind] = seconds
                self._file.write_text(json.dumps(self._seconds))


def watch(longest: Longest) -> None:
    """Note every step of the loop, every look and every call beside the loop from now on."""
    run, reconcile, run_aside = events.Handle._run, Controller.reconcile, Aside.run

    def step(handle: events.Handle) -> None:
        if threading.current_thread() is not threading.main_thread():
            run(handle)  # Kopf and the election have loops of their own
            return
        began = time.thread_time()
        run(handle)
        longest.note("step", time.thread_time() - began)

    async def look(controller: Controller, key: Any) -> float | None:
        return await _counted(reconcile(controller, key), longest)

    def call_aside(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        began = time.thread_time()
        try:
            return call(*arguments, **options)
        finally:
            longest.note("aside", time.thread_time() - began)

    async def aside(
        thread: Aside, size: int, call: Callable[..., Any], *arguments: Any, **options: Any
    ) -> Any:
        return await run_aside(thread, size, partial(call_aside, call), *arguments, **options)

    events.Handle._run = step  # type: ignore[method-assign, assignment]
    Controller.reconcile = look  # type: ignore[method-assign, assignment]
    Aside.run = aside  # type: ignore[method-assign, assignment]
    main._loop_factory = lambda: None


@types.coroutine
def _counted(work: Coroutine[Any, Any, Any], longest: Longest) -> Generator[Any, Any, Any]:
    """The work, step by step, without the time between its steps."""
    took, value, step = 0.0, None, work.send
    while True:
        began = time.thread_time()
        try:
            asked = step(value)
        except StopIteration as end:
            return end.value
        finally:
            took += time.thread_time() - began
            longest.note("look", took)
        try:
            value, step = (yield asked), work.send
        except BaseException as error:
            value, step = error, work.throw


if __name__ == "__main__":
    watch(Longest(Path(sys.argv.pop(1))))
    sys.exit(main.run(settings.parse()))
