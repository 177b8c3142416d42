"""`trainyard runtimes`: what it prints and writes, and its exit codes."""

import json
import re
import shutil
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.answers import answered
from tests.support.clones import clone_at
from tests.support.fake_api import FakeApi, run, status
from trainyard_cli import main
from trainyard_cli.commands import lint, runtimes, runtimes_diff, runtimes_new, validate
from trainyard_cli.commands.runtimes import run_list, run_show
from trainyard_cli.output import Output
from trainyard_platform.catalog import files as catalog
from trainyard_platform.errors import PlatformError

ROOT = Path(__file__).parents[2]
CATALOG = ROOT / "runtimes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small catalog in a repository of its own, which is where we are."""
    for name in ("torch/torch-distributed", "mpi/mpi-distributed", "plain/plain"):
        path = tmp_path / "runtimes" / f"{name}.yaml"
        path.parent.mkdir(parents=True)
        shutil.copy(ROOT / "runtimes" / f"{name}.yaml", path)
    clone_at(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return tmp_path / "runtimes"


def git(*arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, *arguments], check=True)


SHORT = {
    "name": "torch-distributed",
    "framework": "torch",
    "summary": "PyTorch with torchrun: one process per GPU (or CPU core), on one node or many.",
    "deprecated": False,
    "successors": [],
    "optional": False,
    "policy": "torch",
    "numNodes": 1,
    "jobs": ["node"],
    "image": "docker.io/pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime",
    "file": "runtimes/torch/torch-distributed.yaml",
    "runs": [],
}
RECORD = """
runs:
- {runtime: torch-distributed, example: digits, place: gpu, accelerator: NVIDIA H200, test: b}
- {runtime: torch-distributed, place: sandbox, image: 'a.example/torch:1', versions: {torch: 2.6.0}, test: a}
"""


def test_the_list_names_each_runtime_with_what_it_is_for(folder: Path) -> None:
    code, out, err = answered(run_list)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["NAME", "FRAMEWORK", "RAN", "ON", "FOR"]
    assert [line.split()[:2] for line in out.splitlines()[1:] if line[0] != " "] == [
        ["mpi-distributed", "mpi"],
        ["plain", "plain"],
        ["torch-distributed", "torch"],
    ]


def test_the_list_is_there_as_json_too(folder: Path) -> None:
    code, out, _ = answered(run_list, framework="torch", output=Output.JSON)
    assert (code, json.loads(out)) == (0, [SHORT])


def test_where_a_runtime_ran_is_as_the_tests_recorded_it(folder: Path) -> None:
    (folder / "runs.yaml").write_text(RECORD)
    listed = answered(run_list)[1].splitlines()
    rows = {line.split()[0]: line for line in listed if line[0] != " "}
    assert {name: re.split(" {2,}", row)[2] for name, row in rows.items()} == {
        "NAME": "RAN ON",
        "mpi-distributed": "no test",
        "plain": "no test",
        "torch-distributed": "sandbox, gpu",
    }
    assert "ran on:    sandbox, gpu" in answered(run_show, "torch-distributed")[1].splitlines()
    [shown] = json.loads(answered(run_list, framework="torch", output=Output.JSON)[1])
    assert shown["runs"] == [
        {
            "example": "digits",
            "place": "gpu",
            "accelerator": "NVIDIA H200",
            "image": None,
            "versions": {},
            "test": "b",
        },
        {
            "example": None,
            "place": "sandbox",
            "accelerator": None,
            "image": "a.example/torch:1",
            "versions": {"torch": "2.6.0"},
            "test": "a",
        },
    ]


def test_a_deprecated_runtime_names_what_takes_its_place() -> None:
    assert "Deprecated (use trl-sft): Qwen2.5" in answered(run_list, framework="torchtune")[1]
    listed = json.loads(answered(run_list, framework="torchtune", output=Output.JSON)[1])
    assert {entry["name"]: entry["successors"] for entry in listed} == {
        f"torchtune-{model}": ["trl-sft"] for model in ("llama3.2-1b", "llama3.2-3b", "qwen2.5-1.5b")
    }


def test_a_deprecated_runtime_says_so(folder: Path) -> None:
    path = folder / "torch/torch-distributed.yaml"
    old = "    trainer.kubeflow.org/framework: torch\n"
    path.write_text(path.read_text().replace(old, f"{old}    trainer.kubeflow.org/support: deprecated\n"))
    assert "Deprecated: PyTorch" in answered(run_list)[1]
    assert (
        "Deprecated: a later release removes it." in answered(run_show, "torch-distributed")[1].splitlines()
    )


def test_a_runtime_is_shown_with_a_trainjob_to_begin_with(folder: Path) -> None:
    code, out, _ = answered(run_show, "torch-distributed")
    assert code == 0
    assert out.startswith(
        f"torch-distributed: {SHORT['summary']}\n\nframework: torch\npolicy:    torch, 1 node"
    )
    assert out.endswith("\n      limits:\n        nvidia.com/gpu: 8\n")


def test_a_runtime_is_shown_as_json_with_its_manifest(folder: Path) -> None:
    _, out, _ = answered(run_show, "torch-distributed", output=Output.JSON)
    found = json.loads(out)
    assert {key: found[key] for key in SHORT} == SHORT
    [installed] = (one for one in catalog.load(folder, {}) if one.name == "torch-distributed")
    assert found["manifest"] == installed.manifest
    assert found["example"].startswith("apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n")


def test_what_is_not_there_is_said_with_the_nearest_name(folder: Path) -> None:
    assert answered(run_show, "torch-distribute") == (
        2,
        "",
        "there is no runtime 'torch-distribute' (there are: mpi-distributed, plain, torch-distributed); "
        "did you mean torch-distributed?\n",
    )


def test_a_stack_shows_what_it_installs() -> None:
    code, out, _ = answered(run_list, stack="sandbox", framework="torch", output=Output.JSON)
    found = {one["name"]: one["image"] for one in json.loads(out)}
    assert (code, found["torch-distributed"]) == (0, "docker.io/trainyard/torch-cpu:sandbox")
    assert "torch-rdma" not in found


def test_a_stack_that_is_not_there_is_an_error() -> None:
    code, out, err = answered(run_list, stack="nowhere")
    assert (code, out) == (2, "")
    assert err.endswith("stacks/Pulumi.nowhere.yaml:1: No such file or directory\n")


def test_a_name_that_upstream_takes_for_a_model_and_does_not_know_is_refused(tmp_path: Path) -> None:
    site = clone_at(tmp_path)
    shutil.copytree(CATALOG, site.runtimes, dirs_exist_ok=True)
    options = {"framework": "torchtune", "purpose": "x", "site": site}
    code, _, err = answered(runtimes_new.run, "our-own", **options)
    assert (code, "must have a supported pretrained model" in err) == (2, True)


@pytest.mark.parametrize(
    "framework", sorted({path.parent.name for path in CATALOG.glob("*/*.yaml")} - {"torchtune"})
)
def test_a_new_runtime_of_a_framework_passes_every_gate(
    tmp_path: Path, framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = clone_at(tmp_path)
    shutil.copytree(CATALOG, site.runtimes, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    image = "ghcr.io/kubeflow/image:1.0@sha256:" + "0" * 64
    options = {"framework": framework, "purpose": "What we need", "image": image}
    code, out, _ = answered(runtimes_new.run, "our-own", **options)
    assert (code, out) == (0, f"runtimes/{framework}/our-own.yaml\n")
    path = Path(out.strip())
    assert (runtimes.entries(site, None) and catalog.read(path).framework) == framework
    code, out, _ = answered(lint.run, [path], today=date(2026, 11, 21))
    assert code == 0, out
    code, out, _ = answered(validate.run, [path])
    assert (code, json.loads(out)) == (0, {"warnings": [], "errors": []})
    text = path.read_text()
    assert text.startswith("# yaml-language-server: $schema=../schema.json\n#\n# What we need.\n#\n# For ")
    assert "#       name: our-own\n" in text
    assert f"image: {image}\n" in text


def test_a_framework_that_the_catalog_does_not_have_begins_with_plain(folder: Path) -> None:
    code, _, err = answered(runtimes_new.run, "ray-train", framework="ray", purpose="Ray.")
    assert (code, err) == (
        0,
        "In its header, describe who it is for. Then: trainyard lint runtimes/ray/ray-train.yaml\n",
    )
    made, plain = (
        catalog.read(folder / name).manifest for name in ("ray/ray-train.yaml", "plain/plain.yaml")
    )
    labels = {"trainer.kubeflow.org/framework": "ray"}
    own = {"name": "ray-train", "labels": labels, "annotations": {"trainyard.dev/last-words": "python"}}
    assert made == {**plain, "metadata": own}


STACK = "config: {trainyard:platform: {operator: {image: docker.io/trainyard/operator:1}%s}}\n"
LIGHTNING = {"framework": "lightning", "like": "torch-distributed", "purpose": "Lightning"}


def test_a_runtime_that_verify_would_refuse_is_not_written_and_its_way_out_is_said(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "stacks/Pulumi.prod.yaml").write_text(STACK % "")
    code, out, err = answered(runtimes_new.run, "mine", **LIGHTNING)
    assert (code, out, (folder / "lightning").exists()) == (2, "", False)
    assert err == (
        "runtimes/lightning/mine.yaml is not written, because verify would refuse it:\n  "
        "metadata.labels[trainer.kubeflow.org/framework]: must be torch or torchtune or trl for the policy "
        "torch, or one of policies.parameters.frameworks; is lightning. Set spec.mlPolicy to the framework's "
        "policy, call the trainer step's ReplicatedJob node, and for MPI add a launcher as trainer step. Add "
        "your own framework to policies.parameters.frameworks. (on prod)\n"
    )


def test_a_framework_of_ones_own_has_a_runtime_that_torchrun_starts(folder: Path, tmp_path: Path) -> None:
    own = ", policies: {parameters: {frameworks: [lightning]}}"
    (tmp_path / "stacks/Pulumi.prod.yaml").write_text(STACK % own)
    assert answered(runtimes_new.run, "mine", **LIGHTNING)[:2] == (0, "runtimes/lightning/mine.yaml\n")
    manifest = catalog.read(folder / "lightning" / "mine.yaml").manifest
    assert manifest["metadata"]["labels"] == {"trainer.kubeflow.org/framework": "lightning"}
    assert "torch" in manifest["spec"]["mlPolicy"]


PRIVILEGED = {"framework": "torch", "like": "torch-rdma-host-network", "purpose": "x"}
ASKED = [
    "torch-rdma-host-network is exempt from host-access until 2027-06-30: RoCE cards have their addresses "
    "on the node alone. The new one too?",
    "torch-rdma-host-network is exempt from privileges until 2027-06-30: RDMA registers GPU and host memory, "
    "which IPC_LOCK allows. The new one too?",
]


def privileged(tmp_path: Path, **options: Any) -> tuple[dict[str, str], list[str], list[str]]:
    """A runtime like one with exceptions: its annotations, what was asked, and what was said."""
    site = clone_at(tmp_path)
    shutil.copytree(CATALOG, site.runtimes, dirs_exist_ok=True)
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return bool(options.get("yes"))

    wanted = options.get("with_exceptions", ())
    code, _, err = answered(
        runtimes_new.run, "mine", site=site, ask=ask, with_exceptions=wanted, **PRIVILEGED
    )
    assert code == 0, err
    metadata = catalog.read(site.runtimes / "torch" / "mine.yaml").manifest["metadata"]
    return metadata["annotations"], asked, err.splitlines()[:-1]


def test_an_exception_is_copied_only_by_whoever_says_so_and_a_privilege_is_told(tmp_path: Path) -> None:
    annotations, asked, said = privileged(tmp_path)
    kept = {"trainyard.dev/last-words": "python", "trainyard.dev/optional": "true"}
    assert (annotations, asked) == (kept, ASKED)
    assert said == [
        "It is optional, as torch-rdma-host-network is: a stack has it with runtimes.mine.enabled: true.",
        "It has a privilege capabilities.add (privileges: must not add capabilities, adds IPC_LOCK), as "
        "torch-rdma-host-network has. Remove it if mine does not need it.",
        "It has a privilege spec.hostNetwork (host-access: must not be true), as "
        "torch-rdma-host-network has. Remove it if mine does not need it.",
        "Unlike torch-rdma-host-network, it makes no exception from host-access: "
        "--with-exception host-access copies it.",
        "Unlike torch-rdma-host-network, it makes no exception from privileges: "
        "--with-exception privileges copies it.",
    ]


def test_an_exception_is_copied_where_it_is_named_or_the_answer_is_yes(tmp_path: Path) -> None:
    annotations, asked, said = privileged(tmp_path, with_exceptions=["privileges"], yes=True)
    assert asked == ASKED[:1]
    assert sorted(annotations) == [
        "policy.trainyard.dev/host-access",
        "policy.trainyard.dev/privileges",
        "trainyard.dev/last-words",
        "trainyard.dev/optional",
    ]
    assert [line for line in said if "exception" in line] == []


def test_the_example_of_a_new_runtime_with_an_image_of_its_own_runs_that_image(folder: Path) -> None:
    image = "ghcr.io/kubeflow/mine:1"
    code, _, _ = answered(runtimes_new.run, "mine", framework="plain", purpose="x", image=image)
    text = (folder / "plain" / "mine.yaml").read_text()
    assert (code, text.count(f"image: {image}\n"), text.count("image: ")) == (0, 2, 2)


def test_the_image_of_a_new_runtime_is_that_of_what_trains_and_not_of_sidecars_or_initializers(
    tmp_path: Path,
) -> None:
    site = clone_at(tmp_path)
    shutil.copytree(CATALOG, site.runtimes, dirs_exist_ok=True)
    like = "torch-with-initializers"
    path = site.runtimes / "torch" / f"{like}.yaml"
    lines = path.read_text().splitlines(keepends=True)
    loader, _, trainer = (line for line in lines if " image: " in line)
    containers = max(position for position, line in enumerate(lines) if line.endswith(" containers:\n"))
    indent = trainer.index("image")
    aside = [f"{' ' * (indent - 2)}- name: aside\n", f"{' ' * indent}image: docker.io/c/d:1\n"]
    lines[containers + 1 : containers + 1] = aside
    path.write_text("".join(lines).replace(loader, trainer, 1))
    runtimes_new.run("mine", framework="torch", like=like, purpose="x", image="docker.io/a/b:1", site=site)
    text = (site.runtimes / "torch" / "mine.yaml").read_text()
    images = [line.partition("image: ")[2] for line in text.splitlines() if "image: " in line]
    assert images == [
        trainer.partition("image: ")[2].strip(),
        loader.partition("image: ")[2].strip(),
        "docker.io/c/d:1",
        "docker.io/a/b:1",
    ]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "a",
            {"with_exceptions": ["privileges"]},
            "--with-exception privileges: plain makes no such exception (it makes none)\n",
        ),
        ("plain", {}, "runtimes/plain/plain.yaml exists already: names are unique\n"),
        (
            "Torch_1",
            {},
            "'Torch_1' cannot name a runtime: use at most 63 lowercase letters, digits, '-' and '.'\n",
        ),
        (
            "a",
            {"framework": "../a"},
            "'../a' cannot name a framework: use at most 63 lowercase letters, digits, '-' and '.'\n",
        ),
        ("a", {"image": "busybox"}, "--image busybox: must name its registry and its tag or digest\n"),
        (
            "a",
            {"like": "plan"},
            "there is no runtime 'plan' (there are: mpi-distributed, plain, torch-distributed); "
            "did you mean plain?\n",
        ),
    ],
    ids=["no exception", "taken", "no name", "no framework", "no image", "like nothing"],
)
def test_what_cannot_be_written_is_said(
    folder: Path, name: str, options: dict[str, Any], message: str
) -> None:
    asked = {"framework": "plain", "purpose": "x", **options}
    before = sorted(folder.rglob("*"))
    assert answered(runtimes_new.run, name, **asked) == (2, "", message)
    assert sorted(folder.rglob("*")) == before


def test_new_asks_for_what_it_is_not_told(folder: Path) -> None:
    done = CliRunner().invoke(main.app, ["runtimes", "new", "ours"], input="torch\nSpeech models\n")
    assert (done.exit_code, (folder / "torch/ours.yaml").exists()) == (0, True)


def test_between_two_revisions_fields_differ(folder: Path) -> None:
    path = folder / "torch/torch-distributed.yaml"
    path.write_text(path.read_text().replace("numNodes: 1\n", "numNodes: 4\n"))
    (folder / "plain/plain.yaml").unlink()
    expected = "- plain\n~ torch-distributed\n    spec.mlPolicy.numNodes: 1 -> 4\n"
    assert answered(runtimes_diff.run, since="HEAD") == (1, expected, "")
    git("commit", "--quiet", "-am", "second")
    assert answered(runtimes_diff.run, since="HEAD") == (0, "", "Nothing differs.\n")
    assert answered(runtimes_diff.run, since="HEAD~1", until="HEAD") == (1, expected, "")
    assert answered(runtimes_diff.run, ["plain"], since="HEAD~1")[1] == "- plain\n"


def test_the_difference_is_there_as_json_too(folder: Path) -> None:
    path = folder / "torch/torch-distributed.yaml"
    path.write_text(path.read_text().replace("numNodes: 1\n", "numNodes: 4\n"))
    _, out, _ = answered(runtimes_diff.run, since="HEAD", output=Output.JSON)
    field = {"path": "spec.mlPolicy.numNodes", "before": 1, "after": 4}
    assert json.loads(out) == {
        "changes": [{"runtime": "torch-distributed", "kind": "changed", "fields": [field]}],
        "others": [],
    }


def test_a_digest_that_became_known_is_a_difference(folder: Path) -> None:
    digest = "sha256:" + "0" * 64
    image = "docker.io/library/busybox:1.37"
    (folder / "images.yaml").write_text(
        f"images:\n  - {{name: docker.io/library/busybox, tag: '1.37', digest: {digest}}}\n"
    )
    _, out, _ = answered(runtimes_diff.run, since="HEAD")
    assert out.splitlines()[0] == "~ plain"
    assert f'.containers[node].image: "{image}" -> "{image}@{digest}"' in out


@pytest.mark.parametrize(
    ("wanted", "options", "message"),
    [
        (["torch"], {"since": "HEAD"}, "there is no runtime 'torch' (there are: "),
        ([], {"since": "nowhere"}, "git ls-tree: fatal: Not a valid object name nowhere\n"),
        ([], {"since": "--all"}, "--all: must name a commit, a branch or a tag\n"),
        ([], {"kubeconfig": "/nowhere"}, "kubeconfig /nowhere"),
    ],
    ids=["no such runtime", "no such revision", "an option of git's", "no kubeconfig"],
)
def test_what_cannot_be_compared_is_said(
    folder: Path, wanted: list[str], options: dict[str, str], message: str
) -> None:
    code, out, err = answered(runtimes_diff.run, wanted, **options)
    assert (code, out, err[: len(message)]) == (2, "", message)


def test_a_revision_whose_catalog_is_broken_is_named(folder: Path) -> None:
    path = folder / "torch/torch-distributed.yaml"
    path.write_text(path.read_text().replace("\nkind: Cluster", "\nkind: "))
    git("commit", "--quiet", "-am", "broken")
    code, _, err = answered(runtimes_diff.run, since="HEAD", until="HEAD")
    assert (code, err.partition("yaml:")[0]) == (2, "at HEAD: torch/torch-distributed.")


@pytest.mark.parametrize(
    "arguments",
    [["--to", "HEAD"], ["--from", "HEAD", "--stack", "sandbox"], ["--from", "HEAD", "--context", "a"]],
)
def test_options_that_make_no_sense_together_are_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(main.app, ["runtimes", "diff", *arguments]).exit_code == 2


@pytest.mark.parametrize("name", ["list", "show", "new", "diff"])
def test_each_command_has_an_example(name: str) -> None:
    shown = CliRunner().invoke(main.app, ["runtimes", name, "--help"]).stdout
    assert f"Example: trainyard runtimes {name}" in shown


def test_names_are_completed() -> None:
    assert runtimes.names_of("torchtune-q") == ["torchtune-qwen2.5-1.5b"]
    assert runtimes.frameworks_of("torch") == ["torch", "torchtune"]


def test_a_cluster_without_trainers_crds_is_told_of_in_a_sentence() -> None:
    api = FakeApi()
    api.refuse_next("GET", "/clustertrainingruntimes", status(404, "NotFound", "404 page not found"))

    async def compared() -> None:
        async with api.client() as client:
            await runtimes_diff.compared(client, {})

    with pytest.raises(PlatformError) as told:
        run(compared)
    assert str(told.value) == (
        "the cluster knows no ClusterTrainingRuntime: Trainer's CRDs are not installed. If it is the right "
        "cluster, roll the stack out: make up STACK=NAME"
    )
