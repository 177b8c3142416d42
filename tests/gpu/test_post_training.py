"""A rendered TrainJob post-trains a language model on a GPU (`make test-gpu`).

It needs torchrun, PyTorch with CUDA and what requirements/trainers.txt locks on
PATH, and no cluster: model, tokenizer and data are made by the job itself.
"""

import os
import re
from pathlib import Path

import pytest

from .rendered import PROJECT, Node, needs, record

pytestmark = pytest.mark.gpu


def test_an_adapter_is_trained_on_a_gpu_and_merged(tmp_path: Path) -> None:
    needs(1)
    node = Node.of("post-training/sft.yaml", "trl/trl-sft.yaml", nodes=1, each=1)
    path = os.pathsep.join(filter(None, [str(PROJECT / "trainers"), os.environ.get("PYTHONPATH")]))
    output = tmp_path / "output"
    pod = node.start(0, tmp_path, f"output_dir={output}", CUDA_VISIBLE_DEVICES="0", PYTHONPATH=path)
    log, _ = pod.communicate(timeout=480)
    assert pod.returncode == 0, log
    losses = [float(loss) for loss in re.findall(r"'loss': '?(\d[\d.e-]*)", log)]
    assert losses[-1] < losses[0] / 2, log
    assert (output / "adapter" / "adapter_model.safetensors").is_file()
    assert (output / "model" / "model.safetensors").is_file()
    record("trl-sft", "post-training", tmp_path, "trl", "transformers", "peft", "torch")
