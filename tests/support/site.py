"""A site's clone in a scratch folder: its own packages, one stack, and a branch to work on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("api", "assist", "cli", "delivery", "kube", "operator", "platform", "policies", "sandbox")
COPIED = (
    *SOURCES,
    *("examples", ".github", "runtimes", "stacks", "requirements"),
    *("Makefile", "Pulumi.yaml", "pyproject.toml"),
)
STACK = "stacks/Pulumi.prod.yaml"
UNFINISHED = "*.pyc.*"
"""What a process that compiles a module just now writes first. What is compiled is copied: files keep their
time, so that it counts, and the first command in a clone does not compile all that it imports."""
IGNORED = "/.venv\n/bin\n__pycache__\n/results\n/*.json\n/*.xml\n/*.md\n"


def made(site: Path) -> Path:
    """The clone, on the branch `change` of `main`; `make` and `trainyard` in it are its own."""
    for name in COPIED:
        source, target = ROOT / name, site / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(UNFINISHED))
        else:
            shutil.copy(source, target)
    for path in (site / "stacks").glob("Pulumi.*.yaml"):
        if path.name not in ("Pulumi.onprem.yaml", "Pulumi.sandbox.yaml"):
            path.unlink()
    (site / "stacks/Pulumi.onprem.yaml").rename(site / STACK)
    (site / ".gitignore").write_text(IGNORED)
    git(site, "init", "--quiet", "--initial-branch=main")
    commit(site)
    git(site, "switch", "--quiet", "--create", "change")
    equip(site)
    return site


def copied(target: Path) -> Path:
    """All files of this clone that git knows or would add, in a folder."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for file in (name for name in listed if (ROOT / name).is_file()):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, target / file)
    return target


def equip(site: Path) -> None:
    """Give a checkout the `trainyard` that its own sources are."""
    path = ":".join(str(site / name) for name in SOURCES)
    main = "from trainyard_cli.main import main; main()"
    program = site / ".venv/bin/trainyard"
    script(program, f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} -P -c "{main}" "$@"\n')
    (site / ".venv/.done").touch()


def git(site: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    command = ("git", *who, *arguments)
    return subprocess.run(command, cwd=site, env=around(), check=True, capture_output=True, text=True).stdout


def commit(site: Path) -> None:
    git(site, "add", "--all")
    git(site, "commit", "--quiet", "--message", "a change")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, 1))


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def around() -> dict[str, str]:
    """Our environment, without what git and make have put into it."""
    names = ("GIT_", "MAKE", "PULUMI_", "KUBECONFIG", "CI_")
    return {name: value for name, value in os.environ.items() if not name.startswith(names)}


def run(site: Path, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run lines of a shell as a pipeline's runner does: in one shell, which ends at the first failure."""
    environment = {**around(), **variables}
    environment["PATH"] = f"{site / 'bin'}:{site / '.venv/bin'}:{environment['PATH']}"
    shell = ["bash", "-eo", "pipefail", "-c", command]
    return subprocess.run(shell, cwd=site, env=environment, check=False, capture_output=True, text=True)
