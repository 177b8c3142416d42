"""A name that crosses a border is written once: in `trainyard_api.names`."""

import ast
from pathlib import Path

from trainyard_api import names

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("api", "assist", "cli", "operator", "platform", "policies")
PLURALS = {names.TRAINJOBS, names.TRAINING_RUNTIMES, names.CLUSTER_TRAINING_RUNTIMES, names.JOBSETS}


def written_once() -> set[str]:
    """Names that mean one thing wherever they stand; plain words are left out."""
    known = {one for one in vars(names).values() if isinstance(one, str) and set(one) & set(".-/")}
    return {one for one in known if " " not in one} | PLURALS


def texts(file: Path) -> list[str]:
    tree = ast.parse(file.read_text())
    return [
        one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


def test_no_other_module_spells_a_name() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py") if file.name != "names.py"]
    assert len(files) > 300
    known = written_once()
    assert {"trainyard-system", "trainer.kubeflow.org", "trainjobs"} <= known
    found = {str(file.relative_to(ROOT)): sorted(known & set(texts(file))) for file in files}
    assert {file: spelt for file, spelt in found.items() if spelt} == {}
