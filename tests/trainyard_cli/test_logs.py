"""`trainyard logs`: what it reads, how it goes on, and what it prints."""

import asyncio
import io
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import typer
from aiohttp import web

from tests.support.answers import answered
from tests.support.fake_api import FakeApi, status
from tests.support.fake_api import run as run_test
from trainyard_api.errors import UserError
from trainyard_assist.logs import Place
from trainyard_cli.cluster import connection, job_names, watched
from trainyard_cli.cluster import logs as cluster
from trainyard_cli.cluster.logs import Logs, Pod, Source, Wanted
from trainyard_cli.commands import logs as command
from trainyard_cli.printer import Printer
from trainyard_kube.client import Client, UnauthorizedError
from trainyard_kube.credentials import Credentials, CredentialsError
from trainyard_operator.core.decide.last_lines import Kept, Lines

JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs"
PODS = "/api/v1/namespaces/team/pods"
LAST_LINES = "/api/v1/namespaces/team/configmaps/tj-last-lines"


def stamped(second: int, text: str) -> str:
    return f"2026-01-01T10:{second // 60:02}:{second % 60:02}.000000000Z {text}\n"


class Cluster(FakeApi):
    """An API server with the TrainJob `tj` and its pods, whose logs come in the pieces that a test says."""

    def __init__(self, *nodes: str, state: str = "Running") -> None:
        super().__init__()
        self.pieces: dict[str, list[list[str]]] = {}
        """By pod: what each request for its log gets; the last one gets it again and again."""
        self.asked: list[dict[str, str]] = []
        self.state(state)
        for index, text in enumerate(nodes):
            self.node(index, [text])

    def state(self, state: str) -> None:
        self.put(f"{JOBS}/tj", {"status": {"trainyard": {"state": state}}})

    def node(
        self,
        index: int,
        *answers: list[str],
        job: str = "node",
        restarts: int = 0,
        phase: str = "Running",
        pod: str = "x",
        of: tuple[str, str] = ("2026-01-01T00:00:00Z", "new"),
    ) -> str:
        """A pod of a rank, created at a time for the JobSet of a uid."""
        created, jobset = of
        name = f"tj-{job}-0-{index}-{pod}"
        labels = {
            "jobset.sigs.k8s.io/jobset-name": "tj",
            "jobset.sigs.k8s.io/jobset-uid": jobset,
            "jobset.sigs.k8s.io/replicatedjob-name": job,
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        statuses = [{"name": "node", "restartCount": restarts, "state": {"running": {}}}]
        self.put(
            f"{PODS}/{name}",
            {
                "metadata": {"labels": labels, "creationTimestamp": created},
                "spec": {"containers": [{"name": "sidecar"}, {"name": "node"}]},
                "status": {"phase": phase, "containerStatuses": statuses},
            },
        )
        if answers:
            self.pieces[name] = list(answers)
        return name

    async def _get(  # type: ignore[override] # a log comes in pieces
        self, request: web.Request, body: Any
    ) -> web.StreamResponse:
        if not request.path.endswith("/log"):
            return await super()._get(request, body)
        query = dict(request.query)
        name = request.path.split("/")[-2]
        self.asked.append({"pod": name, **query})
        answers = self.pieces.get(name)
        if answers is None:
            return web.json_response(status(400, "BadRequest", "container is waiting to start"), status=400)
        pieces = answers.pop(0) if len(answers) > 1 else answers[0]
        response = web.StreamResponse()
        await response.prepare(request)
        since = query.get("sinceTime", "").removesuffix("Z")
        lines = [line for piece in pieces for line in piece.splitlines(keepends=True) if line >= since]
        for line in lines[-int(query["tailLines"]) :] if "tailLines" in query else lines:
            if line.endswith("CUT\n"):
                request.transport.abort()
                break
            await response.write(line.encode())
        return response

    def forbid(self, path: str) -> None:
        self.refuse_next("GET", path, status(403, "Forbidden"))


class Slow(Cluster):
    """A cluster of which each log that may be read comes after the refusals."""

    async def _get(  # type: ignore[override] # a log comes in pieces
        self, request: web.Request, body: Any
    ) -> web.StreamResponse:
        if request.path.endswith("/log"):
            await asyncio.sleep(0.1)
        return await super()._get(request, body)


def printed(
    api: Cluster, monkeypatch: pytest.MonkeyPatch, out: io.StringIO | None = None, **options: Any
) -> tuple[int, str, str]:
    """The exit code, the lines and what is said of them."""
    out, err = out or io.StringIO(), io.StringIO()
    wanted = Wanted(
        **{name: options.pop(name) for name in ("rank", "since", "tail", "previous") if name in options}
    )
    follow = options.pop("follow", False)
    printer = Printer(out, options.pop("grep", ""), marked=wanted.rank is None)
    for module in (cluster, watched):
        monkeypatch.setattr(module, "EVERY", 0.01)
    monkeypatch.setattr(cluster, "GATHER", 0.0)

    async def answer() -> int:
        async with api.serving() as url:
            credentials = Credentials(url, None, namespace="team", options=("--context", "lab"))
            return await command._print(
                credentials, None, "tj", wanted, printer=printer, err=err, follow=follow
            )

    return run_test(answer, timeout=60), out.getvalue(), err.getvalue()


def test_all_ranks_are_printed_in_the_order_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(stamped(1, "a1") + stamped(4, "a4"), stamped(2, "b2") + stamped(3, "b3"))
    assert printed(api, monkeypatch) == (0, "0 | a1\n1 | b2\n1 | b3\n0 | a4\n", "")
    assert api.asked[0] == {"pod": "tj-node-0-0-x", "container": "node", "timestamps": "true"}
    assert api.writes() == []


def test_one_rank_is_printed_without_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(stamped(1, "a"), stamped(2, "b"))
    assert printed(api, monkeypatch, rank="1") == (0, "b\n", "")
    assert [asked["pod"] for asked in api.asked] == ["tj-node-0-1-x"]


def test_of_several_replicated_jobs_each_rank_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(stamped(2, "works"))
    api.node(0, [stamped(1, "starts")], job="launcher")
    assert printed(api, monkeypatch) == (0, "launcher-0 | starts\n    node-0 | works\n", "")
    assert printed(api, monkeypatch, rank="launcher-0") == (0, "starts\n", "")


def test_a_launcher_that_has_no_pod_yet_is_known_by_the_jobset(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(stamped(2, "works"))
    jobs = [{"name": "node"}, {"name": "launcher"}]
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/tj"
    api.put(path, {"spec": {"replicatedJobs": jobs}})
    assert printed(api, monkeypatch) == (0, "node-0 | works\n", "")


def test_lines_are_chosen_by_their_text_their_age_and_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(stamped(1, "loss 3") + stamped(2, "saved") + stamped(3, "loss 2"))
    assert printed(api, monkeypatch, grep="loss") == (0, "0 | loss 3\n0 | loss 2\n", "")
    assert printed(api, monkeypatch, tail=1) == (0, "0 | loss 2\n", "")
    assert printed(api, monkeypatch, since=600.0) == (0, "", "")
    assert api.asked[-1].keys() == {"pod", "container", "timestamps", "sinceTime"}


def test_on_a_terminal_each_rank_has_a_colour_unless_it_has_none_or_the_user_wants_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    api = Cluster(stamped(1, "a"), stamped(2, "b"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    _, out, _ = printed(api, monkeypatch, Terminal())
    assert out == "\x1b[36m0 |\x1b[0m a\n\x1b[33m1 |\x1b[0m b\n"
    for variable, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
        with monkeypatch.context() as patched:
            patched.setenv(variable, value)
            _, out, _ = printed(api, patched, Terminal())
        assert out == "0 | a\n1 | b\n", variable


def test_a_rank_that_is_not_there_is_told_which_are(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(stamped(1, "a"), stamped(2, "b"))
    with pytest.raises(UserError, match=r"^TrainJob tj has no rank 7: it has 0, 1$"):
        printed(api, monkeypatch, rank="7")


def jobset(api: Cluster, *, nodes: int) -> None:
    """With an initializer, and so many nodes."""
    sizes = {"dataset-initializer": 1, "node": nodes}
    jobs = [{"name": job, "template": {"spec": {"parallelism": size}}} for job, size in sizes.items()]
    api.put("/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/tj", {"spec": {"replicatedJobs": jobs}})


def test_a_rank_whose_pod_alone_is_gone_has_its_last_lines_and_one_that_never_was_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Cluster(state="Failed")
    jobset(api, nodes=3)
    api.node(1, [stamped(1, "whole log")], phase="Failed")
    kept(api)
    code, out, err = printed(api, monkeypatch, rank="0")
    assert (code, err) == (0, "Its pods are gone, or cannot be read. These are their last lines:\n")
    assert [line for line in out.splitlines() if line.startswith("  | ")] == ["  | lost"]
    assert printed(api, monkeypatch, rank="2") == (
        1,
        "",
        "TrainJob team/tj is Failed, and has no pod of rank 2 any more\n",
    )
    sentence = "^TrainJob tj has no rank 3: it has 1, dataset-initializer-0, 0, 2$"
    with pytest.raises(UserError, match=sentence):
        printed(api, monkeypatch, rank="3")


def test_without_the_right_to_get_the_jobset_a_rank_without_a_pod_may_be_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Cluster(stamped(1, "a"), stamped(2, "b"))
    api.forbid("/jobsets/tj")
    code, out, err = printed(api, monkeypatch, rank="2")
    assert (code, out) == (1, "")
    assert err.startswith("TrainJob team/tj is Running, and has no pod of rank 2 yet. See why: ")


@pytest.mark.parametrize(
    ("path", "action"), [(PODS, "list pods"), ("/log", r"read logs \(get pods/log\)")], ids=["pods", "logs"]
)
def test_what_the_user_may_not_do_is_one_sentence(
    path: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Slow(stamped(1, "a"), stamped(2, "b"))
    api.forbid(path)
    with pytest.raises(UserError, match=f"^you are not allowed to {action} in namespace team$"):
        printed(api, monkeypatch)


def test_credentials_that_are_refused_for_one_rank_are_an_error_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Slow(stamped(1, "a"), stamped(2, "b"))
    api.refuse_next("GET", "/log", status(401, "Unauthorized"))
    with pytest.raises(UnauthorizedError):
        printed(api, monkeypatch)


def test_of_an_unknown_job_the_nearest_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.put(f"{JOBS}/tj-2", {})
    api.remove(f"{JOBS}/tj")
    sentence = r"^TrainJob tj is not found: namespace team has none of this name; did you mean tj-2\?$"
    with pytest.raises(UserError, match=sentence):
        printed(api, monkeypatch)
    api.missing.add("/apis/trainer.kubeflow.org")
    with pytest.raises(UserError, match=r"^TrainJob tj is not found: the cluster has no TrainJob API$"):
        printed(api, monkeypatch)


def test_a_rank_whose_log_cannot_be_read_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(stamped(1, "a"))
    api.node(1)
    assert printed(api, monkeypatch) == (
        0,
        "0 | a\n",
        "Could not read rank 1: container is waiting to start\n",
    )


def test_a_rank_that_is_tried_again_has_a_log_though_its_new_pod_has_none_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Cluster(stamped(1, "a"))
    api.node(0, pod="again")
    code, out, err = printed(api, monkeypatch)
    assert (code, out) == (0, "0 | a\n")
    assert err == "Could not read rank 0: container is waiting to start\n"


def test_a_log_that_is_cut_is_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    whole = [stamped(second, f"step {second}") for second in range(5)]
    api.node(0, [*whole[:3], "CUT\n"], whole)
    code, out, err = printed(api, monkeypatch)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"0 | step {second}" for second in range(5)]


def test_a_log_is_requested_again_when_the_api_server_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    api, pauses = Cluster(stamped(1, "a") + stamped(2, "b")), []
    api.refuse_next("GET", "/log", status(429, "TooManyRequests"), {"Retry-After": "7"})
    api.refuse_next("GET", "/log", status(503, "ServiceUnavailable"))
    sleep = asyncio.sleep

    async def slept(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", slept)
    assert printed(api, monkeypatch, tail=1) == (0, "0 | b\n", "")
    assert [seconds for seconds in pauses if seconds] == [7.0, cluster.EVERY]


def test_a_job_without_pods_says_its_state_and_who_knows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(Cluster(state="Queued"), monkeypatch) == (
        1,
        "",
        "TrainJob team/tj is Queued, and has no pods yet. "
        "See why: trainyard explain tj -n team --context lab\n",
    )
    code, out, err = printed(Cluster(state="Complete"), monkeypatch)
    assert (code, out) == (1, "")
    assert err.startswith("TrainJob team/tj is Complete, and has no pods any more; nothing is kept: ")


def kept(api: Cluster) -> None:
    owner = {"uid": api.objects[f"{JOBS}/tj"]["metadata"]["uid"], "controller": True}
    about = '{"jobset":"js","attempt":2,"pods":{"node-0":{"pod":"p0"},"node-1":{"pod":"p1"}}}'
    data = {"attempt.json": about, "node-0": "lost", "node-1": "ValueError"}
    api.put(LAST_LINES, {"metadata": {"ownerReferences": [owner]}, "data": data})


def test_of_pods_that_are_gone_the_last_lines_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(state="Failed")
    kept(api)
    code, out, err = printed(api, monkeypatch)
    assert (code, err) == (0, "Its pods are gone, or cannot be read. These are their last lines:\n")
    assert [line for line in out.splitlines() if line.startswith("  | ")] == ["  | lost", "  | ValueError"]
    _, out, _ = printed(api, monkeypatch, rank="1")
    assert "ValueError" in out
    assert "lost" not in out


def test_of_a_failed_job_whose_last_pods_were_ended_before_they_printed_the_last_lines_are_printed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Cluster("", "", state="Failed")
    kept(api)
    code, out, err = printed(api, monkeypatch)
    assert (code, err) == (0, "Its pods are gone, or cannot be read. These are their last lines:\n")
    assert [line for line in out.splitlines() if line.startswith("  | ")] == ["  | lost", "  | ValueError"]
    assert printed(api, monkeypatch, tail=0) == (0, "", "")


def test_of_a_failed_job_the_last_lines_of_the_pods_that_are_gone_follow_the_others_logs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Cluster(stamped(1, "whole log"), state="Failed")
    kept(api)
    code, out, err = printed(api, monkeypatch)
    assert (code, err) == (0, "Other pods of it are gone, or cannot be read. These are their last lines:\n")
    assert out.startswith("0 | whole log\n")
    assert [line for line in out.splitlines() if line.startswith("  | ")] == ["  | ValueError"]


def test_previous_reads_the_container_before_and_else_the_last_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster(stamped(1, "before"))
    assert printed(api, monkeypatch, previous=True) == (0, "0 | before\n", "")
    assert api.asked[-1]["previous"] == "true"
    del api.pieces["tj-node-0-0-x"]
    kept(api)
    code, out, err = printed(api, monkeypatch, previous=True)
    assert (code, err) == (0, "Its pods are gone, or cannot be read. These are their last lines:\n")
    assert "  | ValueError" in out


# --- following ----------------------------------------------------------------------


class Script(Cluster):
    """A cluster in which something happens at each look at the TrainJob, which nobody can watch."""

    def __init__(self, *nodes: str) -> None:
        super().__init__(*nodes)
        self.watch_list = False
        self.scenes: list[Any] = []

    async def _get(  # type: ignore[override] # a log comes in pieces
        self, request: web.Request, body: Any
    ) -> web.StreamResponse:
        if request.path in (JOBS, f"{JOBS}/tj") and self.scenes:
            self.scenes.pop(0)()
        return await super()._get(request, body)


def end(api: Script) -> None:
    api.state("Complete")
    for path in [path for path in api.objects if path.startswith(f"{PODS}/")]:
        pod = api.objects[path]
        api.put(path, {**pod, "status": {**pod["status"], "phase": "Succeeded"}})


def nothing() -> None:
    """A look at which nothing has changed."""


def test_a_job_is_followed_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Script()
    whole = [stamped(second, f"step {second}") for second in range(6)]
    api.node(0, whole[:2], whole[:4], whole)
    api.scenes = [nothing, nothing, nothing, lambda: end(api)]
    assert printed(api, monkeypatch, follow=True) == (
        0,
        "".join(f"0 | step {second}\n" for second in range(6)),
        "TrainJob team/tj is Complete\n",
    )


def test_a_connection_that_is_cut_costs_and_doubles_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Script()
    whole = [stamped(second // 3, f"step {second}") for second in range(12)]
    api.node(0, whole[:2], [*whole[:5], "CUT\n"], ["CUT\n"], [*whole[:7], "CUT\n"], whole)
    api.scenes = [nothing] * 8 + [lambda: end(api)]
    _, out, _ = printed(api, monkeypatch, follow=True)
    assert out.splitlines() == [f"0 | step {second}" for second in range(12)]


def test_the_pods_of_the_next_attempt_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Script(stamped(1, "first attempt"))

    def restart() -> None:
        api.remove(f"{PODS}/tj-node-0-0-x")
        pod = api.objects.get(f"{PODS}/tj-node-0-1-x")
        assert pod is None
        api.node(1, [stamped(9, "second attempt")])

    api.scenes = [nothing, nothing, restart, nothing, lambda: end(api)]
    _, out, _ = printed(api, monkeypatch, follow=True)
    assert out.splitlines() == ["0 | first attempt", "1 | second attempt"]


def test_a_job_that_waits_is_followed_once_it_has_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Script()
    api.state("Queued")
    api.scenes = [nothing, nothing, lambda: api.node(0, [stamped(1, "a")]), lambda: end(api)]
    assert printed(api, monkeypatch, follow=True) == (
        0,
        "0 | a\n",
        "TrainJob team/tj is Queued: waiting for its pods\nTrainJob team/tj is Complete\n",
    )


def test_a_rank_is_waited_for_while_the_initializers_run(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Script()
    jobset(api, nodes=1)
    api.node(0, [stamped(1, "fetches")], job="dataset-initializer")
    api.scenes = [nothing, nothing, lambda: api.node(0, [stamped(2, "a")]), lambda: end(api)]
    assert printed(api, monkeypatch, follow=True, rank="0") == (
        0,
        "a\n",
        "TrainJob team/tj is Running: waiting for its pods\nTrainJob team/tj is Complete\n",
    )


@pytest.mark.parametrize("there", [0, 1, 3])
def test_more_pods_than_logs_can_be_read_are_refused_whenever_they_come(
    monkeypatch: pytest.MonkeyPatch, there: int
) -> None:
    monkeypatch.setattr(cluster, "MOST", 2)
    api = Script(*(stamped(1, "a") for _ in range(there)))

    def others() -> None:
        for index in range(there, 3):
            api.node(index, [stamped(1, "a")])

    api.scenes = [nothing, nothing, others]
    with pytest.raises(UserError) as refused:
        printed(api, monkeypatch, follow=True)
    assert str(refused.value) == "TrainJob tj has more than 2 pods, too many to read: say which with --rank"


def test_a_pod_that_takes_the_place_of_another_is_not_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "MOST", 2)
    api = Script(stamped(1, "a"), stamped(1, "b"))
    api.scenes = [
        nothing,
        nothing,
        lambda: api.node(0, [stamped(2, "c")], pod="y"),
        nothing,
        lambda: end(api),
    ]
    _, out, _ = printed(api, monkeypatch, follow=True)
    assert sorted(out.splitlines()) == ["0 | a", "0 | c", "1 | b"]


def test_pods_of_a_deleted_job_of_the_same_name_are_no_ranks_of_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Script()
    api.state("Queued")
    api.node(0, [stamped(1, "old")], pod="old", of=("2025-12-31T23:59:59Z", "old"))
    # It restarted in the second in which the new TrainJob was made.
    api.node(1, [stamped(2, "old")], pod="old", of=("2026-01-01T00:00:00Z", "old"))
    assert printed(api, monkeypatch)[0] == 1
    api.scenes = [nothing, nothing, lambda: api.node(0, [stamped(3, "new")]), lambda: end(api)]
    assert printed(api, monkeypatch, follow=True) == (
        0,
        "0 | new\n",
        "TrainJob team/tj is Queued: waiting for its pods\nTrainJob team/tj is Complete\n",
    )
    assert {asked["pod"] for asked in api.asked} == {"tj-node-0-0-x"}


def test_a_job_that_is_deleted_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Script(stamped(1, "a"))

    def delete() -> None:
        api.remove(f"{JOBS}/tj")
        api.remove(f"{PODS}/tj-node-0-0-x")

    api.scenes = [nothing, nothing, delete]
    assert printed(api, monkeypatch, follow=True) == (0, "0 | a\n", "TrainJob team/tj is gone\n")


def test_rights_that_are_lost_while_it_follows_end_it_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Script(stamped(1, "a"))
    api.scenes = [nothing, nothing, lambda: api.forbid("/log")]
    with pytest.raises(UserError, match="you are not allowed to read logs"):
        printed(api, monkeypatch, follow=True)


def test_a_pipe_that_closes_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        printed(Script(stamped(1, "a")), monkeypatch, Closed(), follow=True)


# --- many ranks ---------------------------------------------------------------------


def test_many_lines_of_many_ranks_are_put_in_order_a_piece_of_each_at_a_time() -> None:
    ranks, lines = 64, 1_000
    texts = [
        "".join(
            f"2026-01-01T10:{line // 60:02}:{line % 60:02}.{rank:09}Z step {line} loss 0.123\n"
            for line in range(lines)
        ).encode()
        for rank in range(ranks)
    ]
    longest = [0]

    class Piecewise(Logs):
        async def _read(self, source: Source, *, goes_on: bool) -> Any:
            text = texts[source.pod.place.index]
            for at in range(0, len(text), 16_384):
                yield source.log.feed(text[at : at + 16_384])

    async def test() -> list[str]:
        async with Client(Credentials("http://127.0.0.1:1", None)) as client:
            reader = Piecewise(client, "team", "tj", Wanted())
            pods = [Pod(f"p{rank}", f"u{rank}", Place("node", rank), "node") for rank in range(ranks)]
            times = []
            async for printed_lines in reader.history([Source(pod, "x") for pod in pods]):
                longest[0] = max(longest[0], len(printed_lines))
                times += [at for at, _, _ in printed_lines]
            return times

    times = run_test(test)
    assert len(times) == ranks * lines
    assert times == sorted(times)
    assert longest[0] <= 2 * ranks * 16_384 / 50


# --- the command --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"job": "../x"}, "'../x' is not a valid name of an object"),
        ({"namespace": "A"}, "'A' is not a valid name of an object"),
        ({"since": "yesterday"}, "--since must be a duration such as 15s, 10m, 24h or 7d; is 'yesterday'"),
        ({"follow": True, "previous": True}, "--previous prints what has ended"),
        ({"kubeconfig": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(options: dict[str, Any], sentence: str) -> None:
    code, out, err = answered(command.run, **{"job": "tj", **options})
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_ctrl_c_ends_it_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_print", interrupted)
    monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: Credentials("http://127.0.0.1:1", None))
    assert answered(command.run, "tj") == (0, "", "")


def completed(
    api: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    incomplete: str,
    completion: Callable[[typer.Context, str], list[str]] = job_names.completed,
) -> Sequence[str]:
    context = typer.Context(typer.main.get_command(typer.Typer(callback=lambda: None)))

    async def answer() -> Sequence[str]:
        async with api.serving() as url:
            credentials = Credentials(server=url, tls=None, namespace="team")
            monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: credentials)
            return await asyncio.to_thread(completion, context, incomplete)

    return run_test(answer)


def test_the_shell_completes_the_names_of_trainjobs(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    for name in ("train-b", "train-a"):
        api.put(f"{JOBS}/{name}", {})
    assert completed(api, monkeypatch, "train") == ["train-a", "train-b"]
    api.forbid(JOBS)
    assert completed(api, monkeypatch, "train") == []


def test_the_shell_gets_no_names_if_an_exec_plugin_has_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[float] = []

    def load(kubeconfig: str, context: str | None, until: float) -> Credentials:
        times.append(until)
        raise CredentialsError(f"{kubeconfig}: did not answer in time")

    monkeypatch.setattr(connection, "load_or_sandbox", load)
    context = typer.Context(typer.main.get_command(typer.Typer(callback=lambda: None)))
    context.params = {"kubeconfig": "file"}
    before = time.monotonic()
    assert job_names.completed(context, "") == []
    assert [0 < until - before < 60 for until in times] == [True]


def test_the_shell_completes_the_names_of_runtimes_and_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    api.put("/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/torch-distributed", {})
    api.put("/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainingruntimes/torch-own", {})
    api.put("/apis/kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/default", {})
    names = completed(api, monkeypatch, "torch", job_names.completed_runtimes)
    assert names == ["torch-own", "torch-distributed"]
    assert completed(api, monkeypatch, "", job_names.completed_queues) == ["default"]


def test_kept_lines_of_which_a_place_is_no_place_are_not_a_rank() -> None:
    kept_lines = Kept("js", 1, pods={"node-x": Lines("p"), "node-1": Lines("p"), "node-2": Lines("p")})
    assert command._missing(kept_lines, set(), Wanted(rank="1")) == {"node-1": Lines("p")}
    assert command._missing(kept_lines, {"node-1"}, Wanted()).keys() == {"node-x", "node-2"}
    written = Kept("js", 1, pods={"node-x": Lines("p"), f"node-{'9' * 5000}": Lines("p")})
    assert command._missing(written, set(), Wanted(rank="0")) == {}
