"""docs/own-repository.md: from an empty folder to a platform on a sandbox, without a clone of Trainyard."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.leftovers import note
from tests.support import wheels
from tests.support.patience import STARTED, eventually
from tests.support.wheels import run

pytestmark = [pytest.mark.sandbox(area="platform"), pytest.mark.long]

NAME = "own"
JOB = """apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: hello}
spec:
  runtimeRef: {name: ours}
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A site that `init` has made, with a runtime of its own; its sandbox is down afterwards."""
    environment = tmp_path / "environment"
    environment.mkdir()
    trainyard = wheels.installed(wheels.built(tmp_path / "dist"), environment)
    made = wheels.site(trainyard, tmp_path / "acme", "onprem")
    new = [".venv/bin/trainyard", "runtimes", "new", "ours", "--framework", "plain", "--for", "Ours."]
    assert run([*new, "--image", "docker.io/trainyard/busybox:sandbox"], made).returncode == 0
    note(NAME, made)
    try:
        yield made
    finally:
        run([".venv/bin/trainyard", "sandbox", "down", "--name", NAME], made)


def test_a_site_of_its_own_passes_its_checks_and_rolls_out_to_a_sandbox(site: Path) -> None:
    def on_the_sandbox(*command: str) -> subprocess.CompletedProcess[str]:
        return run([".venv/bin/trainyard", "sandbox", "exec", "--name", NAME, "--", *command], site)

    verified = run(["make", "--no-print-directory", "verify"], site)
    assert (verified.returncode, " 0 mandatory" in verified.stderr) == (0, True), verified.stderr
    up = run([".venv/bin/trainyard", "sandbox", "up", "--name", NAME], site)
    assert up.returncode == 0, up.stderr
    assert (site / ".sandbox" / NAME).is_dir()
    preview = on_the_sandbox("make", "--no-print-directory", "preview", "STACK=sandbox")
    assert (preview.returncode, "ClusterTrainingRuntime ours" in preview.stdout) == (0, True), preview.stderr
    rolled_out = on_the_sandbox("make", "--no-print-directory", "up", "STACK=sandbox")
    assert rolled_out.returncode == 0, rolled_out.stdout + rolled_out.stderr
    (site / "job.yaml").write_text(JOB)
    sent = on_the_sandbox("kubectl", "apply", "-f", "job.yaml")
    assert sent.returncode == 0, sent.stderr

    def state() -> str:
        query = "jsonpath={.status.conditions[?(@.type=='Complete')].status}"
        return on_the_sandbox("kubectl", "get", "trainjob", "hello", "-o", query).stdout

    eventually(
        "the TrainJob on the site's own runtime is complete", lambda: state() == "True", within=STARTED
    )
    drift = on_the_sandbox("make", "--no-print-directory", "drift", "STACK=sandbox")
    assert drift.returncode == 0, drift.stdout + drift.stderr
