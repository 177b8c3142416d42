"""`trainyard init`: a site's own repository, whole or not at all."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.support.answers import answered
from tests.support.versions import VERSION, later
from trainyard_api import places
from trainyard_api.errors import UserError
from trainyard_api.places import NoSiteError, Site
from trainyard_cli import main
from trainyard_cli.commands import init, verify
from trainyard_cli.files import new_site, pin
from trainyard_policies.lint.formats import word

ROOT = Path(__file__).parents[2]
FILES = [
    ".github/actions/environment/action.yml",
    ".github/actions/pulumi/action.yml",
    ".github/renovate.json",
    ".github/scripts/keep",
    ".github/scripts/report.py",
    ".github/scripts/stack",
    ".github/workflows/deploy.yml",
    ".github/workflows/drift.yml",
    ".github/workflows/pull-request.yml",
    ".gitignore",
    "Makefile",
    "Pulumi.yaml",
    "README.md",
    "policies/PulumiPolicy.yaml",
    "policies/__main__.py",
    "policies/site/README.md",
    "program/__main__.py",
    "requirements.txt",
    "runtimes/README.md",
    "runtimes/schema.json",
    "stacks/Pulumi.prod.yaml",
    "stacks/schema.json",
]
NEXT = (
    "Change stacks/Pulumi.prod.yaml to fit your cluster. Then, in acme: git init, make verify, make stack "
    "STACK=prod, and make preview STACK=prod\n"
)

BY_NAME = (
    "# By its name, from the index that pip asks. That index must be your own:\n"
    "# Trainyard's releases are wheels at an address, and are in no public index.\n"
    f"trainyard[site]=={VERSION}\n"
)
RELEASE = (
    f"https://github.com/acme/trainyard/releases/download/v{VERSION}/trainyard-{VERSION}-py3-none-any.whl"
)
DIGEST = "0" * 64


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(folder: str = "acme", **options: Any) -> tuple[int, str, str]:
    return answered(init.run, Path(folder), **{"stack": "prod", "source": "onprem", **options})


def written(folder: Path = Path("acme")) -> list[str]:
    paths = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def test_a_site_has_its_own_files_and_nothing_of_ours() -> None:
    assert made() == (0, "acme\n", NEXT)
    assert written() == FILES
    assert Path("acme/requirements.txt").read_text() == BY_NAME
    assert os.readlink("acme/runtimes/schema.json") == "../.venv/trainyard/runtimes/schema.json"
    for script in ("keep", "stack"):
        assert os.access(f"acme/.github/scripts/{script}", os.X_OK)


@pytest.mark.parametrize(
    ("origin", "text"),
    {
        "a package of an index": (None, BY_NAME),
        "a wheel on this machine": ({"url": f"file:///dist/trainyard-{VERSION}-py3-none-any.whl"}, BY_NAME),
        "a revision": ({"url": "https://github.com/acme/trainyard", "vcs_info": {"vcs": "git"}}, BY_NAME),
        "a release": (
            {"url": RELEASE, "archive_info": {"hashes": {"sha256": DIGEST}}},
            f"trainyard[site] @ {RELEASE}#sha256={DIGEST}\n",
        ),
        "a release without a digest": (
            {"url": RELEASE, "archive_info": {"hashes": None}},
            f"trainyard[site] @ {RELEASE}\n",
        ),
    }.values(),
)
def test_a_site_takes_trainyard_from_where_it_was_made_with(origin: Any, text: str) -> None:
    assert pin.written(VERSION, None if origin is None else json.dumps(origin)) == text
    assert pin.read(text) == (VERSION, len(text.splitlines()))


@pytest.mark.parametrize("source", new_site.sources())
def test_whichever_stack_it_begins_as_it_passes_verify(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made(source=source)[0] == 0
    monkeypatch.chdir("acme")
    report, unsound = verify.look()
    assert [word(entry.violation) for entry in report.entries if entry.violation.refuses] == []
    assert (unsound, report.others) == (False, 1)
    settings = yaml.safe_load(Path("stacks/Pulumi.prod.yaml").read_text())["config"]["trainyard:platform"]
    assert settings["cluster"]["identifier"] == "prod"


def test_its_pull_requests_have_every_job_but_that_of_our_own_tests() -> None:
    made()
    theirs = yaml.safe_load(Path("acme/.github/workflows/pull-request.yml").read_text())
    ours = yaml.safe_load((ROOT / ".github/workflows/pull-request.yml").read_text())
    del ours["jobs"]["check"]
    assert theirs == ours


def recipes(makefile: Path) -> dict[str, str]:
    targets = re.findall(r"^([a-z]+): environment .*\n((?:\t.*\n)+)", makefile.read_text(), re.MULTILINE)
    stack = re.compile(r'--stack "\$\$(\{STACK:[^}]*\}|STACK)"')
    return {target: stack.sub("$(ON_STACK)", recipe) for target, recipe in targets}


def test_its_makefile_does_what_a_clones_does_and_has_all_that_its_workflows_call() -> None:
    made()
    theirs, ours = recipes(Path("acme/Makefile")), recipes(ROOT / "Makefile")
    assert theirs == {target: ours[target] for target in theirs}
    called = set()
    for path in Path("acme/.github").rglob("*.yml"):
        called |= set(re.findall(r"\bmake ([a-z]+)", path.read_text()))
    assert called - {*theirs, "environment"} == set()


def test_made_again_it_stays_as_it_is_and_what_is_lacking_comes_back() -> None:
    made()
    before = {name: Path("acme", name).lstat().st_mtime_ns for name in FILES}
    Path("acme/README.md").unlink()
    (Path("acme") / ".git").mkdir()
    assert made()[0] == 0
    after = {name: Path("acme", name).lstat().st_mtime_ns for name in FILES}
    assert {name for name in FILES if before[name] != after[name]} == {"README.md"}


def test_until_it_is_whole_it_is_no_site_and_the_same_command_goes_on() -> None:
    held = {**new_site.files(BY_NAME), **new_site.stack_file("prod", "onprem")}
    with pytest.raises(UserError, match="File name too long"):
        new_site.write(Path("acme"), {**held, "z" * 300: new_site.File("x")})
    assert written() == [name for name in FILES if name != "Pulumi.yaml"]
    with pytest.raises(NoSiteError):
        places.site(Path("acme"))
    assert made() == (0, "acme\n", NEXT)
    assert (written(), [path.name for path in Path().iterdir()]) == (FILES, ["acme"])


@pytest.mark.parametrize("name", ["notes.txt", "Makefile", "stacks/Pulumi.dev.yaml"])
def test_a_folder_with_something_else_is_refused_and_stays(name: str) -> None:
    path = Path("acme", name)
    path.parent.mkdir(parents=True)
    path.write_text("mine\n")
    message = f"acme: is not empty ({name}); name a new or an empty folder\n"
    assert made() == (2, "", message)
    assert written() == [name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"stack": "a b"},
            "--stack 'a b': a stack's name has at most 100 letters, digits, hyphens, underscores, periods\n",
        ),
        (
            {"source": "onprm"},
            "--from onprm: there is no such stack (there are: aks, eks, gke, onprem, openshift, sandbox); "
            "did you mean onprem?\n",
        ),
        ({"fork": Path()}, "HERE: is in no site, for neither it nor a folder above it has a Pulumi.yaml. "),
    ],
)
def test_a_wrong_name_makes_nothing(here: Path, options: dict[str, Any], message: str) -> None:
    code, out, err = made(**options)
    assert (code, out, err.replace(str(here), "HERE")[: len(message)]) == (2, "", message)
    assert list(here.iterdir()) == []


def test_a_site_inside_of_a_site_is_refused(here: Path) -> None:
    made()
    message = f"acme/inner: is inside the site {here}/acme; make a site outside of it\n"
    assert made("acme/inner") == (2, "", message)


def test_a_fork_hands_over_what_is_its_own_and_nothing_else(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = here / "fork"
    for name in ("runtimes", "stacks", "policies/trainyard_policies/site"):
        shutil.copytree(ROOT / name, fork / name, ignore=shutil.ignore_patterns("__pycache__"))
    (fork / "platform/trainyard_platform").mkdir(parents=True)
    shutil.copy(ROOT / "Pulumi.yaml", fork)
    for name in ("aks", "eks", "gke"):
        (fork / f"stacks/Pulumi.{name}.yaml").unlink()
    (fork / "stacks/Pulumi.onprem.yaml").rename(fork / "stacks/Pulumi.prod.yaml")
    (fork / "runtimes/plain/plain.yaml").unlink()
    changed = fork / "runtimes/torch/torch-distributed.yaml"
    changed.write_text(changed.read_text().replace("numNodes: 1\n", "numNodes: 2\n"))
    digest = "sha256:" + "0" * 64
    with (fork / "runtimes/images.yaml").open("a") as images:
        images.write(f"  - {{name: docker.io/acme/train, tag: '1', digest: {digest}}}\n")
    (fork / "policies/trainyard_policies/site/cost_center.py").write_text("from ..rule import Rule\n")
    own = [
        "policies/site/cost_center.py",
        "runtimes/torch/torch-distributed.yaml",
        "stacks/Pulumi.prod.yaml",
        "runtimes/images.yaml",
    ]
    lines = [
        *(f"Taken over: {name}" for name in own),
        "To leave out as before, in each stack: runtimes.plain.enabled: false",
        "Then, in acme: git init, and make verify",
    ]
    code, out, err = made(stack=None, source=None, fork=fork)
    assert (code, out, err.splitlines()) == (0, "acme\n", lines)
    assert written() == sorted({*FILES, *own})
    assert yaml.safe_load(Path("acme/runtimes/images.yaml").read_text()) == {
        "images": [{"digest": digest, "name": "docker.io/acme/train", "tag": "1"}]
    }
    assert Path("acme/runtimes/torch/torch-distributed.yaml").read_text() == changed.read_text()


def test_it_asks_for_the_names_that_it_is_not_told() -> None:
    done = CliRunner().invoke(main.app, ["init", "acme"], input="prod\ngke\n")
    assert (done.exit_code, "\nacme\n" in done.stdout) == (0, True), done.output
    assert written() == FILES


def test_a_site_that_pins_a_version_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made()
    monkeypatch.chdir("acme")
    Path("requirements.txt").write_text(f"# ours\ntrainyard[site]=={later(1)}\n")
    done = CliRunner().invoke(main.app, ["stacks"])
    assert str(done.exception) == (
        f"requirements.txt:2: pins trainyard {later(1)}, and this is {VERSION}: install the pinned one (make "
        "environment) and call it as .venv/bin/trainyard"
    )
    assert CliRunner().invoke(main.app, ["runtimes", "list"]).exit_code == 0


def test_a_rule_of_the_site_is_found_by_the_commands_of_a_site_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made()
    monkeypatch.chdir("acme")
    from trainyard_policies import site  # noqa: PLC0415 - as the command does

    for command, added in {"jobs": [], "": [], "verify": [str(places.site().policies / "site")]}.items():
        monkeypatch.setattr(site, "__path__", [])
        main._add_rules(command)
        assert site.__path__ == added, command
    assert places.site() == Site(Path.cwd())
