"""The operator's account on a control plane, with the rights that the platform gives it."""

from tests.harness import rights as everything
from tests.support.live import Api, done

NAMESPACE = "trainyard-system"
NAME = "trainyard-operator"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
GROUP = "rbac.authorization.k8s.io"
CLUSTER = everything.CLUSTER
"""Upstream's Lease too, which is looked for where it is in no namespace of ours."""
OWN = everything.OWN


def grant(api: Api) -> str:
    """Make the account; returns a token of it."""
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    done(api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named()}))
    for kind, rules in (("ClusterRole", CLUSTER), ("Role", OWN)):
        within = "" if kind == "ClusterRole" else f"/namespaces/{NAMESPACE}"
        path = f"/apis/{GROUP}/v1{within}/{kind.lower()}"
        role = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": _named()}
        done(api.call("POST", f"{path}s", {**role, "rules": rules}))
        reference = {"apiGroup": GROUP, "kind": kind, "name": NAME}
        binding = {"apiVersion": f"{GROUP}/v1", "kind": f"{kind}Binding", "metadata": _named()}
        done(api.call("POST", f"{path}bindings", {**binding, "roleRef": reference, "subjects": [account]}))
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}/token"
    asked = {**request, "spec": {"expirationSeconds": 24 * 3600}}
    return str(done(api.call("POST", path, asked))["status"]["token"])


def _named():
    return {"name": NAME, "namespace": NAMESPACE}
