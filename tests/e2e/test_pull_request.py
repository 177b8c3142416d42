"""A runtime's way by pull request: refused on its lines, put right, previewed, rolled out, trained on.

And the same faults, tried past git with kubectl by somebody who may do all of
Trainer in a namespace.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import Cluster, Object, runtime, trainjob
from trainyard_sandbox.paths import PROJECT

pytestmark = pytest.mark.sandbox(area="policies")

NEXT_YEAR = date.today() + timedelta(days=300)
NAME = "by-pull-request"
NADIA = "nadia"
FAULTY = """\
# Three faults on lines of their own.
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata:
  name: by-pull-request
  labels:
    trainer.kubeflow.org/framework: plain
spec:
  mlPolicy:
    numNodes: 1
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata:
              labels:
                trainer.kubeflow.org/trainjob-ancestor-step: trainer
            spec:
              template:
                spec:
                  hostNetwork: true
                  containers:
                    - name: train
                      image: docker.io/trainyard/torch-cpu:latest
                      imagePullPolicy: IfNotPresent
"""
FAULTS = {"22:19": "host-access", "23:19": "trainer-step", "25:23": "image-tag"}


@pytest.fixture
def clone(platform: Cluster, tmp_path: Path) -> Iterator[Path]:
    """The repository as somebody has it who makes a pull request; what they roll out is taken back."""
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in subprocess.run(listed, cwd=PROJECT, capture_output=True, check=True).stdout.split(b"\0"):
        source = PROJECT / name.decode()
        if name and source.is_file():
            target = tmp_path / name.decode()
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    (tmp_path / ".venv").symlink_to(PROJECT / ".venv")
    (tmp_path / ".sandbox").symlink_to(PROJECT / ".sandbox")
    yield tmp_path
    platform.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview")


def lint(clone: Path, *arguments: str) -> tuple[int, dict[str, str]]:
    """The exit code, and by position the rule of each finding that refuses."""
    command = [".venv/bin/trainyard", "lint", "--stack", "sandbox", *arguments, "runtimes/plain"]
    answer = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)
    found = re.findall(r"by-pull-request\.yaml:(\d+:\d+): mandatory: .* \[(.*)\]", answer.stdout)
    return answer.returncode, dict(found)


@pytest.mark.holds("rollout")
@pytest.mark.core
def test_three_faults_are_refused_put_right_previewed_rolled_out_and_trained_on(
    platform: Cluster, clone: Path
) -> None:
    file = clone / "runtimes" / "plain" / f"{NAME}.yaml"
    file.write_text(FAULTY)
    assert lint(clone) == (1, FAULTS)
    assert lint(clone, "--fix") == (1, {"22:19": "trainer-step", "24:23": "image-tag"})
    file.write_text(file.read_text().replace("name: train\n", "name: node\n").replace(":latest", ":sandbox"))
    assert lint(clone) == (0, {})
    pulumi = ("--cwd", str(clone), "--stack", "sandbox")
    said = platform.pulumi("preview", *pulumi, "--policy-pack", str(clone / "policies")).stdout
    assert "Policies:" in said, said
    platform.pulumi("up", "--yes", "--skip-preview", *pulumi)
    platform.apply(trainjob(NAME, "echo trained", NAME))
    platform.wait_for_condition(NAME, "Complete")
    assert [log.strip() for log in platform.logs(NAME).values()] == ["trained"]
    platform.kubectl("delete", "trainjob", NAME)


FAULTY_RUNTIMES = {
    "host-access": runtime("sly", kind="TrainingRuntime", pod={"hostNetwork": True}),
    "trainer-step": runtime("sly", kind="TrainingRuntime", container={"name": "train"}),
    "image-tag": runtime(
        "sly", kind="TrainingRuntime", container={"image": "docker.io/trainyard/torch-cpu:latest"}
    ),
}
"""The three faults, where a namespace's admin can write them."""
TRAINERS_OWN = {"trainer-step": "must contain the required container for the ancestor: trainer"}
"""What Trainer's validation says of a fault: the API server asks both webhooks, and the first no counts."""


@pytest.fixture
def nadia(platform: Cluster) -> Iterator[Cluster]:
    """A namespace in which she may do everything of Trainer."""
    role = ("--verb=*", "--resource=trainjobs.trainer.kubeflow.org,trainingruntimes.trainer.kubeflow.org")
    platform.kubectl("create", "namespace", NADIA)
    inside = platform.within(NADIA)
    inside.kubectl("create", "role", "trainer-admin", *role)
    inside.kubectl("create", "rolebinding", "trainer-admin", "--role=trainer-admin", f"--user={NADIA}")
    yield inside
    platform.kubectl("delete", "namespace", NADIA)


def refused(place: Cluster, manifest: Object) -> str:
    """Why the API server does not let her have it."""
    command = ("kubectl", "--namespace", NADIA, "--as", NADIA, "create", "-f", "-")
    answer = place.run(*command, check=False, stdin=yaml.safe_dump(manifest))
    assert answer.returncode != 0, answer.stdout
    return answer.stderr


@pytest.mark.core
def test_the_same_faults_are_refused_to_a_namespaces_admin_with_kubectl(nadia: Cluster) -> None:
    for rule, manifest in FAULTY_RUNTIMES.items():
        no = "|".join([f"{rule}: spec.template", *([TRAINERS_OWN[rule]] if rule in TRAINERS_OWN else [])])
        assert re.search(no, refused(nadia, manifest))
        manifest["metadata"]["labels"]["trainer.kubeflow.org/webhook-validation"] = "disabled"
        manifest["metadata"]["annotations"] = {
            f"policy.trainyard.dev/{rule}": f"until={NEXT_YEAR}; I want to"
        }
        assert re.search(no, refused(nadia, manifest))


def test_neither_does_a_patch_of_a_trainjob_get_round_the_rules(nadia: Cluster) -> None:
    pod = {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]}
    job = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    template = {"spec": {"replicatedJobs": [job]}}
    patch = {"manager": "example.com/sly", "trainingRuntimeSpec": {"template": template}}
    assert "host-access: spec.runtimePatches[0]" in refused(nadia, trainjob("sly", runtimePatches=[patch]))
    pod = {"tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}
    job["template"] = {"spec": {"template": {"spec": pod}}}
    assert "pool-match: spec.runtimePatches[0]" in refused(nadia, trainjob("sly", runtimePatches=[patch]))
