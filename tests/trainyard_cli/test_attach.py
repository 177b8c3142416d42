"""`trainyard attach`: each line once whatever is cut, the states, the end and its exit code."""

import asyncio
import io
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.answers import answered
from tests.support.fake_api import eventually, status
from tests.support.fake_api import run as run_test
from tests.support.pod_logs import PODS, SECOND, TRAINJOB, Cut, PodLogs
from trainyard_api.errors import UserError
from trainyard_cli.cluster import attach as cluster
from trainyard_cli.cluster import logs, watched
from trainyard_cli.cluster.attach import States
from trainyard_cli.cluster.logs import Wanted
from trainyard_cli.commands import attach as command
from trainyard_cli.printer import Printer
from trainyard_kube.credentials import Credentials

COMPLETE = "TrainJob team/tj is complete: jobset ended.\n"

Scene = Callable[["Terminal"], Awaitable[None]]


@pytest.fixture(autouse=True, scope="module")
def _at_once() -> Any:
    """Nothing waits for long: as little as the order of things needs."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (logs, watched, cluster):
            patch.setattr(module, "EVERY", 0.01)
        for module in (logs, watched):
            patch.setattr(module, "FIRST", 0.002)
        patch.setattr(logs, "GATHER", 0.0)
        patch.setattr(logs, "_INACTIVITY", 1.0)
        yield


class Terminal:
    """What a user sees."""

    def __init__(self, api: PodLogs) -> None:
        self.api = api
        self.out = io.StringIO()
        self.err = io.StringIO()

    def lines(self, rank: int) -> list[str]:
        """Those of a rank."""
        mark = f"{rank} | "
        return [line.removeprefix(mark) for line in self.out.getvalue().splitlines() if line.startswith(mark)]

    async def shows(self, rank: int, count: int) -> None:
        """Wait until so many lines of the rank have been printed."""
        await eventually(lambda: len(self.lines(rank)) >= count)

    async def says(self, words: str) -> None:
        """Wait until it is said."""
        await eventually(lambda: words in self.err.getvalue())


def attached(api: PodLogs, scene: Scene | None = None, **options: Any) -> tuple[int, str, str]:
    """The exit code, the lines and what is said of the job, while the scene is played."""
    terminal = Terminal(api)
    grep = options.pop("grep", "")

    async def answer() -> int:
        async with api.serving() as url:
            say = command.Voice(terminal.err)
            wanted = Wanted(**options)
            attaching = asyncio.create_task(
                command.follow(
                    Credentials(server=url, tls=None, namespace="team"),
                    "team",
                    "tj",
                    wanted,
                    states=States(say),
                    printer=Printer(terminal.out, grep, marked=wanted.rank is None),
                    say=say,
                )
            )
            if scene is not None:
                playing = asyncio.ensure_future(scene(terminal))
                await asyncio.wait({attaching, playing}, return_when=asyncio.FIRST_COMPLETED)
                if not attaching.done() or playing.done():
                    await playing
                playing.cancel()
            return await attaching

    code = run_test(answer, timeout=60)
    return code, terminal.out.getvalue(), terminal.err.getvalue()


# --- each line once -----------------------------------------------------------------


RESTARTS, CUTS = 3, 5
_PRINTED = st.tuples(
    st.just("prints"), st.integers(0, 1), st.integers(1, 6), st.sampled_from([0, 1, SECOND // 3, 2 * SECOND])
)
_OTHERS = st.tuples(st.sampled_from(["restarts", "is replaced", "watches are cut"]), st.integers(0, 1))
_CUT = st.builds(Cut, st.integers(0, 400), st.booleans())


@given(
    st.lists(_PRINTED | _OTHERS, min_size=4, max_size=14),
    st.lists(_CUT, min_size=CUTS, max_size=CUTS),
)
def test_over_restarts_and_cut_connections_each_line_is_printed_once_and_in_order(
    actions: Sequence[tuple[Any, ...]], cuts: Sequence[Cut]
) -> None:
    """Restarts that are quick: the follower has only just begun to read the run, or to read it again."""
    api = PodLogs(2, cuts=cuts)

    async def scene(terminal: Terminal) -> None:
        await terminal.says("is Running")
        restarts = 0
        for action, rank, *how in actions:
            if action == "prints":
                count, after = how
                for number in range(count):
                    # Words that are alike, at times that are.
                    api.prints(rank, f"step {number % 2}", after=after)
            elif action == "watches are cut":
                api.cut_watches()
            elif restarts < RESTARTS:
                restarts += 1
                its = api.ranks[rank]
                # Of the run before last nothing could be read, and of a pod that is gone nothing at all.
                read = len(its.printed) if action == "is replaced" else its.before
                await terminal.shows(rank, read)
                await eventually(lambda its=its: its.runs[-1].was_asked_for)
                api.restarts(rank) if action == "restarts" else api.is_replaced(rank)
            await asyncio.sleep(0)
        for rank, its in enumerate(api.ranks):
            await terminal.shows(rank, its.before)
        api.ends()

    code, out, err = attached(api, scene)
    lines = out.splitlines()
    for rank, its in enumerate(api.ranks):
        assert [line for line in lines if line.startswith(str(rank))] == [
            f"{rank} | {text}" for text in its.printed
        ]
    assert (code, err.splitlines()[-1:]) == (0, [COMPLETE.strip()])


def test_three_restarts_and_five_cuts_lose_and_double_no_line() -> None:
    """The figure: cuts in the middle of lines, and runs that end while nobody is connected."""
    cuts = [Cut(95, as_if_whole=True), Cut(130), Cut(70), Cut(200, as_if_whole=True), Cut(0)]
    api = PodLogs(cuts=cuts)

    async def scene(terminal: Terminal) -> None:
        for run in range(RESTARTS + 1):
            for step in range(40):
                api.prints(0, f"run {run} step {step}", after=SECOND // 7)
            if run < RESTARTS:
                await terminal.shows(0, api.ranks[0].before)
                await eventually(lambda: api.ranks[0].runs[-1].was_asked_for)
                api.restarts(0)
        await terminal.shows(0, api.ranks[0].before)
        api.ends()

    code, out, _ = attached(api, scene)
    assert out == "".join(f"0 | run {run} step {step}\n" for run in range(RESTARTS + 1) for step in range(40))
    assert (code, api.cuts) == (0, [])


def test_a_container_that_restarts_twice_before_it_is_looked_at_again_loses_no_line() -> None:
    """Two seconds would pass until the next look, and both restarts within them."""
    api = PodLogs()

    async def scene(terminal: Terminal) -> None:
        for run in range(3):
            api.prints(0, f"begins {run}")
            await terminal.shows(0, len(api.ranks[0].printed))
            api.prints(0, f"last words {run}")
            if run < 2:
                api.restarts(0)
        api.ends()

    _, out, _ = attached(api, scene)
    assert out == "".join(f"0 | begins {run}\n0 | last words {run}\n" for run in range(3))


def test_a_container_that_has_restarted_before_anybody_attaches_begins_with_the_run_before() -> None:
    api = PodLogs()
    api.prints(0, "run 0 begins")
    api.prints(0, "run 0 ends")
    api.restarts(0)
    api.prints(0, "run 1 begins")

    async def scene(terminal: Terminal) -> None:
        await terminal.shows(0, 3)
        api.prints(0, "run 1 ends")
        api.restarts(0)
        api.prints(0, "run 2")
        await terminal.shows(0, 5)
        api.ends()

    code, out, _ = attached(api, scene)
    lines = ["run 0 begins", "run 0 ends", "run 1 begins", "run 1 ends", "run 2"]
    assert (code, out) == (0, "".join(f"0 | {line}\n" for line in lines))


def test_a_container_that_restarts_between_the_look_at_it_and_its_log_loses_and_doubles_no_line() -> None:
    api = PodLogs()
    api.prints(0, "run 0")
    api.restarts(0)
    api.prints(0, "run 1")

    def restart() -> None:
        api.on_log = lambda: None
        api.restarts(0)
        api.prints(0, "run 2")

    api.on_log = restart

    async def scene(terminal: Terminal) -> None:
        await terminal.shows(0, 2)
        api.ends()

    assert attached(api, scene)[1] == "0 | run 1\n0 | run 2\n"


def test_a_new_pod_that_has_restarted_before_it_is_seen_begins_with_its_first_run() -> None:
    api = PodLogs()

    async def scene(terminal: Terminal) -> None:
        api.prints(0, "first pod")
        await terminal.shows(0, 1)
        api.is_replaced(0, runs=2)
        api.prints(0, "run 1")
        await terminal.shows(0, 3)
        api.ends()

    assert attached(api, scene)[1] == "0 | first pod\n0 | run 0\n0 | run 1\n"


def test_last_words_of_a_run_are_printed_before_the_next_run_says_anything() -> None:
    api = PodLogs(cuts=[Cut(1000), Cut(60)])
    api.prints(0, "begins")

    async def scene(terminal: Terminal) -> None:
        await eventually(lambda: api.ranks[0].runs[-1].was_asked_for)
        api.prints(0, "ValueError")
        api.restarts(0)
        await terminal.shows(0, 2)
        api.ends()

    _, out, _ = attached(api, scene)
    assert out == "0 | begins\n0 | ValueError\n"


def test_who_may_not_watch_is_shown_the_same() -> None:
    api = PodLogs()
    api.watch_list = False

    async def scene(terminal: Terminal) -> None:
        api.prints(0, "first")
        await terminal.shows(0, 1)
        api.restarts(0)
        api.prints(0, "second")
        await terminal.shows(0, 2)
        api.ends()

    assert attached(api, scene) == (
        0,
        "0 | first\n0 | second\n",
        f"TrainJob team/tj is Running, 1/1 nodes ready\n{COMPLETE}",
    )


def test_only_what_is_wanted_of_the_logs_is_printed() -> None:
    api = PodLogs(2)
    for rank in (0, 1):
        api.prints(rank, f"loss {rank}")
        api.prints(rank, "saved")
    api.ends()
    assert attached(api, rank="1", grep="loss") == (0, "loss 1\n", COMPLETE)
    assert attached(api, since=60.0)[1] == ""


def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    api = PodLogs()

    async def scene(terminal: Terminal) -> None:
        await terminal.says("is Running")
        for _ in range(2):
            api.refuse_next("GET", "/trainjobs", status(503, "ServiceUnavailable", "etcd is busy"))
        api.cut_watches()
        await terminal.says("trying again")
        api.prints(0, "goes on")
        api.ends()

    code, out, err = attached(api, scene)
    assert (code, out) == (0, "0 | goes on\n")
    assert err.count("503 ServiceUnavailable: etcd is busy; trying again\n") == 1


# --- the states ---------------------------------------------------------------------


def test_the_states_are_said_as_they_change_with_what_explain_finds() -> None:
    api = PodLogs()
    api.state("Pending")

    async def scene(terminal: Terminal) -> None:
        await terminal.says("is Pending")
        api.state("Running")
        await terminal.says("is Running")
        api.state("Running", trainerStatus={"progressPercentage": 42})
        await terminal.says("42%")
        api.state("Running", trainerStatus={"progressPercentage": 43})
        api.ends()

    code, _, err = attached(api, scene)
    assert code == 0
    first, *others = err.splitlines()
    assert first.startswith("TrainJob team/tj is Pending: OperatorNotRunning: ")
    assert others == [
        "TrainJob team/tj is Running, 1/1 nodes ready",
        "TrainJob team/tj is Running, 1/1 nodes ready, 42%",
        COMPLETE.strip(),
    ]


def test_explain_is_asked_once_while_nothing_changes() -> None:
    api = PodLogs()
    api.state("Queued")

    async def scene(terminal: Terminal) -> None:
        await terminal.says("is Queued")
        api.state("Queued", trainyard={"nodes": "0/1"})
        api.state("Queued", trainyard={"nodes": "0/2"})
        api.state("Running")
        await terminal.says("is Running")
        api.ends()

    attached(api, scene)
    looks = api.requests.count(("GET", TRAINJOB))
    assert looks == 3  # to find it, while it waits, and at its end


# --- the end ------------------------------------------------------------------------


ATTEMPT = {"attempt": 1, "job": "node", "index": 0, "pod": "tj-node-0-0-0", "node": "n1", "container": "node"}


@pytest.mark.parametrize(
    ("state", "attempt", "code"),
    [
        ("Complete", None, 0),
        ("Failed", {**ATTEMPT, "reason": "Error", "exitCode": 42}, 42),
        ("Failed", {**ATTEMPT, "reason": "OOMKilled", "exitCode": 137}, 137),
        ("Failed", {**ATTEMPT, "reason": "NodeLost", "exitCode": 143}, 1),
        ("Failed", {**ATTEMPT, "reason": "Error", "exitCode": 4711}, 1),
        ("Failed", None, 1),
    ],
)
def test_the_exit_code_is_that_of_the_job(state: str, attempt: dict[str, Any] | None, code: int) -> None:
    further = {} if attempt is None else {"trainyard": {"attempts": [attempt]}}

    async def scene(terminal: Terminal) -> None:
        api.prints(0, "trains")
        await terminal.shows(0, 1)
        api.ends(state, **further)

    api = PodLogs()
    assert attached(api, scene)[:2] == (code, "0 | trains\n")
    assert attached(api)[:2] == (code, "0 | trains\n")  # who comes later


def test_of_a_failure_the_cause_and_the_next_step_are_said_last() -> None:
    api = PodLogs()
    attempt = {**ATTEMPT, "reason": "Error", "exitCode": 42, "message": "no data"}
    api.ends("Failed", trainyard={"attempts": [attempt]})
    cause, step = attached(api)[2].splitlines()[-2:]
    assert cause.startswith("TrainJob team/tj has failed: AttemptFailed: ")
    assert "exit code 42" in cause
    assert step.startswith("Next step: ")


def test_a_job_that_is_deleted_ends_it_and_another_of_its_name_is_not_followed() -> None:
    api = PodLogs()

    async def scene(terminal: Terminal) -> None:
        api.prints(0, "first")
        await terminal.shows(0, 1)
        api.remove(TRAINJOB)
        api.hang_up()
        api.remove(f"{PODS}/{api.ranks[0].pod}")
        api.state("Running")

    code, out, err = attached(api, scene)
    assert (code, out, err.splitlines()[-1]) == (1, "0 | first\n", "TrainJob team/tj was deleted")


def test_rights_that_are_lost_end_it_with_a_sentence() -> None:
    api = PodLogs()

    async def scene(terminal: Terminal) -> None:
        await terminal.says("is Running")
        await eventually(lambda: api.ranks[0].runs[-1].was_asked_for)
        api.refuse_next("GET", "/log", status(403, "Forbidden"))
        api.restarts(0)

    with pytest.raises(
        UserError, match=r"^you are not allowed to read logs \(get pods/log\) in namespace team$"
    ):
        attached(api, scene)


def test_without_the_right_to_see_pods_the_states_follow_to_the_exit_code_of_the_job() -> None:
    api, out, err, afterwards = PodLogs(), io.StringIO(), io.StringIO(), io.StringIO()

    def attach(url: str, err: io.StringIO) -> int:
        for _ in range(2):  # explain looks at them too
            api.refuse_next("GET", "/pods", status(403, "Forbidden"))
        credentials = Credentials(server=url, tls=None, namespace="team")
        return command.attach(credentials, None, "tj", out=out, err=err)

    async def answer() -> tuple[int, int]:
        async with api.serving() as url:
            attaching = asyncio.create_task(asyncio.to_thread(attach, url, err))
            await eventually(lambda: attaching.done() or api.watched(TRAINJOB.rpartition("/")[0]))
            attempt = {**ATTEMPT, "reason": "Error", "exitCode": 42}
            api.ends("Failed", trainyard={"attempts": [attempt]})
            return await attaching, await asyncio.to_thread(attach, url, afterwards)

    assert (run_test(answer, timeout=60), out.getvalue()) == ((42, 42), "")
    runs, hidden, cause, step = err.getvalue().splitlines()
    assert runs == "TrainJob team/tj is Running, 1/1 nodes ready"
    assert hidden == (
        "you are not allowed to list pods in namespace team: "
        "only the states and the outcome of the job follow"
    )
    assert cause.startswith("TrainJob team/tj has failed: AttemptFailed: ")
    assert step.startswith("Next step: ")
    assert afterwards.getvalue().splitlines() == [hidden, cause, step]


def test_a_log_that_can_no_longer_be_read_does_not_hold_up_the_end() -> None:
    api = PodLogs()
    lost = status(500, "InternalError", "dial tcp 10.0.0.7:10250: connect: no route to host")

    async def scene(terminal: Terminal) -> None:
        api.prints(0, "first")
        await terminal.shows(0, 1)
        for _ in range(20):
            api.refuse_next("GET", "/log", lost)
        api.ends()

    code, out, err = attached(api, scene)
    assert (code, out) == (0, "0 | first\n")
    assert f"Could not read all of rank 0: {lost['message']}\n" in err


# --- leaving ------------------------------------------------------------------------


def test_ctrl_c_leaves_the_job_running_and_says_how_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real signal, while the API server answers from another thread."""
    api, ends, serving = PodLogs(), threading.Event(), threading.Event()
    out, err, urls = io.StringIO(), io.StringIO(), []

    async def serve() -> None:
        api._changed = asyncio.Event()
        api.prints(0, "first")
        async with api.serving() as url:
            urls.append(url)
            serving.set()
            await eventually(lambda: "first" in out.getvalue())
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.to_thread(ends.wait)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=lambda: run_test(serve))
    thread.start()
    try:
        serving.wait()
        code = command.attach(
            Credentials(server=urls[0], tls=None, namespace="team"),
            None,
            "tj",
            again=["--namespace", "team"],
            out=out,
            err=err,
        )
    finally:
        signal.signal(signal.SIGINT, before)
        ends.set()
        thread.join()
    assert (code, out.getvalue()) == (130, "0 | first\n")
    assert err.getvalue() == (
        "TrainJob team/tj is Running, 1/1 nodes ready\n"
        "TrainJob team/tj is Running, and continues. To come back: trainyard attach tj --namespace team\n"
    )
    assert api.writes() == []


def test_a_pipe_that_closes_is_told_like_ctrl_c() -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    api, err = PodLogs(), io.StringIO()
    api.prints(0, "first")

    async def answer() -> None:
        async with api.serving() as url:
            credentials = Credentials(server=url, tls=None, namespace="team")
            again = ["--context", "lab"]
            await asyncio.to_thread(
                command.attach, credentials, None, "tj", again=again, out=Closed(), err=err
            )

    with pytest.raises(BrokenPipeError):
        run_test(answer)
    assert err.getvalue().splitlines()[-1] == (
        "TrainJob team/tj is Running, and continues. To come back: trainyard attach tj --context lab"
    )


def test_a_job_with_too_many_pods_continues_and_the_way_to_follow_a_rank_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "MOST", 1)
    api = PodLogs(2)

    async def answer() -> None:
        async with api.serving() as url:
            credentials = Credentials(server=url, tls=None, namespace="team")
            await asyncio.to_thread(command.attach, credentials, None, "tj", again=["--context", "lab"])

    with pytest.raises(UserError) as refused:
        run_test(answer)
    assert str(refused.value) == (
        "TrainJob tj has more than 1 pods, too many to read: say which with --rank\n"
        "TrainJob team/tj is Running, and continues. "
        "To come back: trainyard attach tj --rank 0 --context lab"
    )


# --- the command --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"job": "../x"}, "'../x' is not a valid name of an object"),
        ({"namespace": "A"}, "'A' is not a valid name of an object"),
        ({"since": "yesterday"}, "--since must be a duration such as 15s, 10m, 24h or 7d; is 'yesterday'"),
        ({"kubeconfig": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(options: dict[str, Any], sentence: str) -> None:
    code, out, err = answered(command.run, **{"job": "tj", **options})
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_of_an_unknown_job_the_nearest_name_is_said() -> None:
    api = PodLogs()
    api.put(TRAINJOB.replace("/tj", "/tj-2"), {})
    api.remove(TRAINJOB)
    sentence = r"^TrainJob tj is not found: namespace team has none of this name; did you mean tj-2\?$"
    with pytest.raises(UserError, match=sentence):
        attached(api)
