"""`kubectl trainyard`: the same command, found by kubectl by its name, and installed by krew."""

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kubectl-plugin"
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


def called_as(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the script of that name does, as pip writes it."""
    module, _, function = SCRIPTS[name].partition(":")
    argv = [f"/usr/local/bin/{name}", *arguments]
    script = f"import sys; sys.argv = {argv!r}; from {module} import {function}; sys.exit({function}())"
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_kubectl_finds_the_command_and_its_completions_by_their_names() -> None:
    assert SCRIPTS == {
        "trainyard": "trainyard_cli.main:main",
        "kubectl-trainyard": "trainyard_cli.main:main",
        "kubectl_complete-trainyard": "trainyard_cli.main:complete_for_kubectl",
    }


def test_its_usage_says_how_it_was_called() -> None:
    answer = called_as("kubectl-trainyard", "jobs", "--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.split("\n\n")[0].strip() == "Usage: kubectl trainyard jobs [OPTIONS]"
    assert "Usage: trainyard jobs [OPTIONS]" in called_as("trainyard", "jobs", "--help").stdout


def test_an_unknown_command_is_told_the_nearest_there_too() -> None:
    answer = called_as("kubectl-trainyard", "lgs")
    assert answer.returncode == 2
    assert "Usage: kubectl trainyard [OPTIONS]" in answer.stderr
    assert "Did you mean" in answer.stderr


@pytest.mark.parametrize("option", ["--install-completion", "--show-completion"])
def test_under_that_name_it_offers_no_script_which_would_complete_kubectl_itself(
    option: str, tmp_path: Path
) -> None:
    shell = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    answer = called_as("kubectl-trainyard", option, "bash", **shell)
    assert (answer.returncode, f"No such option: {option}" in answer.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
    assert called_as("kubectl_complete-trainyard", option).stdout.split() == []
    assert option in called_as("trainyard", "--help").stdout


def test_kubectl_gets_completions_one_a_line() -> None:
    answer = called_as("kubectl_complete-trainyard", "sef")
    assert (answer.returncode, answer.stdout.split(), answer.stderr) == (0, ["seff"], "")
    assert {"jobs", "logs"} <= set(called_as("kubectl_complete-trainyard", "").stdout.split())


def test_the_manifest_of_krew_is_one_that_krew_takes() -> None:
    manifest = yaml.safe_load((EXAMPLE / "trainyard.yaml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == (
        "krew.googlecontainertools.github.com/v1alpha2",
        "Plugin",
    )
    assert manifest["metadata"] == {"name": "trainyard"}
    spec = manifest["spec"]
    assert spec["version"] == f"v{metadata.version('trainyard')}"
    assert spec.keys() == {"version", "homepage", "shortDescription", "description", "caveats", "platforms"}
    assert len(spec["shortDescription"]) <= 50
    for platform in spec["platforms"]:
        assert platform.keys() == {"selector", "uri", "sha256", "files", "bin"}
        assert platform["selector"]["matchLabels"].keys() == {"os", "arch"}
        assert spec["version"] in platform["uri"]
        assert re.fullmatch(r"[0-9a-f]{64}", platform["sha256"])
        assert (EXAMPLE / platform["bin"]).stat().st_mode & 0o111
