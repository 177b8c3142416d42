"""Each TrainJob that the guides show, or a part of one, is one that admission lets in."""

import io
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainyard_cli.commands import validate

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^ *```yaml\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def trainjobs() -> Iterator[Any]:
    """The TrainJobs of the guides, each with where it stands; a part of one is made a whole one."""
    for guide in sorted(ROOT.glob("docs/*.md")):
        text = guide.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            if "TrainJob" not in found[1] and "runtimePatches" not in found[1]:
                continue
            shown = next(iter(yaml.safe_load_all(textwrap.dedent(found[1]))))
            part = shown if "runtimePatches" in shown else shown.get("spec") or {}
            if shown.get("kind") == "TrainJob" or "runtimePatches" in part:
                line = text.count("\n", 0, found.start()) + 1
                yield pytest.param(whole(shown, part), id=f"{guide.name}:{line}")


def whole(shown: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    name = "torch-with-initializers" if "dataset-initializer" in str(part) else "torch-distributed"
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "shown"},
        **{field: value for field, value in shown.items() if field != "runtimePatches"},
        "spec": {"runtimeRef": {"name": name}, **part},
    }


@pytest.mark.parametrize("trainjob", list(trainjobs()))
def test_a_trainjob_of_a_guide_is_let_in(trainjob: dict[str, Any], tmp_path: Path) -> None:
    file, out, err = tmp_path / "trainjob.yaml", io.StringIO(), io.StringIO()
    file.write_text(yaml.safe_dump(trainjob))
    code = validate.run([file], out=out, err=err)
    assert code == 0, out.getvalue() + err.getvalue()
    assert json.loads(out.getvalue())["errors"] == []
