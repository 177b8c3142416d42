"""In which type a GPU computes."""

import json
from pathlib import Path

import pytest

from trainyard_trainers import precision
from trainyard_trainers.failures import InvalidArgument
from trainyard_trainers.settings import Sft

from .models import SHAPES, model, safetensors


@pytest.mark.parametrize(
    ("dtype", "has_bfloat16", "mixed"),
    [
        ("float32", True, {"fp16": False, "bf16": True}),
        ("float32", False, {"fp16": False, "bf16": False}),
        ("bfloat16", True, {"fp16": False, "bf16": True}),
        ("bfloat16", False, {"fp16": False, "bf16": False}),
        ("float16", True, {"fp16": True, "bf16": False}),
        ("float16", False, {"fp16": True, "bf16": False}),
    ],
)
def test_a_gpu_scales_the_loss_of_float16_and_else_computes_in_bfloat16_if_it_can(
    dtype: str, has_bfloat16: bool, mixed: dict[str, bool]
) -> None:
    assert precision.mixed(dtype, has_gpu=True, has_bfloat16=has_bfloat16) == mixed


def test_without_a_gpu_nothing_is_mixed_and_float16_is_refused() -> None:
    for dtype in ("float32", "bfloat16"):
        nothing = {"fp16": False, "bf16": False}
        assert precision.mixed(dtype, has_gpu=False, has_bfloat16=False) == nothing
    with pytest.raises(InvalidArgument) as caught:
        precision.mixed("float16", has_gpu=False, has_bfloat16=False)
    assert str(caught.value) == (
        "InvalidArgument: dtype: float16 trains only on a GPU, and there is none. "
        "Leave out dtype, or set dtype=bfloat16"
    )


@pytest.mark.parametrize(
    ("config", "stored", "loaded"),
    [
        ({}, "F16", "float16"),
        ({}, "BF16", "bfloat16"),
        ({}, "F32", "float32"),
        ({}, "I8", "float32"),
        ({"dtype": "float16"}, "F32", "float16"),
        ({"torch_dtype": "bfloat16"}, "F16", "bfloat16"),
        ({"dtype": None}, "F16", "float16"),
        ([], "F16", "float16"),
    ],
)
def test_auto_is_what_the_model_says_and_else_what_its_weights_are(
    tmp_path: Path, config: object, stored: str, loaded: str
) -> None:
    folder = model(tmp_path / "model")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(safetensors(SHAPES, stored))
    assert precision.loaded(Sft(model=str(folder), use_peft=True, dtype="auto")) == loaded
    assert precision.loaded(Sft(model=str(folder), use_peft=True, dtype="bfloat16")) == "bfloat16"
