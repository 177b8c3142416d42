"""The wheel, and environments that have it and no clone."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOCKS = ("cli", "platform", "policies")
OUTSIDE = ("PYTHONPATH", "VIRTUAL_ENV", "PULUMI_OPTION_CONFIG_FILE", "KUBECONFIG")


def run(command: list[str | Path], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command without what the environment says of a clone or a cluster."""
    environment = {name: value for name, value in os.environ.items() if name not in OUTSIDE} | variables
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def built(folder: Path, source: Path = ROOT) -> Path:
    """The wheel of this clone or another, in a folder that has none of its version."""
    hatchling = Path(sys.executable).parent / "hatchling"
    there = {*folder.glob("trainyard-*.whl")}
    _done([hatchling, "build", "--target", "wheel", "--directory", folder], source)
    [path] = {*folder.glob("trainyard-*.whl")} - there
    return path


def installed(wheel: Path, folder: Path) -> Path:
    """The command of a fresh environment: the wheel, and what the locks say it needs."""
    _done([sys.executable, "-m", "venv", folder], folder)
    pip: list[str | Path] = [folder / "bin" / "pip", "install", "--quiet", "--retries", "10"]
    for name in LOCKS:
        lock = ROOT / "requirements" / f"{name}.txt"
        _done([*pip, "--no-compile", "--no-deps", "--require-hashes", "-r", lock], folder)
    # With its own requirements, so that what the locks lack of them shows.
    _done([*pip, f"trainyard[site] @ {wheel.as_uri()}"], folder)
    return folder / "bin" / "trainyard"


def site(trainyard: Path, folder: Path, source: str) -> Path:
    """A site that `init` makes in a folder, with an environment as its own `make environment` leaves it."""
    _done([trainyard, "init", folder, "--stack", "prod", "--from", source], folder.parent)
    # `make environment` would ask an index for this version.
    (folder / ".venv").symlink_to(trainyard.parents[1])
    (folder / ".venv" / ".done").touch()
    return folder


def _done(command: list[str | Path], folder: Path) -> None:
    answer = run(command, folder)
    assert answer.returncode == 0, answer.stderr
