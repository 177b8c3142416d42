"""Who may report a TrainJob's progress: tokens that the API server itself issues and judges.

Pods are made by Kubernetes' own Job controller and run nowhere; their tokens
are as a kubelet would have them issued.
"""

import base64
import json
import time

import pytest
import urllib3
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.support.live import JOBSET, TRAINER, done
from tests.support.patience import eventually
from trainyard_operator.core.status import progress
from trainyard_sandbox.assembly import free_port

from . import gaps, lives, rights
from .scene import NAME

pytestmark = pytest.mark.sandbox

LABELS = "jobset.sigs.k8s.io"
API_SERVER = "https://kubernetes.default.svc.cluster.local"
ANOTHERS, UNKNOWN = "the token belongs to another TrainJob", "the API server does not accept the token"
NOT_ITS_POD = "the token's pod does not belong to a JobSet of this TrainJob"
NOT_MEANT = "the token is not meant for {audience}"
ANSWERS = {
    "of its own pod": (200, ""),
    "of its own pod, signed once more": (200, ""),
    "of its own pod, run out": (401, UNKNOWN),
    "of its own pod, signed by another": (401, UNKNOWN),
    "of its own pod, not signed": (401, UNKNOWN),
    "of its own pod, for the API server": (401, NOT_MEANT),
    "of its own pod, for its neighbour": (403, ANOTHERS),
    "of a pod that is gone": (401, UNKNOWN),
    "of its neighbour's pod": (403, NOT_ITS_POD),
    "of an account, not of a pod": (403, "the token does not belong to a pod of this namespace"),
    "none, but a word": (401, NOT_MEANT),
}
"""By the token: how a report on a TrainJob is answered."""


def _pod(scene, namespace, job):
    """A pod of the TrainJob's JobSet, as JobSet's and the Job controller make it."""
    jobset = scene.api.get(JOBSET, "JobSet", job, namespace)
    labels = {f"{LABELS}/jobset-name": job, f"{LABELS}/jobset-uid": jobset["metadata"]["uid"]}
    pod = {"containers": [{"name": "node", "image": "image"}], "restartPolicy": "Never"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    owner = {"apiVersion": JOBSET, "kind": "JobSet", "name": job, "uid": jobset["metadata"]["uid"]}
    meta = {
        "name": f"{job}-node-0",
        "namespace": namespace,
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template}}
    done(scene.api.create(manifest))

    def made():
        pods = scene.api.list("v1", "Pod", namespace)
        return next((p["metadata"] for p in pods if p["metadata"]["labels"].items() >= labels.items()), None)

    return eventually(f"{job} has a pod", made)


def _token(scene, namespace, pod, audience):
    """A token of this pod; of the account alone if it is None."""
    spec = {"audiences": [audience], "expirationSeconds": 3600}
    if pod is not None:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    return done(scene.api.call("POST", path, request))["status"]["token"]


def _signed(token, key, **claims):
    """The token with other claims, signed with this key."""
    header, payload, _ = token.split(".")
    content = {**json.loads(base64.urlsafe_b64decode(payload + "==")), **claims}
    said = f"{header}.{_encoded(json.dumps(content).encode())}"
    r, s = utils.decode_dss_signature(key.sign(said.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{said}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _encoded(content):
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _tokens(scene, namespace, neighbour):
    """Every token that is tried, for the TrainJob `NAME`."""
    audience = progress.audience(namespace, NAME)
    key = load_pem_private_key(
        (scene.cluster.sandbox.instance.pki / "service-accounts.key").read_bytes(), None
    )
    own, others = (_pod(scene, namespace, job) for job in (NAME, neighbour))
    token = _token(scene, namespace, own, audience)
    past = int(time.time()) - 7200
    return {
        "of its own pod": token,
        "of its own pod, signed once more": _signed(token, key),
        "of its own pod, run out": _signed(token, key, iat=past, nbf=past, exp=past + 3600),
        "of its own pod, signed by another": _signed(token, ec.generate_private_key(ec.SECP256R1())),
        "of its own pod, not signed": token.rpartition(".")[0] + ".",
        "of its own pod, for the API server": _token(scene, namespace, own, API_SERVER),
        "of its own pod, for its neighbour": _token(
            scene, namespace, own, progress.audience(namespace, neighbour)
        ),
        "of a pod that is gone": _signed(token, key, **_of_nobody(token)),
        "of its neighbour's pod": _token(scene, namespace, others, audience),
        "of an account, not of a pod": _token(scene, namespace, None, audience),
        "none, but a word": "password",
    }


def _of_nobody(token):
    """The claims of a token of a pod that is not there any more."""
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))["kubernetes.io"]
    return {"kubernetes.io": {**claims, "pod": {**claims["pod"], "name": "gone"}}}


def _pool(scene, port):
    """Connections to the status server, which is known by its authority and name."""
    path = f"/api/v1/namespaces/{rights.NAMESPACE}/secrets/trainyard-operator-webhook"
    authority = base64.b64decode(done(scene.api.call("GET", path))["data"]["ca.crt"]).decode()
    name = f"{rights.NAME}.{rights.NAMESPACE}.svc"
    return urllib3.HTTPSConnectionPool(
        "127.0.0.1", port, ca_cert_data=authority, server_hostname=name, assert_hostname=name
    )


def test_a_report_is_taken_with_a_token_of_the_jobs_own_pod_and_no_other(unhurt, tried):
    scene, neighbour = unhurt, "neighbour"
    case = scene.case()
    gaps.running(case)
    reference = {"name": "runtime", "kind": "TrainingRuntime"}
    meta = {"name": neighbour, "namespace": case.namespace}
    job = {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": meta, "spec": {"runtimeRef": reference}}
    done(scene.api.create(job))
    eventually("its JobSet", lambda: scene.api.get(JOBSET, "JobSet", neighbour, case.namespace))
    tokens = _tokens(scene, case.namespace, neighbour)
    audience, port = progress.audience(case.namespace, NAME), free_port()
    server = {"host": "127.0.0.1", "port": port}
    with scene.another("six", statusServer=server, featureGates={"TrainJobStatus": True}):
        pool = _pool(scene, port)

        def report(number, token):
            body = {"trainerStatus": {"progressPercentage": number, "lastUpdatedTime": lives.THEN}}
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
            answer = pool.request("POST", f"/apis/{audience}", json=body, headers=headers, timeout=60)
            return answer.status, answer.json().get("message", "") if answer.status != 200 else ""

        answers = {what: report(number, token) for number, (what, token) in enumerate(tokens.items())}
    assert answers == {
        what: (code, message.format(audience=audience)) for what, (code, message) in ANSWERS.items()
    }
    assert case.trainjob["status"]["trainerStatus"]["progressPercentage"] == 1, "of the last good token"
    tried("5.1 tokens with which to report", len(tokens), len(ANSWERS))
