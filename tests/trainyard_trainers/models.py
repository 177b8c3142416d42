"""Folders of models as the tests need them: headers alone, of a Qwen2 with two layers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HIDDEN, BETWEEN, WORDS = 8, 16, 32
SHAPES: Mapping[str, tuple[int, ...]] = {
    "model.embed_tokens.weight": (WORDS, HIDDEN),
    "model.norm.weight": (HIDDEN,),
    **{
        f"model.layers.{layer}.{name}.weight": shape
        for layer in (0, 1)
        for name, shape in {
            "input_layernorm": (HIDDEN,),
            "self_attn.q_proj": (HIDDEN, HIDDEN),
            "self_attn.v_proj": (HIDDEN, HIDDEN),
            "mlp.up_proj": (BETWEEN, HIDDEN),
        }.items()
    },
}


def safetensors(shapes: Mapping[str, tuple[int, ...]], dtype: str = "F32", size: int = 4) -> bytes:
    """A file of zeros with these tensors."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + size * _product(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(end)


def model(folder: Path, template: str | None = None) -> Path:
    """A model without a tokenizer's words; with a chat template if one is given."""
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "qwen2"}')
    (folder / "model.safetensors").write_bytes(safetensors(SHAPES))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for side in shape:
        product *= side
    return product
