"""A sandbox as the tests use it: the command line that users have, and answers as values."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from benchmarks import audit
from tests.harness import rights
from tests.harness.leftovers import note
from tests.harness.phases import with_parts
from trainyard_sandbox.cluster import Sandbox
from trainyard_sandbox.isolation import cgroup_processes
from trainyard_sandbox.paths import PROJECT, Instance

from .objects_of import Reader
from .patience import STARTED, Limit, eventually

Object = dict[str, Any]
Objects = list[Object]

OPERATOR = rights.USER
JOBSET = "system:serviceaccount:jobset-system:jobset-controller"
"""As whom the two write that make a TrainJob run."""

# A shell that is process 1 hears no SIGTERM unless it asks for it, and with its end
# whatever else runs in its container is killed: it outlives who tells it.
UNTIL_TOLD = "trap 'exit 1' TERM; until [ -e /tmp/go ]; do sleep 0.2; done; sleep 1"
"""What a job runs that goes on until `finish`."""

UNANSWERED = (
    "failed calling webhook",
    "etcdserver: request timed out",
    "etcdserver: leader changed",
    "was refused - did you specify the right host or port",
    "net/http: TLS handshake timeout",
    "the server is currently unable to handle the request",
    "the server was unable to return a response in the time allotted",
)
"""What kubectl says where nobody has said no."""

LESS_GARBAGE = {"GOGC": "400"}
"""Of the time of Pulumi's engine a quarter is for collecting garbage, which can wait."""

A_SHELLS_OWN = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
"""As in a terminal: called by another make, make says where it is, before what it has to say."""
QUICK = {"PULUMI_SKIP_CHECKPOINTS": "true", **LESS_GARBAGE}
"""Pulumi writes its state once, at the end, as in `make up`; a test that wants checkpoints does without."""


def trainyard(*arguments: str, check: bool = True, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    """Run the `trainyard` command of this environment."""
    command = [str(PROJECT / ".venv" / "bin" / "trainyard"), *arguments]
    answer = subprocess.run(
        command,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    if check:
        assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout}\n{answer.stderr}"
    return answer


def up(name: str, *arguments: str) -> None:
    """Bring a sandbox of this name up as tests have it, anew whatever was left of an earlier one."""
    note(name)
    trainyard("sandbox", "down", "--name", name)
    trainyard("sandbox", "up", "--name", name, *with_parts(), *arguments, timeout=4500)


def add(name: str, part: str) -> None:
    """Add a part to the sandbox that it does not have from its start; build it if it is not built."""
    trainyard("sandbox", "up", "--name", name, *with_parts([part]), timeout=4500)


def down(name: str) -> None:
    """Take the sandbox down; the gate keeps its logs, and what the operator did there (tests/harness)."""
    try:
        keep_logs(name)
    finally:
        trainyard("sandbox", "down", "--name", name)


def keep_logs(name: str) -> None:
    """Copy the logs of a sandbox, and what they say that the operator did, to where the gate keeps them."""
    rights.note(name, Instance(name).logs / "audit.log")
    if folder := os.environ.get("TRAINYARD_TEST_LOGS"):
        with contextlib.suppress(OSError, shutil.Error):  # they may still be written, or have never been
            shutil.copytree(Instance(name).logs, Path(folder, name), dirs_exist_ok=True)


@dataclass
class Cluster:
    """A sandbox with, perhaps, the platform on it."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    namespace: str | None = None
    """Where kubectl looks; the current context's namespace, `default`, if None."""

    def within(self, namespace: str) -> Cluster:
        """The same cluster, seen from another namespace."""
        return replace(self, namespace=namespace)

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.sandbox.instance.kubeconfig)

    @property
    def sandbox(self) -> Sandbox:
        return Sandbox(Instance(self.name))

    def run(
        self, *command: str, check: bool = True, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as `trainyard sandbox exec` does."""
        if not self.environment:
            self.environment = self.sandbox.environment()
        answer = subprocess.run(
            command,
            cwd=PROJECT,
            env={**A_SHELLS_OWN, **QUICK, **self.environment},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        if check:
            assert answer.returncode == 0, f"{' '.join(command)}\n{answer.stdout}\n{answer.stderr}"
        return answer

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None) -> str:
        scope = ("--namespace", self.namespace) if self.namespace else ()
        answer = self.run("kubectl", *scope, *arguments, check=check, stdin=stdin)
        return answer.stdout

    def apply(self, *manifests: Object) -> None:
        """Apply objects; again while somebody does not answer whom the API server asks, or it itself."""

        def ask() -> subprocess.CompletedProcess[str]:
            scope = ("--namespace", self.namespace) if self.namespace else ()
            command = ("kubectl", *scope, "apply", "--server-side", "-f", "-")
            answer = self.run(*command, check=False, stdin=yaml.safe_dump_all(manifests))
            assert not any(text in answer.stderr for text in UNANSWERED), answer.stderr
            return answer

        answer = eventually("it is applied, or refused", ask)
        assert answer.returncode == 0, answer.stderr

    def get(self, kind: str, name: str) -> Object | None:
        """The object, None if it does not exist."""
        return self._reader.get(kind, name, self.namespace or "default")

    def list(self, kind: str, selector: str = "") -> Objects:
        return self._reader.list(kind, selector, self.namespace or "default")

    def pods(self, job: str) -> Objects:
        return self.list("pods", f"jobset.sigs.k8s.io/jobset-name={job}")

    def condition(self, job: str, kind: str) -> Object | None:
        """The condition of a TrainJob, None if it has none of that type."""
        trainjob = self.get("trainjob", job) or {}
        conditions = trainjob.get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), None)

    def wait(self, *what: str, condition: str, within: Limit = STARTED) -> None:
        """Wait until objects meet a condition, in kubectl's words (`condition=Ready`, `jsonpath=...`)."""
        self.kubectl("wait", *what, f"--for={condition}", f"--timeout={within}")

    def wait_for_condition(self, job: str, kind: str, within: Limit = STARTED) -> Object:
        def ask() -> Object | None:
            found = self.condition(job, kind)
            assert found is None or found["status"] == "True", found
            return found

        found: Object = eventually(f"{job} is {kind}", ask, within=within)
        return found

    def pulumi(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("pulumi", *arguments, "--non-interactive", check=check)

    def stack(self) -> Object:
        """The document of the sandbox's stack file, without the parts that this sandbox has not."""
        return dict(yaml.safe_load(Path(self.sandbox.environment()["PULUMI_OPTION_CONFIG_FILE"]).read_text()))

    def operator_pids(self) -> Sequence[int]:
        """The operator's processes, as the host sees them."""
        processes = cgroup_processes(self.sandbox.instance.id)
        return sorted(pid for pid in processes if b"trainyard_operator" in _cmdline(pid))

    def operator_pid(self) -> int:
        """That of the one that there is, once those that were told to end have ended."""
        [pid] = eventually("one operator runs", lambda: len(found := self.operator_pids()) == 1 and found)
        return int(pid)

    def kill(self, pod: Object) -> None:
        """Kill the processes of a pod's containers, as the kernel does when memory runs out."""
        group = f"/pod{pod['metadata']['uid']}/"
        for pid in cgroup_processes(self.sandbox.instance.id):
            # The pod's sandbox, a container of its own, stays: its death would be the node's affair.
            if group in _read(f"/proc/{pid}/cgroup").decode() and _cmdline(pid) != b"/pause\0":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def log(self, pod: str) -> str:
        """What a pod has printed: its container can have ended a moment before that was written down."""
        text: str = eventually(f"{pod} has printed something", lambda: self.kubectl("logs", pod))
        return text

    def logs(self, job: str) -> dict[str, str]:
        """What each pod of a JobSet has printed, by its host name (`<job>-<replicated job>-0-<index>`)."""
        pods = [pod["metadata"]["name"] for pod in self.pods(job)]
        return {pod.rpartition("-")[0]: self.log(pod) for pod in pods}

    def table(self, kind: str) -> dict[str, dict[str, str]]:
        """What `kubectl get` shows: the cells of each row by their column, by name."""
        head, *rows = self.kubectl("get", kind).splitlines()
        begins = [match.start() for match in re.finditer(r"\S+", head)]
        spans = list(zip(begins, [*begins[1:], None], strict=True))
        columns = [head[begin:end].strip() for begin, end in spans]
        cells = [[row[begin:end].strip() for begin, end in spans] for row in rows]
        return {name: dict(zip(columns[1:], rest, strict=True)) for name, *rest in cells}

    def said_by_launcher(self, job: str, pattern: str, times: int) -> Sequence[Any]:
        """What `pattern` finds in the log of an MPI job's launcher, sorted, once it is there so many times.

        The workers' pods may be gone by then, and the launcher can have had more pods than one.
        """
        launcher = f"jobset.sigs.k8s.io/jobset-name={job},jobset.sigs.k8s.io/replicatedjob-name=launcher"

        def ask() -> list[Any]:
            text = self.kubectl("logs", "-l", launcher, "--tail=-1")
            found = sorted(re.findall(pattern, text, re.MULTILINE))
            assert len(found) == times, (text, self.list("pods", launcher))
            return found

        answer: list[Any] = eventually(f"the launcher of {job} says {pattern!r}", ask)
        return answer

    def audited_writes(self, user: str, name: str) -> Sequence[str]:
        """`verb resource/subresource` of every write that a user made to objects of that name."""
        with self.sandbox.log_file("audit").open("rb") as lines:
            calls = list(audit.parse(lines, user))
        return [f"{call.verb} {call.resource}" for call in calls if call.is_write and call.name == name]

    def writes_for(self, job: str) -> Sequence[str]:
        """The operator's writes for a TrainJob: two until its JobSet has a status, one for each later status.

        However slow the machine is: where counts are seen one by one, JobSet's controller writes more.
        """
        writes = self.audited_writes(OPERATOR, job)
        statuses = [one for one in self.audited_writes(JOBSET, job) if one.endswith("jobsets/status")]
        assert writes.count("create jobsets") == 1, writes
        assert statuses
        assert len(writes) <= 2 + len(statuses), (writes, statuses)
        return writes


def _cmdline(pid: int) -> bytes:
    return _read(f"/proc/{pid}/cmdline")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # the process is gone
        return b""


def trainjob(name: str, script: str = "true", runtime: str = "plain", **spec: Any) -> Object:
    """A TrainJob of one node that runs a shell script."""
    trainer = {"numNodes": 1, "command": ["sh", "-c", script]}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"runtimeRef": {"name": runtime}, "trainer": trainer, **spec},
    }


def shows(cluster: Cluster, job: str, **cells: str) -> None:
    """`kubectl get trainjobs` shows this of a job, as soon as its counts are written."""

    def ask() -> bool:
        row = cluster.table("trainjobs")[job]
        assert {**row, "AGE": ""} == {**cells, "AGE": ""}
        return True

    eventually(f"the table shows {job} as {cells['STATE']}", ask)


def finish(cluster: Cluster, pod: Object) -> None:
    """Let a pod that runs `UNTIL_TOLD` be done."""
    cluster.kubectl("exec", pod["metadata"]["name"], "--", "touch", "/tmp/go")  # noqa: S108 (the pod's own)


def emptied(cluster: Cluster) -> Iterator[Cluster]:
    """A namespace, of which no TrainJob and no pod is left for the next test."""
    try:
        yield cluster
    finally:
        cluster.kubectl("delete", "trainjobs", "--all", "--cascade=foreground", "--wait=false")
        eventually("its TrainJobs and pods are gone", lambda: _is_empty(cluster), within=STARTED)


def _is_empty(cluster: Cluster) -> bool:
    """Whether nothing is left; pods that are to end are killed, for some hear no SIGTERM."""
    pods = cluster.list("pods")
    # The garbage collector gives them their own 30 s, and a later request for less does not shorten these.
    for pod in pods:
        if "deletionTimestamp" in pod["metadata"]:
            cluster.kill(pod)
    others = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    if others:
        cluster.kubectl("delete", "pods", *others, "--grace-period=1", "--wait=false", "--ignore-not-found")
    return not pods and cluster.list("trainjobs") == []


def runtime(
    name: str,
    *,
    kind: str = "ClusterTrainingRuntime",
    job: Object | None = None,
    pod: Object | None = None,
    container: Object | None = None,
    **spec: Any,
) -> Object:
    """A runtime of one node with a shell; its Job, pod, container and itself have these fields besides."""
    node = {
        "name": "node",
        "image": "docker.io/trainyard/torch-cpu:sandbox",
        "imagePullPolicy": "IfNotPresent",
        **(container or {}),
    }
    template = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {**(job or {}), "template": {"spec": {**(pod or {}), "containers": [node]}}},
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "plain"}},
        "spec": {
            "mlPolicy": {"numNodes": 1},
            "template": {"spec": {"replicatedJobs": [{"name": "node", "template": template}]}},
            **spec,
        },
    }


@contextlib.contextmanager
def sandbox_of_its_own(name: str, *arguments: str) -> Iterator[Cluster]:
    """A sandbox with nothing installed, brought up with these arguments and down in the end."""
    cluster = Cluster(name)
    try:
        up(name, *arguments)
        yield cluster
    finally:
        down(name)


def from_this_machine(deployment: str, binary: Path) -> Object:
    """The patch with which a Deployment's container `manager` runs a binary of this machine's toolchain."""
    manager = {
        "name": "manager",
        "image": "docker.io/trainyard/torch-cpu:sandbox",
        "imagePullPolicy": "IfNotPresent",
        "command": ["/manager"],
        "securityContext": {"runAsUser": 65532},
        "volumeMounts": [{"name": "manager", "mountPath": "/manager"}],
    }
    volume = {"name": "manager", "hostPath": {"path": str(binary)}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment},
        "spec": {"template": {"spec": {"containers": [manager], "volumes": [volume]}}},
    }


@contextlib.contextmanager
def scaled_down(cluster: Cluster, namespace: str, deployment: str) -> Iterator[None]:
    """Nothing of the deployment runs."""
    place, target = cluster.within(namespace), f"deployment/{deployment}"

    def gone() -> bool:
        return not any(pod["metadata"]["name"].startswith(deployment) for pod in place.list("pods"))

    place.kubectl("scale", target, "--replicas=0")
    try:
        eventually(f"{deployment} is gone", gone)
        yield
    finally:
        place.kubectl("scale", target, "--replicas=1")
        place.wait(target, condition="condition=Available")
