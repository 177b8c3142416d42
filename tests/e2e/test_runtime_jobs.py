"""Which content of a runtime a TrainJob has and takes, as docs/change-a-runtime.md says."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import Cluster, Object, runtime, trainjob
from tests.support.patience import NOTICED, eventually

pytestmark = pytest.mark.sandbox(area="platform")

NAME = "changed-between"


def listed(platform: Cluster) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        platform.run("trainyard", "runtimes", "jobs", NAME, "-o", "json").stdout
    )
    return answer


def contents(platform: Cluster) -> dict[str, str]:
    return {one["name"]: one["content"] for one in listed(platform)["trainJobs"]}


@pytest.mark.jobset_queues
def test_a_job_that_was_sent_before_a_change_has_the_older_content_and_one_after_it_the_newest(
    platform: Cluster, team_a: Cluster
) -> None:
    before = runtime(NAME)
    platform.apply(before)
    try:
        team_a.apply(trainjob("early", runtime=NAME, suspend=True))
        eventually("it has its content", lambda: contents(platform) == {"early": "newest"})
        before["spec"]["mlPolicy"]["numNodes"] = 2
        platform.apply(before)
        eventually("its content is the older one", lambda: contents(platform) == {"early": "older"})
        team_a.apply(trainjob("late", runtime=NAME, suspend=True))
        both = {"early": "older", "late": "newest"}
        eventually("each has its own", lambda: contents(platform) == both)
        found = listed(platform)
        assert {one["revision"] == found["newest"]: one["name"] for one in found["trainJobs"]} == {
            True: "late",
            False: "early",
        }
        said = platform.run("trainyard", "runtimes", "jobs", NAME)
        assert "To get the newest content, delete the TrainJob and create it again." in said.stderr
    finally:
        team_a.kubectl("delete", "trainjob", "early", "late", "--ignore-not-found")
        platform.kubectl("delete", "clustertrainingruntime", NAME)
    answer = platform.run("trainyard", "runtimes", "jobs", NAME, check=False)
    assert answer.returncode == 2
    assert f"there is no ClusterTrainingRuntime {NAME}, and no TrainJob on it" in answer.stderr


RESTRICTED: Object = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}
"""A container that the pod security standard `restricted` lets pass."""
REFUSED: dict[str, Object] = {
    "JobsRefused": {**RESTRICTED, "env": [{"name": "UNWANTED", "value": "yes"}]},
    "PodsRefused": {},
}
"""A container that no Job may have there, and one that only its pods may not."""
RESTRICTS = "refuses-pods"
GUARD: tuple[Object, ...] = (
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "unwanted.example.com"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["batch"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["jobs"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": "object.spec.template.spec.containers.all(c, "
                    "!has(c.env) || !c.env.exists(e, e.name == 'UNWANTED'))"
                }
            ],
        },
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "unwanted.example.com"},
        "spec": {
            "policyName": "unwanted.example.com",
            "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": RESTRICTS}}
            },
        },
    },
)
"""A site's own policy about Jobs; what Kubernetes itself refuses never gets so far."""


@pytest.fixture
def restricted(platform: Cluster) -> Iterator[Cluster]:
    """A namespace whose pods have to meet the pod security standard `restricted`, and its Jobs a policy."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": RESTRICTS, "labels": labels}}
    platform.apply(namespace, *GUARD)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "probe", "namespace": RESTRICTS},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "node", "image": "probe", **REFUSED["JobsRefused"]}],
                }
            }
        },
    }

    def refuses() -> bool:
        create = ("kubectl", "create", "--dry-run=server", "-f", "-")
        return "unwanted.example.com" in platform.run(*create, check=False, stdin=json.dumps(job)).stderr

    try:
        eventually("the policy is in force", refuses)
        yield platform.within(RESTRICTS)
    finally:
        for one in GUARD:
            platform.kubectl("delete", one["kind"], one["metadata"]["name"])
        platform.kubectl("delete", "namespace", RESTRICTS, "--wait")


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_put_right_in_a_runtime_reaches_jobs_of_which_no_pod_could_run(
    platform: Cluster, restricted: Cluster, reason: str
) -> None:
    """One that was sent to run, and one that was sent suspended."""
    name = f"wrong-{reason.lower()}"
    platform.apply(runtime(name, container=REFUSED[reason]))
    try:
        restricted.apply(trainjob("sent", runtime=name), trainjob("held", runtime=name, suspend=True))
        uids = {job: (restricted.get("trainjob", job) or {})["metadata"]["uid"] for job in ("sent", "held")}
        blocked = restricted.wait_for_condition("sent", "Blocked")
        assert blocked["reason"] == reason
        assert blocked["message"].endswith("create it again without the settings that the message names")
        said = platform.run("trainyard", "explain", "sent", "-n", restricted.namespace, check=False)
        assert said.returncode == 1
        assert reason in said.stdout
        platform.apply(runtime(name, container=RESTRICTED))
        restricted.wait_for_condition("sent", "Complete", within=NOTICED)
        assert restricted.condition("sent", "Blocked") is None
        restricted.kubectl("patch", "trainjob", "held", "--type=merge", "-p", '{"spec": {"suspend": false}}')
        restricted.wait_for_condition("held", "Complete", within=NOTICED)
        for job, uid in uids.items():
            assert (restricted.get("trainjob", job) or {})["metadata"]["uid"] == uid
            told = [e["reason"] for e in restricted.list("events") if e["involvedObject"]["name"] == job]
            assert {reason, "RuntimeRenewed"} <= set(told)
    finally:
        restricted.kubectl("delete", "trainjobs", "--all")
        platform.kubectl("delete", "clustertrainingruntime", name)
