"""The wheel alone: installed without a clone, it does all that a site needs."""

import json
import re
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.support import wheels
from tests.support.versions import VERSION
from tests.support.wheels import run

ROOT = Path(__file__).parents[1]
MOST: int = 15 << 20
"""Bytes of the wheel without the sandbox's Go modules."""
GUIDE = (ROOT / "docs" / "write-a-policy.md").read_text().partition("## Write a rule")[2]
[RULE, *_] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.built(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def trainyard(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.installed(wheel, tmp_path_factory.mktemp("environment"))


@pytest.mark.long
def test_it_is_small(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        held = [entry for entry in archive.infolist() if "/sandbox/toolchain/" not in entry.filename]
    assert sum(entry.compress_size for entry in held) < MOST
    assert [entry.filename for entry in held if "__pycache__" in entry.filename] == []


@pytest.mark.long
def test_in_a_sites_folder_it_does_without_a_clone_what_needs_no_cluster(
    trainyard: Path, tmp_path: Path
) -> None:
    site = wheels.site(trainyard, tmp_path / "acme", "onprem")
    job = tmp_path / "job.yaml"
    job.write_text((ROOT / "examples" / "digits" / "trainjob.yaml").read_text())
    commands = {
        "verify": ("", "27 runtimes on 1 stacks: 0 mandatory, 0 advisory, 0 excepted\n"),
        "lint": ("", "0 runtimes and TrainJobs, 0 other objects: 0 mandatory, 0 advisory, 0 excepted\n"),
        "stacks": ('["prod"]\n', ""),
        "--version": (f"trainyard {VERSION}\n", ""),
    }
    for arguments, expected in commands.items():
        done = run([trainyard, *arguments.split()], site)
        assert (done.returncode, (done.stdout, done.stderr)) == (0, expected), arguments
    for arguments, word in {
        "runtimes list --stack prod": "torch-distributed",
        "runtimes new ours --framework torch --for Ours.": "runtimes/torch/ours.yaml",
        "runtimes show ours": "file:      runtimes/torch/ours.yaml",
        f"render -f {job}": "kind: JobSet",
        f"validate -f {job}": '"errors": []',
        f"migrate {job}": "kind: TrainJob",
        "sandbox status --help": "Usage",
    }.items():
        done = run([trainyard, *arguments.split()], site)
        assert (done.returncode, word in done.stdout) == (0, True), (arguments, done.stdout, done.stderr)
    (site / "policies" / "site" / "cost_center.py").write_text(RULE)
    done = run(["make", "--no-print-directory", "verify", "FORMAT=json"], site)
    findings = {(finding["rule"], finding["file"]) for finding in json.loads(done.stdout)["findings"]}
    assert (done.returncode, ("cost-center", "runtimes/torch/ours.yaml") in findings) == (2, True), (
        done.stderr
    )
    for arguments, sentence in {
        "preview --stack none": "stacks/Pulumi.none.yaml:1: No such file or directory\n",
        "drift --stack none": "stacks/Pulumi.none.yaml:1: No such file or directory\n",
        "operator run": "The Python package prometheus_client is missing, which only some commands need",
    }.items():
        done = run([trainyard, *arguments.split()], site)
        assert (done.returncode, done.stderr[: len(sentence)]) == (2, sentence), (arguments, done.stderr)


@pytest.mark.long
def test_outside_of_a_site_it_says_so(trainyard: Path, tmp_path: Path) -> None:
    sentence = (
        f"{tmp_path}: is in no site, for neither it nor a folder above it has a Pulumi.yaml. Change into "
        "your site's folder, or make a site: trainyard init DIR\n"
    )
    for arguments in ("verify", "sandbox status"):
        done = run([trainyard, *arguments.split()], tmp_path)
        assert (done.returncode, done.stderr) == (2, sentence), arguments


@pytest.mark.long
def test_its_images_are_those_that_a_clone_builds(trainyard: Path, tmp_path: Path) -> None:
    """So a bundle of one serves the other."""
    code = (
        "from trainyard_sandbox.images import Images; from trainyard_sandbox.toolchain import Toolchain\n"
        "listed = Images.read(Toolchain([]))\n"
        "plain = [i for i in listed.images if not (i.binaries or i.artifacts)]\n"
        "print({i.name: i.key(listed.bases, listed.toolchain) for i in plain})"
    )
    of_the_wheel = run([trainyard.with_name("python"), "-P", "-c", code], tmp_path)
    of_the_clone = run([sys.executable, "-P", "-c", code], tmp_path)
    assert of_the_wheel.stdout == of_the_clone.stdout != "", of_the_wheel.stderr
