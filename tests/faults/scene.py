"""A control plane, the operator in front of a proxy that misbehaves, and what was seen to happen there.

No JobSet controller and no kubelet run: a test writes the status of a JobSet
itself, so that each life of a TrainJob goes the same way every time. The
operator has the rights that the platform gives it, and no others.
"""

import itertools
import json
import ssl
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from urllib3.exceptions import HTTPError

from benchmarks import plane
from tests.support import live
from tests.support.cluster import Cluster
from tests.support.live import JOBSET, TRAINER, Api, done
from tests.support.patience import STARTED, eventually
from trainyard_sandbox.pki import Authority

from . import rights
from .proxy import Fault, Proxy
from .replica import Replica

NAME = "job"
"""Of every TrainJob here; its namespace tells them apart."""
QUIET = 8.0
"""Seconds without a write after which a TrainJob counts as settled: the operator looks again after 3 s, and
waits 3.2 s before its seventh try."""


@dataclass(frozen=True)
class Event:
    """An event of a watch."""

    at: int
    """Its resourceVersion: across kinds, what is less was earlier."""
    type: str
    object: dict


class Observer:
    """All that happens to one kind anywhere, in its order. Asks the API server itself."""

    def __init__(self, api: "Direct", api_version: str, kind: str):
        self.events: list[Event] = []
        self.changed = threading.Condition()
        self._latest: dict[str, dict] = {}
        self._api = api
        self._path = f"/apis/{api_version}/{kind.lower()}s?watch=true&allowWatchBookmarks=true"
        self._stopping = False
        threading.Thread(target=self._follow, name=f"observer of {kind}", daemon=True).start()

    def get(self, namespace):
        """The object of the namespace as it is now, None if there is none."""
        return self._latest.get(namespace)

    def of(self, namespace):
        """What has happened to objects of the namespace."""
        return [e for e in list(self.events) if e.object["metadata"]["namespace"] == namespace]

    def stop(self):
        self._stopping = True

    def _follow(self):
        at = "0"
        while not self._stopping:
            with (
                suppress(HTTPError),
                self._api.stream(f"{self._path}&resourceVersion={at}&timeoutSeconds=300") as lines,
            ):
                for line in lines:
                    event = json.loads(line)
                    at = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self._take(Event(int(at), event["type"], event["object"]))

    def _take(self, event):
        namespace = event.object["metadata"]["namespace"]
        with self.changed:
            self.events.append(event)
            if event.type == "DELETED":
                self._latest.pop(namespace, None)
            else:
                self._latest[namespace] = event.object
            self.changed.notify_all()


class Direct(Api):
    """The API server, with watches."""

    @contextmanager
    def stream(self, path) -> Iterator[Iterator[str]]:
        """The lines of a watch."""
        answer = self._pool.request(
            "GET", self._host + path, headers=self._headers, preload_content=False, timeout=None
        )
        try:
            assert answer.status == 200, answer.status
            yield (line for line in _lines(answer) if line)
        finally:
            answer.close()


def _lines(answer):
    rest = b""
    for chunk in answer.stream(65536, decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


@dataclass
class Scene:
    """Where the recipes are tried."""

    cluster: Cluster
    api: Direct
    proxy: Proxy
    replica: Replica
    trainjobs: Observer
    jobsets: Observer
    admin: Path
    """A kubeconfig of one who may do anything."""
    token: str
    """The operator's."""
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def case(self, fault: Fault | None = None) -> "Case":
        """A namespace with a runtime of its own, and what goes wrong there."""
        namespace = f"faults-{next(self._numbers)}"
        done(self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        if fault is not None:
            fault.about = namespace
            self.proxy.add(fault)
        return Case(self, namespace, fault)

    @contextmanager
    def another(self, name, **configuration):
        """A second replica with a proxy of its own, ready: both, until the end of the test."""
        folder = self.folder / f"{name}-{next(self._numbers)}"
        folder.mkdir()
        proxy, kubeconfig = _proxy(self.admin, folder, self.token)
        proxy.trace = self.proxy.trace
        replica = Replica(kubeconfig, folder, name, **configuration)
        proxy.kill = replica.kill
        try:
            replica.start()
            yield proxy, replica
        finally:
            proxy.heal()
            replica.stop()
            proxy.stop()

    def pid(self, component):
        """The process of a component of the control plane."""
        ours = str(self.cluster.sandbox.instance.dir)
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):  # it may be gone by now
                command = path.read_text()
                if command.partition("\0")[0].endswith(component) and ours in command:
                    return int(path.parent.name)
        raise AssertionError(f"{component} does not run")

    def unexpected_ends(self):
        """Exit codes of an operator that was neither killed nor told to stop."""
        return [code for code in self.replica.ended if code not in (-9, -15, 0)]


@dataclass
class Case:
    """One TrainJob's life, in a namespace of its own."""

    scene: Scene
    namespace: str
    fault: Fault | None = None

    @property
    def trainjob(self):
        """The TrainJob as it is now, None if there is none."""
        return self.scene.trainjobs.get(self.namespace)

    @property
    def jobset(self):
        """The JobSet as it is now, None if there is none."""
        return self.scene.jobsets.get(self.namespace)

    def condition(self, kind):
        """`reason` and status of a condition of the TrainJob."""
        found = ((self.trainjob or {}).get("status") or {}).get("conditions") or ()
        return next(((c["status"], c["reason"]) for c in found if c["type"] == kind), None)

    def until(self, what, ask):
        """Wait until something is so."""

        def pause():
            with self.scene.trainjobs.changed:
                self.scene.trainjobs.changed.wait(0.1)

        eventually(f"{self.namespace}: {what}", ask, within=STARTED, pause=pause, state=self.state)

    def state(self):
        """In a few words, for messages."""
        status = (self.trainjob or {}).get("status")
        suspended = self.jobset and self.jobset["spec"].get("suspend", False)
        fault = self.fault and f"{self.fault.act.name} happened {self.fault.happened} times"
        writes = [
            f"{p.request.verb} {p.request.resource} {p.code}" for p in self.scene.proxy.writes(self.namespace)
        ]
        return f"status {status}, JobSet suspended: {suspended}, fault: {fault}, writes: {writes}"

    def create(self, runtime, *, annotations=None, **spec):
        """The user makes the runtime, if it is not there, and the TrainJob."""
        meta = {"name": "runtime", "namespace": self.namespace}
        if self.scene.api.get(TRAINER, "TrainingRuntime", "runtime", self.namespace) is None:
            made = {"apiVersion": TRAINER, "kind": "TrainingRuntime", "metadata": meta, "spec": runtime}
            done(self.scene.api.create(made))
        reference = {"name": "runtime", "kind": "TrainingRuntime"}
        metadata = {"name": NAME, "namespace": self.namespace, "annotations": annotations or {}}
        manifest = {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": metadata}
        done(self.scene.api.create({**manifest, "spec": {"runtimeRef": reference, **spec}}))

    def patch(self, **spec):
        """The user changes the TrainJob."""
        done(self.scene.api.merge(TRAINER, "TrainJob", NAME, {"spec": spec}, namespace=self.namespace))

    def delete(self):
        """The user deletes the TrainJob."""
        done(self.scene.api.delete(TRAINER, "TrainJob", NAME, self.namespace))

    def delete_jobset(self):
        """Somebody deletes the JobSet."""
        done(self.scene.api.delete(JOBSET, "JobSet", NAME, self.namespace))

    def jobset_says(self, *conditions, **counts):
        """JobSet's controller, which is not there, writes this into the JobSet."""
        zero = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
        jobs = [{"name": "node", **zero, **counts}]
        status = {"conditions": list(conditions), "replicatedJobsStatus": jobs}
        done(
            self.scene.api.merge(
                JOBSET, "JobSet", NAME, {"status": status}, sub="status", namespace=self.namespace
            )
        )


@contextmanager
def opened(name, folder):
    """The control plane with its operator, ready."""
    plane.build()
    with ExitStack() as stack:
        cluster = stack.enter_context(live.control_plane(name))
        admin = cluster.sandbox.instance.kubeconfig
        api = Direct(admin)
        done(api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": rights.NAMESPACE}}))
        token = rights.grant(api)
        proxy, kubeconfig = _proxy(admin, folder, token)
        stack.callback(proxy.stop)
        trainjobs, jobsets = Observer(api, TRAINER, "TrainJob"), Observer(api, JOBSET, "JobSet")
        for observer in (trainjobs, jobsets):
            stack.callback(observer.stop)
        replica = Replica(kubeconfig, folder, retention={})
        proxy.kill = replica.kill
        replica.start()
        stack.callback(replica.stop)
        yield Scene(cluster, api, proxy, replica, trainjobs, jobsets, admin, token, folder)


def _proxy(admin, folder, token):
    """A proxy to the API server of a kubeconfig, and the kubeconfig that leads through it."""
    known = yaml.safe_load(admin.read_text())["clusters"][0]["cluster"]
    trust = ssl.create_default_context(cadata=b64decode(known["certificate-authority-data"]).decode())
    authority = Authority(folder / "pki", "proxy-ca")
    pair = authority.issue("proxy", "proxy", hosts=("127.0.0.1",))
    serve = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serve.load_cert_chain(pair.cert, pair.key)
    proxy = Proxy(known["server"], trust, serve)
    proxy.start()
    server = {
        "server": f"https://127.0.0.1:{proxy.port}",
        "certificate-authority": str(authority.pair.cert),
    }
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "proxy", "cluster": server}],
        "users": [{"name": "operator", "user": {"token": token}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "operator"}}],
        "current-context": "proxy",
    }
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(document))
    return proxy, kubeconfig
