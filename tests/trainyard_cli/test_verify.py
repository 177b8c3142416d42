"""`trainyard verify`: a site's clone is green, or it says what is wrong, with file and line."""

import io
import json
import re
import shutil
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import answered
from tests.support.checked_in import hold
from tests.support.clones import clone_at
from tests.support.versions import VERSION
from trainyard_api.places import Site
from trainyard_cli.commands import verify
from trainyard_cli.commands.lint import Format

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 21)
MINE = "runtimes/torch/torch-mine.yaml"
DISTRIBUTED = "runtimes/torch/torch-distributed.yaml"
PROD = "stacks/Pulumi.prod.yaml"
OPERATOR = f"registry.example.com/trainyard/operator:{VERSION}"
REGISTRIES = "    policies: {parameters: {registries: [registry.example.com, docker.io, ghcr.io, nvcr.io]}}\n"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site's clone: its own stack and none of the examples."""
    shutil.copytree(ROOT / "runtimes", tmp_path / "runtimes")
    (tmp_path / "stacks").mkdir()
    shutil.copy(ROOT / "stacks" / "Pulumi.sandbox.yaml", tmp_path / "stacks")
    shutil.copy(ROOT / "stacks" / "Pulumi.onprem.yaml", tmp_path / PROD)
    clone_at(tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(clone: Path, **options: Any) -> tuple[int, str, str]:
    return answered(verify.run, today=TODAY, site=Site(clone), **options)


def refused(clone: Path, level: str = "mandatory", **options: Any) -> list[str]:
    """What refuses, or has another level, as `file:line: sentence`."""
    code, out, _ = answer(clone, style=Format.JSON, **options)
    all_of_them = json.loads(out)["findings"]
    assert code == any(one["level"] == "mandatory" for one in all_of_them)
    found = [one for one in all_of_them if one["level"] == level]
    return [f"{one['file']}:{one['line']}: {one['message']}" for one in found]


def edit(file: str, old: str, new: str) -> None:
    text = Path(file).read_text()
    assert text.count(old) >= 1, old
    Path(file).write_text(text.replace(old, new, 1))


def test_a_rule_for_trainjobs_refuses_those_in_headers_of_a_clone_and_not_those_that_a_site_cannot_change(
    clone: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one_node = "    policies: {parameters: {maxNodes: 1}}\n"
    Path(PROD).write_text(Path(PROD).read_text() + one_node)
    [line] = refused(clone)
    assert "policies.parameters.maxNodes: does not fit " in line
    assert "): trainer.numNodes: must be at most 1 " in line
    folder = tmp_path_factory.mktemp("site")
    (folder / "runtimes").mkdir()
    (folder / "stacks").mkdir()
    (folder / "Pulumi.yaml").write_text("name: site\nruntime: python\nmain: program/\n")
    shutil.copy(PROD, folder / PROD)
    assert refused(folder) == []


def own(image: str = "registry.example.com/ml/train:1", name: str = "torch-mine") -> None:
    """A runtime of the site's, like a shipped one."""
    text = Path(DISTRIBUTED).read_text().replace("torch-distributed", name)
    before, _, after = text.partition("image: ")
    Path(f"runtimes/torch/{name}.yaml").write_text(f"{before}image: {image}\n{after.partition(chr(10))[2]}")


def commit() -> None:
    """The clone as the branch main has it."""
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *who, *arguments], check=True)


def line_of(text: str) -> int:
    """The line of the stack's file that holds a text."""
    [line] = (at for at, line in enumerate(Path(PROD).read_text().splitlines(), 1) if text in line)
    return line


def add_to_stack(text: str) -> None:
    path = Path(PROD)
    path.write_text(f"{path.read_text().rstrip()}\n{text}")


def test_the_product_as_it_is_delivered_is_green() -> None:
    out, err = io.StringIO(), io.StringIO()
    assert verify.run(today=TODAY, out=out, err=err) == 0, out.getvalue()
    guide = ROOT / "docs/gitops.md"
    before, shown, rest = guide.read_text().partition("```console\n$ make verify\n")
    hold(guide, before + shown + out.getvalue() + err.getvalue() + rest[rest.index("```") :])


def test_what_is_mandatory_comes_last_and_the_advice_on_runtimes_is_one_line(clone: Path) -> None:
    own()
    _, out, err = answer(clone)
    advice, mandatory, remedy = out.splitlines()
    counted = re.fullmatch(
        r"Advice on \d+ runtimes: (\d+) findings \((.*)\), (\d+) excepted. To list them: "
        r"trainyard verify --advice",
        advice,
    )
    assert counted, advice
    advised, rules, excepted = counted.groups()
    assert sum(int(count.split()[0]) for count in rules.split(", ")) == int(advised)
    assert err.endswith(f": 1 mandatory, {advised} advisory, {excepted} excepted\n")
    assert mandatory.startswith(f"{MINE}:")
    assert remedy.startswith("    ")
    assert answer(clone, advice=True)[1].splitlines()[-2:] == [mandatory, remedy]
    assert (
        len(json.loads(answer(clone, style=Format.JSON)[1])["findings"]) == int(advised) + int(excepted) + 1
    )


def test_advice_on_a_stack_is_listed_beside_the_line_about_runtimes(clone: Path) -> None:
    pools = Path(PROD).read_text().partition("  nodePools:\n")[2].partition("    accelerators:\n")[0]
    second = pools.replace("h100:", "spare:").replace("HBM3", "PCIe").replace(QUOTA, "")
    edit(PROD, "    accelerators:\n", f"{second}    accelerators:\n")
    advice, pool, *_ = answer(clone)[1].splitlines()
    assert advice.startswith("Advice on ")
    assert pool.startswith(f"{PROD}:{line_of('spare:')}:")


def test_a_clone_with_a_stack_of_its_own_alone_is_green(clone: Path) -> None:
    code, _, err = answer(clone)
    assert code == 0
    assert " on 1 stacks: 0 mandatory, " in err


def test_without_any_stack_of_its_own_the_catalog_is_looked_at_all_the_same(clone: Path) -> None:
    Path(PROD).unlink()
    assert answer(clone)[0] == 0
    edit(DISTRIBUTED, "kind: ClusterTrainingRuntime", "kind: Runtime")
    assert refused(clone) == [f"{DISTRIBUTED}:29: kind: must be ClusterTrainingRuntime, and is Runtime"]


def test_an_image_of_a_registry_that_the_stack_does_not_know_is_refused_and_one_that_it_allows_is_not(
    clone: Path,
) -> None:
    own()
    [said] = refused(clone)
    assert said.startswith(f"{MINE}:")
    assert "must come from an allowed registry" in said
    add_to_stack(REGISTRIES)
    assert refused(clone) == []


def test_what_is_wrong_on_one_stack_alone_is_said_to_be(clone: Path) -> None:
    own()
    shutil.copy(PROD, "stacks/Pulumi.lab.yaml")
    add_to_stack(REGISTRIES)
    [said] = refused(clone)
    assert said.endswith("(on lab)")


def test_an_image_that_a_stack_puts_in_is_told_at_its_line(clone: Path) -> None:
    edit(PROD, "      torch-distributed:\n", "      torch-distributed:\n        image: example.com/mine:1\n")
    [said] = refused(clone)
    assert said.startswith(
        f"{PROD}:{line_of('image: example.com')}: runtimes.torch-distributed.image: containers[0].image: "
        "must come from an allowed registry (docker.io/horovod, "
    )


QUOTA = """\
        quota:
          - {clusterQueue: vision, nodes: 12}
          - {clusterQueue: speech, nodes: 4}
"""
NO_QUOTA = (
    "no cluster queue has quota for its 16 nodes, so no job of a queue can use them: "
    "give the pool to a queue with nodePools.{pool}.quota"
)


def test_a_gpu_pool_that_loses_its_quota_is_told_once_at_its_line_and_no_runtime_is(clone: Path) -> None:
    edit(PROD, QUOTA, "")
    expected = [
        f"{PROD}:{line_of('h100:')}: nodePools.h100: does not fit 4 runtimes (torch-distributed, "
        f"torchtune-llama3.2-1b, torchtune-llama3.2-3b and 1 more): {NO_QUOTA.format(pool='h100')}"
    ]
    assert refused(clone) == expected
    [finding] = [
        one
        for one in json.loads(answer(clone, style=Format.JSON)[1])["findings"]
        if one["level"] == "mandatory"
    ]
    assert (finding["fixable"], finding["remedy"]) == (False, "Correct it here, and not in the runtimes.")


def test_a_pool_without_quota_beside_one_that_has_it_is_advised_about(clone: Path) -> None:
    pools = Path(PROD).read_text().partition("  nodePools:\n")[2].partition("    accelerators:\n")[0]
    second = pools.replace("h100:", "spare:").replace("HBM3", "PCIe").replace(QUOTA, "")
    edit(PROD, "    accelerators:\n", f"{second}    accelerators:\n")
    assert [one for one in refused(clone, "advisory") if one.startswith(PROD)] == [
        f"{PROD}:{line_of('spare:')}: nodePools.spare: {NO_QUOTA.format(pool='spare')}"
    ]
    assert refused(clone) == []


def test_a_registry_that_a_stack_misspells_is_told_once_with_the_runtimes_that_it_reaches(
    clone: Path,
) -> None:
    add_to_stack(REGISTRIES.replace("docker.io", "dcoker.io"))
    [said] = refused(clone)
    assert re.fullmatch(
        rf"{PROD}:{line_of('registries:')}: policies.parameters.registries: does not fit \d+ runtimes "
        r"\(horovod-distributed, [a-z0-9.-]+, [a-z0-9.-]+ and \d+ more\): .*must come from an allowed "
        r"registry \(registry.example.com, dcoker.io, ghcr.io, nvcr.io\), is docker.io/.*",
        said,
    )


def test_a_mirror_that_no_rule_allows_is_told_at_its_line(clone: Path) -> None:
    mirror = "{source: mirror, registry: registry.exmaple.com/all, manifests: https://files.example.com}"
    add_to_stack(f"{REGISTRIES}    artifacts: {mirror}\n")
    found = refused(clone)
    assert {one.partition(": does not fit")[0] for one in found} == {
        f"{PROD}:{line_of('registry: registry.exmaple.com')}: artifacts.registry"
    }


def test_a_bound_that_a_change_lowers_is_told_at_its_line_and_not_at_a_runtime_that_it_leaves_alone(
    clone: Path,
) -> None:
    edit(DISTRIBUTED, "numNodes: 1", "numNodes: 6")
    add_to_stack("    policies: {parameters: {maxNodes: 8}}\n")
    commit()
    edit(PROD, "maxNodes: 8", "maxNodes: 5")
    at = f"{PROD}:{line_of('maxNodes')}: policies.parameters.maxNodes: does not fit 1 runtime"
    assert refused(clone, since="main") == [
        f"{at} (torch-distributed): mlPolicy.numNodes: must be at most 5 on this platform, is 6"
    ]


def test_a_runtime_that_a_change_touches_is_told_at_its_own_line(clone: Path) -> None:
    add_to_stack("    policies: {parameters: {maxNodes: 5}}\n")
    commit()
    for name in ("torch-distributed", "torch-elastic"):
        edit(f"runtimes/torch/{name}.yaml", "numNodes: ", "numNodes: 9")
    found = refused(clone, since="main")
    assert {one.partition(":")[0] for one in found} == {DISTRIBUTED, "runtimes/torch/torch-elastic.yaml"}


def test_the_field_of_a_pool_that_a_change_misspells_is_the_one_that_is_named(clone: Path) -> None:
    commit()
    edit(PROD, "resource: nvidia.com/gpu,", "resource: nvidia.com/gpus,")
    Path(PROD).write_text(Path(PROD).read_text().replace("nvidia: {devicePlugin: shipped}", "{}"))
    found = refused(clone, since="main")
    assert [one.partition(": does not fit")[0] for one in found] == [
        f"{PROD}:{line_of('nvidia.com/gpus')}: nodePools.h100.accelerator.resource"
    ]


@pytest.mark.parametrize(
    ("resource", "says"),
    [("rdma/ib", ""), ("rdma/hca_shared_devices_a", '{rdma/ib: "0", rdma/hca_shared_devices_a: "1"}')],
)
def test_torch_rdma_runs_on_a_pool_whose_machines_have_what_it_asks_for(
    clone: Path, resource: str, says: str
) -> None:
    more = f", resources: {says}" if says else ""
    edit(PROD, "    runtimes:\n", f"    runtimes:\n      torch-rdma: {{enabled: true{more}}}\n")
    [said] = refused(clone)
    # The overlay asks for it in the second case.
    assert said.startswith(PROD if says else "runtimes/torch/torch-rdma.yaml:")
    assert said.endswith(f".limits[{resource}]: must be a resource that a pool has; none of h100 has it")
    edit(
        PROD,
        'machine: {cpu: "180", memory: 1900Gi}',
        f'machine: {{cpu: "180", memory: 1900Gi, resources: {{{resource}: "8"}}}}',
    )
    assert refused(clone) == []


def test_a_stacks_own_levels_count(clone: Path) -> None:
    add_to_stack("    policies: {levels: {runtimes: {image-digest: mandatory}}}\n")
    found = refused(clone)
    assert found
    assert all("should be named by its digest" in one or "must be" in one for one in found), found


def test_a_shipped_runtime_that_is_changed_renamed_or_removed_and_a_quota_that_is_edited_is_green(
    clone: Path,
) -> None:
    edit(DISTRIBUTED, "numNodes: 1", "numNodes: 2")
    own(image="docker.io/pytorch/pytorch:2", name="torch-renamed")
    Path("runtimes/torch/torch-elastic.yaml").unlink()
    edit(PROD, 'nvidia.com/gpu: "8"', 'nvidia.com/gpu: "4"')
    assert refused(clone) == []


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("kind: Cluster", "kind: kluster", 29, "kind: must be ClusterTrainingRuntime, and is klusterT"),
        (
            "          containers",
            "          containerz",
            0,
            "there is no such field; did you mean containers?",
        ),
        (
            "numNodes: 1",
            "numNodes: one",
            0,
            'spec.mlPolicy.numNodes: Invalid value: "one": must be an integer',
        ),
        ("mlPolicy:", "mlPolcy:", 0, "spec.mlPolcy: there is no such field; did you mean mlPolicy?"),
        (
            "\n  name: torch-distributed",
            "\n  name: other",
            31,
            "metadata.name: must be the file's name, torch-dis",
        ),
        ("framework: torch", "framework: pytorch", 33, "must be the folder's name, torch, and is pytorch"),
        ("spec:\n", "spec:\n\tx: 1\n", 20, "a tab is not allowed here: indent with spaces"),
        (
            "#       name: torch-distributed",
            "#       name: other",
            15,
            "the header must end with one TrainJob who",
        ),
        (
            "# yaml-language-server",
            "# yaml-server",
            1,
            "the first line must be '# yaml-language-server: $schema",
        ),
        ("#   kind: TrainJob", "#   kind: [TrainJob", 17, "the TrainJob in its header: a ',' should be here"),
        ("#   kind: TrainJob", "#   kind: TrainJobb", 15, "the header must end with one TrainJob"),
        (
            "#       numNodes: 2",
            "#       numNodes: -2",
            15,
            "the TrainJob in its header: spec.trainer.numNodes",
        ),
    ],
)
def test_a_mistake_in_a_runtime_is_named_with_its_line(
    clone: Path, old: str, new: str, line: int, said: str
) -> None:
    edit(DISTRIBUTED, old, new)
    found = refused(clone)
    assert any(said in one for one in found), found
    assert all(one.startswith(f"{DISTRIBUTED}:") for one in found), found
    if line:
        assert f"{DISTRIBUTED}:{line}:" in found[0]


def test_a_runtime_that_two_files_have_is_refused_in_both(clone: Path) -> None:
    second = Path("runtimes/jax/torch-distributed.yaml")
    second.write_text(Path(DISTRIBUTED).read_text().replace("framework: torch", "framework: jax"))
    said = "metadata.name: must be unique in the catalog:"
    assert refused(clone) == [
        f"{second}:31: {said} {DISTRIBUTED} has it too",
        f"{DISTRIBUTED}:31: {said} {second} has it too",
    ]


@pytest.mark.parametrize("linked", [DISTRIBUTED, "runtimes/torch", "runtimes"])
def test_a_runtime_that_is_a_link_or_in_a_folder_that_is_one_is_refused(clone: Path, linked: str) -> None:
    Path("shared").mkdir()
    Path(linked).rename("shared/moved")
    Path(linked).symlink_to(Path("shared/moved").resolve())
    refusal = (
        f"{DISTRIBUTED}:1: must not be a symbolic link, because a change of its target would affect no "
        "stack; copy the target here"
    )
    assert refusal in refused(clone)


def test_a_file_with_two_runtimes_is_refused(clone: Path) -> None:
    path = Path(DISTRIBUTED)
    path.write_text(f"{path.read_text()}---\nkind: Other\n")
    assert refused(clone) == [f"{DISTRIBUTED}:1: must hold one runtime, and holds 2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    quues: {}\n", "trainyard:platform.quues: there is no such key"),
        ("    policies: {levels: {runtimes: {image-digests: mandatory}}}\n", "image-digests"),
        ("  \tx: 1\n", "a tab is not allowed here: indent with spaces"),
    ],
)
def test_a_mistake_in_a_stack_file_is_named(clone: Path, text: str, said: str) -> None:
    add_to_stack(text)
    [found] = refused(clone)
    assert found.startswith(f"{PROD}:")
    assert said in found


def test_a_stack_that_changes_a_runtime_that_is_gone_is_told(clone: Path) -> None:
    Path(DISTRIBUTED).unlink()
    [said] = refused(clone)
    line = Path(PROD).read_text().splitlines().index("      torch-distributed:") + 1
    assert said.startswith(f"{PROD}:{line}: ")
    assert "runtimes.torch-distributed: the catalog has no such runtime" in said


def test_a_file_that_cannot_be_read_has_an_annotation_and_a_result(clone: Path) -> None:
    edit(DISTRIBUTED, "spec:\n", "spec:\n\tx: 1\n")
    assert f"::error file={DISTRIBUTED},line=" in answer(clone, style=Format.GITHUB)[1]
    [result] = json.loads(answer(clone, style=Format.SARIF)[1])["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": DISTRIBUTED}


def test_advice_is_given_on_files_that_have_changed_alone(clone: Path) -> None:
    commit()
    assert answer(clone, since="main")[1] == ""
    edit(DISTRIBUTED, "numNodes: 1", "numNodes: 2")
    said = answer(clone, since="main")[1]
    assert {line.partition(":")[0] for line in said.splitlines() if line[0] != " "} == {DISTRIBUTED}


def test_a_line_in_a_stack_file_brings_no_advice_on_files_that_nobody_touched(clone: Path) -> None:
    commit()
    add_to_stack("# A line more.\n")
    edit(DISTRIBUTED, "numNodes: 1", "numNodes: 2")
    said = answer(clone, since="main", style=Format.JSON)[1]
    assert {one["file"] for one in json.loads(said)["findings"]} == {DISTRIBUTED}


def test_a_word_that_replaces_a_whole_stack_is_told_from_the_two_files(clone: Path) -> None:
    commit()
    edit(PROD, "identifier: onprem", "identifier: elsewhere")
    code, said, _ = answer(clone, since="main", style=Format.JSON)
    [finding] = json.loads(said)["findings"]
    assert (code, finding["file"], finding["line"], finding["level"]) == (0, PROD, 17, "advisory")
    assert finding["message"].startswith(
        "cluster.identifier: onprem -> elsewhere makes Pulumi recreate every object"
    )


@pytest.mark.parametrize(
    ("image", "versions"),
    [
        ("registry.example.com/trainyard/operator:0.0.1", ["0.0.1"]),
        ("ghcr.io/acme/trainyard/operator:0.0.1rc1-of-acme", ["0.0.1rc1"]),
        (f"registry.example.com/trainyard/operator:0.0.1@sha256:{'0' * 64}", ["0.0.1"]),
        (f"{OPERATOR}-of-acme", []),
        ("registry.example.com/trainyard/operator:main", []),
        ("registry.example.com/acme/operator:0.0.1", []),
    ],
)
def test_an_operator_of_another_version_is_advised_about(
    clone: Path, image: str, versions: list[str]
) -> None:
    edit(PROD, OPERATOR, image)
    advised = [line for line in refused(clone, "advisory") if line.startswith(PROD)]
    assert advised == [
        f"{PROD}:{line_of(image)}: operator.image: has version {old}, but the stack is rolled out with "
        f"Trainyard {VERSION}: set it to the image of version {VERSION}"
        for old in versions
    ]


def test_of_a_new_version_each_image_of_trainyard_is_advised_about_that_the_stack_leaves_as_it_was(
    clone: Path,
) -> None:
    edit(PROD, OPERATOR, "registry.example.com/trainyard/operator:0.0.1")
    add_to_stack(
        "    dataCache:\n"
        "      initializerImage: registry.example.com/trainyard/initializers:0.0.1\n"
        "      cacheImage: registry.example.com/trainyard/data-cache:0.0.1\n"
    )
    trainer = "      trl-sft: {image: example.com/trainyard/trainers:0.0.1}\n"
    other = "      lightgbm-distributed: {image: example.com/trainyard/lightgbm:4.6.0}\n"
    edit(PROD, "    runtimes:\n", f"    runtimes:\n{trainer}{other}")
    commit()
    assert refused(clone, "advisory", since="main") == []
    Path("requirements.txt").write_text("trainyard[site]==0.0.2\n")
    places = [line.split(": ")[1] for line in refused(clone, "advisory", since="main")]
    assert places == [
        "operator.image",
        "runtimes.trl-sft.image",
        "dataCache.initializerImage",
        "dataCache.cacheImage",
    ]


def test_of_a_list_of_images_each_of_another_version_is_advised_about_at_its_own_line(clone: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    old, new = f"ghcr.io/acme/operator:0.0.1@{digest}", f"ghcr.io/acme/trainers:{VERSION}@{digest}"
    edit(PROD, f"      image: {OPERATOR}\n", "")
    add_to_stack(f"    artifacts:\n      images:\n        - {old}\n        - {new}\n")
    assert [line for line in refused(clone, "advisory") if line.startswith(PROD)] == [
        f"{PROD}:{line_of(old)}: artifacts.images[0]: has version 0.0.1, but the stack is rolled out with "
        f"Trainyard {VERSION}: set it to the image of version {VERSION}"
    ]
    assert refused(clone) == []


def test_what_cannot_be_asked_is_said(clone: Path) -> None:
    code, _, err = answer(clone, since="nowhere")
    assert (code, "not a git repository" in err) == (2, True)


def test_a_site_apart_is_verified_with_the_shipped_catalog_and_gets_no_advice_about_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "runtimes" / "torch").mkdir(parents=True)
    (tmp_path / "Pulumi.yaml").write_text("name: acme\nruntime: python\nmain: program/\n")
    shutil.copy(ROOT / "stacks" / "Pulumi.onprem.yaml", tmp_path / PROD)
    text = (ROOT / DISTRIBUTED).read_text()
    image = text.partition("image: ")[2].partition("\n")[0]
    (tmp_path / DISTRIBUTED).write_text(text.replace(image, "docker.io/pytorch/pytorch:latest"))
    monkeypatch.chdir(tmp_path)
    code, out, err = answered(verify.run, today=TODAY, style=Format.JSON)
    findings = {(one["file"], one["rule"]): one["level"] for one in json.loads(out)["findings"]}
    assert (code, findings) == (
        1,
        {
            (DISTRIBUTED, "image-tag"): "mandatory",
            (DISTRIBUTED, "image-digest"): "advisory",
            (DISTRIBUTED, "resources-declared"): "advisory",
            (DISTRIBUTED, "run-as-non-root"): "advisory",
        },
    )
    shipped = len(list((ROOT / "runtimes").glob("*/*.yaml")))
    assert err == f"{shipped} runtimes on 1 stacks: 1 mandatory, 3 advisory, 0 excepted\n"
