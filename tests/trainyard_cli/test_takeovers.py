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


def test_a_crd_is_not_tried() -> None:
    api = FakeApi()
    metadata = {"name": "trainjobs.trainer.kubeflow.org"}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
    assert refused(api, crd) == []
    assert api.requests == []
