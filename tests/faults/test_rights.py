"""Each right that the operator has, and the call that needs it: seen in the API server's audit log.

The list is golden: a right that is not in it, or that no run needs, fails.
"""

import pytest

from tests.harness import rights as everything
from tests.support.live import TRAINER, done
from tests.support.patience import eventually
from trainyard_api import names
from trainyard_kube.resources import WEBHOOK_CONFIGURATIONS
from trainyard_platform.parts.operator import rbac

from . import gaps, lives, rights
from .proxy import Act, Fault

TRAINER_GROUP, JOBSET_GROUP = "trainer.kubeflow.org", "jobset.x-k8s.io"
KUEUE_GROUP = "kueue.x-k8s.io"
REVISIONS = "apps/controllerrevisions"
VOLCANO, COSCHEDULING = "scheduling.volcano.sh", "scheduling.x-k8s.io"
WATCHED = {"list": "to know of all", "watch": "to hear of changes"}

ANYWHERE = {
    f"{TRAINER_GROUP}/trainjobs": {
        **WATCHED,
        "get": "what a new leader knows of old jobs is checked before their children are written",
        "delete": "retention",
    },
    f"{TRAINER_GROUP}/trainingruntimes": {**WATCHED, "get": "a runtime that was made just before its job"},
    f"{TRAINER_GROUP}/clustertrainingruntimes": {**WATCHED, "get": "the same"},
    f"{TRAINER_GROUP}/trainjobs/status": {"patch": "conditions and counts"},
    f"{TRAINER_GROUP}/trainjobs/finalizers": {
        "update": "elsewhere: asked of an owner reference by OwnerReferencesPermissionEnforcement (OpenShift)"
    },
    f"{JOBSET_GROUP}/jobsets": {
        **WATCHED,
        "create": "the job itself",
        "get": "what is there is read before it is replaced",
        "update": "suspend and resume",
        "delete": "a deadline that has passed",
    },
    "/events": {
        "create": "what blocks a job",
        "get": "said before a restart",
        "list": "who refuses a Job or a pod",
        "patch": "and said again",
    },
    "/configmaps": {"create": "MPI's hosts", "get": "are they there", "update": "another number of nodes"},
    "/secrets": {"create": "MPI's key", "get": "is it there"},
    f"{COSCHEDULING}/podgroups": {
        "create": "a gang",
        "delete": "of a job that ended",
        "get": "is it there",
        "update": "of another size",
    },
    f"{VOLCANO}/podgroups": {
        "create": "a gang",
        "delete": "of a job that ended",
        "get": "is it there",
        "update": "of another size",
    },
    "batch/jobs": {
        "create": "elsewhere: tests/e2e/test_policies.py, in dry runs",
        "get": "elsewhere: tests/e2e/test_operator.py, whose Job the pod is that reports",
        "list": "elsewhere: tests/e2e/test_queues.py, a job that moves to another flavor",
        "delete": "elsewhere: the same",
    },
    f"{KUEUE_GROUP}/workloads": {
        "list": "elsewhere: tests/e2e/test_queues.py, the quota of a job that its user suspends",
        "patch": "elsewhere: the same",
    },
    f"{KUEUE_GROUP}/clusterqueues": {"list": "elsewhere: tests/e2e/test_queues.py, a job that can never fit"},
    f"{KUEUE_GROUP}/cohorts": {"list": "elsewhere: the same"},
    f"{KUEUE_GROUP}/localqueues": {"list": "elsewhere: the same"},
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": {
        "get": "is the authority in it ours",
        "patch": "to put it there",
    },
    "admissionregistration.k8s.io/validatingwebhookconfigurations": {"get": "the same", "patch": "the same"},
    "authentication.k8s.io/tokenreviews": {"create": "elsewhere: tests/e2e/test_operator.py, a job reports"},
    "authorization.k8s.io/subjectaccessreviews": {
        "create": "elsewhere: tests/e2e/test_operator.py, who reads metrics"
    },
    "/pods": {**WATCHED, "get": "elsewhere: tests/e2e/test_operator.py, a job reports its own progress"},
    "/pods/log": {"get": "elsewhere: tests/e2e/test_verdict.py, what the ranks of a failed job printed last"},
    "coordination.k8s.io/leases": {"get": "whether upstream's controller lives"},
}
"""By `group/resource`, each verb and what for."""

OWN = {
    "coordination.k8s.io/leases": {
        "create": "the first election",
        "get": "who leads",
        "update": "to lead on",
    },
    REVISIONS: {
        **WATCHED,
        "create": "a runtime is used for the first time",
        "get": "one that another try has left",
        "patch": "elsewhere: since when nothing names it (test_controller.py)",
        "delete": "elsewhere: a day after its last use (test_controller.py)",
    },
    "/secrets": {
        "create": "the certificate of the webhooks",
        "get": "which a replica has made",
        "update": "elsewhere: renewed a while before its end (test_certificate_keeper.py)",
    },
}
"""The same, in the operator's own namespace."""


def granted(rules):
    """By `group/resource`, the verbs."""
    found = {}
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                found.setdefault(f"{group}/{resource}", set()).update(rule["verbs"])
    return found


def audited(scene):
    """Every request of the operator's that the API server has let pass, and what it forbade."""
    with scene.cluster.sandbox.log_file("audit").open() as lines:
        asked = set(everything.used(lines))
    return {one[:3] for one in asked if one.allowed}, {one[:3] for one in asked if not one.allowed}


def test_the_rights_are_these_and_no_others():
    assert granted(rights.CLUSTER) == {resource: set(verbs) for resource, verbs in ANYWHERE.items()}
    assert granted(rights.OWN) == {resource: set(verbs) for resource, verbs in OWN.items()}


@pytest.mark.parametrize("rules", [rights.CLUSTER, rights.OWN])
def test_no_right_is_one_with_which_to_get_others(rules):
    for rule in rules:
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not set(rule["verbs"]) & {"bind", "escalate", "impersonate", "deletecollection"}
        if "pods" in rule["resources"]:
            assert not set(rule["verbs"]) & {"create", "update", "patch", "delete"}
        if "secrets" in rule["resources"]:
            assert not set(rule["verbs"]) & {"list", "watch", "delete"}
    assert rbac.CERTIFICATE[1]["resourceNames"] == [names.WEBHOOK_CERTIFICATE]


def _webhooks(scene):
    """Webhook configurations that lead to the operator's Service, and have no rules."""
    service = {"namespace": rights.NAMESPACE, "name": rights.NAME, "path": "/"}
    for resource, name in WEBHOOK_CONFIGURATIONS:
        webhook = {
            "name": "a.trainer.kubeflow.org",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": service},
            "sideEffects": "None",
        }
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
        done(scene.api.create({**manifest, "webhooks": [webhook]}))


def _resize(scene, gang):
    """A gang whose number of nodes changes while it waits."""
    case = scene.case()
    case.create({**lives.GANG, "podGroupPolicy": {gang: {}}}, suspend=True)
    case.until("its JobSet", lambda: case.jobset)
    case.patch(trainer={"numNodes": 3})


def _end(scene, gang):
    """A gang whose job completes: its PodGroup goes."""
    case = scene.case()
    case.create({**lives.GANG, "podGroupPolicy": {gang: {}}})
    case.until("its JobSet", lambda: case.jobset)
    gaps.complete(case)


def _say_it_again(scene):
    """What blocks it is gone, and comes back after a restart."""
    case = scene.case()
    gaps.squat(case)
    case.until("it is blocked", lambda: gaps.is_in_conflict(case))
    case.delete_jobset()
    case.until("its own JobSet", lambda: gaps.has_its_own_jobset(case))
    scene.replica.kill()
    case.delete_jobset()
    gaps.take_its_name(case)
    case.until("it is blocked", lambda: gaps.is_in_conflict(case))


def _name_runtimes_that_there_are_not(scene):
    case = scene.case()
    for kind in ("TrainingRuntime", "ClusterTrainingRuntime"):
        meta = {"name": f"no-{kind.lower()}", "namespace": case.namespace}
        spec = {"runtimeRef": {"name": "none", "kind": kind}}
        done(scene.api.create({"apiVersion": TRAINER, "kind": "TrainJob", "metadata": meta, "spec": spec}))


def _lose_a_revision(scene):
    """Nothing is heard of one that was made: it is made again, and then looked at."""
    unheard = scene.proxy.add(Fault(Act.FREEZE, resource="controllerrevisions"))
    case = scene.case(Fault(Act.LOSE, resource="controllerrevisions", nth=1))
    case.create(lives.PLAIN)
    case.until("its JobSet", lambda: case.jobset)
    scene.proxy.heal(unheard)


def _list_without_a_stream(proxy, resource):
    """The API server has forgotten what the stream was about, and does not list in streams."""
    for nth, code in enumerate((410, 400), start=1):
        fault = {"verbs": frozenset({"watch"}), "resource": resource, "nth": nth, "code": code}
        proxy.add(Fault(Act.REFUSE, **fault))
    proxy.cut(resource)


def _be_asked_after_a_restart(scene):
    case = scene.case()
    case.create(lives.PLAIN)
    case.until("its JobSet", lambda: case.jobset)
    scene.replica.kill()
    case.delete_jobset()
    case.until("a JobSet again", lambda: case.jobset)


def _be_retired(scene):
    case = scene.case()
    case.create(lives.PLAIN, annotations={"trainyard.dev/retention": "1s"})
    case.until("its JobSet", lambda: case.jobset)
    gaps.complete(case)


@pytest.mark.sandbox
def test_every_right_is_needed_and_none_is_missing(unhurt, references, tried):
    scene = unhurt
    _webhooks(scene)
    with scene.another(
        "four", retention={}, webhook={"host": "127.0.0.1", "port": 0}, featureGates={"TrainJobStatus": True}
    ) as (proxy, replica):
        for resource in ("jobsets", "controllerrevisions", "pods"):
            _list_without_a_stream(proxy, resource)
        _name_runtimes_that_there_are_not(scene)
        for gang in ("coscheduling", "volcano"):
            _resize(scene, gang)
            _end(scene, gang)
        _lose_a_revision(scene)
        _say_it_again(scene)
        _be_asked_after_a_restart(scene)
        _be_retired(scene)
        scene.replica.kill_for_good()
        try:
            eventually("the other leads", lambda: replica.leads)
            eventually("every right has been needed", lambda: _unneeded(scene))
        finally:
            scene.replica.start()
    _, forbidden = audited(scene)
    assert forbidden == set()
    tried("rights of the operator, each with a call that needs it", 1, 1)


def _unneeded(scene):
    """True if there are none; says which, else."""
    used, _ = audited(scene)
    anywhere = {(resource, verb) for _, resource, verb in used}
    inside = {(resource, verb) for namespace, resource, verb in used if namespace == rights.NAMESPACE}
    assert (_needed(ANYWHERE) - anywhere, _needed(OWN) - inside) == (set(), set())
    return True


def _needed(table):
    return {
        (resource, verb)
        for resource, verbs in table.items()
        for verb, why in verbs.items()
        if not why.startswith("elsewhere: ")
    }
