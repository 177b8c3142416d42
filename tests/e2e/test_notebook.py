"""The notebook of the examples, run by a kernel as its reader runs it."""

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.cluster import Cluster
from tests.support.patience import LEARNED
from trainyard_sandbox.paths import PROJECT

pytestmark = [pytest.mark.sandbox(area="tenants"), pytest.mark.long]

WIDGETS = "application/vnd.jupyter.widget-state+json"


def printed(notebook: Any) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output["text"] for output in outputs if output["output_type"] == "stream")


def test_a_function_of_the_notebook_trains_in_the_queue_while_a_bar_follows_it(
    team_a: Cluster, tmp_path: Path
) -> None:
    folder = tmp_path / "notebook"
    shutil.copytree(PROJECT / "examples" / "notebook", folder)
    notebook = nbformat.read(folder / "train.ipynb", as_version=4)
    kernel = NotebookClient(notebook, timeout=int(LEARNED.now), resources={"metadata": {"path": str(folder)}})
    kernel.execute(env=team_a.sandbox.environment("ada", "team-a"))
    text = printed(notebook)
    assert "step 100 of 100 on 2 nodes: loss 0.0" in text
    assert text.count("node-0 ") + text.count("node-1 ") == 2, text
    models = [model["state"] for model in notebook.metadata["widgets"][WIDGETS]["state"].values()]
    [bar] = [state for state in models if state["_model_name"] == "FloatProgressModel"]
    [words] = [state for state in models if state["_model_name"] == "HTMLModel"]
    assert (bar["value"], bar["bar_style"]) == (100, "success")
    assert re.fullmatch(r"Complete: jobset completed successfully in \d+ s", words["value"])
    assert team_a.list("trainjobs") == []
