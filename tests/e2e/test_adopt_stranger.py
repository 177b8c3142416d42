"""A cluster that never had Trainyard is taken over: Trainer and JobSet from their manifests, jobs at work."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cluster import (
    QUICK,
    UNTIL_TOLD,
    Cluster,
    Object,
    finish,
    runtime,
    sandbox_of_its_own,
    trainjob,
)
from tests.support.patience import eventually
from trainyard_sandbox.paths import PROJECT

from .life import taken
from .trainer import CONTROLLER, NAMESPACE, base, holder, installed

pytestmark = pytest.mark.sandbox(area="migrate")

JOBSET = "jobset-system"
KEPT = {
    "crd": ["trainjobs.trainer.kubeflow.org", "clustertrainingruntimes.trainer.kubeflow.org"],
    "validatingwebhookconfiguration": ["validator.trainer.kubeflow.org"],
    "clustertrainingruntime": ["plain", "torch-distributed"],
    "trainjob": ["runs", "held"],
    "jobset": ["runs", "held"],
}


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A sandbox with JobSet, and with Trainer, which has two jobs: one runs, one is suspended."""
    folder = tmp_path_factory.mktemp("stranger")
    with sandbox_of_its_own("stranger") as cluster:
        cluster.run("make", "manifests", "STACK=sandbox", f"OUTPUT={folder / 'rendered'}")
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("apply", "--server-side", "-k", str(base() / "crds"))
        jobset = yaml.safe_dump_all(jobsets_own(folder / "rendered"))
        # Twice: what a CRD is the kind of, and what it is the namespace of, come in no order.
        cluster.run("kubectl", "apply", "--server-side", "-f", "-", check=False, stdin=jobset)
        cluster.kubectl("apply", "--server-side", "-f", "-", stdin=jobset)
        cluster.kubectl("wait", "--for=condition=Available", "--timeout=5m", "deploy", "--all", "-n", JOBSET)
        with installed(cluster, folder):
            cluster.apply(runtime("plain", container={"env": [{"name": "OF", "value": "before"}]}))
            torch = base() / "runtimes" / "torch_distributed.yaml"
            cluster.kubectl("apply", "--server-side", "-f", str(torch))
            cluster.apply(trainjob("runs", UNTIL_TOLD), trainjob("held", suspend=True))
            eventually("it runs", lambda: running(cluster, "runs"))
            eventually("it has a JobSet", lambda: cluster.get("jobset", "held"))
            yield cluster


def jobsets_own(rendered: Path) -> Iterator[Object]:
    """What JobSet's installation consists of, its Deployment under the name of JobSet's manifests."""
    for path in sorted(rendered.glob("wave-*/*.yaml")):
        manifest = yaml.safe_load(path.read_text())
        metadata = manifest["metadata"]
        if "jobset" not in metadata["name"] and metadata.get("namespace") != JOBSET:
            continue
        if "trainyard" in metadata["name"] or manifest["kind"] == "NetworkPolicy":
            continue
        if manifest["kind"] == "Deployment":
            metadata["name"] = "jobset-controller-manager"
        yield manifest


def running(cluster: Cluster, job: str) -> list[Object]:
    return [pod for pod in cluster.pods(job) if pod["status"]["phase"] == "Running"]


def identities(cluster: Cluster) -> dict[str, Any]:
    """The uid of everything that is to stay, and how often containers have started anew."""
    found: dict[str, Any] = {
        f"{kind}/{name}": (cluster.get(kind, name) or {})["metadata"]["uid"]
        for kind, names in KEPT.items()
        for name in names
    }
    for pod in cluster.pods("runs"):
        restarts = [status["restartCount"] for status in pod["status"]["containerStatuses"]]
        found[f"pod/{pod['metadata']['name']}"] = (pod["metadata"]["uid"], restarts)
    return found


def webhooks(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """The Service that each webhook of Trainer's API leads to, and what follows when it does not answer."""
    found = [
        cluster.get("mutatingwebhookconfiguration", "defaulter.trainer.kubeflow.org"),
        cluster.get("validatingwebhookconfiguration", "validator.trainer.kubeflow.org"),
    ]
    return {
        webhook["name"]: (webhook["clientConfig"]["service"]["name"], webhook["failurePolicy"])
        for one in found
        if one
        for webhook in one["webhooks"]
        if webhook["name"].endswith("trainer.kubeflow.org")
    }


def plan(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    return dict(json.loads(cluster.run("trainyard", "adopt", "--output", "json", *arguments).stdout))


def killed_at_its_second_step(cluster: Cluster, *arguments: str) -> bool:
    """Run `adopt --yes` and kill it as soon as it begins a second step; False if it had ended before."""
    command = ["trainyard", "adopt", "--yes", *arguments]
    environment = {**os.environ, **QUICK, **cluster.environment}
    with subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        begun = [line for _, line in zip(range(2), process.stderr, strict=False)]
        process.kill()
        process.stderr.read()
        return process.wait() == -signal.SIGKILL and len(begun) == 2


def test_killed_at_each_step_it_goes_on_from_there_and_touches_no_job(stranger: Cluster) -> None:
    before, asked = identities(stranger), webhooks(stranger)
    assert set(asked.values()) == {(CONTROLLER, "Fail")}
    said = plan(stranger)
    assert not said["refused"], said
    assert {check["about"]: check["level"] for check in said["checks"]}["JobSet"] == "note"
    steps = len(said["steps"])
    assert {step["action"] for step in said["steps"]} == {"Keep", "HandOver", "LetPass", "Scale"}
    killed = 0
    while killed_at_its_second_step(stranger):
        killed += 1
        assert killed < steps, "each time one step more is done"
    assert killed > steps / 3, "on a busy machine, a kill comes a step or two late"
    assert plan(stranger)["steps"] == []
    assert identities(stranger) == before
    about_runtimes = "validator.clustertrainingruntime.trainer.kubeflow.org"
    assert webhooks(stranger) == {**asked, about_runtimes: (CONTROLLER, "Ignore")}


def test_pulumi_up_then_makes_the_platform_of_it_and_every_job_goes_on(
    stranger: Cluster, tmp_path: Path
) -> None:
    before = identities(stranger)
    document = yaml.safe_load(Path(stranger.environment["PULUMI_OPTION_CONFIG_FILE"]).read_text())
    settings = document["config"]["trainyard:platform"]
    for part in ("jobset", "volcano", "coscheduling", "observability"):
        settings[part]["enabled"] = False
    settings["operator"]["kubeflowNamespace"] = "existing"
    file = tmp_path / "Pulumi.sandbox.yaml"
    file.write_text(yaml.safe_dump(document))
    up = ("up", "--stack", "sandbox", "--yes", "--skip-preview", "--refresh", "--config-file", str(file))
    # As whoever has a cluster of their own: nothing is forced but what the stack itself forces.
    stranger.run("env", "-u", "PULUMI_K8S_ENABLE_PATCH_FORCE", "pulumi", *up, "--non-interactive")

    assert identities(stranger) == before
    assert set(webhooks(stranger).values()) == {("trainyard-operator", "Fail")}
    plain = json.dumps(stranger.get("clustertrainingruntime", "plain"))
    assert '"before"' not in plain, "the catalog's runtime is in its place"
    stranger.pulumi("preview", "--stack", "sandbox", "--config-file", str(file), "--expect-no-changes")

    [pod] = running(stranger, "runs")
    finish(stranger, pod)
    stranger.wait_for_condition("runs", "Complete")
    stranger.kubectl("patch", "trainjob", "held", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    stranger.wait_for_condition("held", "Complete")
    stranger.apply(trainjob("later"))
    stranger.wait_for_condition("later", "Complete")


def test_and_back_trainer_works_as_before(stranger: Cluster) -> None:
    while killed_at_its_second_step(stranger, "--back"):
        pass
    assert set(webhooks(stranger).values()) == {(CONTROLLER, "Fail")}
    trainer = stranger.within(NAMESPACE)
    eventually("it works again", lambda: holder(trainer).startswith(CONTROLLER))
    assert '"before"' in json.dumps(stranger.get("clustertrainingruntime", "plain"))
    eventually("its webhooks answer", lambda: taken(stranger, trainjob("back")))
    stranger.wait_for_condition("back", "Complete")
