"""An API server with a TrainJob whose containers print, restart and end as a test says.

It answers for logs as a kubelet does: of the run now or of the one before, from
a whole second on, and followed until the run ends. Answers are cut where the
test says, as connections are, or as a kubelet's that the API server cannot tell
from an end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from .fake_api import FakeApi, status

TRAINJOB = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tj"
PODS = "/api/v1/namespaces/team/pods"
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the answer for a log ends too early."""

    after: int
    """Bytes."""
    as_if_whole: bool = False
    """Not of a run that has ended or of the run before: that is cut for all to see."""


@dataclass(slots=True)
class Run:
    """One run of a container."""

    lines: list[str] = field(default_factory=list)
    has_ended: bool = False
    was_asked_for: bool = False


@dataclass(slots=True)
class Rank:
    """The pod of a rank that there is now, and what was printed in those before it."""

    pod: str
    runs: list[Run]
    printed: list[str] = field(default_factory=list)
    before: int = 0
    """How many lines were printed before the run now."""


_A_START = SECOND // 100
"""Nanoseconds that a container takes at least to start: no two runs have a line of the same time."""


class PodLogs(FakeApi):
    """The TrainJob `tj` in namespace `team`."""

    def __init__(self, ranks: int = 1, *, cuts: Sequence[Cut] = ()) -> None:
        super().__init__()
        self.cuts = list(cuts)
        self.requests_for_logs: list[dict[str, str]] = []
        self.ranks: list[Rank] = []
        self.on_log: Callable[[], object] = lambda: None
        """Called before a request for a log is answered."""
        self._now = 0
        self._changed = asyncio.Event()
        self.state("Running")
        for index in range(ranks):
            self.ranks.append(Rank(f"tj-node-0-{index}-0", [Run()]))
            self._shows(index)

    # What tests do to it.

    def state(self, state: str, **further: Any) -> None:
        kind = {"type": state, "status": "True", "lastTransitionTime": "2026-01-01T11:00:00Z"}
        ended = (
            {"conditions": [{**kind, "message": "jobset ended"}]} if state in ("Complete", "Failed") else {}
        )
        ours = {"state": state, "nodes": "1/1", **further.pop("trainyard", {})}
        self.put(TRAINJOB, {"status": {"trainyard": ours, **ended, **further}})

    def prints(self, rank: int, text: str, *, after: int = SECOND) -> None:
        """A line, so many nanoseconds after the last one of any rank."""
        self._now += after
        seconds, nanoseconds = divmod(self._now, SECOND)
        at = f"2026-01-01T10:{seconds // 60:02}:{seconds % 60:02}.{nanoseconds:09}Z"
        self.ranks[rank].runs[-1].lines.append(f"{at} {text}\n")
        self.ranks[rank].printed.append(text)
        self._tell_readers()

    def restarts(self, rank: int) -> None:
        """Its container ends and runs again: of the log before last nothing is left."""
        self._next(rank)
        self.ranks[rank].runs.append(Run())
        self._shows(rank)

    def is_replaced(self, rank: int, *, runs: int = 1) -> None:
        """Its pod is deleted, and another takes its place: seen after so many runs of its container."""
        self._next(rank)
        old = self.ranks[rank]
        self.remove(f"{PODS}/{old.pod}")
        name, _, number = old.pod.rpartition("-")
        self.ranks[rank] = Rank(f"{name}-{int(number) + 1}", [Run()], old.printed, old.before)
        for run in range(runs - 1):
            self.prints(rank, f"run {run}")
            self._next(rank)
            self.ranks[rank].runs.append(Run())
        self._shows(rank)

    def ends(self, state: str = "Complete", **further: Any) -> None:
        for index, rank in enumerate(self.ranks):
            rank.runs[-1].has_ended = True
            self._shows(index, "Succeeded" if state == "Complete" else "Failed")
        self.state(state, **further)
        self._tell_readers()

    def cut_watches(self) -> None:
        super().hang_up()

    def hang_up(self) -> None:
        super().hang_up()
        for rank in self.ranks:
            rank.runs[-1].has_ended = True
        self._tell_readers()

    # How it answers.

    def _next(self, rank: int) -> None:
        self.ranks[rank].runs[-1].has_ended = True
        self.ranks[rank].before = len(self.ranks[rank].printed)
        self._now += _A_START
        self._tell_readers()

    def _tell_readers(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _shows(self, index: int, phase: str = "Running") -> None:
        labels = {
            "jobset.sigs.k8s.io/jobset-name": "tj",
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        rank = self.ranks[index]
        container = {"name": "node", "restartCount": len(rank.runs) - 1, "state": {"running": {}}}
        self.put(
            f"{PODS}/{rank.pod}",
            {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "node"}]},
                "status": {"phase": phase, "containerStatuses": [container]},
            },
        )

    async def _get(  # type: ignore[override] # a log comes in pieces
        self, request: web.Request, body: Any
    ) -> web.StreamResponse:
        if not request.path.endswith("/log"):
            return await super()._get(request, body)
        name, query = request.path.split("/")[-2], dict(request.query)
        self.requests_for_logs.append({"pod": name, **query})
        self.on_log()
        runs = next((rank.runs for rank in self.ranks if rank.pod == name), None)
        if runs is None:
            return web.json_response(status(404, "NotFound", name=name), status=404)
        previous = "previous" in query
        if previous and len(runs) == 1:
            message = 'previous terminated container "node" is not found'
            return web.json_response(status(400, "BadRequest", message), status=400)
        run = runs[-2 if previous else -1]
        run.was_asked_for |= "follow" in query
        return await self._log(request, run, query, self._cut(may_look_whole=not previous))

    def _cut(self, *, may_look_whole: bool) -> Cut | None:
        cut = self.cuts.pop(0) if self.cuts else None
        return cut if cut is None or may_look_whole else Cut(cut.after)

    async def _log(
        self, request: web.Request, run: Run, query: dict[str, str], cut: Cut | None
    ) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        since, place, left = (
            query.get("sinceTime", "").removesuffix("Z"),
            0,
            None if cut is None else cut.after,
        )
        as_if_whole = cut is not None and cut.as_if_whole and not run.has_ended
        try:
            while True:
                changed = self._changed
                for line in run.lines[place:]:
                    place += 1
                    if line < since:
                        continue
                    piece = line.encode()[:left]
                    await response.write(piece)
                    if left is not None and len(piece) == left:
                        if not as_if_whole and request.transport is not None:
                            request.transport.abort()
                        return response
                    left = None if left is None else left - len(piece)
                if "follow" not in query or run.has_ended:
                    return response
                await changed.wait()
        except ConnectionError:
            return response
