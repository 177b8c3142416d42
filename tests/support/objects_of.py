"""Objects of a cluster as values, read over HTTP: a look that costs a hundredth of a start of kubectl.

Kinds are named as kubectl has them: `pod`, `pods`, `JobSet`, `queues.scheduling.volcano.sh`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import kubernetes

Object = dict[str, Any]

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_SECONDS = 60


@dataclass(frozen=True)
class Resource:
    """Where objects of a kind are."""

    prefix: str
    plural: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """Of all in a namespace, or of one of them."""
        within = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{self.prefix}{within}/{self.plural}" + (f"/{quote(name)}" if name else "")


class Reader:
    """Reads from the API server that a kubeconfig names.

    Args:
        kubeconfig: Its path. It is read again when it has changed, as by a sandbox that came up anew.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._text = ""
        self._resources: dict[str, Resource] = {}

    def get(self, kind: str, name: str, namespace: str) -> Object | None:
        """The object, None if it does not exist."""
        found = self._ask(self._resource(kind).path(namespace, name))
        return None if found is None else _shown(found)

    def list(self, kind: str, selector: str, namespace: str) -> list[Object]:
        """The objects in a namespace that have these labels, each with what it is."""
        query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
        found = self._ask(self._resource(kind).path(namespace) + query)
        assert found is not None, f"{kind}: its resource is gone"
        head = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List")}
        return [_shown({**head, **item}) for item in found["items"]]

    def _resource(self, kind: str) -> Resource:
        word = kind.lower()
        if word not in self._resources:  # it may have been installed since
            self._connect()
            self._resources = dict(self._discovered())
        assert word in self._resources, f"the server has no resource {kind}"
        return self._resources[word]

    def _discovered(self) -> Iterator[tuple[str, Resource]]:
        """Each name of each resource; where two groups have one, the group that comes first has it."""
        names: dict[str, Resource] = {}
        for root in ("/api", "/apis"):
            groups = self._ask(root, _DISCOVERY)
            assert groups is not None, root
            for group in groups["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:  # the preferred one first
                    prefix = "/".join(part for part in (root, name, version["version"]) if part)
                    for one in version.get("resources", ()):
                        resource = Resource(prefix, one["resource"], one["scope"] == "Namespaced")
                        for word in _words(one):
                            names.setdefault(word, resource)
                            names.setdefault(f"{word}.{name}", resource)
        yield from names.items()

    def _ask(self, path: str, accept: str = "application/json") -> Object | None:
        self._connect()
        headers: Mapping[str, str] = {**self._headers, "Accept": accept}
        answer = self._pool.request("GET", self._host + path, headers=headers, timeout=_SECONDS)
        if answer.status == 404:
            return None
        assert answer.status == 200, f"{path}: {answer.data.decode(errors='replace')}"
        found: Object = answer.json()
        return found

    def _connect(self) -> None:
        text = self._kubeconfig.read_text(encoding="utf-8")
        if text == self._text:
            return
        client = kubernetes.config.new_client_from_config(str(self._kubeconfig))
        self._host, self._pool = client.configuration.host, client.rest_client.pool_manager
        self._headers = {key: str(value) for key, value in client.default_headers.items()}
        self._text = text


def _words(resource: Mapping[str, Any]) -> set[str]:
    """All that kubectl calls it."""
    kind = resource["responseKind"]["kind"].lower()
    return {resource["resource"], resource["singularResource"], kind, *resource.get("shortNames", ())}


def _shown(found: Object) -> Object:
    """The object as kubectl shows it: without who wrote which of its fields."""
    found["metadata"].pop("managedFields", None)
    return found
