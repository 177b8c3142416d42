"""Taking a cluster over from Kubeflow Trainer's controller, and giving it back: the real one, in a pod."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.cluster import UNTIL_TOLD, Cluster, Object, finish, trainjob
from tests.support.patience import eventually

from .trainer import CONTROLLER, holder, installed

pytestmark = pytest.mark.sandbox(area="migrate")

TARGETS = ("**PolicyRules**", "**Operator**", "**Admission**", "**Catalog**", "**Kubeflow**")
KINDS = {
    "crd": [f"{plural}.trainer.kubeflow.org" for plural in ("trainjobs", "clustertrainingruntimes")],
    "mutatingwebhookconfiguration": ["defaulter.trainer.kubeflow.org"],
    "validatingwebhookconfiguration": ["validator.trainer.kubeflow.org"],
    "clustertrainingruntime": ["plain"],
}


@pytest.fixture(scope="module")
def trainer(platform: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The platform's cluster with Trainer's controller, which has three TrainJobs; `up` in the end."""
    try:
        with installed(platform, tmp_path_factory.mktemp("trainer")) as trainer:
            platform.apply(
                trainjob("adopt-runs", UNTIL_TOLD),
                trainjob("adopt-held", suspend=True),
                trainjob("adopt-done"),
            )
            eventually("it runs", lambda: running(platform, "adopt-runs"))
            platform.wait_for_condition("adopt-done", "Complete")
            eventually("it has a JobSet", lambda: platform.get("jobset", "adopt-held"))
            yield trainer
    finally:  # whatever happened: the platform is that of all tests
        platform.kubectl("delete", "trainjob", "--ignore-not-found", *(f"adopt-{job}" for job in JOBS))
        up(platform)
        # Rules that Trainer's manifests have and the stack has not: Pulumi does not see them.
        platform.run("trainyard", "drift", "--stack", "sandbox", "--repair")


JOBS = ("runs", "held", "done", "after")


def running(platform: Cluster, job: str) -> list[Object]:
    return [pod for pod in platform.pods(job) if pod["status"]["phase"] == "Running"]


def up(platform: Cluster) -> None:
    targets = [word for target in TARGETS for word in ("--target", target)]
    platform.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview", "--refresh", *targets)


def adopt(platform: Cluster, *arguments: str, code: int = 0) -> dict[str, Any]:
    answer = platform.run("trainyard", "adopt", "--output", "json", *arguments, check=False)
    assert answer.returncode == code, answer.stdout + answer.stderr
    return dict(json.loads(answer.stdout))


def identities(platform: Cluster) -> dict[str, Any]:
    """The uid of everything that is to stay, and how often containers have started anew."""
    found = {
        f"{kind}/{name}": (platform.get(kind, name) or {})["metadata"]["uid"]
        for kind, names in {**KINDS, "trainjob": [f"adopt-{job}" for job in JOBS[:3]]}.items()
        for name in names
    }
    found |= {f"jobset/adopt-{job}": platform.get("jobset", f"adopt-{job}") for job in JOBS[:3]}
    for name in [name for name in found if name.startswith("jobset/")]:
        found[name] = found[name]["metadata"]["uid"]
    for pod in platform.pods("adopt-runs"):
        restarts = [status["restartCount"] for status in pod["status"]["containerStatuses"]]
        found[f"pod/{pod['metadata']['name']}"] = (pod["metadata"]["uid"], restarts)
    return found


def is_ready(platform: Cluster) -> bool:
    """Whether our operator is, as the kubelet sees it."""
    pods = platform.within("trainyard-system").list("pods")
    [pod] = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"]["conditions"])


def leads_to(platform: Cluster) -> set[str]:
    """The Services that the webhooks lead to."""
    found = [
        platform.get("mutatingwebhookconfiguration", "defaulter.trainer.kubeflow.org"),
        platform.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org"),
    ]
    return {webhook["clientConfig"]["service"]["name"] for one in found if one for webhook in one["webhooks"]}


@pytest.mark.core
def test_where_trainers_controller_is_not_it_says_where_it_looked_and_stops(platform: Cluster) -> None:
    plan = adopt(platform, code=1)
    assert plan["refused"]
    [check] = plan["checks"]
    where = "there is no Deployment kubeflow-system/kubeflow-trainer-controller-manager: "
    assert (check["level"], check["about"]) == ("stop", "controller")
    assert check["message"].startswith(where)
    assert plan["steps"] == []


def test_of_two_controllers_ours_stays_passive_and_names_the_other(
    platform: Cluster, trainer: Cluster
) -> None:
    reason = f"Kubeflow Trainer's controller is alive: {holder(trainer)} holds Lease"
    ours = platform.within("trainyard-system")
    eventually("ours says so", lambda: reason in ours.kubectl("logs", "deployment/trainyard-operator"))
    eventually("and is not ready", lambda: not is_ready(platform))
    lease = ours.get("lease", "trainyard-operator") or {}
    assert not lease["spec"].get("holderIdentity")
    managed = ("--show-managed-fields", "--output", "json")
    jobset = json.loads(platform.kubectl("get", "jobset", "adopt-runs", *managed))
    assert {entry["manager"] for entry in jobset["metadata"]["managedFields"]} & {"trainyard"} == set()


def test_it_says_what_it_would_do_and_does_nothing(platform: Cluster, trainer: Cluster) -> None:
    before = trainer.get("deployment", CONTROLLER) or {}
    plan = adopt(platform)
    assert not plan["refused"]
    assert {check["about"]: check["level"] for check in plan["checks"]} == {"CRDs": "fine", "version": "fine"}
    fates = {fate["name"]: (fate["state"], fate["level"]) for fate in plan["trainJobs"]}
    assert {job: fates[f"adopt-{job}"] for job in JOBS[:3]} == {
        "runs": ("running", "fine"),
        "held": ("suspended", "fine"),
        "done": ("finished", "fine"),
    }
    assert [step["action"] for step in plan["steps"]][:: len(plan["steps"]) - 1] == ["Keep", "Scale"]
    assert not any(step["done"] for step in plan["steps"])
    after = trainer.get("deployment", CONTROLLER) or {}
    assert after["spec"] == before["spec"]
    assert trainer.get("configmap", "trainyard-adoption") is None
    text = platform.run("trainyard", "adopt").stdout
    assert "Nothing has been changed. To do it: trainyard adopt --yes" in text, text


def test_it_takes_over_and_nothing_is_made_anew(platform: Cluster, trainer: Cluster) -> None:
    before = identities(platform)
    done = adopt(platform, "--yes")
    assert all(step["done"] for step in done["steps"])
    # One that has ended may still be listed while it is deleted.
    phases = {pod["status"]["phase"] for pod in trainer.list("pods", "app.kubernetes.io/name=trainer")}
    assert phases <= {"Failed", "Succeeded"}
    assert adopt(platform)["steps"] == []
    up(platform)
    assert leads_to(platform) == {"trainyard-operator"}
    assert identities(platform) == before

    [pod] = running(platform, "adopt-runs")
    finish(platform, pod)
    platform.wait_for_condition("adopt-runs", "Complete")
    platform.kubectl("patch", "trainjob", "adopt-held", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    platform.wait_for_condition("adopt-held", "Complete")
    assert (platform.get("jobset", "adopt-held") or {})["metadata"]["uid"] == before["jobset/adopt-held"]


def test_it_gives_back(platform: Cluster, trainer: Cluster) -> None:
    platform.apply(trainjob("adopt-after", UNTIL_TOLD))
    [pod] = eventually("it runs", lambda: running(platform, "adopt-after"))
    done = adopt(platform, "--back", "--yes")
    assert all(step["done"] for step in done["steps"])
    assert leads_to(platform) == {CONTROLLER}
    bindings = platform.list("validatingadmissionpolicybindings")
    assert [one for one in bindings if "policy.trainyard.dev" in one["metadata"]["name"]] == []
    assert trainer.get("configmap", "trainyard-adoption") is None
    eventually("it works again", lambda: holder(trainer).startswith(CONTROLLER))
    [same] = running(platform, "adopt-after")
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    finish(platform, pod)
    complete = platform.wait_for_condition("adopt-after", "Complete")
    assert complete["reason"] == "AllJobsCompleted"
    kept = platform.get("configmap", "adopt-after-runtime-snapshot") or {}
    assert kept["metadata"]["ownerReferences"][0]["kind"] == "TrainJob"
    answer = platform.run("trainyard", "adopt", "--back", check=False)
    assert answer.returncode == 1
    assert "nothing has been taken over here" in answer.stdout
