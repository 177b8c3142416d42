"""docs/add-a-runtime.md can be followed: its commands are run, and answer what it shows."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from tests.support.clones import clone_at
from trainyard_cli import main
from trainyard_cli.commands import runtimes_new
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import header as catalog_header
from trainyard_platform.catalog import in_pods
from trainyard_platform.stack import settings

ROOT = Path(__file__).parents[1]
MADE = "runtimes/torch/torch-audio.yaml"
GUIDE = (ROOT / "docs" / "add-a-runtime.md").read_text()


def commands() -> list[tuple[str, list[str]]]:
    """The commands of the guide, each with the lines that it shows below."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with the catalog on its branch `main`, in which nobody has followed the guide yet."""
    shutil.copytree(ROOT / "runtimes", tmp_path / "runtimes")
    (tmp_path / MADE).unlink(missing_ok=True)
    clone_at(tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *who, *arguments], check=True)
    return tmp_path


def test_a_runtime_is_added_as_the_guide_says(clone: Path) -> None:
    made = clone / MADE
    for command, shown in commands():
        program, *arguments = shlex.split(command)
        assert program == "trainyard"
        if made.exists():
            (clone / "job.yaml").write_text(catalog_header.parse(made.read_text()).example)
        done = CliRunner().invoke(main.app, arguments, env={"COLUMNS": "80"})
        answered = [line.rstrip() for line in done.output.splitlines()]
        places = [
            next((at for at, line in enumerate(answered) if line.startswith(wanted)), None)
            for wanted in shown
        ]
        assert shown, command
        assert None not in places, (command, done.output)
        assert done.exit_code == (1 if "diff" in arguments else 0), (command, done.output)
    [audio] = (one for one in catalog.load(clone / "runtimes", {}) if one.name == "torch-audio")
    assert audio.framework == "torch"


def test_the_guides_overlay_is_one_that_a_stack_may_have(clone: Path) -> None:
    runtimes_new.run("torch-audio", framework="torch", purpose="x")
    [block] = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    section = yaml.safe_load(block)["config"]["trainyard:platform"]
    stack = settings.of({**section, "operator": {"image": "docker.io/trainyard/operator:1"}}, "guide")
    installed = {one.name: one.manifest for one in catalog.load(clone / "runtimes", stack.runtimes)}
    assert ("torch-efa" in installed, "torch-rdma" in installed, "plain" in installed) == (True, False, False)
    [job] = installed["torch-audio"]["spec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]
    amounts = {"nvidia.com/gpu": "4", "cpu": "32", "memory": "256Gi"}
    assert pod == {
        "metadata": {
            "annotations": {
                "kueue.x-k8s.io/podset-preferred-topology": "example.com/rack",
                "trainyard.dev/sitecustomize.py": in_pods.MODULE.read_text(),
            }
        },
        "spec": {
            "automountServiceAccountToken": False,
            "restartPolicy": "Never",
            "nodeSelector": {"example.com/pool": "a100"},
            "tolerations": [{"key": "example.com/team", "operator": "Equal", "value": "speech"}],
            "containers": [
                {
                    "name": "node",
                    "image": "registry.example.com/torch-audio:1.0",
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "env": [
                        {"name": "PYTHONUNBUFFERED", "value": "1"},
                        {"name": "PYTHONPATH", "value": "/etc/trainyard/python"},
                    ],
                    "resources": {"limits": amounts},
                    "volumeMounts": [
                        {"name": "trainyard-python", "mountPath": "/etc/trainyard/python", "readOnly": True}
                    ],
                }
            ],
            "volumes": [
                {
                    "name": "trainyard-python",
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "sitecustomize.py",
                                "fieldRef": {
                                    "fieldPath": "metadata.annotations['trainyard.dev/sitecustomize.py']"
                                },
                            }
                        ]
                    },
                }
            ],
        },
    }
