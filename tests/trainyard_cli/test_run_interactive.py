"""`trainyard run --interactive`: when the shell opens, and what becomes of the job after it."""

import asyncio
import io
import os
import pty
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.desk import Desk
from tests.support.fake_api import run as run_test
from tests.support.fake_api import status
from tests.support.pod_logs import TRAINJOB, Rank, Run
from trainyard_api.errors import UserError
from trainyard_assist.run import interactive
from trainyard_assist.run.interactive import Waiting
from trainyard_assist.stops import Answer, Outcome, Seen
from trainyard_cli import interrupts
from trainyard_cli.cluster import logs, remote_command, stops, terminal
from trainyard_cli.commands import attach
from trainyard_cli.commands import exec as execution
from trainyard_cli.commands import run_interactive as command
from trainyard_cli.commands.run_interactive import Shell
from trainyard_kube.credentials import Credentials

GOES_ON = (
    "TrainJob team/tj continues, 8 h at most. To come back: trainyard exec tj -n team --context x. "
    "To end it: trainyard cancel tj -n team --context x"
)
SENT = "TrainJob team/tj is sent.\n"
SAYS = ("sh", "-c", "echo in the shell; exit 3")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Its first rank is ready, after it has said something."""
    api = Desk(tmp_path)
    api.prints(0, "Collecting einops")
    api.prints(0, interactive.READY)
    return api


def opened(api: Desk, shell: Shell, out: io.StringIO | None = None) -> tuple[int, str, str, bytes]:
    """The exit code, the lines before the shell, what is said, and the output of the shell."""
    out, err, printed = out or io.StringIO(), io.StringIO(), os.memfd_create("printed")
    nothing = os.open(os.devnull, os.O_RDONLY)

    def ask(url: str) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", "/dev/null")  # it may lead to another cluster by now
            return command.open_shell(
                Credentials(server=url, tls=None, namespace="team", options=("--context", "x")),
                api.objects[TRAINJOB],
                shell,
                descriptors=(nothing, printed, printed),
                out=out,
                err=err,
            )

    async def test() -> int:
        async with api.serving() as url:
            return await asyncio.to_thread(ask, url)

    try:
        code = run_test(test, timeout=60)
        return code, out.getvalue(), err.getvalue(), os.pread(printed, 10**6, 0)
    except UserError as error:
        raise UserError(f"{err.getvalue()}{error}") from error
    finally:
        os.close(printed)
        os.close(nothing)


def test_the_shell_opens_once_the_first_rank_is_ready_and_the_job_ends_with_it(desk: Desk) -> None:
    code, out, err, printed = opened(desk, Shell(SAYS))
    assert (code, out, printed) == (3, f"{SENT}0 | Collecting einops\n", b"in the shell\n")
    assert err.endswith("TrainJob team/tj is cancelled\n")
    assert not desk.is_there


def test_of_a_job_with_too_many_pods_only_the_first_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST", 1)
    monkeypatch.setattr(command, "MOST_LOGS", 1)
    api = Desk(tmp_path)
    api.put(TRAINJOB, {**api.objects[TRAINJOB], "spec": {"trainer": {"numNodes": 2}}})
    api.ranks.append(Rank("tj-node-0-1-0", [Run()]))
    api._shows(1)
    api.prints(1, "of another rank")
    api.prints(0, "Collecting einops")
    api.prints(0, interactive.READY)
    assert opened(api, Shell(SAYS))[:2] == (3, f"{SENT}0 | Collecting einops\n")


def test_with_keep_the_job_goes_on_and_the_way_back_is_said(desk: Desk) -> None:
    code, _, err, _ = opened(desk, Shell(SAYS, Waiting(keep=True)))
    assert (code, err.splitlines()[-1], desk.is_there) == (3, GOES_ON, True)


def test_a_connection_that_is_cut_ends_no_job(desk: Desk) -> None:
    desk.cut = True
    with pytest.raises(
        UserError, match="the connection was cut: what was started in tj may still run\n"
    ) as cut:
        opened(desk, Shell(("sh", "-c", "echo begun; sleep 60")))
    assert (str(cut.value).splitlines()[-1], desk.is_there) == (GOES_ON, True)


def test_a_job_in_which_no_shell_can_be_opened_is_cancelled(desk: Desk) -> None:
    for _ in range(2):  # the second time it is asked why
        desk.refuse_next("GET", "/exec", status(403, "Forbidden"))
    with pytest.raises(UserError, match="TrainJob team/tj is cancelled\nyou are not allowed to run commands"):
        opened(desk, Shell())
    assert not desk.is_there


def test_a_job_whose_logs_may_not_be_read_is_cancelled(desk: Desk) -> None:
    desk.refuse_next("GET", "/log", status(403, "Forbidden"))
    with pytest.raises(UserError, match="TrainJob team/tj is cancelled\nyou are not allowed to read logs"):
        opened(desk, Shell())
    assert not desk.is_there


def test_a_job_that_ends_before_its_shell_has_its_own_exit_code_and_stays(tmp_path: Path) -> None:
    api = Desk(tmp_path)
    api.prints(0, "trainyard: the requirements of r.txt are not installed: pip says above why not")
    api.ends("Failed")
    code, out, err, printed = opened(api, Shell())
    assert (code, printed, api.is_there) == (1, b"", True)
    assert out.endswith("pip says above why not\n")
    assert "TrainJob team/tj has failed: " in err


def test_ctrl_c_before_the_shell_cancels_the_job(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: Any, **__: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(attach, "follow", interrupted)
    code, _, err, _ = opened(desk, Shell())
    assert (code, err, desk.is_there) == (130, "TrainJob team/tj is cancelled\n", False)


def test_a_pipe_that_closes_before_the_shell_cancels_the_job(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closed(*_: Any, **__: Any) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(attach, "follow", closed)
    with pytest.raises(BrokenPipeError):
        opened(desk, Shell())
    assert not desk.is_there


@pytest.mark.parametrize("error", [BrokenPipeError, OSError])
def test_a_reader_that_is_gone_before_the_job_is_told_of_cancels_the_job(
    desk: Desk, error: type[OSError]
) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise error

    with pytest.raises(error):
        opened(desk, Shell(), Closed())
    assert not desk.is_there


@pytest.mark.parametrize("verb", ["get", "create"])
def test_without_the_right_to_open_a_shell_nothing_is_sent(desk: Desk, verb: str) -> None:
    desk.allowed.remove(verb)
    created: list[object] = []

    async def create(_: object) -> dict[str, Any]:
        created.append("tj")
        return desk.objects[TRAINJOB]

    def ask(url: str) -> int:
        credentials = Credentials(server=url, tls=None, namespace="team")
        trainjob = desk.objects[TRAINJOB]
        return command.run(credentials, trainjob, create, Shell(), out=io.StringIO(), err=io.StringIO())

    async def test() -> int:
        async with desk.serving() as url:
            return await asyncio.to_thread(ask, url)

    with pytest.raises(UserError, match=r"^you are not allowed to run commands in the pods of namespace"):
        run_test(test, timeout=60)
    assert created == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_who_leaves_while_the_job_is_sent_waits_for_the_answer_and_cancels_it(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    trainjob = {"metadata": {"name": "tj", "namespace": "team"}}
    stored = {"metadata": {**trainjob["metadata"], "uid": "stored"}}
    cancelled: list[object] = []

    async def sent(_: object) -> dict[str, Any]:
        signal.raise_signal(number)
        await asyncio.sleep(0.05)
        return stored

    async def cancel(_: object, seen: Seen) -> Answer:
        cancelled.append(seen.trainjob)
        return Answer("team", "tj", Outcome.CANCELLED, "TrainJob team/tj is cancelled")

    monkeypatch.setattr(stops, "cancel", cancel)
    out, err = io.StringIO(), io.StringIO()
    nowhere = Credentials("http://127.0.0.1:1", None)
    code = command.run(nowhere, trainjob, sent, Shell(), out=out, err=err)
    assert (code, out.getvalue(), err.getvalue()) == (130, "", "TrainJob team/tj is cancelled\n")
    assert cancelled == [stored]


def test_who_leaves_while_the_right_is_asked_for_has_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    trainjob = {"metadata": {"name": "tj", "namespace": "team"}}

    async def asks(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(60)

    async def sent(_: object) -> dict[str, Any]:
        raise AssertionError

    monkeypatch.setattr(remote_command, "require_right", asks)
    out, err = io.StringIO(), io.StringIO()
    nowhere = Credentials("http://127.0.0.1:1", None)
    assert command.run(nowhere, trainjob, sent, Shell(), out=out, err=err) == 130
    assert (out.getvalue(), err.getvalue()) == ("", "Interrupted: TrainJob team/tj is not sent\n")


@pytest.mark.parametrize("keep", [False, True])
def test_a_pipe_that_closes_during_the_shell_cancels_the_job_unless_it_is_kept(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    def closed(*_: Any, **__: Any) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(execution, "run", closed)
    with pytest.raises(BrokenPipeError):
        opened(desk, Shell(SAYS, Waiting(keep=keep)))
    assert desk.is_there is keep


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_who_closes_the_terminal_cancels_like_ctrl_c(number: signal.Signals) -> None:
    @interrupts.like_ctrl_c()
    def waits() -> str:
        async def forever() -> None:
            asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), number)
            await asyncio.Event().wait()

        try:
            asyncio.run(forever())
        except KeyboardInterrupt:
            return "cancelled"
        raise AssertionError

    assert waits() == "cancelled"
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_terminal_that_is_closed_sends_several_signals_and_only_the_first_interrupts() -> None:
    events = []

    @interrupts.like_ctrl_c()
    def waits() -> None:
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM):
            try:
                signal.raise_signal(number)
            except KeyboardInterrupt:
                events.append(number)

    waits()
    assert events == [signal.SIGHUP]


def test_a_terminal_that_is_closed_during_the_shell_does_not_interrupt_what_comes_after_it() -> None:
    events = []

    async def shell() -> None:
        controller, screen = pty.openpty()
        try:
            with terminal.raw(screen):
                signal.raise_signal(signal.SIGHUP)
                await asyncio.Event().wait()
        finally:
            os.close(controller)
            os.close(screen)

    @interrupts.like_ctrl_c()
    def opens() -> None:
        try:
            asyncio.run(shell())
        except asyncio.CancelledError:
            events.append("the shell is left")
        signal.raise_signal(signal.SIGHUP)
        events.append("the job is deleted")

    opens()
    assert events == ["the shell is left", "the job is deleted"]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


@interrupts.like_ctrl_c()
def test_a_terminal_that_is_closed_while_its_job_is_cancelled_does_not_keep_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def closed(*_: Any) -> Answer:
        signal.raise_signal(signal.SIGHUP)
        await asyncio.sleep(0)
        return Answer("team", "tj", Outcome.CANCELLED, "TrainJob team/tj is cancelled")

    monkeypatch.setattr(stops, "cancel", closed)
    trainjob = {"metadata": {"name": "tj", "namespace": "team"}}
    cancelled = command.cancelled(Credentials("http://127.0.0.1:1", None), trainjob)
    assert cancelled == "TrainJob team/tj is cancelled"


def test_a_job_that_cannot_be_cancelled_says_how_to_end_it(desk: Desk) -> None:
    desk.refuse_next("DELETE", TRAINJOB, status(403, "Forbidden", 'User "ada" cannot delete resource'))
    assert opened(desk, Shell(SAYS))[2].endswith(
        "TrainJob team/tj: you are not allowed to delete TrainJobs in namespace team. "
        "To end it: trainyard cancel tj -n team --context x\n"
    )


@pytest.mark.parametrize(
    ("limits", "sentence"),
    [
        (("2 h", None), "--time-limit must be a duration such as 15s, 10m, 24h or 7d; is '2 h'"),
        (("0s", None), "--time-limit must be more than 0s, and at most 30d; is 0s"),
        (("31d", None), "--time-limit must be more than 0s, and at most 30d; is 31d"),
        ((None, "1.5h"), "--idle-limit must be a duration such as 15s, 10m, 24h or 7d; is '1.5h'"),
    ],
)
def test_a_wrong_limit_is_told(limits: tuple[str | None, str | None], sentence: str) -> None:
    with pytest.raises(UserError) as error:
        Shell.of((), *limits, keep=False)
    assert str(error.value) == sentence


def test_what_the_plan_says_of_it() -> None:
    cases = ((None, None, False, 1), (None, "30m", True, 1), ("90m", None, True, 1), (None, "0s", False, 1))
    assert [
        Shell.of((), time_limit, idle_limit, keep=keep).waiting.sentence(nodes)
        for time_limit, idle_limit, keep, nodes in (*cases, (None, None, False, 2))
    ] == [
        "in rank 0; the job ends with it, after 2 h without use, or after 8 h (--time-limit)",
        "in rank 0; the job ends after 30 min without use, or after 8 h (--time-limit)",
        "in rank 0; the job ends after 1 h 30 min (--time-limit)",
        "in rank 0; the job ends with it, or after 8 h (--time-limit)",
        "in rank 0; the job ends with it, or after 8 h (--time-limit); "
        "what the 2 nodes do together has to be started on each",
    ]


# --- what the nodes run -------------------------------------------------------------


@pytest.mark.parametrize("waiting", [Waiting(0), Waiting(2, idle=1.5)], ids=["used or not", "while used"])
def test_a_node_says_that_it_is_ready_and_is_complete_after_its_time(waiting: Waiting) -> None:
    answer = subprocess.run(waiting.command(1), capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout, answer.stderr) == (
        0,
        "trainyard: ready\ntrainyard: its time is over\n",
        "",
    )


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_node_that_is_ended_does_not_wait_to_be_killed_and_is_not_complete(nodes: int) -> None:
    command = Waiting().command(nodes)
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as node:
        assert node.stdout is not None
        assert node.stdout.readline() == b"trainyard: ready\n"
        node.terminate()
        code = node.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(node.pid, 9)  # the sleep, if it is still there: it ends with the container
    assert code == 143
