"""A release is one version: what `release.py` refuses, and what the last job publishes."""

import hashlib
import os
import re
import runpy
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.versions import VERSION
from tests.support.yaml_files import load
from trainyard_api.names import CATALOG_IMAGES, RELEASE_IMAGES

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".github/scripts/release.py"
RELEASE = runpy.run_path(str(SCRIPT))
JOBS = load(ROOT / ".github/workflows/release.yml")["jobs"]
FILES = {
    "pyproject.toml": '[project]\nversion = "0.2.0"\n',
    "CHANGELOG.md": (
        "# Changelog\n\n## 0.2.0 (2027-01-02)\n\n- New ([guide](docs/new.md), [field](https://example.com)).\n\n"
        "## 0.1.0 (2026-12-01)\n\n- Old.\n"
    ),
    "changes/README.md": "# Fragments\n",
    "policies/PulumiPolicy.yaml": "runtime: python\nversion: 0.2.0\n",
    "examples/site/policies/PulumiPolicy.yaml": "runtime: python\nversion: 0.2.0\n",
    "examples/lightning/trainjob.yaml": "image: docker.io/trainyard/trainers:0.2.0\n",
    "docs/stacks.md": "Write `trainyard[site,eks]==0.2.0`, or `make update FROM=v0.2.0`.\n",
    "SECURITY.md": "SIGNER=https://github.com/OWNER/REPOSITORY/release.yml@refs/tags/v0.2.0\n",
    "stacks/Pulumi.prod.yaml": "image: registry.example.com/trainyard/operator:0.2.0\nother: kueue:v0.19.0\n",
    "stacks/Pulumi.sandbox.yaml": "image: docker.io/trainyard/operator:sandbox\n",
    "runtimes/images.yaml": '- name: docker.io/trainyard/trainers\n  tag: "0.2.0"\n- name: x\n  tag: "2.6"\n',
}
STUB = """#!/bin/sh
# Stands for a program that talks to GitHub or Sigstore: notes what it is called with, and signs nothing.
echo "$(basename "$0") $*" >> "$CALLS"
case "$*" in
"release view"*) [ -n "$EARLIER" ] ;;
sign-blob*) echo signature > SHA256SUMS.sigstore.json ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of version 0.2.0, ready for its tag."""
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    (tmp_path / ".github/scripts").mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / ".github/scripts")
    return tmp_path


@dataclass
class Script:
    """`release.py` in a project."""

    project: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Its exit code, what it prints, and what it prints to stderr."""
        code = RELEASE["main"](arguments, self.project)
        return code, *self.capsys.readouterr()


@pytest.fixture
def script(project: Path, capsys: pytest.CaptureFixture[str]) -> Script:
    return Script(project, capsys)


def test_the_project_has_one_version_wherever_it_names_one() -> None:
    places = dict(RELEASE["versions"](ROOT))
    assert {place: version for place, version in places.items() if version != VERSION} == {}
    files = {place.partition(":")[0] for place in places}
    unused = [
        name for name in RELEASE["PLACES"] if not files & {str(p.relative_to(ROOT)) for p in ROOT.glob(name)}
    ]
    assert unused == []


def test_a_tag_of_the_version_that_everything_has_is_a_release(script: Script) -> None:
    assert script.run("check", "v0.2.0") == (0, "v0.2.0: one version\n", "")


def test_each_place_of_another_version_is_named_and_so_is_what_the_changelog_lacks(script: Script) -> None:
    (script.project / "changes/quick.train.md").write_text("Quicker.\n")
    code, out, err = script.run("check", "v0.3.0")
    assert (code, out) == (1, "")
    other = "is 0.2.0, must be 0.3.0; run python3 .github/scripts/release.py set 0.3.0"
    assert err.splitlines() == [
        f"pyproject.toml:2: {other}",
        f"policies/PulumiPolicy.yaml:2: {other}",
        f"examples/site/policies/PulumiPolicy.yaml:2: {other}",
        f"examples/lightning/trainjob.yaml:1: {other}",
        f"stacks/Pulumi.prod.yaml:1: {other}",
        f"runtimes/images.yaml:2: {other}",
        f"docs/stacks.md:1: {other}",
        f"docs/stacks.md:1: {other}",
        f"SECURITY.md:1: {other}",
        "CHANGELOG.md: has no `## 0.3.0 (YYYY-MM-DD)`; run make changelog",
        "changes/quick.train.md: is in no version yet; run make changelog",
    ]


@pytest.mark.parametrize("tag", ["0.2.0", "v0.2", "v0.2.0; id", "v0.2.0-1", "latest"])
def test_a_tag_that_is_no_version_is_refused(script: Script, tag: str) -> None:
    assert script.run("check", tag) == (1, "", f"{tag}: a release has a tag such as v0.1.0\n")


def test_a_new_version_is_written_wherever_there_is_one_and_nowhere_else(script: Script) -> None:
    assert script.run("set", "0.3.0rc1") == (0, "", "")
    kept = ("CHANGELOG.md", "changes/README.md")
    assert {file: (script.project / file).read_text() for file in FILES} == {
        file: text if file in kept else text.replace("0.2.0", "0.3.0rc1") for file, text in FILES.items()
    }


def test_what_is_no_version_is_not_written_and_what_is_no_command_is_explained(script: Script) -> None:
    assert script.run("set", "next") == (1, "", "next: a version is one such as 0.2.0\n")
    assert script.run("tag") == (2, "", f"{RELEASE['__doc__']}\n")
    assert (script.project / "pyproject.toml").read_text() == FILES["pyproject.toml"]


def test_the_notes_are_those_of_the_version_with_links_that_lead_to_its_files(script: Script) -> None:
    address = "https://github.com/acme/platform/blob/v0.2.0"
    assert script.run("notes", "v0.2.0", address) == (
        0,
        f"- New ([guide]({address}/docs/new.md), [field](https://example.com)).\n",
        "",
    )


CANDIDATES = (
    "# Changelog\n\n## 0.2.0 (2027-01-02)\n\n{final}## 0.2.0rc2 (2027-01-01)\n\n- Second.\n\n"
    "## 0.2.0rc1 (2026-12-31)\n\n- First.\n\n## 0.1.0 (2026-12-01)\n\n- Old.\n"
)


@pytest.mark.parametrize(("final", "begins"), [("", ""), ("- Last.\n\n", "- Last.\n\n")])
def test_the_notes_of_a_version_are_also_those_of_its_candidates(
    script: Script, final: str, begins: str
) -> None:
    (script.project / "CHANGELOG.md").write_text(CANDIDATES.format(final=final))
    assert script.run("check", "v0.2.0") == (0, "v0.2.0: one version\n", "")
    notes = f"{begins}## 0.2.0rc2\n\n- Second.\n\n## 0.2.0rc1\n\n- First.\n"
    assert script.run("notes", "v0.2.0", "https://example.com") == (0, notes, "")
    assert script.run("notes", "v0.2.0rc1", "https://example.com") == (0, "- First.\n", "")


def test_a_version_of_which_the_changelog_says_nothing_is_refused_in_other_words(script: Script) -> None:
    (script.project / "CHANGELOG.md").write_text(
        "# Changelog\n\n## 0.2.0 (2027-01-02)\n\n## 0.1.0\n\n- Old.\n"
    )
    sentence = "CHANGELOG.md: says nothing below `## 0.2.0`; write what the version changes\n"
    assert script.run("check", "v0.2.0") == (1, "", sentence)


def test_nothing_is_published_before_the_version_is_checked_and_no_release_before_all_of_it_is_there() -> (
    None
):
    needs = {name: job.get("needs", []) for name, job in JOBS.items()}
    assert needs == {
        "version": [],
        "bundle": "version",
        "wheel": "version",
        "image": "version",
        "release": ["bundle", "wheel", "image"],
    }
    assert [step["run"] for step in JOBS["version"]["steps"] if "run" in step] == [
        'python3 .github/scripts/release.py check "$GITHUB_REF_NAME"'
    ]


def test_an_image_has_the_version_as_its_tag_as_stacks_name_it() -> None:
    [build] = [step for step in JOBS["image"]["steps"] if "build-push" in step.get("uses", "")]
    assert build["with"]["tags"] == "${{ env.IMAGE }}:${{ env.VERSION }}"
    scripts = "".join(step.get("run", "") for step in JOBS["image"]["steps"])
    assert 'echo "VERSION=${GITHUB_REF_NAME#v}" >> "$GITHUB_ENV"' in scripts


def test_each_image_of_a_release_is_one_that_stacks_can_list_and_has_a_bill_of_materials() -> None:
    names = JOBS["image"]["strategy"]["matrix"]["name"]
    assert sorted(names) == list(RELEASE_IMAGES)
    tags = load(ROOT / "sandbox/images/images.yaml")["images"]
    assert [tags[name]["tag"].rpartition(":")[0] for name in names] == [
        f"{CATALOG_IMAGES}/{name}" for name in names
    ]
    [deliverables] = re.findall(r"(?m)^DELIVERABLES := (.*)$", (ROOT / "Makefile").read_text())
    assert set(names) <= set(deliverables.split())


def test_what_the_jobs_made_is_what_the_last_one_takes() -> None:
    kept = {
        step["with"]["name"]
        for name in ("bundle", "wheel", "image")
        for step in JOBS[name]["steps"]
        if "upload-artifact" in step.get("uses", "")
    }
    assert kept == {"release-bundle", "release-wheel", "release-image-${{ matrix.name }}"}
    [taken] = [
        step["with"] for step in JOBS["release"]["steps"] if "download-artifact" in step.get("uses", "")
    ]
    assert taken == {"pattern": "release-*", "path": "release", "merge-multiple": True}


def published(project: Path, tag: str, *, earlier: bool = False) -> list[str]:
    """What the last job calls, after it has made the release of a tag."""
    made = project / "release"
    made.mkdir()
    wheel = f"trainyard-{tag.removeprefix('v')}-py3-none-any.whl"
    for file in (wheel, "index.json", "bin-etcd.tar.gz", "operator.cdx.json"):
        (made / file).write_text(file)
    for name, digest in (("operator", 1), ("trainers", 2)):
        image = f"ghcr.io/acme/platform/{name}:0.2.0@sha256:{digest}\n"
        (made / f"{name}.image").write_text(image)
    (project / "bin").mkdir()
    for name in ("cosign", "gh"):
        (project / "bin" / name).write_text(STUB)
        (project / "bin" / name).chmod(0o755)
    [script] = [step["run"] for step in JOBS["release"]["steps"] if "run" in step]
    around = {
        "PATH": f"{project / 'bin'}:{os.environ['PATH']}",
        "CALLS": str(project / "calls"),
        "EARLIER": "yes" if earlier else "",
        "GITHUB_REPOSITORY": "acme/platform",
        "SIGNER": f"https://github.com/acme/platform/.github/workflows/release.yml@refs/tags/{tag}",
        "TAG": tag,
    }
    subprocess.run(["bash", "-e", "-c", script], cwd=project, env=around, check=True)
    return (project / "calls").read_text().splitlines()


def test_a_release_has_every_file_with_its_checksum_signed_and_verified_before_it_is_published(
    project: Path,
) -> None:
    calls, made = published(project, "v0.2.0"), project / "release"
    files = [
        "bin-etcd.tar.gz",
        "images.txt",
        "index.json",
        "operator.cdx.json",
        "trainyard-0.2.0-py3-none-any.whl",
    ]
    sums = {file: hashlib.sha256((made / file).read_bytes()).hexdigest() for file in files}
    assert (made / "SHA256SUMS").read_text() == "".join(f"{sums[file]}  {file}\n" for file in files)
    assert (made / "images.txt").read_text() == (
        "ghcr.io/acme/platform/operator:0.2.0@sha256:1\nghcr.io/acme/platform/trainers:0.2.0@sha256:2\n"
    )
    assert [" ".join(call.split()[:3]) for call in calls] == [
        "cosign sign-blob --yes",
        "cosign verify-blob --certificate-identity",
        "gh release view",
        "gh release create",
        "gh release upload",
        "gh release edit",
    ]
    assert "--draft" in calls[-3].split()
    uploaded = set(re.findall(r"\./(\S+)", calls[-2]))
    assert uploaded == {*files, "SHA256SUMS", "SHA256SUMS.sigstore.json"}
    assert calls[-1] == "gh release edit v0.2.0 --notes-file ../notes.md --draft=false"
    assert (project / "notes.md").read_text().splitlines()[-1] == (
        "Sandbox without building: `TRAINYARD_BUNDLE=https://github.com/acme/platform/releases/download/v0.2.0"
        f"#sha256={sums['index.json']}`"
    )


@pytest.mark.parametrize("tag", ["v0.2.0", "v0.2.0a1", "v0.2.0b2", "v0.2.0rc10"])
def test_only_a_version_that_is_no_trial_becomes_the_latest_release(project: Path, tag: str) -> None:
    [create] = [call for call in published(project, tag) if "release create" in call]
    assert ("--prerelease" in create.split()) == (tag != "v0.2.0")


def test_a_second_run_gives_a_release_its_files_and_its_notes_anew(project: Path) -> None:
    assert [call.split()[2] for call in published(project, "v0.2.0", earlier=True)[-3:]] == [
        "view",
        "upload",
        "edit",
    ]


def test_a_release_without_its_wheel_is_not_published(project: Path) -> None:
    (project / "release").mkdir()
    [script] = [step["run"] for step in JOBS["release"]["steps"] if "run" in step]
    around = {"PATH": os.environ["PATH"], "GITHUB_REPOSITORY": "acme/platform", "TAG": "v0.2.0"}
    answer = subprocess.run(["bash", "-e", "-c", script], cwd=project, env=around, check=False)
    assert answer.returncode != 0
    assert list((project / "release").iterdir()) == []
