"""A site's own rules: one file in one folder, and every gate holds to it (docs/write-a-policy.md)."""

import json
import re
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support import site
from tests.support.site import ROOT, edit

GUIDE = (ROOT / "docs" / "write-a-policy.md").read_text().partition("## Write a rule")[2]
RULE, PARAMETERS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)[:2]
FOLDER = "policies/trainyard_policies/site"
DISTRIBUTED = "runtimes/torch/torch-distributed.yaml"
LABEL = "    trainer.kubeflow.org/framework: torch\n"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    made = site.made(tmp_path / "site")
    (made / FOLDER / "cost_center.py").write_text(RULE)
    return made


def refused(clone: Path) -> list[str]:
    done = site.run(clone, "trainyard verify --format json")
    assert "Traceback" not in done.stderr, done.stderr
    found = json.loads(done.stdout)["findings"]
    return [f"{one['rule']}: {one['file']}:{one['line']}" for one in found if one["level"] == "mandatory"]


def asked(clone: Path, code: str) -> str:
    """What the clone's own packages answer."""
    text = (clone / ".venv/bin/trainyard").read_text().splitlines()[1]
    start = text.partition(" -c ")[0]
    done = site.run(clone, f"{start.replace('exec ', '')} -c {json.dumps(code)}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_guides_rule_holds_in_files(clone: Path) -> None:
    found = refused(clone)
    assert len(found) > 10
    assert f"cost-center: {DISTRIBUTED}:32" in found
    for path in sorted((clone / "runtimes").glob("*/*.yaml")):
        if path.parent.name in ("jax", "plain", "torch"):
            label = f"    trainer.kubeflow.org/framework: {path.parent.name}\n"
            edit(path, label, f'{label}    example.com/cost-center: "4711"\n')
    assert {one.split("/")[1] for one in refused(clone)} == {
        "deepspeed",
        "horovod",
        "lightgbm",
        "mpi",
        "mlx",
        "paddle",
        "tensorflow",
        "torchtune",
        "trl",
        "xgboost",
    }


@pytest.mark.long
def test_the_rule_explains_itself_and_its_place_is_its_file(clone: Path) -> None:
    done = site.run(clone, "trainyard lint --explain cost-center")
    [shown] = re.findall(r"^\$ trainyard lint --explain cost-center\n(.*)$", GUIDE, re.MULTILINE)
    assert done.stdout.startswith(f"{shown}\n")
    assert f"More:       {FOLDER}/cost_center.py\n" in done.stdout


@pytest.mark.long
def test_preview_and_cluster_hold_to_it(clone: Path) -> None:
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "a"},
    }
    code = (
        "from datetime import date; from trainyard_policies import cluster, pack; "
        "from trainyard_policies.settings import Policies; "
        "print([p.name for p in pack.all_policies(Policies())]); "
        f"print(cluster.answer({runtime}, None, 'ada', date.today(), Policies()).refusals)"
    )
    preview, refusals = asked(clone, code).splitlines()
    assert "'cost-center'" in preview
    assert "cost-center: metadata.labels[example.com/cost-center]: must be set." in refusals


@pytest.mark.long
def test_a_stack_sets_its_level_and_a_runtime_is_let_off(clone: Path) -> None:
    stack = clone / site.STACK
    text = stack.read_text().rstrip()
    stack.write_text(f"{text}\n    policies: {{levels: {{runtimes: {{cost-center: advisory}}}}}}\n")
    assert refused(clone) == []
    stack.write_text(f"{text}\n")
    until = date.today() + timedelta(days=90)
    exception = f'    policy.trainyard.dev/cost-center: "until={until}; it is new"\n'
    edit(clone / DISTRIBUTED, "\n  annotations:\n", f"\n  annotations:\n{exception}")
    assert f"cost-center: {DISTRIBUTED}:" not in "".join(refused(clone))


@pytest.mark.long
def test_parameters_of_the_site_hold_where_a_stack_says_nothing_else(clone: Path) -> None:
    (clone / FOLDER / "cost_center.py").unlink()
    edit(clone / DISTRIBUTED, "image: docker.io/", "image: registry.example.com/")
    assert [one.partition(":")[0] for one in refused(clone)] == ["image-registry"]
    edit(clone / FOLDER / "parameters.py", "PARAMETERS: Mapping[str, Any] = {}\n", PARAMETERS)
    assert [one for one in refused(clone) if DISTRIBUTED in one] == []
    stack = clone / site.STACK
    said = "    policies: {parameters: {registries: [docker.io, ghcr.io, nvcr.io]}}\n"
    stack.write_text(f"{stack.read_text().rstrip()}\n{said}")
    assert [one for one in refused(clone) if DISTRIBUTED in one] != []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        pytest.param(
            "broken",
            "x = (\n",
            "site/broken.py:1: SyntaxError: '(' was never closed",
            marks=pytest.mark.long,
        ),
        (
            "broken",
            "\nimport nothing_of_the_kind\n",
            "site/broken.py:2: ModuleNotFoundError: No module named",
        ),
        pytest.param(
            "broken",
            "X = 1\n",
            "site/broken.py:1: must have RULE, a Rule or a StackRule",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "again",
            RULE,
            "site/cost_center.py:1: there is already a rule cost-center: give this one another id",
            marks=pytest.mark.long,
        ),
        (
            "again",
            RULE.replace("cost-center", "image-tag"),
            "site/again.py:1: there is already a rule image-tag",
        ),
        pytest.param(
            "owner",
            RULE.replace("cost-center", "owner").replace(".get(FRAMEWORK)", "[FRAMEWORK + 's']"),
            "site/owner.py:24: the rule owner ends with KeyError: 'trainer.kubeflow.org/frameworks'; correct",
            marks=pytest.mark.long,
        ),
    ],
    ids=["syntax", "import", "no rule", "twice", "the name of a shipped one", "an exception"],
)
def test_a_mistake_in_the_folder_ends_every_command_with_its_place(
    clone: Path, name: str, text: str, said: str
) -> None:
    (clone / FOLDER / f"{name}.py").write_text(text)
    done = site.run(clone, "trainyard verify")
    assert done.returncode != 0
    assert done.stderr.startswith(f"policies/trainyard_policies/{said}"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_parameter_that_there_is_not_is_said_with_the_nearest_one(clone: Path) -> None:
    text = PARAMETERS.replace("registries", "registrys")
    edit(clone / FOLDER / "parameters.py", "PARAMETERS: Mapping[str, Any] = {}\n", text)
    done = site.run(clone, "trainyard verify")
    assert done.returncode != 0
    assert done.stderr.startswith(f"{FOLDER}/parameters.py: registrys: there is no such key ")
    assert "did you mean registries?" in done.stderr


def test_nothing_of_the_sites_is_in_the_folder_as_it_comes() -> None:
    assert sorted(path.name for path in (ROOT / FOLDER).glob("*.py")) == ["__init__.py", "parameters.py"]
