"""Which of the objects that a stack would create its cluster has already."""

from tests.support.fake_api import FakeApi, run, status
from trainyard_cli.cluster.existing import Existing, look
from trainyard_delivery.drift.verdicts import Ref

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = Ref("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "trainjobs.trainer.kubeflow.org")
HERE, GONE = Ref("v1", "Namespace", "", "team-a"), Ref("v1", "Namespace", "", "team-b")
QUEUE = Ref("kueue.x-k8s.io/v1beta2", "ClusterQueue", "", "team-a")


def found(api: FakeApi, *wanted: Ref) -> Existing:
    async def test() -> Existing:
        async with api.client() as client:
            return await look(client, wanted)

    return run(test)


def test_each_kind_is_listed_once_without_what_its_objects_hold() -> None:
    api = FakeApi()
    for path in ("/api/v1/namespaces/team-a", "/api/v1/namespaces/else", f"{CRDS}/{CRD.name}"):
        api.put(path, {})
    assert found(api, HERE, GONE, CRD, QUEUE) == Existing(frozenset({HERE, CRD}), {})
    lists = [path for _, path in api.requests if path in (CRDS, "/api/v1/namespaces")]
    assert sorted(lists) == ["/api/v1/namespaces", CRDS]
    assert api.whole == []


def test_a_kind_that_cannot_be_listed_is_told() -> None:
    api = FakeApi()
    api.put("/api/v1/namespaces/team-a", {})
    api.refuse_next("GET", CRDS, status(403, "Forbidden", "no"))
    assert found(api, HERE, CRD) == Existing(
        frozenset({HERE}), {"which CustomResourceDefinition objects exist already": "403 Forbidden: no"}
    )
