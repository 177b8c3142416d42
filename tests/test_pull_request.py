"""docs/pull-request.md: a pull request on a git server, from its first push to what can be merged.

The server is a bare repository whose hook does what a host's pipeline does:
it checks out what was pushed and runs examples/gitops/pull-request.sh.
"""

import shlex
from pathlib import Path

import pytest

from tests.support import site
from tests.support.site import ROOT, STACK, edit, git, script

REGISTRIES = "    policies: {parameters: {registries: [registry.example.com, docker.io, ghcr.io, nvcr.io]}}\n"
BRANCH = "runtimes-for-vision"
HOOK = """#!/bin/sh
unset GIT_DIR GIT_QUARANTINE_PATH
cd {runner} && read -r _ new ref && git fetch --quiet origin
git checkout --quiet --detach "$new"
rm -rf results && mkdir results
PATH={runner}/.venv/bin:$PATH examples/gitops/pull-request.sh origin/main > results/log 2>&1
echo $? > results/exit
"""


class Server:
    """Where the site's repository lives, and what its pipeline said last."""

    def __init__(self, folder: Path) -> None:
        self.runner = site.made(folder / "runner")
        git(self.runner, "switch", "--quiet", "main")
        stack = self.runner / STACK
        stack.write_text(stack.read_text().rstrip() + "\n" + REGISTRIES)
        site.commit(self.runner)
        self.repository = folder / "server.git"
        git(self.runner, "clone", "--quiet", "--bare", str(self.runner), str(self.repository))
        git(self.runner, "remote", "add", "origin", str(self.repository))
        script(self.repository / "hooks" / "post-receive", HOOK.format(runner=self.runner))

    def pushed(self, clone: Path) -> tuple[bool, str]:
        """Whether the branch can be merged, and the comment."""
        site.commit(clone)
        git(clone, "push", "--quiet", "origin", BRANCH)
        results = self.runner / "results"
        return (results / "exit").read_text() == "0\n", (results / "report.md").read_text()


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


@pytest.fixture
def clone(server: Server, tmp_path: Path) -> Path:
    """Somebody's clone of it, on a branch with three runtimes, a larger quota and two mistakes."""
    here = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", str(server.repository), str(here))
    git(here, "switch", "--quiet", "--create", BRANCH)
    site.equip(here)
    new(here, "torch-vision", "registry.example.com/vision/train:1.4")
    image = "registry.example.com/vision/train:1.4"
    new(here, "torch-vision-large", image, "--like", "torch-shared-memory")
    new(here, "plain-tools", "registry.example.com/vision/tools:2.0")
    edit(here / "runtimes/torch/torch-vision-large.yaml", "registry.example.com", "registry.exmaple.com")
    edit(
        here / "runtimes/plain/plain-tools.yaml",
        "containers:\n",
        "hostNetwork: true\n                  containers:\n",
    )
    edit(here / STACK, 'cpu: {nominal: "64"}', 'cpu: {nominal: "96"}')
    return here


def new(clone: Path, name: str, image: str, *like: str) -> None:
    said = ("--framework", name.partition("-")[0], "--for", "The vision team.", "--image", image)
    command = shlex.join(["trainyard", "runtimes", "new", name, *said, *like])
    done = site.run(clone, command)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_two_mistakes_are_named_and_put_right_and_a_larger_quota_is_told(server: Server, clone: Path) -> None:
    guide = (ROOT / "docs" / "pull-request.md").read_text(encoding="utf-8")
    mergeable, comment = server.pushed(clone)
    assert not mergeable
    assert f"````markdown\n{comment}````\n" in guide
    edit(clone / "runtimes/torch/torch-vision-large.yaml", "registry.exmaple.com", "registry.example.com")
    edit(clone / "runtimes/plain/plain-tools.yaml", "hostNetwork: true\n                  ", "")
    mergeable, comment = server.pushed(clone)
    assert mergeable, comment
    assert f"```markdown\n{comment.partition('**Advice')[0].splitlines()[0]}\n```\n" in guide
