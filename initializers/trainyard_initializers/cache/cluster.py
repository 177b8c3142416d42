"""The few requests to the Kubernetes API that a cache needs, as the pod's ServiceAccount."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2

from ..failures import Failure, InvalidSource, NotFound, Unauthorized, Unreachable

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts the pod's ServiceAccount."""
_TIMEOUT: Final = httpx2.Timeout(30, connect=10)
_PLURALS: Final = {
    "LeaderWorkerSet": "leaderworkersets",
    "Pod": "pods",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
    "TrainJob": "trainjobs",
}
_RIGHTS: Final = (
    "the namespace needs the ServiceAccount and the rights that a stack with dataCache.enabled "
    "gives its tenants"
)


class AlreadyThereError(Exception):
    """There is an object of this name."""


@dataclass(frozen=True)
class Cluster:
    """The API server and the namespace of this pod.

    Args:
        server: Its address, such as `https://10.0.0.1:443`.
        account: The folder with `token`, `ca.crt` and `namespace`.
    """

    server: str
    account: Path = ACCOUNT

    @classmethod
    def around(cls, environment: Mapping[str, str] = os.environ, account: Path = ACCOUNT) -> Cluster:
        """The cluster that this process runs in.

        Raises:
            InvalidSource: It runs in none, or without a ServiceAccount.
        """
        host = environment.get("KUBERNETES_SERVICE_HOST")
        if not host or not (account / "token").is_file():
            raise InvalidSource(
                "cache:// works in a pod of the cluster alone, and the pod needs a ServiceAccount's token: "
                "set serviceAccountName in the runtime, and leave automountServiceAccountToken out"
            )
        address = f"[{host}]" if ":" in host else host
        return cls(f"https://{address}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}", account)

    def get(self, api_version: str, kind: str, name: str) -> dict[str, Any]:
        """An object of this namespace.

        Raises:
            Failure: It is not there, or is not to be had.
        """
        return self._answer("GET", _path(api_version, kind, self._namespace, name), f"{kind} {name}")

    def pods(self, label: str, value: str) -> list[dict[str, Any]]:
        """The pods of this namespace with a label."""
        selector = quote(f"{label}={value}", safe="")
        path = f"{_path('v1', 'Pod', self._namespace)}?labelSelector={selector}&limit=500"
        pods: list[dict[str, Any]] = []
        following = ""
        while True:
            page = self._answer("GET", path + following, "the cache's pods")
            pods += page.get("items") or []
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                return pods
            following = f"&continue={quote(token, safe='')}"

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Create an object in this namespace.

        Raises:
            AlreadyThereError: There is one of its name.
            Failure: It is refused.
        """
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        path = _path(manifest["apiVersion"], kind, self._namespace)
        self._answer("POST", path, f"{kind} {name}", manifest)

    def delete(self, api_version: str, kind: str, name: str, uid: str) -> None:
        """Delete an object, if it still is the one with this uid."""
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        self._answer("DELETE", _path(api_version, kind, self._namespace, name), f"{kind} {name}", body)

    @property
    def _namespace(self) -> str:
        return self._read("namespace")

    def _read(self, name: str) -> str:
        try:
            return (self.account / name).read_text().strip()
        except OSError as error:
            raise Unauthorized(
                f"{self.account / name} cannot be read: {error.strerror}; {_RIGHTS}"
            ) from error

    def _answer(
        self, verb: str, path: str, about: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        # The kubelet writes a new token before the old one ends.
        headers = {"Authorization": f"Bearer {self._read('token')}"}
        try:
            trusted = ssl.create_default_context(cafile=str(self.account / "ca.crt"))
            # By Go's rules, as kubectl. From Python 3.13 on, certificates also need the identifiers of keys,
            # which those of older EKS clusters lack; before, a CA had to be a root.
            trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT
            trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            with httpx2.Client(verify=trusted, timeout=_TIMEOUT, trust_env=False) as client:
                answer = client.request(verb, self.server + path, headers=headers, json=body)
        except (httpx2.HTTPError, OSError) as error:
            text = f"{about}: the API server {self.server} gives no answer: {error}"
            raise Unreachable(
                f"{text}; is it open to the pods of the namespace (tenants.<name>.egress)?"
            ) from error
        try:
            content = answer.json()
        except ValueError:
            content = None
        document: dict[str, Any] = content if isinstance(content, dict) else {}
        if answer.status_code < 300:
            return document
        raise _failure(answer.status_code, about, verb, document)


def _failure(status: int, about: str, verb: str, document: Mapping[str, Any]) -> Failure | AlreadyThereError:
    said = str(document.get("message") or f"the API server answers {status}")[:1000]
    if status == 409 and verb == "POST" and document.get("reason") == "AlreadyExists":
        return AlreadyThereError(about)
    if status in (401, 403) and "exceeded quota" not in said:
        return Unauthorized(f"{about}: {said}; {_RIGHTS}")
    if status == 404:
        without = (
            " (the cluster has no LeaderWorkerSet: dataCache.enabled)" if "LeaderWorkerSet" in about else ""
        )
        return NotFound(f"{about}: {said}{without}")
    # 410: the next page of a list is too old.
    if status in (408, 409, 410, 429) or status >= 500:
        return Unreachable(f"{about}: {said}")
    return InvalidSource(f"{about}: {said}")


def _path(api_version: str, kind: str, namespace: str, name: str = "") -> str:
    prefix = "/apis/" if "/" in api_version else "/api/"
    return f"{prefix}{api_version}/namespaces/{namespace}/{_PLURALS[kind]}" + (f"/{name}" if name else "")
