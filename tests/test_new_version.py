"""docs/own-repository.md, "Move to a new version": a site moves over two versions, two lines each time."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import wheels
from tests.support.site import commit, copied, edit, git
from tests.support.versions import VERSION, later
from tests.support.wheels import run

pytestmark = pytest.mark.long

NUMBERS = (2, 3)
VERSIONS = tuple(map(later, NUMBERS))
STACK = "stacks/Pulumi.prod.yaml"
RUNTIME = "runtimes/torch/torch-distributed.yaml"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of this version and of two after it, which each have one runtime more and another node count."""
    folder = tmp_path_factory.mktemp("dist")
    wheels.built(folder)
    clone = copied(tmp_path_factory.mktemp("later"))
    for number, version in zip(NUMBERS, VERSIONS, strict=True):
        subprocess.run(["python3", ".github/scripts/release.py", "set", version], cwd=clone, check=True)
        text = (clone / RUNTIME).read_text()
        new = clone / f"runtimes/torch/torch-of-{number}.yaml"
        new.write_text(text.replace("name: torch-distributed", f"name: torch-of-{number}"))
        (clone / RUNTIME).write_text(re.sub(r"(?m)^    numNodes: \d+$", f"    numNodes: {number}", text))
        wheels.built(folder, clone)
    return folder


@pytest.fixture(scope="module")
def acme(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with a stack, a runtime and a parameter of its own, as its first version has made it."""
    [first] = (path for path in dist.glob("*.whl") if not any(version in path.name for version in VERSIONS))
    made = tmp_path_factory.mktemp("site") / "acme"
    trainyard = Path(sys.executable).parent / "trainyard"
    init = run([trainyard, "init", made, "--stack", "prod", "--from", "onprem"], made.parent)
    assert init.returncode == 0, init.stderr
    (made / ".venv").mkdir()
    trainyard = wheels.installed(first, made / ".venv")
    (made / ".venv" / ".done").touch()
    new = ["runtimes", "new", "ours", "--framework", "torch", "--for", "Ours."]
    assert run([trainyard, *new], made).returncode == 0
    git(made, "init", "--quiet", "--initial-branch=main")
    commit(made)
    return made


def test_a_site_moves_over_two_versions_by_two_lines_each(dist: Path, acme: Path) -> None:
    befores = (VERSION, *VERSIONS[:-1])
    for number, before, version in zip(NUMBERS, befores, VERSIONS, strict=True):
        edit(acme / "requirements.txt", f"=={before}", f"=={version}")
        refused = run([".venv/bin/trainyard", "verify"], acme)
        assert (refused.returncode, before in refused.stderr, version in refused.stderr) == (2, True, True)
        made = run(["make", "--no-print-directory", "environment"], acme, PIP_FIND_LINKS=str(dist))
        assert made.returncode == 0, made.stderr
        installed = run([".venv/bin/trainyard", "--version"], acme)
        assert installed.stdout == f"trainyard {version}\n"
        verified = run(["make", "--no-print-directory", "verify"], acme)
        assert (verified.returncode, ": 0 mandatory" in verified.stderr) == (0, True), verified.stderr
        assert f"operator.image: has version {before}," in verified.stdout
        edit(acme / STACK, f"/trainyard/operator:{before}", f"/trainyard/operator:{version}")
        assert "operator.image" not in run(["make", "--no-print-directory", "verify"], acme).stdout
        touched = run([".venv/bin/trainyard", "stacks", "--since", "main"], acme)
        assert touched.stdout == '["prod"]\n'
        listed = run([".venv/bin/trainyard", "runtimes", "list", "--stack", "prod"], acme).stdout
        assert (f"torch-of-{number}" in listed, "ours" in listed) == (True, True)
        report = run([".venv/bin/trainyard", "report", "--since", "main"], acme)
        heading, *_, last, _ = report.stdout.partition("<details>")[0].splitlines()
        assert (report.returncode, heading, last) == (
            0,
            f"## Trainyard `{before}` becomes `{version}`; 1 other change on 1 stack; nothing is refused",
            f"What version `{version}` changes on a cluster is in its preview.",
        )
        assert git(acme, "diff", "--shortstat").strip() == "2 files changed, 2 insertions(+), 2 deletions(-)"
        assert git(acme, "status", "--short").split() == ["M", "requirements.txt", "M", STACK]
        commit(acme)
