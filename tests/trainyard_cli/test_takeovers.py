"""Objects that have stayed in the cluster, and that a stack cannot change into what its file says."""

from typing import Any

from tests.support.fake_api import FakeApi, run, status
from trainyard_cli.cluster.takeovers import refusals
from trainyard_kube.client import Client
from trainyard_kube.credentials import Credentials

MAPS = "/api/v1/namespaces/team-x/configmaps"
IMMUTABLE = 'ConfigMap "hosts" is invalid: data: Forbidden: field is immutable when `immutable` is set'


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team-x"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def refused(api: FakeApi, *manifests: dict[str, Any]) -> list[str]:
    async def test() -> list[str]:
        async with (
            api.serving() as url,
            Client(Credentials(url, None, options=("--context", "lab"))) as client,
        ):
            return await refusals(client, manifests)

    return run(test)


def test_a_field_that_nobody_can_change_is_named_with_the_ways_out() -> None:
    api = FakeApi()
    api.put(f"{MAPS}/hosts", config_map("hosts", a="1"))
    api.refuse_next("PUT", "/configmaps/hosts", status(422, "Invalid", IMMUTABLE))
    assert refused(api, config_map("hosts", a="2")) == [
        "refused: ConfigMap/team-x/hosts is in the cluster from before, and differs from the stack in a "
        f"field that nobody can change: {IMMUTABLE}. Give the field its old value in the stack file. Or, if "
        "no jobs need the object, delete it: kubectl delete configmap hosts -n team-x --context lab"
    ]


def test_what_can_be_changed_or_is_not_there_is_not_refused() -> None:
    api = FakeApi()
    api.put(f"{MAPS}/hosts", config_map("hosts", a="1"))
    assert refused(api, config_map("hosts", a="2"), config_map("others")) == []


GOING = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": ["example.com/held"]}


def test_what_is_being_deleted_is_named_with_what_holds_it_and_the_way_out() -> None:
    api = FakeApi()
    live = config_map("hosts", a="1")
    api.put(f"{MAPS}/hosts", {**live, "metadata": {**live["metadata"], **GOING}})
    assert refused(api, config_map("hosts", a="1")) == [
        "refused: ConfigMap/team-x/hosts is in the cluster from before, and is being deleted since "
        "2026-01-02T00:00:00Z, held by example.com/held. Wait until it is gone, then run the same command "
        "again"
    ]


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def crd(plural: str) -> dict[str, Any]:
    metadata = {"name": f"{plural}.trainer.kubeflow.org"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}


def test_a_crd_is_not_tried_but_only_listed_to_see_whether_it_is_being_deleted() -> None:
    api = FakeApi()
    api.put(f"{CRDS}/trainjobs.trainer.kubeflow.org", {})
    api.put(f"{CRDS}/runtimes.trainer.kubeflow.org", {"metadata": GOING})
    api.put(f"{CRDS}/others.example.com", {"metadata": GOING})
    assert refused(api, crd("trainjobs"), crd("runtimes"), crd("new")) == [
        "refused: CustomResourceDefinition/runtimes.trainer.kubeflow.org is in the cluster from before, and "
        "is being deleted since 2026-01-02T00:00:00Z, held by example.com/held. Wait until it is gone, then "
        "run the same command again"
    ]
    assert api.requests == [("GET", CRDS)]
