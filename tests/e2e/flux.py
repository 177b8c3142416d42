"""Flux's own controllers in pods, from their own manifests, and a git repository that they can read."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.support.cluster import Cluster, Object, from_this_machine
from tests.support.patience import LEARNED, STARTED, Limit, eventually
from trainyard_sandbox.isolation import CLUSTER_ADDRESS
from trainyard_sandbox.pki import Authority
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.supervisor import State
from trainyard_sandbox.toolchain import Toolchain, artifacts_dir, tools

NAMESPACE = "flux-system"
BINARIES = {"flux-source": "source-controller", "flux-kustomize": "kustomize-controller"}
WAITS_LESS = {
    "target": {"kind": "Deployment"},
    "patch": json.dumps(
        [{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--requeue-dependency=2s"}]
    ),
}
"""Half a minute, as shipped, before it looks again at a wave that waits for another; times twelve."""
PORT = 8443
AUTHORITY = "git-authority"


@dataclass(frozen=True)
class Repository:
    """A clone on this machine, of which each commit goes to where Flux reads it."""

    clone: Path
    url: str

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        command = ["git", "-C", str(self.clone), *who, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, message: str) -> str:
        """Commit all and push; returns the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.push()

    def push(self) -> str:
        self.git("push", "--quiet", "origin", "main")
        return self.git("rev-parse", "HEAD")


@contextmanager
def repository(cluster: Cluster, folder: Path) -> Iterator[Repository]:
    """An empty repository at the node's address, over HTTPS; its authority is Secret `git-authority`."""
    served = folder / "served"
    subprocess.run(
        ["git", "init", "--quiet", "--bare", "--initial-branch=main", served / "platform"], check=True
    )
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", served / "platform", clone], check=True, capture_output=True)
    authority = Authority(folder / "pki", AUTHORITY)
    pair = authority.issue("git", "git", hosts=(CLUSTER_ADDRESS,))
    supervisor = State.read(cluster.sandbox.instance.state_file)  # whose network is the first node's
    assert supervisor
    script = Path(__file__).with_name("git_server.py")
    command = ("nsenter", "--target", str(supervisor.pid), "--net", sys.executable, str(script))
    arguments = (CLUSTER_ADDRESS, str(PORT), str(pair.cert), str(pair.key), str(served))
    with (folder / "git.log").open("w") as log:
        server = subprocess.Popen([*command, *arguments], stdout=log, stderr=log)
        try:
            metadata = {"name": AUTHORITY, "namespace": NAMESPACE}
            certificate = {"ca.crt": authority.pair.cert.read_text()}
            cluster.apply(
                {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": certificate}
            )
            yield Repository(clone, f"https://{CLUSTER_ADDRESS}:{PORT}/platform")
        finally:
            server.terminate()
            server.wait()


def install(cluster: Cluster, folder: Path) -> None:
    """Flux's two controllers that bring manifests from git into a cluster."""
    toolchain = Toolchain(list(BINARIES))
    toolchain.build(Progress())
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for tool, binary in BINARIES.items():
        soon = [WAITS_LESS] if tool == "flux-kustomize" else []
        config = artifacts_dir() / tool / tools()[tool].version / "config"
        target = folder / tool
        target.mkdir()
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "namespace": NAMESPACE,
            "resources": [os.path.relpath(config / part, target) for part in ("crd", "rbac", "manager")],
            "patches": [
                {"patch": yaml.safe_dump(from_this_machine(binary, toolchain.binary(binary)))},
                *soon,
            ],
        }
        (target / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=cluster.kubectl("kustomize", str(target)))
    for binary in BINARIES.values():
        cluster.kubectl("rollout", "status", f"deployment/{binary}", "-n", NAMESPACE, f"--timeout={STARTED}")


def objects(example: Path, repository: Repository, waves: list[str]) -> list[Object]:
    """The example's objects, for this repository and these waves."""
    source, first, later = yaml.safe_load_all(example.read_text())
    source["spec"] |= {"url": repository.url, "secretRef": {"name": AUTHORITY}, "interval": "5s"}
    found = [source]
    for number, wave in enumerate(waves):
        one = yaml.safe_load(yaml.safe_dump(later if number else first))
        one["metadata"]["name"] = f"trainyard-{wave}"
        one["spec"]["path"] = f"./manifests/wave-{wave}"
        one["spec"]["retryInterval"] = "10s"
        if number:
            one["spec"]["dependsOn"] = [{"name": f"trainyard-{waves[number - 1]}"}]
        found.append(one)
    return found


def ready(cluster: Cluster, wave: str, commit: str) -> Object | None:
    """What a wave says of a commit, once it has come to a conclusion about that."""
    status = (cluster.get("kustomization", f"trainyard-{wave}") or {}).get("status", {})
    found: Object | None = next((c for c in status.get("conditions", ()) if c["type"] == "Ready"), None)
    tried = str(status.get("lastAttemptedRevision", "")).endswith(commit)
    return found if found and tried and found["status"] != "Unknown" else None


def applied(cluster: Cluster, waves: list[str], commit: str, within: Limit = LEARNED) -> None:
    """Wait until each wave of a commit is there and healthy."""
    for wave in waves:

        def done(wave: str = wave) -> bool:
            found = ready(cluster, wave, commit)
            return found is not None and found["status"] == "True"

        eventually(f"wave {wave} of {commit[:7]} is healthy", done, within=within)
