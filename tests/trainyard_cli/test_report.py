"""`trainyard report`: what a reviewer reads of a pull request, the worst first and not too much of it."""

import json
import re
import runpy
import shutil
import subprocess
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answered
from tests.support.clones import clone_at
from tests.support.versions import VERSION
from trainyard_cli.commands import report
from trainyard_cli.commands.report_change import Stack
from trainyard_cli.files import outcomes
from trainyard_delivery.rollout.outcome import Outcome

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 26)
DISTRIBUTED = "runtimes/torch/torch-distributed.yaml"
PLAIN = "runtimes/plain/plain.yaml"
IMAGE = "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0].image"


def git(*arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *arguments], check=True)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with the catalog and five stacks on its branch `main`, and another branch to work on."""
    for folder in ("runtimes", "stacks"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    clone_at(tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--message", "before")
    git("switch", "--quiet", "--create", "change")
    return tmp_path


def alone(stack: str) -> None:
    """Leave one stack of the five, as if there had never been others."""
    for path in Path("stacks").glob("Pulumi.*.yaml"):
        if path.name not in (f"Pulumi.{stack}.yaml", "Pulumi.sandbox.yaml"):
            path.unlink()
    git("commit", "--quiet", "--all", "--message", "one stack")
    git("branch", "--force", "main")


def edit(file: str, old: str, new: str) -> None:
    text = Path(file).read_text()
    assert old in text, (file, old)
    Path(file).write_text(text.replace(old, new, 1))


def written(results: Path | None = None, *, err: str = "", **options: Any) -> str:
    code, out, lacks = answered(report.run, "main", results=results, today=TODAY, **options)
    assert (code, lacks) == (0, err)
    return out


def above_the_folds(text: str) -> str:
    return re.sub(r"<details>.*?</details>\n*", "", text, flags=re.DOTALL)


def folded(text: str, title: str) -> str:
    """What a fold holds."""
    fold = rf"<details><summary>{title}</summary>\n\n(`{{3,}})text\n(.*?)\n\1\n\n</details>\n"
    [(_, said)] = re.findall(fold, text, flags=re.DOTALL)
    return str(said)


def kept(stack: str, said: str, code: int = 0, folder: str = "results") -> Path:
    """What a pipeline keeps of a command; the folder of the previews."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, f"{stack}.txt").write_text(said)
    Path(folder, f"{stack}.exit").write_text(f"{code}\n")
    return Path("results")


def previewed(stack: str, said: str, outcome: Outcome, code: int = 0) -> Path:
    """What a pipeline keeps of a preview; the folder of the previews."""
    outcomes.write(Path("results") / f"{stack}.json", stack, outcome)
    return kept(stack, said, code)


def job(name: str, state: str = "running", keeps: str = "its pods", loses: str = "") -> dict[str, str]:
    return {"namespace": "team-a", "name": name, "state": state, "keeps": keeps, "loses": loses}


def reached(stack: str, jobs: Mapping[str, list[dict[str, str]]], unseen: Any = ()) -> None:
    """What `make impact FORMAT=json` says, as far as a report reads it."""
    changes = [
        {"kind": kind, "namespace": "", "name": name, "trainJobs": found}
        for (kind, name), found in ((key.split("/"), found) for key, found in jobs.items())
    ]
    said = json.dumps({"changes": changes, "unseen": list(unseen)})
    kept(stack, said, folder="results/impact")


def test_what_touches_no_stack_says_so_and_the_workflow_knows_the_words(clone: Path) -> None:
    Path("notes.md").write_text("")
    assert written() == f"{runpy.run_path(str(ROOT / '.github/scripts/report.py'))['NOTHING']}\n"


def test_a_new_version_of_trainyard_is_named_and_the_preview_says_what_it_changes(clone: Path) -> None:
    Path("requirements.txt").write_text("trainyard[site]==0.1.0\n")
    git("add", "requirements.txt")
    alone("onprem")
    Path("requirements.txt").write_text("# ours\ntrainyard[site]==0.2.0`<b>\n")
    outcome = Outcome(summary="12 to change, 300 as they are")
    assert written(previewed("onprem", "", outcome)) == (
        "## Trainyard `0.1.0` becomes ``0.2.0`<b>``; 0 other changes on 1 stack; nothing is refused\n\n"
        "**Preview**\n- passes on `onprem (12 to change, 300 as they are)`\n\n"
        "What version ``0.2.0`<b>`` changes on a cluster is in its preview.\n"
    )
    Path("requirements.txt").write_text("trainyard[site]==0.1.0\nruff\n")
    assert "Changed as well, for every stack, see the preview: `requirements.txt`" in written()


def test_a_change_of_an_image_on_one_stack_with_the_jobs_that_it_reaches(clone: Path) -> None:
    alone("onprem")
    edit(DISTRIBUTED, "numNodes: 1\n    torch", "numNodes: 3\n    torch")
    keeps = "the runtime that it started with, whatever becomes of its pods"
    jobs = [
        job("llama", keeps=keeps),
        job("next", "queued", "its place", "the runtime as it was"),
        job("then", "queued", "its place", "the runtime as it was"),
    ]
    reached("onprem", {"ClusterTrainingRuntime/torch-distributed": jobs})
    results = previewed("onprem", "some words\n", Outcome("1 to change, 225 unchanged"))
    text = written(results, address="https://ci.example.com/7")
    assert above_the_folds(text) == (
        "## 2 TrainJobs lose something, none of them running\n"
        "\n"
        "| what | becomes | on | TrainJobs |\n"
        "|---|---|---|---|\n"
        "| `ClusterTrainingRuntime torch-distributed` | `numNodes`: `1` → `3` | `onprem` "
        "| 1 running, 2 queued, **2 lose** |\n"
        "\n"
        "**TrainJobs**\n"
        "- 2 queued keep `its place`, **lose** `the runtime as it was`: "
        "`team-a/next on onprem, team-a/then on onprem`\n"
        f"- 1 running keeps `{keeps}`: `team-a/llama on onprem`\n"
        "\n"
        "**Preview**\n"
        "- passes on `onprem (1 to change, 225 unchanged)`\n"
        "\n"
        "Advice on files of this change: 2, below.\n"
        "\n"
        "[The run](https://ci.example.com/7)\n"
    )
    assert f"```markdown\n{above_the_folds(text)}```\n" in (ROOT / "docs" / "gitops.md").read_text()
    assert folded(text, "Each field, and each TrainJob") == (
        "ClusterTrainingRuntime torch-distributed: changed (onprem)\n"
        "  spec.mlPolicy.numNodes: 1 -> 3\n"
        f"  team-a/llama (running) keeps {keeps}\n"
        "  team-a/next (queued) keeps its place; loses the runtime as it was\n"
        "  team-a/then (queued) keeps its place; loses the runtime as it was"
    )
    assert folded(text, "What the preview of onprem says") == "some words"


def test_a_mistake_comes_first_with_file_and_line_and_its_stack_is_not_compared(clone: Path) -> None:
    edit(DISTRIBUTED, "image: ", "imagePullPolcy: x\n                          image: ")
    edit("stacks/Pulumi.gke.yaml", "trainyard:platform:", "trainyard:platfrom:")
    lines = written().splitlines()
    assert lines[0] == "## Refused: 2 mistakes in 2 files"
    assert "Not compared until it is fixed: `aks, eks, gke and 2 more`" in lines
    assert [line.partition("` `")[0] for line in lines if line.startswith("- ")] == [
        f"- `{DISTRIBUTED}:70",
        "- `stacks/Pulumi.gke.yaml:12",
    ]


def test_a_file_like_that_of_a_stack_in_another_folder_is_no_stack(clone: Path) -> None:
    Path("archive/stacks").mkdir(parents=True)
    Path("archive/stacks/Pulumi.old.yaml").write_text("")
    assert written().startswith("## It touches no stack\n")


def test_a_stack_whose_file_is_repaired_is_not_said_to_need_a_repair(clone: Path) -> None:
    edit("stacks/Pulumi.onprem.yaml", "trainyard:platform:", "trainyard:platfrom:")
    alone("onprem")
    edit("stacks/Pulumi.onprem.yaml", "trainyard:platfrom:", "trainyard:platform:")
    text = written()
    assert above_the_folds(text) == (
        "## Not compared: onprem\n\n"
        "Not compared, because the files were invalid before, see the preview: `onprem`\n\n"
    )
    assert folded(text, "Each field, and each TrainJob").endswith(
        " This was so where this branch left, and is valid now. An invalid file cannot be compared with: "
        "see the preview of onprem"
    )


@pytest.mark.long
def test_what_is_let_through_that_was_not_is_said_of_a_runtime_that_no_stack_installs_too(
    clone: Path,
) -> None:
    exception = '    policy.trainyard.dev/host-access: "until=2026-12-31; the fabric"\n'
    edit(PLAIN, "  annotations:\n", f"  annotations:\n{exception}")
    edit(PLAIN, "containers:\n", "hostNetwork: true\n                  containers:\n")
    edit("runtimes/torch/torch-rdma.yaml", "until=2027-06-30", "until=2027-07-30")
    edit(
        "stacks/Pulumi.aks.yaml",
        "trainyard:platform:\n",
        "trainyard:platform:\n    policies: {levels: {trainJobs: {image-tag: advisory}}}\n",
    )
    text = above_the_folds(written())
    assert text.startswith("## 4 things newly let through\n")
    assert "- `plain: exception from host-access until 2026-12-31: the fabric` (every one)\n" in text
    assert "- `plain: privilege spec.hostNetwork (host-access: must not be true)` (every one)\n" in text
    assert "- and 1 more, below\n" in text
    assert "Changed, and installed by no stack: `torch-rdma`\n" in text


@pytest.mark.long
def test_a_comment_in_a_runtime_that_is_installed_is_no_change_of_it(clone: Path) -> None:
    edit(PLAIN, "# A container on one node", "# One container on one node")
    assert above_the_folds(written()) == (
        "## 0 changes on 5 stacks; nothing is refused\n\nAdvice on files of this change: 2, below.\n\n"
    )


@pytest.mark.long
def test_an_exception_that_ends_earlier_or_is_taken_away_lets_nothing_through(clone: Path) -> None:
    edit("runtimes/torch/torch-rdma.yaml", "until=2027-06-30", "until=2027-01-31")
    assert "Let through" not in written()


def test_a_tenant_that_goes_is_said_with_the_rights_that_go_and_what_stays(clone: Path) -> None:
    alone("onprem")
    edit(
        "stacks/Pulumi.onprem.yaml",
        """      speech:
        clusterQueue: speech
        dataScientists:
          - {kind: Group, name: speech-researchers}
""",
        "",
    )
    lines = above_the_folds(written()).splitlines()
    assert lines[0] == "## 3 objects removed"
    assert "| `stacks/Pulumi.onprem.yaml` | `tenants.speech` removed | `onprem` | |" in lines
    means = lines.index("**Rights, and what stays**")
    assert lines[means + 1 : means + 5] == [
        "- `RoleBinding speech/trainyard-data-scientist`: `Group speech-researchers can no longer send, "
        "change, delete and see TrainJobs in speech, and read their logs`",
        "- `RoleBinding speech/trainyard-data-scientist-f...`: `Group speech-researchers can no longer do in "
        "speech what the tenant's rights allow in addition to TrainJobs`",
        "- `RoleBinding speech/trainyard-operator-mpi`: `MPI jobs can no longer start in speech "
        "(Blocked, Forbidden): the operator may not create their keys there; operator.mpiNamespaces allows "
        "it`",
        "- `Namespace speech`: `its TrainJobs, volume claims and Secrets stay in it: a tenant with another "
        "name gets none`",
    ]


def test_a_tenant_that_is_renamed_is_said_with_the_rights_that_go_and_those_that_come(clone: Path) -> None:
    alone("onprem")
    edit(
        "stacks/Pulumi.onprem.yaml",
        "      speech:\n        clusterQueue",
        "      voice:\n        clusterQueue",
    )
    text = above_the_folds(written())
    means = text[text.index("**Rights, and what stays**") :]
    researchers, rights = "`Group speech-researchers", "send, change, delete and see TrainJobs in"
    assert f"{researchers} can no longer {rights} speech, and read their logs`" in means
    assert f"{researchers} can now {rights} voice, and read their logs`" in means
    assert "{" not in text


def test_an_image_that_a_stack_newly_lists_is_let_through(clone: Path) -> None:
    alone("onprem")
    image = f"ghcr.io/acme/train/trainers:1.0.0@sha256:{'0' * 64}"
    edit(
        "stacks/Pulumi.onprem.yaml",
        "trainyard:platform:\n",
        f"trainyard:platform:\n    artifacts: {{images: ['{image}']}}\n",
    )
    text = above_the_folds(written())
    assert "1 thing newly let through" in text.splitlines()[0]
    assert "`artifacts.images: [] -> " in text


def test_the_images_of_the_next_release_are_one_change_that_lets_through(clone: Path) -> None:
    alone("onprem")
    images = [f"ghcr.io/acme/train/{name}:1.0.0@sha256:{'0' * 64}" for name in ("trainers", "data-cache")]
    edit(
        "stacks/Pulumi.onprem.yaml",
        "trainyard:platform:\n",
        f"trainyard:platform:\n    artifacts: {{images: {images}}}\n",
    )
    git("add", "--all")
    git("commit", "--quiet", "--message", "images")
    git("branch", "--force", "main")
    for image in images:
        edit("stacks/Pulumi.onprem.yaml", image, image.replace("1.0.0", "1.0.1"))
    text = above_the_folds(written())
    assert text.splitlines()[0] == "## 1 thing newly let through"
    assert "`artifacts.images: another image for trainers, data-cache`" in text


def test_a_list_of_images_without_the_operators_lets_through(clone: Path) -> None:
    """Only with all images of a release do the default registries leave out their name at Docker Hub."""
    alone("onprem")
    names = ("operator", "trainers")
    images = [f"registry.example.com/trainyard/{name}:1.0.0@sha256:{'0' * 64}" for name in names]
    file = "stacks/Pulumi.onprem.yaml"
    edit(file, f"registry.example.com/trainyard/operator:{VERSION}", images[0])
    edit(file, "trainyard:platform:\n", f"trainyard:platform:\n    artifacts: {{images: {images}}}\n")
    git("add", "--all")
    git("commit", "--quiet", "--message", "images")
    git("branch", "--force", "main")
    edit(file, f"{{images: {images}}}", f"{{images: {images[1:]}}}")
    text = above_the_folds(written())
    assert text.splitlines()[0] == "## 1 thing newly let through"
    assert '`artifacts.images: ["registry.example.com/trainyard/operator:1.0.0@' in text


def test_images_that_begin_alike_are_cut_so_that_what_differs_is_in_sight(clone: Path) -> None:
    image = "registry.example.com/trainyard/operator:"
    edit("stacks/Pulumi.onprem.yaml", f"{image}{VERSION}", f"{image}0.1.0")
    alone("onprem")
    edit("stacks/Pulumi.onprem.yaml", f"{image}0.1.0", f"{image}0.1.1")
    assert (
        "| `stacks/Pulumi.onprem.yaml` | `image`: `...perator:0.1.0` → `...perator:0.1.1` | `onprem` | |"
        in written().splitlines()
    )


def test_removed_stacks_and_runtimes_are_said_to_be(clone: Path) -> None:
    alone("onprem")
    git("rm", "--quiet", PLAIN)
    Path("stacks/Pulumi.lab.yaml").write_text(Path("stacks/Pulumi.onprem.yaml").read_text())
    edit("stacks/Pulumi.lab.yaml", "    runtimes:\n", "    runtimes:\n      torch-rdma: {enabled: true}\n")
    text = above_the_folds(written())
    assert text.startswith("## Refused: 1 mistake in 1 file; 1 object removed; 3 things newly let through\n")
    assert "- `torch-rdma: exception from privileges until 2027-06-30: " in text
    assert "| `ClusterTrainingRuntime plain` | removed |" in text
    assert "| `stacks/Pulumi.lab.yaml` | a new stack | | |" in text
    git("add", "--all")
    git("commit", "--quiet", "--message", "lab")
    git("branch", "--force", "main")
    for name in ("lab", "sandbox"):
        Path(f"stacks/Pulumi.{name}.yaml").unlink()
    text = above_the_folds(written())
    assert text.startswith("## The file of lab is gone\n")
    assert "`lab`: not destroyed by this; run `make destroy` first.\n" in text


def test_a_warning_beside_the_output_of_impact_hides_no_job(tmp_path: Path) -> None:
    said = json.dumps({"changes": [], "unseen": []})
    folder = tmp_path / "impact"
    folder.mkdir()
    (folder / "prod.exit").write_text("0\n")
    (folder / "prod.txt").write_text(f"a plugin is deprecated\n{said}\n")
    without = report._with_jobs(Stack("prod"), tmp_path)
    (folder / "prod.out").write_text(f"{said}\n")
    assert (without.not_seen, report._with_jobs(Stack("prod"), tmp_path)) == (
        "the output of make impact is not that of FORMAT=json",
        Stack("prod", changes=[]),
    )


@pytest.mark.long
def test_what_was_not_asked_or_not_seen_is_never_called_untouched(clone: Path) -> None:
    edit(PLAIN, "numNodes: 1\n  template", "numNodes: 2\n  template")
    assert "| `ClusterTrainingRuntime plain` | `numNodes`: `1` → `2` | every one | not asked |" in written()
    for stack in ("aks", "eks", "gke", "onprem"):
        previewed(stack, "some words\n", Outcome("1 to change"))
    reached("aks", {"ClusterTrainingRuntime/plain": []})
    kept("eks", "forbidden\nmake: *** Error 2\n", 2, "results/impact")
    kept("gke", "no JSON", folder="results/impact")
    reached("onprem", {}, unseen=[{"what": "pods", "why": "you are not allowed to list them"}])
    text = written(Path("results"))
    assert text.startswith("## No preview of openshift\n")
    assert "| every one | not asked |" in text
    assert "- not asked, its job ended before: `openshift`\n" in text
    assert folded(text, "Each field, and each TrainJob").splitlines()[2:] == [
        "eks: the TrainJobs could not be seen: forbidden make: *** Error 2",
        "gke: the output of make impact is not that of FORMAT=json",
        "onprem: could not see pods: you are not allowed to list them",
        "openshift: its job ended before the TrainJobs were queried",
    ]


def test_a_word_that_replaces_a_whole_stack_comes_first(clone: Path) -> None:
    alone("onprem")
    edit("stacks/Pulumi.onprem.yaml", "identifier: onprem", "identifier: elsewhere")
    text = written()
    assert text.startswith("## All of onprem is replaced or left behind")
    replaced = "`onprem`: `cluster.identifier: onprem -> elsewhere makes Pulumi recreate every object"
    assert f"**Replaced or left behind**\n- {replaced}" in text


def test_a_preview_that_fails_says_what_refuses(clone: Path) -> None:
    alone("onprem")
    edit(PLAIN, "numNodes: 1\n  template", "numNodes: 2\n  template")
    reached("onprem", {})
    refusals = ("refused by image-tag: TrainJob a/b: x", "refused by image-tag: TrainJob a/c: x")
    outcome = Outcome("the preview failed, and nothing has been changed", refusals, ("error: c",))
    text = written(previewed("onprem", "some words\n", outcome, 1))
    assert text.startswith("## The preview fails on onprem\n")
    assert "**Preview**\n- fails on `onprem`: `refused by image-tag: TrainJob a/b: x`\n" in text


@pytest.mark.parametrize(
    ("outcome", "says"),
    [
        (Outcome("1 to change", errors=("error: no such file",)), "error: no such file"),
        (Outcome("1 to change"), "1 to change"),
        (Outcome(), "see below"),
    ],
)
def test_a_preview_that_fails_without_a_refusal_says_what_there_is_to_say(
    clone: Path, outcome: Outcome, says: str
) -> None:
    alone("onprem")
    edit(PLAIN, "numNodes: 1\n  template", "numNodes: 2\n  template")
    reached("onprem", {})
    text = written(previewed("onprem", "refused by nobody\n", outcome, 1))
    assert f"**Preview**\n- fails on `onprem`: `{says}`\n" in text


def test_what_make_up_refuses_after_a_preview_that_succeeds_does_not_pass(clone: Path) -> None:
    alone("onprem")
    edit(PLAIN, "numNodes: 1\n  template", "numNodes: 2\n  template")
    reached("onprem", {})
    text = written(previewed("onprem", "", Outcome("1 to recreate", ("refused: it holds jobs",))))
    assert text.startswith("## Make up refuses it on onprem\n")
    assert "**Preview**\n- make up refuses on `onprem`: `refused: it holds jobs`\n" in text
    assert "passes on" not in text


def test_an_outcome_that_cannot_be_read_is_named_with_the_way_out_and_not_taken_from_what_was_printed(
    clone: Path,
) -> None:
    alone("onprem")
    edit(PLAIN, "numNodes: 1\n  template", "numNodes: 2\n  template")
    reached("onprem", {})
    results = kept("onprem", "refused by image-tag: x\nonprem: 1 to change\n")
    file = results / "onprem.json"
    why = f"{file} is not there: run make preview with OUTCOME={file}, as .github/scripts/keep does"
    text = written(results, err=f"{why}\n")
    assert "**Preview**\n- passes on `onprem (see below)`\n" in text
    assert folded(text, "Each field, and each TrainJob").splitlines()[-1] == f"onprem: {why}"
    file.write_text('{"kind": "Preview", "apiVersion": "a\\u001b[2J```\\ud800"}')
    text = written(
        kept("onprem", "some words\n", 1),
        err=f"{file} has the apiVersion a```, and this Trainyard reads preview.trainyard.dev/v1alpha1: "
        "run the preview again, from the same commit as the report\n",
    )
    assert "**Preview**\n- fails on `onprem`: `see below`\n" in text


@pytest.mark.long
def test_ten_runtimes_on_five_stacks_are_40_lines_and_4000_characters_above_the_folds(clone: Path) -> None:
    for at, path in enumerate(sorted(Path("runtimes").glob("torch/*.yaml"))):
        exception = f'    policy.trainyard.dev/host-access: "until=2026-12-{at + 1:02}; {"long " * 60}"\n'
        edit(
            str(path),
            "\nmetadata:\n",
            f"\nmetadata:\n  annotations:\n{exception}"
            if "annotations:" not in path.read_text()
            else "\nmetadata:\n",
        )
        edit(str(path), "image: ", f"image: example.com/{'x' * 60}")
    stacks = ["aks", "eks", "gke", "onprem", "openshift"]
    for at, stack in enumerate(stacks):
        edit(
            f"stacks/Pulumi.{stack}.yaml",
            "trainyard:platform:\n",
            f"trainyard:platform:\n    networkPolicies: {'false' if at else 'true'}\n",
        )
        jobs = [
            job(f"{'j' * 50}-{n}", ("running", "queued")[n % 2], "k" * 90 + str(n), "l" * 90)
            for n in range(9)
        ]
        reached(
            stack, {f"ClusterTrainingRuntime/{path.stem}": jobs for path in Path("runtimes").glob("*/*.yaml")}
        )
        refusal = f"refused by x: {'y' * 300}"
        said = f"{refusal}\n{stack}: 12 to change\n" * 9000
        previewed(stack, said, Outcome("12 to change", (refusal,) * 9000), at % 2)
    text = written(Path("results"))
    shown = above_the_folds(text)
    assert len(shown.splitlines()) <= 40
    assert len(shown) <= 4000
    assert shown.startswith("## Refused: ")
    assert len(text) <= 65_000


def test_ten_changed_runtimes_are_all_named_above_the_folds(clone: Path) -> None:
    catalog = [str(path) for path in sorted(Path("runtimes").glob("*/*.yaml"))]
    chosen = [path for path in catalog if "trainyard.dev/optional" not in Path(path).read_text()][:10]
    for path in chosen:
        edit(path, "\n  labels:\n", "\n  labels:\n    example.com/owner: ml\n")
    for stack in ("aks", "eks", "gke", "onprem", "openshift"):
        reached(stack, {f"ClusterTrainingRuntime/{Path(path).stem}": [job(f"j-{stack}")] for path in chosen})
        previewed(stack, "some words\n", Outcome("10 to change, 216 unchanged"))
    shown = above_the_folds(written(Path("results")))
    assert [path for path in chosen if f"`ClusterTrainingRuntime {Path(path).stem}" not in shown] == []


def test_nothing_that_is_told_is_read_as_markdown_or_ends_its_fold(clone: Path) -> None:
    alone("onprem")
    edit(PLAIN, "numNodes: 1\n  template", "numNodes: 2\n  template")
    reached("onprem", {"ClusterTrainingRuntime/plain": [job("a|`b`", keeps="</details> @all\n# x ``` |")]})
    text = written(previewed("onprem", "</details>\n```\n````\n@all\n", Outcome("<b>`1`</b>")))
    assert "keeps `` </details> @all # x ``` | ``" not in text
    assert "keeps ````</details> @all # x ``` |````" in text
    assert "- passes on ``onprem (<b>`1`</b>)``\n" in text
    assert "\n`````text\n</details>\n```\n````\n@all\n" in text


@pytest.mark.parametrize(("since", "why"), [("nowhere", "git merge-base"), ("--all", "must name a commit")])
def test_what_git_cannot_say_is_no_report(clone: Path, since: str, why: str) -> None:
    code, out, err = answered(report.run, since)
    assert (code, out) == (2, "")
    assert why in err
