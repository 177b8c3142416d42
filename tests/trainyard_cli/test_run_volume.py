"""A folder that is brought onto a claim before its TrainJob is sent."""

import asyncio
import io
import signal
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support.desk import Desk
from tests.support.fake_api import run as run_test
from tests.support.fake_api import status
from tests.support.pod_logs import TRAINJOB
from trainyard_api.errors import UserError
from trainyard_assist import workspace, workspace_scripts
from trainyard_assist.run import interactive
from trainyard_assist.workspace import Packed
from trainyard_cli.cluster import run
from trainyard_cli.cluster import workspace as cluster
from trainyard_cli.commands import attach
from trainyard_cli.commands import run_volume as command
from trainyard_kube.credentials import Credentials

JOBS = TRAINJOB.rpartition("/")[0]
CARRIER = {"metadata": {"name": "tj", "namespace": "team"}}
PACKED = Packed(b"packed" * 50_000, "d1ge57", claim="results")
BEGINS = "TrainJob team/tj brings the folder onto PersistentVolumeClaim results\n"


class Carrier(Desk):
    """The carrier `team/tj`, which runs as soon as it is sent, with its claim below `root`."""

    is_interrupted = False
    """Whether its user presses Ctrl-C while it is sent."""

    async def _post(self, request: web.Request, body: Any) -> web.Response:
        if request.path == JOBS:
            if self.is_interrupted:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                await asyncio.sleep(0.2)
            return web.json_response(self.objects[TRAINJOB], status=201)
        return await super()._post(request, body)

    @property
    def file(self) -> Path:
        """Where the archive goes."""
        return self.root / workspace.ON_VOLUME / "d1ge57" / "workspace.tar.gz"


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Carrier:
    monkeypatch.setattr(workspace_scripts, "PACKED", str(tmp_path))
    carrier = Carrier(tmp_path)
    carrier.prints(0, interactive.READY)
    return carrier


def brought(api: Carrier, err: io.StringIO | None = None) -> str:
    """What is said while the folder is brought."""
    err = err or io.StringIO()

    def bring(url: str) -> None:
        credentials = Credentials(url, None, namespace="team", options=("--context", "lab"))
        command.bring(credentials, CARRIER, PACKED, err=err)

    async def test() -> None:
        async with api.serving() as url:
            await asyncio.to_thread(bring, url)

    try:
        run_test(test, timeout=60)
    except UserError as error:
        raise UserError(f"{err.getvalue()}{error}") from error
    return err.getvalue()


def test_a_folder_is_written_whole_and_the_carrier_is_cancelled(api: Carrier) -> None:
    said = brought(api)
    assert said.startswith(BEGINS)
    assert said.endswith("The folder is there\nTrainJob team/tj is cancelled\n")
    assert api.file.read_bytes() == PACKED.archive
    assert [*api.file.parent.iterdir()] == [api.file]
    assert not api.is_there


def test_a_folder_that_is_there_is_not_sent_twice(api: Carrier) -> None:
    api.file.parent.mkdir(parents=True)
    there = bytes(len(PACKED.archive))
    api.file.write_bytes(there)
    assert brought(api).endswith("The folder was there already\nTrainJob team/tj is cancelled\n")
    assert api.file.read_bytes() == there


def test_a_folder_of_which_only_a_part_is_there_is_replaced(api: Carrier) -> None:
    api.file.parent.mkdir(parents=True)
    api.file.write_bytes(PACKED.archive[:1000])
    assert brought(api).endswith("The folder is there\nTrainJob team/tj is cancelled\n")
    assert api.file.read_bytes() == PACKED.archive


def test_an_upload_that_is_cut_leaves_nothing(api: Carrier, monkeypatch: pytest.MonkeyPatch) -> None:
    async def cut(archive: bytes) -> AsyncGenerator[bytes]:
        yield archive[:1000]

    monkeypatch.setattr(cluster, "_pieces", cut)
    why = "written to PersistentVolumeClaim results: 1000 of 300000 bytes were written$"
    with pytest.raises(UserError, match=why):
        brought(api)
    assert [*api.file.parent.iterdir()] == []


def test_a_claim_that_cannot_be_written_is_told_and_the_carrier_is_cancelled(api: Carrier) -> None:
    (api.root / workspace.ON_VOLUME).write_text("no folder")
    with pytest.raises(
        UserError, match="TrainJob team/tj is cancelled\nnothing has been sent: the folder"
    ) as told:
        brought(api)
    assert "cannot be written to PersistentVolumeClaim results: mkdir: " in str(told.value)
    assert not api.is_there


def test_a_carrier_that_is_refused_or_ends_too_early_is_told(api: Carrier) -> None:
    api.refuse_next("POST", JOBS, status(403, "Forbidden", "no quota"))
    with pytest.raises(UserError, match=r"TrainJob tj, which brings the folder, is not sent: .*no quota"):
        brought(api)
    api.ranks[0].runs[0].lines.clear()
    api.ends("Failed")
    with pytest.raises(UserError, match="nothing has been sent: TrainJob team/tj has ended before it had"):
        brought(api)


def test_without_the_right_to_run_commands_in_pods_no_carrier_is_sent(api: Carrier) -> None:
    api.allowed.remove("get")
    with pytest.raises(UserError, match=r"^you are not allowed to run commands in the pods of namespace"):
        brought(api)
    assert ("POST", JOBS) not in api.requests


def test_a_carrier_that_cannot_be_cancelled_says_how_to_end_it(api: Carrier) -> None:
    api.refuse_next("DELETE", TRAINJOB, status(403, "Forbidden", 'User "ada" cannot delete resource'))
    assert brought(api).endswith(
        "TrainJob team/tj: you are not allowed to delete TrainJobs in namespace team. "
        "To end it: trainyard cancel tj -n team --context lab\n"
    )


async def interrupted(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


NO_ANSWER = status(504, "Timeout", "no answer")


def test_a_carrier_that_is_stored_though_nobody_says_so_brings_the_folder_and_is_cancelled(
    api: Carrier,
) -> None:
    api.refuse_next("POST", JOBS, NO_ANSWER)
    assert brought(api).endswith("The folder is there\nTrainJob team/tj is cancelled\n")
    assert not api.is_there


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            status(404, "NotFound"),
            "there is no TrainJob team/tj after this answer: 504 Timeout: no answer; before you send it "
            "again, look for it once more: trainyard jobs -n team --context lab",
        ),
        (
            NO_ANSWER,
            "it is unknown whether TrainJob team/tj was created (504 Timeout: no answer); "
            "look for it: trainyard jobs -n team --context lab",
        ),
    ],
    ids=["not there", "unknown"],
)
def test_a_carrier_that_may_be_stored_is_told_with_the_way_to_look(
    answer: dict[str, Any], sentence: str, api: Carrier
) -> None:
    api.refuse_next("POST", JOBS, NO_ANSWER)
    api.refuse_next("GET", TRAINJOB, answer)
    with pytest.raises(UserError) as told:
        brought(api)
    assert str(told.value) == sentence


def test_ctrl_c_while_the_carrier_is_sent_waits_for_the_answer_and_cancels_it(api: Carrier) -> None:
    """A real signal, while the API server answers from another thread."""
    err, urls, serving, ends = io.StringIO(), list[str](), threading.Event(), threading.Event()
    api.is_interrupted = True

    async def serve() -> None:
        async with api.serving() as url:
            urls.append(url)
            serving.set()
            await asyncio.to_thread(ends.wait)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=lambda: run_test(serve))
    thread.start()
    try:
        serving.wait()
        with pytest.raises(KeyboardInterrupt):
            command.bring(Credentials(urls[0], None, namespace="team"), CARRIER, PACKED, err=err)
    finally:
        signal.signal(signal.SIGINT, before)
        ends.set()
        thread.join()
    assert (err.getvalue(), api.is_there) == ("TrainJob team/tj is cancelled\n", False)


def test_a_second_ctrl_c_while_the_carrier_is_sent_does_not_wait_and_says_how_to_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "create", interrupted)
    err, nowhere = io.StringIO(), Credentials("http://127.0.0.1:1", None, options=("--context", "lab"))
    with pytest.raises(KeyboardInterrupt):
        command.bring(nowhere, CARRIER, PACKED, err=err)
    assert err.getvalue() == (
        "Interrupted: TrainJob team/tj may run. To end it: trainyard cancel tj -n team --context lab\n"
    )


def test_a_reader_that_is_gone_before_the_carrier_is_told_of_cancels_it(api: Carrier) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        brought(api, Closed())
    assert not api.is_there


def test_ctrl_c_cancels_the_carrier(api: Carrier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "follow", interrupted)
    with pytest.raises(KeyboardInterrupt):
        brought(api)
    assert not api.is_there
