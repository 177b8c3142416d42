"""In which type a GPU computes, beside that of the weights in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from . import weights
from .failures import InvalidArgument
from .settings import Settings

_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def loaded(settings: Settings) -> str:
    """The type of the weights in memory: for `auto` the one that transformers takes from the model's folder.

    Raises:
        InvalidModel: As `weights.tensors`.
    """
    if settings.dtype != "auto":
        return settings.dtype
    folder = Path(settings.model)
    tensors = weights.tensors(folder)
    stored = next((_NAMES[tensor.dtype] for tensor in tensors if tensor.dtype in _NAMES), "float32")
    try:
        config = json.loads((folder / "config.json").read_text())
    except ValueError:
        return stored
    noted = config.get("dtype") or config.get("torch_dtype") if isinstance(config, dict) else None
    return noted if isinstance(noted, str) else stored


def mixed(dtype: str, *, has_gpu: bool, has_bfloat16: bool) -> Mapping[str, bool]:
    """What transformers is told of it.

    Args:
        dtype: Of the weights in memory.
        has_gpu: Whether a GPU trains.
        has_bfloat16: Whether that one computes in bfloat16 itself.

    Raises:
        InvalidArgument: Weights in float16 without a GPU.
    """
    is_half = dtype == "float16"
    if is_half and not has_gpu:
        raise InvalidArgument(
            "dtype: float16 trains only on a GPU, and there is none. Leave out dtype, or set dtype=bfloat16"
        )
    # In float16, small gradients become zero unless the loss is scaled, which comes with fp16 alone.
    return {"fp16": is_half, "bf16": has_bfloat16 and not is_half}
