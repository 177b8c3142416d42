"""`cache://`: the objects that are made, what is waited for, and what ends the wait."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support import authorities
from tests.support.fake_api import FakeApi, run, status
from trainyard_initializers import request
from trainyard_initializers.cache import settings
from trainyard_initializers.cache.cluster import Cluster
from trainyard_initializers.cache.start import start
from trainyard_initializers.failures import Failure, InvalidSource
from trainyard_operator.serve import certificates

from .fetching import QUICK

LOCATION = "s3://tables/reviews/metadata/1.metadata.json"
ASKED = {
    "STORAGE_URI": "cache://shop/reviews",
    "TRAIN_JOB_NAME": "tj",
    "CACHE_IMAGE": "ghcr.io/kubeflow/trainer/data-cache:v2.3.0",
    "METADATA_LOC": LOCATION,
}
JOBS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/ns/trainjobs"
SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/ns/leaderworkersets"
SERVICES, ACCOUNTS = "/api/v1/namespaces/ns/services", "/api/v1/namespaces/ns/serviceaccounts"
PODS = "/api/v1/namespaces/ns/pods"
OWNER = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "name": "tj",
    "uid": "u1",
    "controller": True,
    "blockOwnerDeletion": True,
}
AVAILABLE = {"conditions": [{"type": "Available", "status": "True"}]}


def asked(**more: str) -> request.Request:
    return request.read("dataset", {**ASKED, **more})


def container(process: str, cpu: str, memory: str, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": memory}
    return {
        "name": process,
        "image": ASKED["CACHE_IMAGE"],
        "command": [process],
        "args": ["0.0.0.0", "50051"],  # noqa: S104
        "env": [
            {"name": "METADATA_LOC", "value": LOCATION},
            {"name": "SCHEMA_NAME", "value": "shop"},
            {"name": "TABLE_NAME", "value": "reviews"},
        ],
        "ports": [{"name": "grpc", "containerPort": 50051}, {"name": "health", "containerPort": 8080}],
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": 8080},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "resources": {"requests": amounts, "limits": amounts},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **more,
    }


def pod(process: dict[str, Any]) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "containers": [process],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


@pytest.fixture
def api() -> FakeApi:
    """An API server with the TrainJob."""
    served = FakeApi()
    served.put(f"{JOBS}/tj", {"metadata": {"uid": "u1"}, "spec": {"initializer": {"dataset": {}}}})
    return served


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A ServiceAccount's folder, with an authority that nothing is signed by."""
    (tmp_path / "token").write_text("secret-token\n")
    (tmp_path / "namespace").write_text("ns")
    (tmp_path / "ca.crt").write_bytes(certificates.issue(["x"], datetime.now(UTC)).authorities)
    return tmp_path


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of the initializers; a test before may have left others' loggers talkative."""
    return [
        record.getMessage() for record in caplog.records if record.name.startswith("trainyard_initializers")
    ]


def started(
    api: FakeApi, account: Path, *looks: Callable[[], object], asked_for: request.Request | None = None
) -> None:
    """Start the cache; before each look but the first one of `looks` happens, and in the end it is ready."""

    def ready() -> None:
        api.put(f"{SETS}/tj-cache", {**api.objects[f"{SETS}/tj-cache"], "status": AVAILABLE})

    happens = [*looks, ready]

    def sleep(_: float) -> None:
        happens.pop(0)()

    async def test() -> None:
        async with api.serving() as url:
            await asyncio.to_thread(start, asked_for or asked(), Cluster(url, account), QUICK, sleep=sleep)

    run(test)


def failed(
    api: FakeApi, account: Path, *looks: Callable[[], object], asked_for: request.Request | None = None
) -> str:
    with pytest.raises(Failure) as error:
        started(api, account, *looks, asked_for=asked_for)
    return str(error.value)


def put_pod(api: FakeApi, name: str, **of_status: Any) -> Callable[[], object]:
    return lambda: api.put(f"{PODS}/{name}", {"status": of_status})


def ended(
    container: str, code: int, message: str = "", reason: str = "Error", number: int = 1
) -> Mapping[str, Any]:
    terminated = {"exitCode": code, "reason": reason, "message": message, "containerID": f"c://{number}"}
    return {"containerStatuses": [{"name": container, "state": {"terminated": terminated}}]}


def test_a_head_workers_and_a_service_are_made_that_the_trainjob_owns(
    api: FakeApi, account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trainyard_initializers")
    started(api, account)
    [workload] = [api.objects[path] for path in api.objects if path.startswith(SETS)]
    assert workload["metadata"]["ownerReferences"] == [OWNER]
    assert workload["spec"] == {
        "replicas": 1,
        "leaderWorkerTemplate": {
            "restartPolicy": "None",
            "size": 3,
            "leaderTemplate": {
                "metadata": {"labels": {"app": "tj-cache-head"}},
                "spec": pod(container("head", "1", "1Gi")),
            },
            "workerTemplate": {"spec": pod(container("worker", "2", "2Gi"))},
        },
    }
    service = api.objects[f"{SERVICES}/tj-cache-service"]
    assert service["metadata"]["ownerReferences"] == [OWNER]
    assert service["spec"] == {
        "selector": {"app": "tj-cache-head"},
        "ports": [{"name": "grpc", "protocol": "TCP", "port": 50051, "targetPort": 50051}],
    }
    assert [path for _, path in api.writes()] == [SERVICES, SETS]
    assert messages(caplog) == [
        "created Service tj-cache-service",
        "created LeaderWorkerSet tj-cache",
        "waiting for the cache tj-cache: a head and 2 workers",
        "0 of 3 pods of the cache are ready",
        "the cache is ready: trainers read cache://shop/reviews from tj-cache-service:50051",
    ]


def test_a_role_on_eks_gets_a_serviceaccount(api: FakeApi, account: Path) -> None:
    started(api, account, asked_for=asked(IAM_ROLE="arn:aws:iam::1:role/reader"))
    made = api.objects[f"{ACCOUNTS}/tj-cache"]
    assert made["metadata"]["annotations"] == {
        "eks.amazonaws.com/sts-regional-endpoints": "true",
        "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/reader",
    }
    assert made["metadata"]["ownerReferences"] == [OWNER]
    template = api.objects[f"{SETS}/tj-cache"]["spec"]["leaderWorkerTemplate"]
    for one in (template["leaderTemplate"], template["workerTemplate"]):
        assert one["spec"]["serviceAccountName"] == "tj-cache"


@pytest.mark.parametrize(
    "store",
    [
        {"ENDPOINT": "http://store:9000", "REGION": "eu"},
        {"AWS_ENDPOINT_URL_S3": "http://store:9000", "AWS_REGION": "eu"},
    ],
    ids=["the TrainJob's", "the platform's"],
)
def test_the_pods_get_the_secret_of_the_dataset_and_the_store_but_no_value_of_a_secret(
    api: FakeApi, account: Path, store: dict[str, str]
) -> None:
    spec = {"initializer": {"dataset": {"secretRef": {"name": "keys"}}}}
    api.put(f"{JOBS}/tj", {"metadata": {"uid": "u1"}, "spec": spec})
    keys = {"ACCESS_KEY_ID": "AKIA", "SECRET_ACCESS_KEY": "hidden"}
    started(api, account, asked_for=asked(**store, **keys))
    template = api.objects[f"{SETS}/tj-cache"]["spec"]["leaderWorkerTemplate"]
    for one in (template["leaderTemplate"], template["workerTemplate"]):
        [process] = one["spec"]["containers"]
        assert process["envFrom"] == [{"secretRef": {"name": "keys"}}]
        assert process["env"][3:] == [
            {"name": "ENDPOINT", "value": "http://store:9000"},
            {"name": "REGION", "value": "eu"},
        ]
    assert "hidden" not in str(api.objects)


def test_a_pod_that_is_started_again_goes_on_with_the_cache_of_its_predecessor(
    api: FakeApi, account: Path
) -> None:
    started(api, account)
    before = {path: body["metadata"]["uid"] for path, body in api.objects.items()}
    started(api, account)
    assert {path: body["metadata"]["uid"] for path, body in api.objects.items()} == before


@pytest.mark.parametrize(
    ("owners", "message"),
    [
        (
            [{**OWNER, "uid": "u0"}],
            "Unreachable: LeaderWorkerSet tj-cache is of an earlier TrainJob of this name, "
            "and has not gone yet",
        ),
        (
            [],
            "InvalidSource: LeaderWorkerSet tj-cache is there and does not belong to this TrainJob: "
            "delete it, or rename the TrainJob",
        ),
    ],
    ids=["of an earlier TrainJob", "of somebody else"],
)
def test_an_object_of_others_is_left_alone(
    api: FakeApi, account: Path, owners: list[dict[str, Any]], message: str
) -> None:
    there = api.put(f"{SETS}/tj-cache", {"metadata": {"ownerReferences": owners}})
    assert failed(api, account) == message
    assert api.objects[f"{SETS}/tj-cache"] == there


def test_what_the_cache_waits_for_is_said_once_each_time_that_it_changes(
    api: FakeApi, account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trainyard_initializers")
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    started(
        api,
        account,
        put_pod(api, "tj-cache-0", conditions=[unscheduled]),
        put_pod(api, "tj-cache-0", conditions=[unscheduled]),
        put_pod(api, "tj-cache-0", containerStatuses=[{"name": "head", "state": {"waiting": waiting}}]),
        put_pod(api, "tj-cache-0", **ended("head", 16, "10:00:00 reading\nUnreachable: no answer")),
        put_pod(api, "tj-cache-0", conditions=[{"type": "Ready", "status": "True"}]),
    )
    assert messages(caplog)[3:-1] == [
        "0 of 3 pods of the cache are ready",
        "0 of 3 pods of the cache are ready; pod tj-cache-0 is not scheduled: 0/2 nodes are available",
        "0 of 3 pods of the cache are ready; pod tj-cache-0: ImagePullBackOff: no such image",
        "0 of 3 pods of the cache are ready; pod tj-cache-0 ended with 16: Unreachable: no answer",
        "1 of 3 pods of the cache are ready",
    ]


def test_the_pods_of_a_large_cache_are_counted_over_pages(
    api: FakeApi, account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trainyard_initializers")
    api.page_size = 2
    for number in range(5):
        put_pod(api, f"tj-cache-0-{number}", conditions=[{"type": "Ready", "status": "True"}])()
    started(api, account, asked_for=asked(CLUSTER_SIZE="6"))
    assert messages(caplog)[3] == "5 of 6 pods of the cache are ready"


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (
            ended("worker", 12, "12:00:00 opening\nNotFound: s3://tables/x does not exist"),
            "NotFound: pod tj-cache-0-1 of the cache: s3://tables/x does not exist",
        ),
        (
            ended("worker", 11),
            "Unauthorized: pod tj-cache-0-1 of the cache: the token or keys are missing, "
            "or the source refuses them",
        ),
        (
            {"containerStatuses": [{"name": "worker", "state": {"waiting": {"reason": "InvalidImageName"}}}]},
            "InvalidSource: pod tj-cache-0-1 of the cache can never start: "
            "'ghcr.io/kubeflow/trainer/data-cache:v2.3.0' is not a valid name of an image; it comes from "
            "CACHE_IMAGE of the runtime (dataCache.cacheImage in the stack file)",
        ),
        (
            ended("worker", 137, reason="OOMKilled"),
            "InvalidSource: pod tj-cache-0-1 of the cache needs more memory than its 2Gi: "
            "raise WORKER_MEM, or CLUSTER_SIZE for more workers",
        ),
        (
            ended("head", 137, reason="OOMKilled"),
            "InvalidSource: pod tj-cache-0-1 of the cache needs more memory than its 1Gi: raise HEAD_MEM",
        ),
    ],
    ids=["no table", "no message", "a bad image", "too little memory", "too little for the head"],
)
def test_a_cache_that_can_never_be_ready_is_deleted_and_its_reason_is_the_initializers(
    api: FakeApi, account: Path, end: Mapping[str, Any], message: str
) -> None:
    assert failed(api, account, put_pod(api, "tj-cache-0-1", **end)) == message
    assert f"{SETS}/tj-cache" not in api.objects


def ends(times: int, code: int, api: FakeApi) -> list[Callable[[], object]]:
    """The head ends so often; each end is looked at twice."""
    return [
        put_pod(api, "tj-cache-0", **ended("head", code, "Unexpected: oh", number=number))
        for number in range(times)
        for _ in range(2)
    ]


def test_a_cache_with_a_pod_that_ends_ten_times_is_given_up(api: FakeApi, account: Path) -> None:
    assert failed(api, account, *ends(10, 1, api)) == (
        "InvalidSource: pod tj-cache-0 of the cache has ended 10 times, the last time with 1: Unexpected: oh"
    )
    assert f"{SETS}/tj-cache" not in api.objects


@pytest.mark.parametrize(("times", "code"), [(9, 1), (20, 16), (20, 137), (20, 143)])
def test_a_cache_is_waited_for_where_its_store_or_its_nodes_may_come_back(
    api: FakeApi, account: Path, times: int, code: int
) -> None:
    started(api, account, *ends(times, code, api))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            status(403, "Forbidden", "leaderworkersets is forbidden"),
            "Unauthorized: LeaderWorkerSet tj-cache: leaderworkersets is forbidden; the namespace needs the "
            "ServiceAccount and the rights that a stack with dataCache.enabled gives its tenants",
        ),
        (
            status(404, "NotFound", "the server could not find the requested resource"),
            "NotFound: LeaderWorkerSet tj-cache: the server could not find the requested resource "
            "(the cluster has no LeaderWorkerSet: dataCache.enabled)",
        ),
        (
            status(422, "Invalid", "spec.leaderWorkerTemplate.size: too large"),
            "InvalidSource: LeaderWorkerSet tj-cache: spec.leaderWorkerTemplate.size: too large",
        ),
    ],
    ids=["no rights", "no LeaderWorkerSet", "refused"],
)
def test_what_the_api_server_refuses_is_said_with_the_way_out(
    api: FakeApi, account: Path, answer: dict[str, Any], message: str
) -> None:
    api.refuse_next("POST", "/leaderworkersets", answer)
    assert failed(api, account) == message


def test_a_cache_without_its_service_runs_no_pods(api: FakeApi, account: Path) -> None:
    api.refuse_next("POST", "/services", status(403, "Forbidden", "services is forbidden"))
    assert failed(api, account).startswith("Unauthorized: Service tj-cache-service: services is forbidden")
    assert [path for path in api.objects if path.startswith(SETS)] == []


def test_an_api_server_that_fails_for_a_moment_is_asked_again(api: FakeApi, account: Path) -> None:
    for ending in ("/leaderworkersets", "/services"):
        api.refuse_next("POST", ending, status(503, "ServiceUnavailable", "starting"))
    started(api, account)
    assert f"{SERVICES}/tj-cache-service" in api.objects


def test_an_object_that_is_gone_as_soon_as_it_has_been_in_the_way_is_made(
    api: FakeApi, account: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "trainyard_initializers")
    api.refuse_next("POST", "/leaderworkersets", status(409, "AlreadyExists"))
    started(api, account)
    assert messages(caplog)[1:3] == [
        "Unreachable: LeaderWorkerSet tj-cache was there, and is gone now; trying again in 0 s",
        "created LeaderWorkerSet tj-cache",
    ]


def test_a_server_that_another_authority_has_signed_gets_no_token(
    api: FakeApi, account: Path, tmp_path: Path
) -> None:
    issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "served.crt").write_bytes(issued.certificate)
    (tmp_path / "served.key").write_bytes(issued.key)
    context.load_cert_chain(tmp_path / "served.crt", tmp_path / "served.key")

    def asks(url: str) -> None:
        Cluster(url, account).get("v1", "Service", "x")

    async def test() -> None:
        async with api.serving(context) as served:
            url = served.replace("localhost", "127.0.0.1")
            with pytest.raises(Failure, match="CERTIFICATE_VERIFY_FAILED"):
                await asyncio.to_thread(asks, url)
            assert api.requests == []
            (account / "ca.crt").write_bytes(issued.authorities)
            with pytest.raises(Failure, match="NotFound: Service x"):
                await asyncio.to_thread(asks, url)

    run(test)


@pytest.mark.parametrize("issuer", [authorities.NAME, "corporate root"])
def test_an_authority_that_kubectl_trusts_is_trusted_whatever_it_lacks_and_whoever_has_issued_it(
    api: FakeApi, account: Path, monkeypatch: pytest.MonkeyPatch, issuer: str
) -> None:
    authorities.contexts_of_python_3_13(monkeypatch)
    authority, context = authorities.without_key_identifiers(account, issuer)
    (account / "ca.crt").write_bytes(authority)

    async def test() -> dict[str, Any]:
        async with api.serving(context) as url:
            cluster = Cluster(url.replace("localhost", "127.0.0.1"), account)
            return await asyncio.to_thread(cluster.get, "trainer.kubeflow.org/v1alpha1", "TrainJob", "tj")

    assert run(test)["metadata"]["uid"] == "u1"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"METADATA_LOC": ""}, "METADATA_LOC is not set: set it in spec.initializer.dataset.env"),
        ({"CACHE_IMAGE": ""}, "CACHE_IMAGE is not set: the runtime sets it"),
        (
            {"TRAIN_JOB_NAME": "a/b"},
            "TRAIN_JOB_NAME='a/b' is not the TrainJob's name, which the runtime sets",
        ),
        ({"CLUSTER_SIZE": "1"}, "CLUSTER_SIZE='1' must be a number from 2 to 1000"),
        ({"CLUSTER_SIZE": "9" * 5000}, "must be a number from 2 to 1000"),
        ({"WORKER_MEM": "two"}, "WORKER_MEM='two' is not a Kubernetes quantity, such as 500m or 2Gi"),
        ({"STORAGE_URI": "cache://shop"}, "cache://shop must be cache://schema/table"),
        ({"STORAGE_URI": "cache://shop/a/b"}, "cache://shop/a/b must be cache://schema/table"),
    ],
)
def test_a_variable_that_is_missing_or_malformed_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSource) as error:
        settings.read(asked(**variables))
    assert message in str(error.value)


def test_outside_a_pod_with_a_serviceaccount_it_says_what_is_missing(account: Path, tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert Cluster.around(environment, account) == Cluster("https://[fd00::1]:6443", account)
    for variables, folder in (({}, account), (environment, tmp_path / "none")):
        with pytest.raises(InvalidSource, match="the pod needs a ServiceAccount's token"):
            Cluster.around(variables, folder)
