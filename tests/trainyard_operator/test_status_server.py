"""Reports of progress over HTTPS: who may send them, what becomes of them, and what floods do."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from kubeflow.trainer.backends.kubernetes import utils as sdk

from tests.support import objects
from tests.support.fake_api import FakeApi, run, status
from trainyard_api.rate import Buckets
from trainyard_kube.client import Client
from trainyard_operator.core.decide.views import jobset_of, trainjob_of
from trainyard_operator.core.status import progress
from trainyard_operator.metrics import Metrics
from trainyard_operator.serve import certificates, status_server
from trainyard_operator.serve.reporters import Reporters
from trainyard_operator.serve.status_server import StatusServer
from trainyard_operator.serve.tokens import ATTEMPTS_BURST, KNOWN_FOR
from trainyard_operator.watch.cache import Cache, Key
from trainyard_operator.work.apply import Applier

KEY = Key("team", "tj")
JOB = f"{objects.JOBS}/tj"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
PODS = "/api/v1/namespaces/team/pods"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
AT = "2026-08-01T10:00:00.123456+02:00"
REPORT = {"trainerStatus": {"progressPercentage": 42, "lastUpdatedTime": AT}}


def jwt(audience: str, salt: str = "") -> str:
    """A token as its claims look; whether it is a good one the API server says."""
    parts = ({"alg": "none"}, {"aud": [audience]}, {"salt": salt})
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).decode().rstrip("=") for p in parts)


class Scene:
    """The TrainJob `tj` with its JobSet, one pod and that pod's token, and a status server."""

    def __init__(self, api: FakeApi, client: Client, clock: Any) -> None:
        self.api = api
        self.cache = Cache()
        self.metrics = Metrics()
        self.authorities: bytes
        self.trusted: ssl.SSLContext
        self.synced = True
        self.retry_after: str | None = None
        self.connection: str | None = None
        self.server = StatusServer(
            Reporters(client, self.cache, clock=clock),
            Applier(client, self.cache, namespace="trainyard-system"),
            self.cache,
            self.metrics,
            synced=lambda: self.synced,
            reports=Buckets(1.0, 5, clock=clock),
            host="127.0.0.1",
            port=0,
        )
        self.add("tj")
        self.token = self.pod("tj")

    def add(self, name: str) -> None:
        """A TrainJob, and a JobSet of it, that the replica has seen."""
        job = self.api.put(f"{objects.JOBS}/{name}", objects.trainjob(name))
        jobset = self.api.put(f"{objects.JOBSETS}/{name}", objects.jobset(name, job["metadata"]["uid"]))
        self.cache.trainjobs.observe(Key("team", name), trainjob_of(job))
        self.cache.jobsets.observe(Key("team", name), jobset_of(msgspec.json.encode(jobset)))

    def job(self, jobset: str, **metadata: Any) -> dict[str, Any]:
        """A Job of the JobSet, as its pods' owner."""
        owner = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "name": jobset,
            "uid": self.api.objects[f"{objects.JOBSETS}/{jobset}"]["metadata"]["uid"],
            "controller": True,
        }
        name = f"{jobset}-node-0"
        made = self.api.put(f"{JOBS}/{name}", {"metadata": {"ownerReferences": [owner], **metadata}})
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }

    def pod(self, job: str, *, audience: str | None = None, **metadata: Any) -> str:
        """A pod of the TrainJob's JobSet, and its token."""
        number = len(self.api.tokens)
        name = f"{job}-node-0-{number}"
        labels = {
            "jobset.sigs.k8s.io/jobset-name": job,
            "jobset.sigs.k8s.io/jobset-uid": self.api.objects[f"{objects.JOBSETS}/{job}"]["metadata"]["uid"],
        }
        owner = self.job(job) if "ownerReferences" not in metadata else None
        found = {"name": name, "labels": labels, "ownerReferences": [owner], **metadata}
        pod = self.api.put(f"{PODS}/{name}", {"metadata": found})
        meant_for = progress.audience("team", job) if audience is None else audience
        token = jwt(meant_for, str(number))
        self.api.tokens[token] = (meant_for, self.user(pod))
        return token

    def user(self, pod: dict[str, Any], namespace: str = "team") -> dict[str, Any]:
        return {
            "username": f"system:serviceaccount:{namespace}:default",
            "extra": {
                "authentication.kubernetes.io/pod-name": [pod["metadata"]["name"]],
                "authentication.kubernetes.io/pod-uid": [pod["metadata"]["uid"]],
            },
        }

    async def post(
        self,
        body: Any = REPORT,
        *,
        token: str | None = None,
        job: str = "tj",
        source: str = "127.0.0.1",
    ) -> tuple[int, Any]:
        """Send a report; a body that is not bytes is sent as JSON."""
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.send(f"/apis/{progress.audience('team', job)}", data, headers, source)

    async def send(
        self, path: str, data: bytes, headers: dict[str, str], source: str = "127.0.0.1"
    ) -> tuple[int, Any]:
        url = f"https://127.0.0.1:{self.server.port}{path}"
        connector = aiohttp.TCPConnector(ssl=self.trusted, local_addr=(source, 0))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(url, data=data, headers=headers) as answer,
        ):
            self.retry_after = answer.headers.get("Retry-After")
            self.connection = answer.headers.get("Connection")
            return answer.status, await answer.json()

    def reported(self, job: str = "tj") -> Any:
        return self.api.objects[f"{objects.JOBS}/{job}"].get("status", {}).get("trainerStatus")


@asynccontextmanager
async def scene(clock: Any = time.monotonic) -> AsyncIterator[Scene]:
    api = FakeApi()
    async with api.client() as client:
        found = Scene(api, client, clock)
        issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
        found.authorities = issued.authorities
        found.trusted = ssl.create_default_context(cadata=issued.authorities.decode())
        found.server.load(issued.certificate, issued.key)
        await found.server.start()
        api.requests.clear()
        try:
            yield found
        finally:
            await found.server.stop()


def refusal(code: int, reason: str, message: str) -> tuple[int, dict[str, Any]]:
    return code, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def test_a_pod_of_the_job_reports_and_its_report_replaces_the_one_before() -> None:
    async def test() -> None:
        async with scene() as s:
            metrics = [{"name": "loss", "value": "0.123"}]
            first = {**REPORT["trainerStatus"], "estimatedRemainingSeconds": 120, "metrics": metrics}
            kept = {**first, "lastUpdatedTime": "2026-08-01T08:00:00Z"}
            assert await s.post({"trainerStatus": first}) == (200, {"trainerStatus": kept})
            assert s.reported() == kept
            await s.post()
            assert s.reported() == {"progressPercentage": 42, "lastUpdatedTime": "2026-08-01T08:00:00Z"}

    run(test)


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene], None]:
    """Sets the three variables that a trainer's container has."""

    def set_them(s: Scene) -> None:
        (tmp_path / "ca.crt").write_bytes(s.authorities)
        (tmp_path / "token").write_text(s.token)
        url = f"https://127.0.0.1:{s.server.port}/apis/{progress.audience(*KEY)}"
        monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_URL", url)
        monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_CA_CERT", str(tmp_path / "ca.crt"))
        monkeypatch.setenv("KUBEFLOW_TRAINER_SERVER_TOKEN", str(tmp_path / "token"))

    return set_them


def test_the_kubeflow_sdk_reports_with_the_three_variables_of_a_trainers_container(
    variables: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with scene() as s:
            variables(s)
            monkeypatch.setattr(sdk, "_last_update_time", -1000.0)
            monkeypatch.setattr(sdk, "_cached_token", None)
            sent = await asyncio.to_thread(sdk.update_trainjob_status, 42, 120, {"loss": 0.123, "epoch": 3})
            assert sent is True
            assert s.reported().pop("lastUpdatedTime").endswith("Z")
            assert s.reported() == {
                "progressPercentage": 42,
                "estimatedRemainingSeconds": 120,
                "metrics": [{"name": "loss", "value": "0.123"}, {"name": "epoch", "value": "3"}],
            }

    run(test)


@pytest.mark.long
def test_the_callback_of_transformers_reports_from_beginning_to_end(
    variables: Callable[[Scene], None],
) -> None:
    # Here, because every process that runs tests reads every file, and these take a second.
    from transformers import trainer_callback  # noqa: PLC0415
    from transformers.integrations import integration_utils  # noqa: PLC0415

    async def test() -> None:
        async with scene() as s:
            variables(s)
            callback: Any = integration_utils.KubeflowCallback()
            state = trainer_callback.TrainerState(max_steps=8)
            await asyncio.to_thread(callback.on_train_begin, None, state, None)
            assert s.reported().pop("lastUpdatedTime").endswith("Z")
            begun = {"progressPercentage": 0, "metrics": [{"name": "total_steps", "value": "8"}]}
            assert s.reported() == begun
            await asyncio.to_thread(callback.on_log, None, state, None, logs={"loss": 0.5})
            await asyncio.to_thread(callback.on_train_end, None, state, None)
            assert s.reported().pop("lastUpdatedTime").endswith("Z")
            assert s.reported() == {
                "progressPercentage": 100,
                "estimatedRemainingSeconds": 0,
                "metrics": [{"name": "loss", "value": "0.5"}],
            }

    run(test)


def test_the_other_fields_of_the_status_stay_and_only_the_status_is_written() -> None:
    async def test() -> None:
        async with scene() as s:
            conditions = [{"type": "Suspended", "status": "False"}]
            s.api.put(JOB, {**s.api.objects[JOB], "status": {"conditions": conditions}})
            assert (await s.post())[0] == 200, "though the TrainJob has changed since it was seen"
            assert s.api.objects[JOB]["status"]["conditions"] == conditions
            assert {path for _, path in s.api.writes()} == {REVIEWS, f"{JOB}/status"}

    run(test)


def test_a_token_is_asked_about_once_a_minute_and_the_pod_as_metadata_alone() -> None:
    async def test() -> None:
        now = [0.0]
        async with scene(lambda: now[0]) as s:
            await s.post()
            await s.post()
            assert s.api.requests.count(("POST", REVIEWS)) == 1
            assert [request for request in s.api.whole if "/pods/" in request[1]] == []
            now[0] = KNOWN_FOR + 1
            await s.post()
            assert s.api.requests.count(("POST", REVIEWS)) == 2

    run(test)


@pytest.mark.parametrize("body", [{}, {"trainerStatus": None}, {"unknown": 1}])
def test_a_body_without_a_report_is_echoed_and_writes_nothing(body: dict[str, Any]) -> None:
    async def test() -> None:
        async with scene() as s:
            assert await s.post(body) == (200, {})
            assert s.reported() is None

    run(test)


INVALID = [
    (b"{", "Invalid payload"),
    (b"\xff", "Invalid payload"),
    (b'{"x":' + b"[" * 60_000, "Invalid payload"),
    ([], "Expected `object`, got `array`"),
    (
        {"trainerStatus": {"progressPercentage": 101, "lastUpdatedTime": AT}},
        "status.trainerStatus.progressPercentage: Expected `int` <= 100",
    ),
    (
        {"trainerStatus": {"estimatedRemainingSeconds": 2**31, "lastUpdatedTime": AT}},
        "status.trainerStatus.estimatedRemainingSeconds: Expected `int` <= 2147483647",
    ),
    (
        {"trainerStatus": {"metrics": [{"name": "", "value": "1"}], "lastUpdatedTime": AT}},
        "status.trainerStatus.metrics[0].name: Expected `str` of length >= 1",
    ),
    (
        {"trainerStatus": {"metrics": [{"name": "a", "value": "1"}] * 257, "lastUpdatedTime": AT}},
        "status.trainerStatus.metrics: Expected `array` of length <= 256",
    ),
    (
        {"trainerStatus": {"lastUpdatedTime": "2026-08-01T10:00:00"}},
        "status.trainerStatus.lastUpdatedTime: Expected `datetime` with a timezone component",
    ),
    (
        {"trainerStatus": {"lastUpdatedTime": "0001-01-01T00:00:00+23:00"}},
        "status.trainerStatus.lastUpdatedTime: out of range",
    ),
    (
        {"trainerStatus": {"progressPercentage": 1}},
        "status.trainerStatus: lastUpdatedTime is required when trainerStatus is present",
    ),
]


@pytest.mark.parametrize(("body", "message"), INVALID, ids=[message for _, message in INVALID])
def test_a_report_that_is_none_is_422_and_says_which_field(body: Any, message: str) -> None:
    async def test() -> None:
        async with scene() as s:
            assert await s.post(body) == refusal(422, "Invalid", message)
            assert s.reported() is None

    run(test)


def test_what_the_api_server_finds_invalid_is_said_in_its_words_to_the_reporter_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("PATCH", "/status", status(422, "Invalid", "its own words"))
            assert await s.post() == refusal(422, "Invalid", "its own words")

    run(test)
    assert caplog.messages == []


def test_more_than_64_kib_are_413() -> None:
    async def test() -> None:
        async with scene() as s:
            assert await s.post(b"{}" + b" " * (64 * 1024 - 2)) == (200, {})
            assert await s.post(b" " * (64 * 1024 + 1)) == refusal(
                413, "RequestEntityTooLarge", "Payload too large"
            )

    run(test)


EARLIER = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "name": "tj",
    "uid": "earlier",
    "controller": True,
}
NOT_ITS_POD = "the token's pod does not belong to a JobSet of this TrainJob"
REFUSED: dict[str, tuple[Callable[[Any], Any], Any, int]] = {
    "the token of another job's pod": (
        lambda s: (s.add("other"), s.pod("other"))[1],
        refusal(403, "Forbidden", "the token belongs to another TrainJob"),
        0,
    ),
    "a token for the API server": (
        lambda s: s.pod("tj", audience="https://kubernetes.default.svc"),
        refusal(401, "Unauthorized", f"the token is not meant for {progress.audience(*KEY)}"),
        0,
    ),
    "a word": (
        lambda _: "password",
        refusal(401, "Unauthorized", f"the token is not meant for {progress.audience(*KEY)}"),
        0,
    ),
    "a forgery": (
        lambda _: jwt(progress.audience(*KEY), "forged"),
        refusal(401, "Unauthorized", "the API server does not accept the token"),
        1,
    ),
    "a token for this job in another job's pod": (
        lambda s: (s.add("other"), s.pod("other", audience=progress.audience(*KEY)))[1],
        refusal(403, "Forbidden", NOT_ITS_POD),
        2,
    ),
    "a token for this job in a pod of nobody's": (
        lambda s: s.pod("tj", labels={}),
        refusal(403, "Forbidden", NOT_ITS_POD),
        2,
    ),
    "a pod that no Job made": (
        lambda s: s.pod("tj", ownerReferences=[]),
        refusal(403, "Forbidden", NOT_ITS_POD),
        2,
    ),
    "a pod of the JobSet that was there before": (
        lambda s: s.pod("tj", ownerReferences=[s.job("tj", ownerReferences=[EARLIER])]),
        refusal(403, "Forbidden", NOT_ITS_POD),
        3,
    ),
    "a pod of a Job that somebody made with the JobSet's labels": (
        lambda s: s.pod("tj", ownerReferences=[s.job("tj", ownerReferences=[])]),
        refusal(403, "Forbidden", NOT_ITS_POD),
        3,
    ),
    "a pod of a Job that was there before": (
        lambda s: s.pod("tj", ownerReferences=[{**s.job("tj"), "uid": "earlier"}]),
        refusal(403, "Forbidden", NOT_ITS_POD),
        3,
    ),
    "a pod of a Job that is gone": (
        lambda s: s.pod("tj", ownerReferences=[{**s.job("tj"), "name": "gone"}]),
        refusal(403, "Forbidden", NOT_ITS_POD),
        3,
    ),
    "a pod of another group's Job": (
        lambda s: s.pod("tj", ownerReferences=[{**s.job("tj"), "apiVersion": "batch.example.org/v1"}]),
        refusal(403, "Forbidden", NOT_ITS_POD),
        2,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nobody_but_a_pod_of_the_job_itself_may_report(case: str) -> None:
    make, answer, requests = REFUSED[case]

    async def test() -> None:
        async with scene() as s:
            token = make(s)
            assert await s.post(token=token) == answer
            assert len(s.api.requests) == requests
            assert s.reported() is None

    run(test)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"username": "system:serviceaccount:other:default"},
            "the token does not belong to a pod of this namespace",
        ),
        ({"extra": {}}, "the token does not belong to a pod of this namespace"),
        (
            {
                "extra": {
                    "authentication.kubernetes.io/pod-name": ["tj-node-0-0"],
                    "authentication.kubernetes.io/pod-uid": ["of the pod before"],
                }
            },
            "the token's pod is gone",
        ),
        (
            {
                "extra": {
                    "authentication.kubernetes.io/pod-name": ["gone"],
                    "authentication.kubernetes.io/pod-uid": ["u"],
                }
            },
            "the token's pod is gone",
        ),
    ],
)
def test_a_good_token_is_held_against_the_pod_that_it_names(change: dict[str, Any], message: str) -> None:
    async def test() -> None:
        async with scene() as s:
            audience, user = s.api.tokens[s.token]
            s.api.tokens[s.token] = (audience, {**user, **change})
            assert await s.post() == refusal(403, "Forbidden", message)

    run(test)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "Bearer a b", "Bearer  a"])
def test_without_a_bearer_token_it_is_401(header: str | None) -> None:
    async def test() -> None:
        async with scene() as s:
            headers = {} if header is None else {"Authorization": header}
            path = f"/apis/{progress.audience(*KEY)}"
            assert await s.send(path, b"{}", headers) == refusal(
                401, "Unauthorized", "a bearer token is required"
            )

    run(test)


def test_a_job_that_is_made_anew_under_its_name_is_not_written_to_by_the_old_ones_pods() -> None:
    async def test() -> None:
        async with scene() as s:
            assert (await s.post())[0] == 200
            s.api.remove(JOB)
            s.cache.trainjobs.remove(KEY)
            assert await s.post() == refusal(404, "NotFound", "Train job not found")
            job = s.api.put(JOB, objects.trainjob())
            s.cache.trainjobs.observe(KEY, trainjob_of(job))
            assert await s.post() == refusal(403, "Forbidden", NOT_ITS_POD)
            assert s.reported() is None

    run(test)


def test_a_job_that_vanishes_while_it_reports_is_404() -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.remove(JOB)
            assert await s.post() == refusal(404, "NotFound", "Train job not found")

    run(test)


@pytest.mark.parametrize("became", ["made anew", "deleted"])
def test_a_job_that_is_no_longer_the_one_that_reported_is_not_written_to(became: str) -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.remove(JOB)
            if became == "made anew":
                s.api.put(JOB, objects.trainjob())
            s.api.refuse_next("PATCH", "/status", status(409, "Conflict"))
            assert await s.post() == refusal(404, "NotFound", "Train job not found")
            assert s.api.requests.count(("PATCH", f"{JOB}/status")) == 1
            assert JOB not in s.api.objects or s.reported() is None

    run(test)


def test_other_paths_and_methods_are_404() -> None:
    async def test() -> None:
        async with scene() as s:
            for path in ("/", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tj"):
                assert await s.send(path, b"", {}) == refusal(404, "NotFound", "Not found")

    run(test)


def test_a_job_that_floods_is_turned_away_and_others_are_not() -> None:
    async def test() -> None:
        now = [0.0]
        async with scene(lambda: now[0]) as s:
            s.add("other")
            other = s.pod("other")
            answers = [(await s.post())[0] for _ in range(8)]
            assert answers == [200] * 5 + [429] * 3
            assert s.retry_after == "1"
            assert len([r for r in s.api.requests if r == ("PATCH", f"{JOB}/status")]) == 5
            assert (await s.post(token=other, job="other"))[0] == 200
            now[0] = 1.0
            assert (await s.post())[0] == 200

    run(test)


def test_bad_tokens_cost_the_api_server_no_more_than_a_few_requests() -> None:
    async def test() -> None:
        async with scene(lambda: 0.0) as s:
            answers = [
                (await s.post(token=jwt(progress.audience(*KEY), f"forged {n}")))[0]
                for n in range(ATTEMPTS_BURST + 5)
            ]
            assert answers == [401] * ATTEMPTS_BURST + [429] * 5
            assert s.api.requests.count(("POST", REVIEWS)) == ATTEMPTS_BURST
            assert (await s.post(source="127.0.0.2"))[0] == 200, "pods on other nodes report meanwhile"

    run(test)


def test_a_body_that_never_ends_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_server, "TIMEOUT", 0.3)

    async def test() -> None:
        async with scene() as s:
            reader, writer = await asyncio.open_connection("127.0.0.1", s.server.port, ssl=s.trusted)
            head = f"POST /apis/{progress.audience(*KEY)} HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n"
            writer.write(f"{head}Authorization: Bearer {s.token}\r\n\r\n".encode())
            assert b" 504 " in await reader.readline()
            writer.close()

    run(test)


BUSY = refusal(503, "ServiceUnavailable", "the API server cannot store it now, try again")


@pytest.mark.parametrize(
    ("code", "answered"), [(500, BUSY), (429, BUSY), (403, refusal(500, "InternalError", "Internal error"))]
)
def test_an_api_server_that_fails_is_not_the_reporters_fault(
    code: int, answered: tuple[int, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with scene() as s:
            s.api.refuse_next("PATCH", "/status", status(code, "Any", "the API server's words"))
            assert await s.post() == answered
            assert (await s.post())[0] == 200

    run(test)
    (line,) = caplog.messages
    assert "the API server's words" in line, "whoever runs the operator is told"


def test_a_status_that_others_write_all_the_time_is_given_up_on() -> None:
    async def test() -> None:
        async with scene() as s:
            for _ in range(status_server.TRIES):
                s.api.refuse_next("PATCH", "/status", status(409, "Conflict"))
            assert await s.post() == BUSY
            assert s.reported() is None

    run(test)


def test_a_replica_that_does_not_know_all_trainjobs_yet_sends_reporters_elsewhere() -> None:
    async def test() -> None:
        async with scene() as s:
            s.synced = False
            message = "this replica has not read all TrainJobs yet"
            assert await s.post() == refusal(503, "ServiceUnavailable", message)
            assert s.retry_after == "1"
            assert s.api.requests == []
            s.synced = True
            assert (await s.post())[0] == 200

    run(test)


def test_who_is_refused_is_told_that_the_connection_ends_and_who_reports_may_keep_it() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.post()
            assert (s.connection, s.retry_after) == (None, None)
            await s.post(token="none")
            assert (s.connection, s.retry_after) == ("close", None)
            await s.send("/", b"", {})
            assert s.connection == "close"
            s.server.closing = True
            assert (await s.post())[0] == 200
            assert s.connection == "close", "before its end it sends reporters elsewhere"

    run(test)


def test_answers_are_counted_by_code() -> None:
    async def test() -> None:
        async with scene() as s:
            await s.post()
            await s.post(token="none")
            text = s.metrics.render().decode()
            assert 'trainyard_status_reports_total{code="200"} 1.0' in text
            assert 'trainyard_status_reports_total{code="401"} 1.0' in text

    run(test)
