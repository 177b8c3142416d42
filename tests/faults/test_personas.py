"""Who may do what, where: the whole table, asked of the API server itself for each verb and resource.

The roles are those that the platform gives tenants' people and the operator.
What the API server says it would let somebody do is then tried by some of them.
"""

from functools import partial
from itertools import product
from typing import Any

import pytest

from tests.support.live import JOBSET, TRAINER, Api, at_once, done
from tests.support.patience import eventually
from trainyard_platform.parts.tenants import manifests as tenant_manifests
from trainyard_platform.stack.tenants import Subject, SubjectKind, Tenant

from . import gaps, lives, rights
from .hostile import told
from .scene import NAME

pytestmark = pytest.mark.sandbox

OWN, OTHER, SYSTEM, CLUSTER = "team-a", "team-b", rights.NAMESPACE, ""
"""A tenant's namespace, another's, the operator's; and what is in none."""
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
TRAINER_GROUP, BATCH, RBAC = "trainer.kubeflow.org", "batch", "rbac.authorization.k8s.io"
IN_NAMESPACES = {
    TRAINER_GROUP: ("trainjobs", "trainjobs/status", "trainjobs/finalizers", "trainingruntimes"),
    "jobset.x-k8s.io": ("jobsets", "jobsets/status"),
    BATCH: ("jobs", "cronjobs"),
    "": (
        *("pods", "pods/log", "pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers"),
        *("secrets", "configmaps", "events", "persistentvolumeclaims", "resourcequotas", "limitranges"),
        *("serviceaccounts", "serviceaccounts/token", "services", "services/proxy"),
    ),
    "apps": ("deployments", "daemonsets", "controllerrevisions"),
    "kueue.x-k8s.io": ("workloads", "localqueues"),
    "scheduling.x-k8s.io": ("podgroups",),
    "scheduling.volcano.sh": ("podgroups",),
    "metrics.k8s.io": ("pods",),
    "networking.k8s.io": ("networkpolicies",),
    "coordination.k8s.io": ("leases",),
    RBAC: ("roles", "rolebindings"),
}
IN_NONE = {
    TRAINER_GROUP: ("clustertrainingruntimes",),
    "": ("namespaces", "nodes", "nodes/proxy", "persistentvolumes"),
    "kueue.x-k8s.io": ("clusterqueues", "cohorts", "resourceflavors"),
    "admissionregistration.k8s.io": (
        *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        "validatingadmissionpolicies",
    ),
    "apiextensions.k8s.io": ("customresourcedefinitions",),
    "authentication.k8s.io": ("tokenreviews",),
    "certificates.k8s.io": ("certificatesigningrequests", "certificatesigningrequests/approval"),
    RBAC: ("clusterroles", "clusterrolebindings"),
}
TO_BECOME_OTHERS = (
    ("impersonate", "", "users"),
    ("impersonate", "", "groups"),
    ("impersonate", "", "serviceaccounts"),
    ("bind", RBAC, "clusterroles"),
    ("escalate", RBAC, "clusterroles"),
)

ADA, VERA, MALLORY = "ada", "vera", "mallory"
PERSONAS = {
    "data scientist": (ADA, ("system:authenticated",)),
    "viewer": (VERA, ("system:authenticated",)),
    "of no tenant": (MALLORY, ("system:authenticated",)),
    "unknown": ("system:anonymous", ("system:unauthenticated",)),
    "a job's pod": (
        f"system:serviceaccount:{OWN}:default",
        ("system:serviceaccounts", f"system:serviceaccounts:{OWN}", "system:authenticated"),
    ),
    "operator": (
        rights.USER,
        ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated"),
    ),
}

LOOK = "get list watch"
WRITE = f"{LOOK} create update patch delete"
VISIBLE = {
    "trainer.kubeflow.org/trainjobs": LOOK,
    "trainer.kubeflow.org/trainingruntimes": LOOK,
    "jobset.x-k8s.io/jobsets": LOOK,
    "batch/jobs": LOOK,
    "/pods": LOOK,
    "/pods/log": "get",
    "/events": LOOK,
    "/persistentvolumeclaims": LOOK,
    "/limitranges": "get list",
    "kueue.x-k8s.io/workloads": LOOK,
    "kueue.x-k8s.io/localqueues": LOOK,
    "scheduling.x-k8s.io/podgroups": LOOK,
    "scheduling.volcano.sh/podgroups": LOOK,
    "metrics.k8s.io/pods": "get list",
}
CATALOG = {"trainer.kubeflow.org/clustertrainingruntimes": LOOK}
OPERATOR = {
    "trainer.kubeflow.org/trainjobs": "get list watch delete",
    "trainer.kubeflow.org/trainjobs/status": "patch",
    "trainer.kubeflow.org/trainjobs/finalizers": "update",
    "trainer.kubeflow.org/trainingruntimes": LOOK,
    "jobset.x-k8s.io/jobsets": "get list watch create update delete",
    "batch/jobs": "get list create delete",
    "/pods": LOOK,
    "/pods/log": "get",
    "/secrets": "get create",
    "/configmaps": "get create update",
    "/events": "get list create patch",
    "scheduling.x-k8s.io/podgroups": "get create update delete",
    "scheduling.volcano.sh/podgroups": "get create update delete",
    "kueue.x-k8s.io/workloads": "list patch",
    "kueue.x-k8s.io/localqueues": "list",
}
MAY = {
    ("data scientist", OWN): {
        **VISIBLE,
        "trainer.kubeflow.org/trainjobs": WRITE,
        "/configmaps": WRITE,
        "/secrets": WRITE,
        "/persistentvolumeclaims": WRITE,
        "/pods": f"{LOOK} delete",
        "/pods/exec": "get create",
        "/pods/portforward": "get create",
    },
    ("data scientist", CLUSTER): CATALOG,
    ("viewer", OWN): VISIBLE,
    ("viewer", CLUSTER): CATALOG,
    ("operator", OWN): OPERATOR,
    ("operator", OTHER): OPERATOR,
    ("operator", SYSTEM): {
        **OPERATOR,
        "apps/controllerrevisions": "get list watch create patch delete",
        "coordination.k8s.io/leases": "create",
    },
    ("operator", CLUSTER): {
        **CATALOG,
        "kueue.x-k8s.io/clusterqueues": "list",
        "kueue.x-k8s.io/cohorts": "list",
        "authentication.k8s.io/tokenreviews": "create",
    },
}
"""All that anybody may do without the name of an object: whoever and wherever is not in it, nothing."""


@pytest.fixture(scope="module")
def tenants(stage):
    """Two tenants, with their people in the first."""
    people: dict[str, Any] = {
        "data_scientists": (Subject(kind=SubjectKind.USER, name=ADA),),
        "viewers": (Subject(kind=SubjectKind.USER, name=VERA),),
    }
    made = {OWN: Tenant(cluster_queue="queue", **people), OTHER: Tenant(cluster_queue="queue")}
    stage.api.apply(*tenant_manifests.roles())
    for name, tenant in made.items():
        stage.api.apply(tenant_manifests.namespace(name, tenant), *tenant_manifests.bindings(name, tenant))
    return stage


def questions():
    """Each persona with each verb of each resource in each place."""
    inside = [(group, name) for group, names in IN_NAMESPACES.items() for name in names]
    outside = [(group, name) for group, names in IN_NONE.items() for name in names]
    asked = [*product((OWN, OTHER, SYSTEM), VERBS, inside), *product((CLUSTER,), VERBS, outside)]
    asked += [(CLUSTER, verb, (group, name)) for verb, group, name in TO_BECOME_OTHERS]
    return [(who, *question) for who, question in product(PERSONAS, asked)]


def allowed(api, question):
    """Whether the API server would do it."""
    who, place, verb, (group, resource) = question
    user, groups = PERSONAS[who]
    name, _, sub = resource.partition("/")
    attributes = {"namespace": place, "verb": verb, "group": group, "resource": name, "subresource": sub}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return done(api.call("POST", path, review))["status"]["allowed"]


def test_each_may_do_what_is_in_the_table_and_nothing_else(tenants, tried):
    asked = questions()
    answers = at_once(lambda question: allowed(tenants.api, question), asked)
    found: dict[tuple[str, str], dict[str, str]] = {}
    for (who, place, verb, (group, resource)), yes in zip(asked, answers, strict=True):
        if yes:
            verbs = found.setdefault((who, place), {})
            verbs[f"{group}/{resource}"] = f"{verbs.get(f'{group}/{resource}', '')} {verb}".strip()
    assert found == MAY
    tried("personas, each verb of each resource in each place", len(asked), len(asked))


TRAINJOB = {"runtimeRef": {"name": "runtime", "kind": "TrainingRuntime"}}
CONTAINER = {"name": "node", "image": "image"}
DONE, NO = 201, 403
DEEDS = {
    "a TrainJob in the own namespace": (OWN, TRAINER, "TrainJob", TRAINJOB, DONE),
    "a TrainJob in another tenant's": (OTHER, TRAINER, "TrainJob", TRAINJOB, NO),
    "a TrainJob beside the operator": (SYSTEM, TRAINER, "TrainJob", TRAINJOB, NO),
    "a runtime of one's own": (OWN, TRAINER, "TrainingRuntime", {}, NO),
    "a runtime for everybody": (OWN, TRAINER, "ClusterTrainingRuntime", {}, NO),
    "a JobSet without a TrainJob": (OWN, JOBSET, "JobSet", {"replicatedJobs": []}, NO),
    "a pod": (OWN, "v1", "Pod", {"containers": [CONTAINER]}, NO),
    "a Secret": (OWN, "v1", "Secret", {}, DONE),
    "a Secret in another tenant's": (OTHER, "v1", "Secret", {}, NO),
    "a Secret beside the operator": (SYSTEM, "v1", "Secret", {}, NO),
}
"""What the data scientist makes: where, what, and how the API server answers."""


def test_a_data_scientist_makes_in_the_own_namespace_what_the_guides_ask_and_nothing_else(tenants, tried):
    ada = Api(tenants.admin).impersonating(ADA)
    answers = {
        what: ada.create(
            {
                "apiVersion": version,
                "kind": kind,
                "metadata": {"name": "deed", "namespace": place},
                "spec": spec,
            },
            dry_run=True,
        ).code
        for what, (place, version, kind, spec, _) in DEEDS.items()
    }
    assert answers == {what: code for what, (*_, code) in DEEDS.items()}
    tried("deeds of a data scientist", len(DEEDS), len(DEEDS))


def patched(**template):
    """A TrainJob that wants this of its JobSet."""
    manager = {"manager": "tests.example.com/tests", "trainingRuntimeSpec": {"template": template}}
    return {"runtimePatches": [manager]}


def metadata_of_pods(**metadata):
    template = {"template": {"metadata": metadata}}
    return patched(spec={"replicatedJobs": [{"name": "node", "template": {"spec": template}}]})


def _runtime(name):
    return {"runtimeRef": {"name": name, "kind": "TrainingRuntime"}}


DEPUTY = {
    "a JobSet in another namespace": (patched(metadata={"namespace": OTHER}), "JobSet"),
    "a JobSet with another name": (patched(metadata={"name": "another"}), "JobSet"),
    "a JobSet that somebody else owns": (patched(metadata={"ownerReferences": [{"name": "o"}]}), "JobSet"),
    "pods in another namespace": (metadata_of_pods(namespace=OTHER), "JobSet"),
    "another tenant's runtime": (_runtime(f"{OTHER}/runtime"), "RuntimeNotFound"),
    "a path to another tenant's runtime": (
        _runtime(f"../../{OTHER}/trainingruntimes/runtime"),
        "RuntimeNotFound",
    ),
    "a path to a Secret": (
        _runtime(f"../../../../../../api/v1/namespaces/{SYSTEM}/secrets/trainyard-operator-webhook"),
        "RuntimeNotFound",
    ),
    "the status": ({"status": {"conditions": []}}, "JobSet"),
}
"""What a data scientist writes to have the operator do what is not theirs to do, and what comes of it.

A JobSet comes of what the schema has no place for: it is dropped, and the JobSet is like any other.
"""


def test_nobody_gets_the_operator_to_write_anywhere_else(tenants, unhurt, tried):
    scene = unhurt
    case = scene.case()
    gaps.running(case)
    runtime = {"apiVersion": TRAINER, "kind": "TrainingRuntime", "spec": lives.PLAIN}
    scene.api.apply({**runtime, "metadata": {"name": "runtime", "namespace": OTHER}})
    for number, (spec, _) in enumerate(DEPUTY.values()):
        metadata = {"name": f"deputy-{number}", "namespace": case.namespace}
        job = {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": metadata, "spec": {**TRAINJOB, **spec}}
        done(scene.api.create(job))
    came = {
        what: eventually(f"{what} is answered", partial(told, scene.api, case.namespace, f"deputy-{number}"))
        for number, what in enumerate(DEPUTY)
    }
    assert came == {what: expected for what, (_, expected) in DEPUTY.items()}
    made = scene.api.list(JOBSET, "JobSet", case.namespace)
    names = {one["metadata"]["name"] for one in made}
    assert names == {NAME, *(f"deputy-{n}" for n, what in enumerate(DEPUTY) if came[what] == "JobSet")}
    assert scene.api.list(JOBSET, "JobSet", OTHER) == []
    for jobset in made:
        (owner,) = jobset["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == ("TrainJob", jobset["metadata"]["name"])
    assert lives.violations(case) == []
    tried("5.2 what a TrainJob asks for that is not its own", len(DEPUTY), len(DEPUTY))
