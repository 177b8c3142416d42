"""What a change of a stack means beside the TrainJobs that it touches."""

from typing import Any

import pytest

from trainyard_delivery import consequences
from trainyard_delivery.impact import Change, Ref, Verb

NAMESPACE = Ref("Namespace", "", "vision")
TENANTS = {"metadata": {"labels": {"trainyard.dev/tenant": "vision"}}}
STAYS = "its TrainJobs, volume claims and Secrets stay in it: a tenant with another name gets none"
SEND = "send, change, delete and see TrainJobs in vision, and read their logs"


def bound(role: str, *people: str) -> dict[str, Any]:
    """A RoleBinding: people as `Kind name` or `Kind namespace/name`."""
    subjects = []
    for kind, name in (one.split(" ") for one in people):
        namespace, _, short = name.rpartition("/")
        subjects.append({"kind": kind, "name": short, **({"namespace": namespace} if namespace else {})})
    return {"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects}


def of_people(verb: Verb, before: Any, after: Any, role: str = "trainyard-data-scientist") -> Change:
    return Change(Ref("RoleBinding", "vision", role), verb, before, after)


MPI = Ref("RoleBinding", "vision", "trainyard-operator-mpi")
SCIENTISTS = bound("trainyard-data-scientist", "Group research", "User ann")
CASES: dict[str, tuple[Change, list[str]]] = {
    "a tenant's namespace stays, with what is in it": (Change(NAMESPACE, Verb.LEFT, TENANTS, {}), [STAYS]),
    "a namespace of the platform's own is nobody's": (
        Change(Ref("Namespace", "", "kueue-system"), Verb.LEFT, {"metadata": {"name": "kueue-system"}}, {}),
        [],
    ),
    "a tenant is new": (Change(NAMESPACE, Verb.ADDED, {}, TENANTS), []),
    "data scientists go": (
        of_people(Verb.REMOVED, SCIENTISTS, {}),
        [f"Group research, User ann can no longer {SEND}"],
    ),
    "one of them goes, and an account comes": (
        of_people(
            Verb.CHANGED,
            SCIENTISTS,
            bound("trainyard-data-scientist", "User ann", "ServiceAccount ci/sender"),
        ),
        [f"Group research can no longer {SEND}", f"ServiceAccount ci/sender can now {SEND}"],
    ),
    "viewers come": (
        of_people(Verb.ADDED, {}, bound("trainyard-viewer", *(f"User u{n}" for n in range(5)))),
        ["User u0, User u1, User u2 and 2 more can now see TrainJobs in vision, and read their logs"],
    ),
    "further rights go": (
        of_people(Verb.REMOVED, bound("trainyard-data-scientist-further", "Group research"), {}),
        ["Group research can no longer do in vision what the tenant's rights allow in addition to TrainJobs"],
    ),
    "the operator's own rights are no people's": (
        of_people(Verb.REMOVED, bound("trainyard-operator", "ServiceAccount trainyard-system/x"), {}),
        [],
    ),
    "MPI's keys": (
        Change(MPI, Verb.REMOVED, bound("trainyard-operator-mpi", "ServiceAccount trainyard-system/o"), {}),
        [
            "MPI jobs can no longer start in vision (Blocked, Forbidden): the operator may not create their "
            "keys there; operator.mpiNamespaces allows it"
        ],
    ),
    "MPI's keys are no longer kept everywhere": (
        Change(MPI._replace(namespace="*"), Verb.REMOVED, bound("trainyard-operator-mpi"), {}),
        [
            "MPI jobs can no longer start in namespaces that neither tenants nor operator.mpiNamespaces name "
            "(Blocked, Forbidden): the operator may not create their keys there; operator.mpiNamespaces "
            "allows it"
        ],
    ),
    "MPI's keys in a new tenant": (Change(MPI, Verb.ADDED, {}, bound("trainyard-operator-mpi")), []),
    "a queue is to move": (
        Change(
            Ref("LocalQueue", "vision", "default"),
            Verb.CHANGED,
            {"spec": {"clusterQueue": "a"}},
            {"spec": {"clusterQueue": "b"}},
        ),
        [
            "Kueue refuses this: nobody can change spec.clusterQueue of a LocalQueue. Give the queue another "
            "name, or delete it when no job needs it"
        ],
    ),
    "a queue is stopped": (
        Change(
            Ref("LocalQueue", "vision", "default"),
            Verb.CHANGED,
            {"spec": {"clusterQueue": "a"}},
            {"spec": {"clusterQueue": "a", "stopPolicy": "Hold"}},
        ),
        [],
    ),
    "a flavor with a topology gets other labels": (
        Change(
            Ref("ResourceFlavor", "", "h100"),
            Verb.CHANGED,
            {"spec": {"nodeLabels": {"a": "b"}, "topologyName": "racks"}},
            {"spec": {"nodeLabels": {"a": "c"}, "topologyName": "racks"}},
        ),
        [
            "Kueue refuses this: nobody can change spec.nodeLabels of a ResourceFlavor with a topology. Give "
            "the pool or the flavor another name"
        ],
    ),
    "a flavor gets a topology": (
        Change(
            Ref("ResourceFlavor", "", "h100"),
            Verb.CHANGED,
            {"spec": {"nodeLabels": {"a": "b"}}},
            {"spec": {"nodeLabels": {"a": "c"}, "topologyName": "racks"}},
        ),
        [],
    ),
    "a topology gets a level": (
        Change(
            Ref("Topology", "", "racks"),
            Verb.CHANGED,
            {"spec": {"levels": [{"nodeLabel": "rack"}]}},
            {"spec": {"levels": [{"nodeLabel": "block"}, {"nodeLabel": "rack"}]}},
        ),
        [
            "Kueue refuses this: nobody can change spec.levels of a Topology. Give the pool or the topology "
            "another name"
        ],
    ),
    "another kind": (Change(Ref("ClusterQueue", "", "a"), Verb.REMOVED, {"spec": {}}, {}), []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_change_means(case: str) -> None:
    change, expected = CASES[case]
    assert list(consequences.of(change)) == expected
