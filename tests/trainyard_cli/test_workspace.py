"""A TrainJob and the Secret with its folder: both are created, or nothing is left."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from tests.support.fake_api import FakeApi, status
from tests.support.fake_api import run as run_test
from tests.support.objects import JOBS, runtime, trainjob
from trainyard_api.errors import UserError
from trainyard_assist import workspace as pure
from trainyard_assist.workspace import Objects, Packed
from trainyard_cli.cluster import workspace
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials

T = TypeVar("T")

SECRETS = "/api/v1/namespaces/team/secrets"
PACKED = Packed(b"packed", "0123456789abcdef" * 4, "4711", "main", dirty=False)
NAME = "tj-workspace-0123456789-n0nce"
NO_ANSWER = status(503, "ServiceUnavailable", "no answer")
NO_RIGHT = status(
    403, "Forbidden", 'secrets is forbidden: User "ada" cannot create resource "secrets" in API group ""'
)
WRITES = [("POST", SECRETS), ("POST", JOBS), ("POST", SECRETS)]
"""The first is a dry run."""


def objects() -> Objects:
    its_runtime = runtime()
    its_runtime["metadata"]["uid"] = "u"
    manifest = trainjob(trainer={"command": ["python", "train.py"]})
    return pure.with_workspace(manifest, PACKED, its_runtime, "n0nce")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace, "_PAUSE", 0.0)


def asked(api: FakeApi, question: Callable[[Client], Awaitable[T]]) -> T:
    async def answer() -> T:
        async with (
            api.serving() as url,
            Client(Credentials(url, None, options=("--context", "lab"))) as client,
        ):
            return await question(client)

    return run_test(answer, timeout=60)


def sent(api: FakeApi) -> dict[str, Any]:
    return asked(api, lambda client: workspace.send(client, "team", objects()))


def refusal(api: FakeApi) -> str:
    with pytest.raises(UserError) as refused:
        sent(api)
    return str(refused.value)


def test_the_trainjob_is_created_and_then_the_secret_that_belongs_to_it() -> None:
    api = FakeApi()
    created = sent(api)
    assert api.writes() == WRITES
    assert api.bodies[0] == {**objects().secret, "data": {}}
    assert api.objects[f"{JOBS}/tj"] == created
    assert created["spec"] == objects().trainjob["spec"]
    secret = api.objects[f"{SECRETS}/{NAME}"]
    owner = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "name": "tj",
        "uid": created["metadata"]["uid"],
    }
    assert secret["metadata"]["ownerReferences"] == [owner]
    assert secret["data"] == objects().secret["data"]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            NO_RIGHT,
            "you are not allowed to create Secrets in namespace team, in which a workspace travels: ask the "
            "platform team for the right `secrets`, or put the files into an image",
        ),
        (
            status(403, "Forbidden", "exceeded quota: tenant"),
            "nothing is sent: the workspace's Secret is refused: 403 Forbidden: exceeded quota: tenant",
        ),
        (NO_ANSWER, "nothing is sent: 503 ServiceUnavailable: no answer"),
    ],
    ids=["no right", "a full quota", "no answer"],
)
def test_a_secret_that_would_be_refused_is_told_before_the_trainjob_is_there(
    answer: dict[str, Any], sentence: str
) -> None:
    api = FakeApi()
    api.refuse_next("POST", SECRETS, answer)
    assert refusal(api) == sentence
    assert (api.writes(), api.objects) == (WRITES[:1], {})


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (status(409, "AlreadyExists"), "TrainJob tj: namespace team has one of this name: choose another"),
        (
            status(403, "Forbidden", "no such runtime"),
            "TrainJob tj is refused: 403 Forbidden: no such runtime",
        ),
        (NO_ANSWER, "TrainJob tj is not sent: 503 ServiceUnavailable: no answer"),
    ],
    ids=["its name is taken", "refused", "no answer"],
)
def test_a_trainjob_that_is_refused_leaves_nothing(answer: dict[str, Any], sentence: str) -> None:
    api = FakeApi()
    api.refuse_next("POST", JOBS, answer)
    assert refusal(api) == sentence
    assert api.objects == {}


class Losing(FakeApi):
    """An API server whose first answer to a creation in a collection is lost, after it has created."""

    def __init__(self, collection: str) -> None:
        super().__init__()
        self.collection = collection

    async def _post(self, request: Any, body: Any) -> Any:
        answer = await super()._post(request, body)
        if request.path == self.collection and not request.query.get("dryRun"):
            self.collection = ""
            request.transport.abort()
        return answer


@pytest.mark.parametrize("collection", [JOBS, SECRETS], ids=["the TrainJob's", "the Secret's"])
def test_an_answer_that_is_lost_changes_nothing(collection: str) -> None:
    api = Losing(collection)
    created = sent(api)
    assert set(api.objects) == {f"{JOBS}/tj", f"{SECRETS}/{NAME}"}
    [owner] = api.objects[f"{SECRETS}/{NAME}"]["metadata"]["ownerReferences"]
    assert owner["uid"] == created["metadata"]["uid"]


def test_a_trainjob_of_somebody_else_is_not_taken_for_ours() -> None:
    api = FakeApi()
    other = api.put(f"{JOBS}/tj", trainjob())
    api.refuse_next("POST", JOBS, NO_ANSWER)
    assert refusal(api) == "TrainJob tj is not sent: 503 ServiceUnavailable: no answer"
    assert api.objects == {f"{JOBS}/tj": other}


def test_where_nobody_answers_any_more_the_user_is_told_what_to_look_for() -> None:
    api = FakeApi()
    api.refuse_next("POST", JOBS, NO_ANSWER)
    api.refuse_next("GET", f"{JOBS}/tj", NO_ANSWER)
    assert refusal(api) == (
        "it is unknown whether TrainJob tj was created: 503 ServiceUnavailable: no answer; look with "
        "`kubectl get trainjob tj -n team --context lab` and delete it: its workspace was not sent"
    )


class Refusing(FakeApi):
    """An API server that refuses Secrets once the TrainJob is there."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__()
        self.answer = answer

    async def _post(self, request: Any, body: Any) -> Any:
        for _ in range(3 if request.path == JOBS else 0):
            self.refuse_next("POST", SECRETS, self.answer)
        return await super()._post(request, body)


@pytest.mark.parametrize(
    ("answer", "attempts", "reason"),
    [
        (status(403, "Forbidden", "no"), 1, "403 Forbidden: no"),
        (status(409, "AlreadyExists", "taken"), 1, "409 AlreadyExists: taken"),
        (NO_ANSWER, 3, "503 ServiceUnavailable: no answer"),
    ],
    ids=["refused", "a stranger's", "no answer"],
)
def test_without_its_secret_the_trainjob_is_deleted_again(
    answer: dict[str, Any], attempts: int, reason: str
) -> None:
    api = Refusing(answer)
    assert refusal(api) == (
        f"TrainJob tj: its workspace could not be sent: {reason}; the TrainJob is deleted again"
    )
    assert api.objects == {}
    assert api.writes() == [*WRITES[:2], *attempts * [("POST", SECRETS)], ("DELETE", f"{JOBS}/tj")]


def test_a_trainjob_that_cannot_be_deleted_again_is_told() -> None:
    api = Refusing(status(403, "Forbidden", "no"))
    api.refuse_next("DELETE", f"{JOBS}/tj", status(403, "Forbidden", "never"))
    assert refusal(api) == (
        "TrainJob tj: its workspace could not be sent: 403 Forbidden: no; TrainJob tj could not be deleted "
        "(403 Forbidden: never), and its pods will wait for the workspace: "
        "`kubectl delete trainjob tj -n team --context lab`"
    )


class Waiting(FakeApi):
    """An API server during whose answer to a creation the user presses Ctrl-C."""

    def __init__(self, collection: str) -> None:
        super().__init__()
        self.collection = collection
        self.interrupt: Callable[[], object] = lambda: None

    async def _post(self, request: Any, body: Any) -> Any:
        if request.path == self.collection and not request.query.get("dryRun"):
            self.interrupt()
            await asyncio.sleep(0)
        return await super()._post(request, body)


@pytest.mark.parametrize("collection", [JOBS, SECRETS], ids=["the TrainJob's", "the Secret's"])
def test_who_interrupts_leaves_nothing_behind(collection: str) -> None:
    api = Waiting(collection)

    async def interrupted(client: Client) -> bool:
        sending = asyncio.ensure_future(workspace.send(client, "team", objects()))
        api.interrupt = sending.cancel
        await asyncio.wait({sending})
        return sending.cancelled()

    assert asked(api, interrupted) is True
    assert [path for path in api.objects if path.startswith(JOBS)] == []
    assert api.writes()[-1] == ("DELETE", f"{JOBS}/tj")


def test_the_folder_of_a_trainjob_is_read_to_send_it_again() -> None:
    api = FakeApi()
    created = sent(api)
    assert asked(api, lambda client: workspace.fetch(client, "team", created)) == PACKED
    assert asked(api, lambda client: workspace.fetch(client, "team", trainjob())) is None
    api.remove(f"{SECRETS}/{NAME}")
    with pytest.raises(UserError) as refused:
        asked(api, lambda client: workspace.fetch(client, "team", created))
    assert str(refused.value) == (
        f"the workspace of TrainJob tj cannot be read: Secret {NAME}: 404 NotFound: NotFound; "
        "send the TrainJob with its folder"
    )
