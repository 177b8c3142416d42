"""A job's data cache holds a table of S3 in pods of a LeaderWorkerSet, and the ranks train on its rows."""

import json
import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import botocore.session
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from moto.server import ThreadedMotoServer
from pyiceberg.catalog.memory import InMemoryCatalog

from tests.support.cluster import Cluster, Object, sandbox_of_its_own
from tests.support.patience import LEARNED, STARTED, eventually
from tests.support.runs import record
from trainyard_sandbox.paths import PROJECT

pytestmark = [pytest.mark.sandbox(area="runtimes"), pytest.mark.long]

EXAMPLE = PROJECT / "examples" / "data-cache" / "trainjob.yaml"
ROWS = 12_000
FILES = 3
KEY, SECRET_KEY = "AKIATEST", "right/secret"
ACCOUNT = "kubeflow-trainer-cache-initializer"
OF_CACHE = "leaderworkerset.sigs.k8s.io/name={}-cache"


def numbers(first: int, end: int) -> pa.Table:
    """y = 3x + 1, with the number of the row."""
    xs = [math.sin(row) for row in range(first, end)]
    return pa.table({"id": range(first, end), "x": xs, "y": [3 * x + 1 for x in xs]})


@contextmanager
def written_to_s3() -> Iterator[tuple[dict[str, str], Callable[[], dict[str, bytes]]]]:
    """An S3 on loopback: how PyIceberg reaches it, and what is in its bucket `tables`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        session = botocore.session.Session()
        session.set_credentials("a", "b")
        client = session.create_client("s3", "us-east-1", endpoint_url=f"http://{host}:{port}")
        client.create_bucket(Bucket="tables")

        def written() -> dict[str, bytes]:
            keys = [entry["Key"] for entry in client.list_objects_v2(Bucket="tables")["Contents"]]
            return {key: client.get_object(Bucket="tables", Key=key)["Body"].read() for key in keys}

        keys = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
        yield {"s3.endpoint": f"http://{host}:{port}", **keys}, written
    finally:
        server.stop()


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A bucket with the table twice: as Parquet files, and as Iceberg's, below `iceberg/`."""
    folder, step = tmp_path_factory.mktemp("tables"), ROWS // FILES
    parts = [numbers(first, first + step) for first in range(0, ROWS, step)]
    with written_to_s3() as (properties, written):
        catalog = InMemoryCatalog("test", warehouse="s3://tables/iceberg", **properties)
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.numbers", parts[0].schema)
        for number, part in enumerate(parts):
            pq.write_table(part, folder / f"{number}.parquet")
            table.append(part)
        return written() | {f"numbers/{path.name}": path.read_bytes() for path in folder.glob("*.parquet")}


def store(content: dict[str, bytes]) -> list[Object]:
    """A pod that serves the bucket `tables` as S3, and a Service of its name."""
    script = (PROJECT / "tests" / "trainyard_initializers" / "servers.py").read_text()
    encoded = {name: f"base64:{b64encode(body).decode()}" for name, body in content.items()}
    files = {"servers.py": script, "s3.json": json.dumps({"tables": encoded})}
    container = {
        "name": "s3",
        "image": "docker.io/trainyard/torch-cpu:sandbox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "/served/servers.py", "s3", "/served/s3.json", "8000"],
        "env": [
            {"name": "ACCESS_KEY_ID", "value": KEY},
            {"name": "SECRET_ACCESS_KEY", "value": SECRET_KEY},
        ],
        "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
        "volumeMounts": [{"name": "served", "mountPath": "/served"}],
    }
    metadata = {"name": "s3", "namespace": "default", "labels": {"app": "s3"}}
    volume = {"name": "served", "configMap": {"name": "served"}}
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "served", "namespace": "default"},
            "data": files,
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 0},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": "s3"}, "ports": [{"port": 80, "targetPort": 8000}]},
        },
    ]


@pytest.fixture(scope="module")
def platform(bucket: dict[str, bytes]) -> Iterator[Cluster]:
    """A platform with the data cache, and a store with the table of the example."""
    parts = ("--with", "data-cache", "--with", "initializers", "--with", "trainers")
    with sandbox_of_its_own("data-cache", *parts) as cluster:
        cluster.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview")
        of_account = f"--serviceaccount=default:{ACCOUNT}"
        cluster.kubectl("create", "serviceaccount", ACCOUNT)
        cluster.kubectl("create", "rolebinding", "cache", f"--clusterrole={ACCOUNT}", of_account)
        keys = (f"--from-literal=ACCESS_KEY_ID={KEY}", f"--from-literal=SECRET_ACCESS_KEY={SECRET_KEY}")
        cluster.kubectl("create", "secret", "generic", "table-keys", *keys)
        cluster.apply(*store(bucket))
        cluster.wait("pod/s3", condition="condition=Ready")
        yield cluster


def example(name: str, **environment: str) -> Object:
    """The example's TrainJob under another name, with other variables of its initializer."""
    job: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    job["metadata"] = {"name": name, "namespace": "default"}
    dataset = job["spec"]["initializer"]["dataset"]
    for entry in dataset["env"]:
        entry["value"] = environment.get(entry["name"], entry["value"])
    return job


def epochs(logs: dict[str, str]) -> dict[str, list[tuple[int, int, int, float]]]:
    """By rank: rows, first and last row and the loss at the end of each epoch."""
    pattern = r"rank (\d) of 2: epoch \d+, (\d+) rows from (\d+) to (\d+), loss [\d.]+ -> ([\d.]+)"
    found: dict[str, list[tuple[int, int, int, float]]] = {}
    for log in logs.values():
        for rank, rows, first, last, loss in re.findall(pattern, log):
            found.setdefault(rank, []).append((int(rows), int(first), int(last), float(loss)))
    return found


def test_two_ranks_train_on_their_halves_of_a_table_that_is_on_no_volume(platform: Cluster) -> None:
    platform.kubectl("apply", "-f", str(EXAMPLE))
    platform.wait_for_condition("streamed", "Complete", within=LEARNED)
    seen = epochs(platform.logs("streamed"))
    half = ROWS // 2
    assert {rank: {line[:3] for line in lines} for rank, lines in seen.items()} == {
        "0": {(half, 0, half - 1)},
        "1": {(half, half, ROWS - 1)},
    }
    assert [len(lines) for lines in seen.values()] == [10, 10]
    assert max(lines[-1][3] for lines in seen.values()) < 1e-4
    pods = platform.list("pods", OF_CACHE.format("streamed"))
    assert sorted(pod["metadata"]["name"] for pod in pods) == [
        "streamed-cache-0",
        "streamed-cache-0-1",
        "streamed-cache-0-2",
    ]
    record(platform, "streamed", "torch", "pyarrow", example="data-cache")
    platform.kubectl("delete", "trainjob", "streamed")
    eventually(
        "the cache is gone with its job",
        lambda: not platform.list("pods", OF_CACHE.format("streamed")),
        within=STARTED,
    )


def test_a_table_that_is_not_there_fails_the_job_with_the_caches_own_words(platform: Cluster) -> None:
    platform.apply(example("missing", METADATA_LOC="s3://tables/none"))
    failed = platform.wait_for_condition("missing", "Failed", within=STARTED)
    assert re.search(
        r"NotFound: pod missing-cache-0(-\d)? of the cache: s3://tables/none does not exist",
        failed["message"],
    )
    eventually(
        "the cache that can never be ready is gone",
        lambda: not platform.list("pods", OF_CACHE.format("missing")),
        within=STARTED,
    )


def test_a_worker_that_is_killed_comes_back_and_the_job_ends_as_if_nothing_had_been(
    platform: Cluster,
) -> None:
    job = example("killed")
    job["spec"]["trainer"]["env"] = [{"name": "EPOCHS", "value": "60"}]
    platform.apply(job)
    eventually(
        "it reads from the cache",
        lambda: epochs(platform.logs("killed")),
        within=LEARNED,
    )
    pods = {pod["metadata"]["name"]: pod for pod in platform.list("pods", OF_CACHE.format("killed"))}
    platform.kill(pods["killed-cache-0-1"])
    platform.wait_for_condition("killed", "Complete", within=LEARNED)
    assert max(lines[-1][3] for lines in epochs(platform.logs("killed")).values()) < 1e-4
    after = platform.list("pods", OF_CACHE.format("killed"))
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in after} == {
        name: pod["metadata"]["uid"] for name, pod in pods.items()
    }


def test_a_table_of_iceberg_is_held_as_well(platform: Cluster, bucket: dict[str, bytes]) -> None:
    *_, newest = sorted(key for key in bucket if key.endswith(".metadata.json"))
    job = example("iceberg", METADATA_LOC=f"s3://tables/{newest}")
    job["spec"]["trainer"]["env"] = [{"name": "EPOCHS", "value": "2"}]
    platform.apply(job)
    platform.wait_for_condition("iceberg", "Complete", within=LEARNED)
    seen = epochs(platform.logs("iceberg"))
    assert {rank: {line[0] for line in lines} for rank, lines in seen.items()} == {
        "0": {ROWS // 2},
        "1": {ROWS // 2},
    }


def test_with_the_rights_of_its_initializer_nobody_gets_more_than_a_cache_needs(
    platform: Cluster,
) -> None:
    def refusal(manifest: Object) -> str:
        return platform.run(
            *("kubectl", "create", "--dry-run=server", "-n", "default", "-f", "-"),
            *("--as", f"system:serviceaccount:default:{ACCOUNT}"),
            check=False,
            stdin=yaml.safe_dump(manifest),
        ).stderr

    def service(kind: str) -> Object:
        spec = {"type": kind, "ports": [{"port": 80}]}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "sly"}, "spec": spec}

    def workers(
        resource: str = "cpu", size: int = 1, image: str = "docker.io/trainyard/sly", **pod: Any
    ) -> Object:
        container = {"name": "sly", "image": image, "resources": {"limits": {resource: "1"}}}
        template = {"workerTemplate": {"spec": {"containers": [container], **pod}}, "size": size}
        return {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "sly"},
            "spec": {"leaderWorkerTemplate": template},
        }

    assert refusal(service("ClusterIP")) == ""
    assert "the Service of a data cache must be of type ClusterIP" in refusal(service("LoadBalancer"))
    assert refusal(workers("cpu")) == ""
    assert "pods of a data cache may request only cpu, memory" in refusal(workers("nvidia.com/gpu"))
    assert refusal(workers(volumes=[{"name": "own", "emptyDir": {}}])) == ""
    nfs = {"name": "theirs", "nfs": {"server": "nas", "path": "/"}}
    assert "mount only volumes of the kinds configMap" in refusal(workers(volumes=[nfs]))
    assert "may not have a priority" in refusal(workers(priorityClassName="system-cluster-critical"))
    assert "may not use the namespaces and ports of their node" in refusal(workers(hostPID=True))
    confined = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert refusal(workers(securityContext=confined)) == ""
    unconfined = {"seccompProfile": {"type": "Unconfined"}}
    assert "containers of a data cache get no privileges" in refusal(workers(securityContext=unconfined))
    root = {"name": "root", "image": "docker.io/trainyard/sly", "securityContext": {"privileged": True}}
    assert "containers of a data cache get no privileges" in refusal(workers(initContainers=[root]))
    assert "must end soon" in refusal(workers(terminationGracePeriodSeconds=10**6))
    assert "must come from an allowed registry" in refusal(workers(image="quay.io/sly/sly"))
    assert "of at most 1000 pods" in refusal(workers(size=10**6))
