"""Two control planes: Kubeflow Trainer's controller runs on one, ours on the other.

No JobSet controller is near and nothing runs in pods: what a controller makes
of a TrainJob stays as it was made, and a test writes the status of a JobSet
itself. Each controller is the program that users run, as a process.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import kubernetes
import yaml

from benchmarks import controllers, plane, webhooks
from tests.harness.leftovers import note
from trainyard_policies.settings import Policies
from trainyard_sandbox.paths import PROJECT

from .cluster import Cluster, keep_logs
from .patience import STARTED, eventually

Object = dict[str, Any]
T = TypeVar("T")
R = TypeVar("R")

NAMESPACE = "conformance"
TRAINER = "trainer.kubeflow.org/v1alpha1"
JOBSET = "jobset.x-k8s.io/v1alpha2"
CHILDREN = (
    (JOBSET, "JobSet"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
    ("scheduling.volcano.sh/v1beta1", "PodGroup"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
)
"""What a controller may make of a TrainJob."""

_CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrainingRuntime",
    "MutatingWebhookConfiguration",
    "Namespace",
    "PriorityClass",
    "SubjectAccessReview",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


@dataclass(frozen=True)
class Answer:
    """What an API server has said."""

    code: int
    body: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """`Forbidden`, `Invalid` and so on; `OK` if it was done."""
        return "OK" if self.code < 300 else str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        """Why not; empty if it was done."""
        return "" if self.code < 300 else str(self.body.get("message", ""))


class Api:
    """An API server, asked with as little between as there can be, about one namespace unless told."""

    def __init__(self, kubeconfig: Path | str, namespace: str = NAMESPACE) -> None:
        self._namespace = namespace
        client = kubernetes.config.new_client_from_config(str(kubeconfig))
        self._host, self._pool = client.configuration.host, client.rest_client.pool_manager
        self._headers: dict[str, str] = {}

    def impersonating(self, user: str, group: str | None = None) -> Self:
        """The same API server, asked as somebody else, whom the kubeconfig's may impersonate."""
        other = copy.copy(self)
        other._headers = {"Impersonate-User": user} | ({"Impersonate-Group": group} if group else {})
        return other

    def as_tables(self) -> Self:
        """The same API server, which answers reads with what kubectl shows: of large objects, little."""
        other = copy.copy(self)
        other._headers = {**self._headers, "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        return other

    def call(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> Answer:
        """One request; its answer, whatever it is."""
        headers = {**self._headers, "Content-Type": content_type}
        answer = self._pool.request(method, self._host + path, json=body, headers=headers, timeout=60)
        warnings = tuple(
            text.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"')
            for text in answer.headers.getlist("Warning")
        )
        return Answer(answer.status, answer.json(), warnings)

    def create(self, manifest: Object, *, dry_run: bool = False) -> Answer:
        """The object, as a new one."""
        path = path_of(manifest["apiVersion"], manifest["kind"], namespace_of(manifest))
        return self.call("POST", path + ("?dryRun=All" if dry_run else ""), manifest)

    def replace(self, manifest: Object, *, dry_run: bool = False) -> Answer:
        """The object, in the place of the one that is there."""
        return self.call("PUT", path_to(manifest) + ("?dryRun=All" if dry_run else ""), manifest)

    def apply(self, *manifests: Object) -> None:
        """Server-side apply; raises unless all of it is done."""
        for manifest in manifests:
            done(
                self.call(
                    "PATCH",
                    path_to(manifest) + "?fieldManager=tests&force=true",
                    manifest,
                    content_type="application/apply-patch+yaml",
                )
            )

    def merge(
        self,
        api_version: str,
        kind: str,
        name: str,
        patch: Object,
        *,
        sub: str = "",
        namespace: str | None = None,
        dry_run: bool = False,
    ) -> Answer:
        """Merge patch of an object, or with `sub` of its status."""
        path = self._path(api_version, kind, namespace, name) + (f"/{sub}" if sub else "")
        path += "?dryRun=All" if dry_run else ""
        return self.call("PATCH", path, patch, content_type="application/merge-patch+json")

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Any:
        """The object, None if it is not there."""
        answer = self.call("GET", self._path(api_version, kind, namespace, name))
        return None if answer.code == 404 else done(answer)

    def list(self, api_version: str, kind: str, namespace: str | None = None) -> "list[Object]":
        """All objects of the kind."""
        body = done(self.call("GET", self._path(api_version, kind, namespace)))
        return [{"apiVersion": api_version, "kind": kind, **item} for item in body["items"]]

    def delete(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Answer:
        """That the object goes."""
        return self.call("DELETE", self._path(api_version, kind, namespace, name))

    def _path(self, api_version: str, kind: str, namespace: str | None, name: str | None = None) -> str:
        return path_of(api_version, kind, namespace or self._namespace, name)


@dataclass(frozen=True)
class Side:
    """A controller at work on its own control plane."""

    name: str
    cluster: Cluster
    api: Api
    controller: controllers.Controller
    policies: Policies | None = None
    """The rules that TrainJobs and runtimes are held to."""


def done(answer: Answer) -> Any:
    """The body of an answer that has to be a good one."""
    assert answer.code < 300, (answer.code, answer.message)
    return answer.body


def namespace_of(manifest: Object) -> str:
    """Where the object is, or would be."""
    return str(manifest["metadata"].get("namespace", NAMESPACE))


def path_of(api_version: str, kind: str, namespace: str = NAMESPACE, name: str | None = None) -> str:
    """Path of a kind, or of an object of it."""
    root = "/apis/" if "/" in api_version else "/api/"
    ending = "es" if kind.endswith("s") else "s"
    plural = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else kind.lower() + ending
    within = "" if kind in _CLUSTER_SCOPED else f"/namespaces/{namespace}"
    return f"{root}{api_version}{within}/{plural}" + (f"/{quote(name)}" if name else "")


def path_to(manifest: Object) -> str:
    """Path of this object."""
    metadata = manifest["metadata"]
    return path_of(manifest["apiVersion"], manifest["kind"], namespace_of(manifest), metadata["name"])


def at_once(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The answers of `function` for each of `items`, asked for all together."""
    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(function, items))


@contextmanager
def control_plane(name: str) -> Iterator[Cluster]:
    """A sandbox that runs no pods, with all CRDs and an empty namespace `conformance`."""
    note(name)
    with plane.control_plane(name):
        cluster = Cluster(name)
        # Applied, not created: an API server that is seconds old may do it and have kubectl ask again.
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        try:
            yield cluster
        finally:
            keep_logs(name)


@contextmanager
def reference(folder: Path) -> Iterator[Side]:
    """Kubeflow Trainer v2.3.0 as it comes, with a certificate for its webhooks given to it."""
    with control_plane("conf-ref") as cluster:
        controller = controllers.reference(cluster.sandbox.instance.kubeconfig, folder)
        with _running("reference", cluster, controller) as side:
            yield side


@contextmanager
def ours(folder: Path, name: str = "conf-ours", policies: Policies | None = None) -> Iterator[Side]:
    """Our operator, as `trainyard operator run` starts it; with `policies`, TrainJobs are held to them."""
    with control_plane(name) as cluster:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "trainyard-system"}})
        kubeconfig = cluster.sandbox.instance.kubeconfig
        program: list[Path | str] = [PROJECT / ".venv" / "bin" / "trainyard", "operator", "run"]
        if policies is not None:
            told = folder / "policies.yaml"
            told.write_text(yaml.safe_dump(policies.model_dump(mode="json", by_alias=True)))
            program += ["--webhook-policies", told]
        controller = controllers.ours(kubeconfig, folder, program=program)
        with _running("ours", cluster, controller) as side:
            yield replace(side, policies=policies)


@contextmanager
def _running(name: str, cluster: Cluster, controller: controllers.Controller) -> Iterator[Side]:
    try:
        controller.start()
        api = Api(cluster.sandbox.instance.kubeconfig)
        yield Side(name, cluster, api, controller)
        assert controller.running, f"it has ended by itself; see {controller.log}"
    finally:
        controller.stop()


def install_webhooks(side: Side) -> None:
    """Lead the API server to the controller's webhooks, and wait until it asks them."""
    for manifest in webhooks.configurations(side.controller, policies=side.policies is not None):
        done(side.api.create(manifest))

    def asked() -> bool:
        answer = side.api.create(trainjob("asks", runtime="nobody-has-made-this-runtime"), dry_run=True)
        assert answer.code == 403, answer.message
        return True

    eventually(f"the webhooks of {side.name} answer", asked, within=STARTED)


def trainjob(name: str, runtime: str, kind: str = "ClusterTrainingRuntime", **spec: Any) -> Object:
    """A TrainJob in the namespace of these tests."""
    return {
        "apiVersion": TRAINER,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"runtimeRef": {"name": runtime, "kind": kind}, **spec},
    }
