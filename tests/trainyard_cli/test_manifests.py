"""`trainyard manifests` around Pulumi: what Pulumi is given, and what is written of its answer."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.answers import answered
from tests.support.clones import clone_at
from tests.support.yaml_files import load
from trainyard_cli.commands import manifests as command

SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}
RESOURCE = {"urn": "urn:n", "type": "kubernetes:core/v1:Namespace", "custom": True, "inputs": SPACE}
PULUMI = """#!/bin/sh
cp "$PULUMI_OPTION_CONFIG_FILE" "$0.given"
echo "$1 cluster=$KUBECONFIG" >> "$0.asked"
if [ "$2" = export ]; then cat "$0.answer"; fi
"""
SHIPPED = Path(__file__).parents[2] / "stacks"
CONFIG = load(SHIPPED / "Pulumi.onprem.yaml")["config"]


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command that keeps what it is given and answers with a state of one namespace."""
    path = tmp_path / "tools" / "pulumi"
    path.parent.mkdir()
    path.write_text(PULUMI)
    path.chmod(0o755)
    path.with_name("pulumi.answer").write_text(json.dumps({"deployment": {"resources": [RESOURCE]}}))
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    monkeypatch.setenv("KUBECONFIG", "/of/a/cluster")
    return path


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return clone_at(tmp_path).stacks


def test_a_stack_is_rendered_without_its_cluster_and_without_the_key_of_its_state(
    stacks: Path, pulumi: Path, tmp_path: Path
) -> None:
    theirs = {"encryptionsalt": "v1:abc", "config": CONFIG}
    (stacks / "Pulumi.prod.yaml").write_text(yaml.safe_dump(theirs))
    printed = f"{tmp_path}/to: 1 objects in 1 waves\n"
    assert answered(command.run, "prod", tmp_path / "to") == (0, printed, "")
    given = yaml.safe_load(pulumi.with_name("pulumi.given").read_text())
    assert Path(given["config"].pop("trainyard:renderTo")).name == "rendered"
    assert given == {"config": CONFIG}
    asked = pulumi.with_name("pulumi.asked").read_text().splitlines()
    assert asked == ["stack cluster=", "up cluster=", "stack cluster="]
    assert (
        yaml.safe_load((tmp_path / "to" / "wave-00" / "namespace-n.yaml").read_text())["kind"] == "Namespace"
    )


def test_pulumi_is_given_words_that_it_reads_as_text_as_text(
    stacks: Path, pulumi: Path, tmp_path: Path
) -> None:
    config = copy.deepcopy(CONFIG)
    config["trainyard:platform"]["nodePools"]["h100"]["nodeLabels"]["example.com/shared"] = "yes"
    written = yaml.safe_dump({"config": config}).replace("'yes'", "yes")
    (stacks / "Pulumi.prod.yaml").write_text(written)
    assert answered(command.run, "prod", tmp_path / "to")[0] == 0
    given = pulumi.with_name("pulumi.given").read_text()
    assert ("shared: yes" in written, "shared: 'yes'" in given) == (True, True)


@pytest.mark.parametrize(("name", "is_of_the_sandbox"), [("prod", True), ("sandbox", False)])
def test_on_a_sandbox_its_copy_of_the_file_is_rendered_if_it_has_this_stack(
    stacks: Path, pulumi: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_of_the_sandbox: bool
) -> None:
    fitting = copy.deepcopy(CONFIG)
    fitting["trainyard:platform"]["volcano"] = {"enabled": False}
    on_sandbox = stacks / "pulumi" / f"Pulumi.{name}.yaml"
    on_sandbox.parent.mkdir()
    on_sandbox.write_text(yaml.safe_dump({"config": fitting}))
    (stacks / "Pulumi.prod.yaml").write_text(yaml.safe_dump({"config": CONFIG}))
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(on_sandbox))
    assert answered(command.run, "prod", stacks / "to")[0] == 0
    given = yaml.safe_load(pulumi.with_name("pulumi.given").read_text())["config"]
    del given["trainyard:renderTo"]
    assert given == (fitting if is_of_the_sandbox else CONFIG)


def test_what_was_rendered_before_goes_and_what_is_somebody_elses_stays(
    stacks: Path, pulumi: Path, tmp_path: Path
) -> None:
    (stacks / "Pulumi.prod.yaml").write_text(yaml.safe_dump({"config": CONFIG}))
    for name in ("wave-07/old.yaml", "README.md"):
        (tmp_path / "to" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "to" / name).touch()
    assert answered(command.run, "prod", tmp_path / "to")[0] == 0
    assert sorted(path.name for path in (tmp_path / "to").iterdir()) == ["README.md", "wave-00"]


def test_pulumi_is_not_asked_for_a_stack_that_makes_machines(
    stacks: Path, pulumi: Path, tmp_path: Path
) -> None:
    (stacks / "Pulumi.eks.yaml").write_text((SHIPPED / "Pulumi.eks.yaml").read_text())
    code, out, err = answered(command.run, "eks", tmp_path / "to")
    assert (code, out) == (2, "")
    assert "eks makes node groups in the cloud, which are not manifests" in err
    assert not pulumi.with_name("pulumi.asked").exists()


def test_what_pulumi_answers_is_read_as_utf_8_in_each_locale(stacks: Path, pulumi: Path) -> None:
    pulumi.with_name("pulumi.answer").write_text('{"note": "\u00e9"}', encoding="utf-8")
    script = "from trainyard_cli.files import rendering; print(ascii(rendering.rolled_out('prod')))"
    answer = subprocess.run(
        [sys.executable, "-c", script],
        cwd=stacks,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.stdout, answer.stderr) == ("{'note': '\\xe9'}\n", "")
