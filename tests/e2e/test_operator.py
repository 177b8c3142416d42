"""The operator as it runs: two replicas, reports of progress, and finished jobs that are not kept."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import OPERATOR, Cluster, Object, trainjob
from tests.support.patience import eventually

pytestmark = pytest.mark.sandbox(area="operator")

NAMESPACE = "trainyard-system"
SERVER = "trainyard-operator.trainyard-system.svc"
RETENTION = "trainyard.dev/retention"

REPORT = """
import json, os, ssl, sys, time, urllib.error, urllib.request

FOLDER = "/var/run/secrets/kubeflow/trainer"
TRUSTED = ssl.create_default_context(cafile=f"{FOLDER}/ca.crt")

def post(url, token, **fields):
    at = time.strftime("%Y-%m-%dT%H:%M:%S.123456+00:00", time.gmtime())
    body = json.dumps({"trainerStatus": {"lastUpdatedTime": at, **fields}}).encode()
    headers = {"Authorization": "Bearer " + open(token).read().strip(), "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), context=TRUSTED) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

"""
"""What a training process does that has no SDK: the three variables, a token and a POST."""


@pytest.fixture(scope="module")
def running(platform: Cluster) -> Iterator[Cluster]:
    """The platform with two replicas, the gate TrainJobStatus and retention; afterwards as it was."""
    document = platform.stack()
    document["config"]["trainyard:platform"]["operator"] |= {
        "replicas": 2,
        "featureGates": {"TrainJobStatus": True},
        "retention": {},
    }
    stack = platform.sandbox.instance.dir / "running.yaml"
    stack.write_text(yaml.safe_dump(document))
    up = ("up", "--stack", "sandbox", "--yes", "--skip-preview")
    before = served(platform)
    platform.pulumi(*up, "--config-file", str(stack))
    assert served(platform) != before
    yield platform
    platform.pulumi(*up)
    assert served(platform) == before


def served(platform: Cluster) -> dict[str, list[int]]:
    """The ports of the operator's Services, as the cluster has them."""
    services = platform.within(NAMESPACE).list("services")
    return {
        service["metadata"]["name"]: [port["port"] for port in service["spec"]["ports"]]
        for service in services
    }


def replicas(running: Cluster) -> list[Object]:
    """The pods that are not on their way out."""
    text = running.kubectl("get", "pods", "-n", NAMESPACE, "-o", "json")
    return [pod for pod in json.loads(text)["items"] if "deletionTimestamp" not in pod["metadata"]]


def both_ready(running: Cluster) -> list[Object] | None:
    pods = replicas(running)
    ready = [pod for pod in pods if pod["status"].get("containerStatuses", [{}])[0].get("ready")]
    return pods if len(pods) == len(ready) == 2 else None


def holder(running: Cluster) -> str:
    """The process that holds the Lease, empty if nobody does."""
    text = running.kubectl("get", "lease", "trainyard-operator", "-n", NAMESPACE, "-o", "json")
    return str(json.loads(text)["spec"]["holderIdentity"])


def leader(running: Cluster) -> str:
    """The pod of this process."""
    return holder(running).rpartition("_")[0]


def pid_of(running: Cluster, pod: str) -> int:
    """The operator's process in a pod, as the host sees it."""
    wanted = f"HOSTNAME={pod}".encode()
    [pid] = [
        pid
        for pid in running.operator_pids()
        if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    ]
    return pid


def create(running: Cluster, manifest: Object) -> None:
    """Create it as soon as admission answers: of two replicas one may just have died."""
    command = ("kubectl", "create", "-f", "-")
    eventually(
        "it is taken",
        lambda: running.run(*command, stdin=json.dumps(manifest), check=False).returncode == 0,
    )


def test_both_replicas_are_ready_and_answer_webhooks_and_reports(running: Cluster) -> None:
    pods = eventually("two replicas are ready", lambda: both_ready(running))
    found = running.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org")
    assert found is not None
    script = f"""
import base64, http.client, socket, ssl, sys
trusted = ssl.create_default_context(cadata=base64.b64decode(sys.argv[1]).decode())
for port, path in ((9443, "/validate-trainer-kubeflow-org-v1alpha1-trainjob"), (10443, "/")):
    with socket.create_connection((sys.argv[2], port)) as raw:
        with trusted.wrap_socket(raw, server_hostname="{SERVER}") as connection:
            head = f"POST {{path}} HTTP/1.1\\r\\nHost: h\\r\\nContent-Length: 0\\r\\n\\r\\n"
            connection.sendall(head.encode())
            print(connection.recv(100).split()[1].decode())
"""
    bundle = found["webhooks"][0]["clientConfig"]["caBundle"]
    for pod in pods:
        said = running.kubectl(
            *("exec", "-n", NAMESPACE, pod["metadata"]["name"], "--"),
            *("/opt/trainyard/bin/python", "-c", script, bundle, pod["status"]["podIP"]),
        )
        assert said.split() == ["400", "404"], "an empty review is none, and no TrainJob lives at /"


def test_metrics_are_read_by_accounts_that_may_and_by_nobody_else(running: Cluster) -> None:
    secret = running.within(NAMESPACE).get("secret", "trainyard-operator-webhook")
    assert secret is not None
    for name in ("reads", "does-not"):
        running.kubectl("create", "serviceaccount", name)
    running.kubectl("create", "clusterrole", "reads", "--verb=get", "--non-resource-url=/metrics")
    running.kubectl(
        "create", "clusterrolebinding", "reads", "--clusterrole=reads", "--serviceaccount=default:reads"
    )
    tokens = [running.kubectl("create", "token", name).strip() for name in ("reads", "does-not")]
    script = f"""
import base64, http.client, socket, ssl, sys
authority, address, *tokens = sys.argv[1:]
trusted = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
for token in ("", *tokens):
    with socket.create_connection((address, 8443)) as raw:
        with trusted.wrap_socket(raw, server_hostname="{SERVER}") as connection:
            head = f"GET /metrics HTTP/1.1\\r\\nHost: h\\r\\nAuthorization: Bearer {{token}}\\r\\n\\r\\n"
            connection.sendall(head.encode())
            print(connection.recv(100).split()[1].decode())
with socket.create_connection((address, 8080)) as open_to_all:
    open_to_all.sendall(b"GET /metrics HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n")
    print(open_to_all.recv(100).split()[1].decode())
"""
    try:
        for pod in eventually("two replicas are ready", lambda: both_ready(running)):
            said = running.kubectl(
                *("exec", "-n", NAMESPACE, pod["metadata"]["name"], "--", "/opt/trainyard/bin/python", "-c"),
                *(script, secret["data"]["ca.crt"], pod["status"]["podIP"], *tokens),
            )
            assert said.split() == ["401", "200", "403", "404"], (
                "without a token, with each, and on the old port"
            )
    finally:
        running.kubectl("delete", "clusterrolebinding/reads", "clusterrole/reads")
        running.kubectl("delete", "serviceaccount/reads", "serviceaccount/does-not")


def test_a_job_reports_its_own_progress_and_no_other_ones(running: Cluster) -> None:
    foreign = running.kubectl("create", "token", "default", "--duration=10m").strip()
    script = f"""{REPORT}
open("/tmp/foreign", "w").write("{foreign}")
own = os.environ["KUBEFLOW_TRAINER_SERVER_URL"]
token = os.environ["KUBEFLOW_TRAINER_SERVER_TOKEN"]
metrics = [{{"name": "loss", "value": "0.123"}}]
print("own", post(own, token, progressPercentage=42, estimatedRemainingSeconds=120, metrics=metrics))
print("another's", post(own.replace("/reports/", "/silent/"), token, progressPercentage=99))
print("audience", post(own, "/tmp/foreign", progressPercentage=98))
print("percentage", post(own, token, progressPercentage=101))
"""
    running.apply(trainjob("silent", "sleep 30"))
    job = trainjob("reports")
    job["spec"]["trainer"]["command"] = ["python3", "-c", script]
    running.apply(job)
    running.wait_for_condition("reports", "Complete")
    [pod] = running.pods("reports")
    assert running.log(pod["metadata"]["name"]).splitlines() == [
        "own 200",
        "another's 403",
        "audience 401",
        "percentage 422",
    ]
    status: Any = (running.get("trainjob", "reports") or {})["status"]["trainerStatus"]
    assert status.pop("lastUpdatedTime").endswith("Z")
    assert status == {
        "progressPercentage": 42,
        "estimatedRemainingSeconds": 120,
        "metrics": [{"name": "loss", "value": "0.123"}],
    }
    assert "trainerStatus" not in (running.get("trainjob", "silent") or {})["status"]


def test_a_pod_beside_the_job_may_not_report_though_it_has_a_token_for_it(running: Cluster) -> None:
    resource = "trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/watched/status"
    running.apply(trainjob("watched", "sleep 60"))
    eventually("its authority is there", lambda: running.get("configmap", "watched-tls-config"))
    script = f"""{REPORT}
print(post("https://{SERVER}:10443/apis/{resource}", f"{{FOLDER}}/token", progressPercentage=99))
"""
    container = {
        "name": "c",
        "image": "docker.io/trainyard/torch-cpu:sandbox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", script],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubeflow/trainer"}],
    }
    sources = [
        {"serviceAccountToken": {"audience": resource, "path": "token"}},
        {"configMap": {"name": "watched-tls-config"}},
    ]
    labels = {"jobset.sigs.k8s.io/jobset-name": "watched"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "beside", "namespace": "default", "labels": labels},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "volumes": [{"name": "token", "projected": {"sources": sources}}],
        },
    }
    running.apply(pod)
    eventually("it has tried", lambda: (running.get("pod", "beside") or {})["status"]["phase"] == "Succeeded")
    assert running.log("beside") == "403\n"
    running.kubectl("delete", "pod/beside", "trainjob/watched", "--wait=false")


def test_a_finished_job_goes_when_its_annotation_says_so_and_takes_its_jobset_along(running: Cluster) -> None:
    for name, annotation in (("brief", "1s"), ("kept", "keep")):
        job = trainjob(name)
        job["metadata"]["annotations"] = {RETENTION: annotation}
        running.apply(job)
    running.wait_for_condition("kept", "Complete")
    eventually("it is gone", lambda: running.get("trainjob", "brief") is None)
    eventually("and its JobSet", lambda: running.get("jobset", "brief") is None)
    assert running.get("trainjob", "kept") is not None


def test_a_drain_takes_one_replica_and_waits_with_the_other(running: Cluster) -> None:
    def evict(pod: Object) -> str:
        metadata = {"name": pod["metadata"]["name"], "namespace": NAMESPACE}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{metadata['name']}/eviction"
        command = ("kubectl", "create", "--raw", path, "-f", "-")
        return running.run(*command, stdin=json.dumps(eviction), check=False).stderr

    def may_go() -> bool:
        budget = running.within(NAMESPACE).get("poddisruptionbudget", "trainyard-operator")
        return bool(budget and budget["status"]["disruptionsAllowed"] == 1)

    first, second = eventually("two replicas are ready", lambda: both_ready(running))
    eventually("one of them may go", may_go)
    assert evict(first) == ""
    assert "violate the pod's disruption budget" in evict(second)
    eventually("there are two again", lambda: both_ready(running))


def test_when_the_leader_is_killed_another_takes_over_after_the_lease(running: Cluster) -> None:
    """The other replica, or on a busy machine the one that was killed and has started again."""
    eventually("two replicas are ready", lambda: both_ready(running))
    before = holder(running)
    os.kill(pid_of(running, leader(running)), signal.SIGKILL)
    create(running, trainjob("meanwhile"))
    eventually("another leads", lambda: holder(running) not in ("", before))
    running.wait_for_condition("meanwhile", "Complete")
    assert running.audited_writes(OPERATOR, "meanwhile").count("create jobsets") == 1


def test_when_the_leader_is_told_to_stop_the_other_takes_over_at_once(running: Cluster) -> None:
    eventually("two replicas are ready", lambda: both_ready(running))
    before = leader(running)
    os.kill(pid_of(running, before), signal.SIGTERM)
    eventually("the other leads", lambda: leader(running) not in ("", before))
    # It has not waited until the Lease ran out. It answers webhooks for a while, and starts anew.
    logs = ("logs", before, "-n", NAMESPACE)
    eventually(
        "it says that it has released the Lease",
        lambda: any(
            "lease released" in running.kubectl(*logs, *which, check=False) for which in ((), ("--previous",))
        ),
    )
    create(running, trainjob("afterwards"))
    running.wait_for_condition("afterwards", "Complete")
    assert set(running.writes_for("afterwards")) == {"create jobsets", "patch trainjobs/status"}
