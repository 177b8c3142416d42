"""Tenants whose namespaces are another tool's."""

from tests.support.fake_api import FakeApi, run
from trainyard_cli.cluster import foreign_namespaces


def test_only_a_tenant_whose_namespace_is_another_tools_is_refused() -> None:
    api = FakeApi()
    helms = {"app.kubernetes.io/managed-by": "Helm"}
    for name, labels in {"web": helms, "free": {}, "ours": {**helms, "trainyard.dev/tenant": "ours"}}.items():
        api.put(f"/api/v1/namespaces/{name}", {"metadata": {"name": name, "labels": labels}})
    found: list[str] = []

    async def test() -> None:
        async with api.client() as client:
            found.extend(await foreign_namespaces.refused(client, ["web", "free", "ours", "new"]))

    run(test)
    assert found == [
        "refused: Namespace web already exists, and Helm owns it. Give the tenant another name, or have "
        "its owner let the namespace go, then label it trainyard.dev/tenant=web"
    ]
