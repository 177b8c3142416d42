"""What a model is made of, from the headers of its safetensors files: nothing of the weights is read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .failures import InvalidModel, nearest

ALL_LINEAR = "all-linear"
_LONGEST_HEADER = 100_000_000
"""As the format has it."""
_BYTES = {
    **dict.fromkeys(("F64", "I64", "U64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 1),
}
_HEAD = "lm_head"
"""Not among the tensors where it shares those of the embeddings."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a model.

    Args:
        name: Such as `model.layers.0.self_attn.q_proj.weight`.
        shape: Its dimensions.
        dtype: Of its elements, as safetensors names it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return _BYTES[self.dtype]

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return math.prod(self.shape)

    @property
    def module(self) -> str:
        """The module that it is of."""
        return self.name.rpartition(".")[0]


def tensors(folder: Path) -> tuple[Tensor, ...]:
    """All tensors of the model in a folder.

    Raises:
        InvalidModel: It has no safetensors files, or one that is damaged.
    """
    if not (folder / "config.json").is_file():
        raise InvalidModel(f"{folder} holds no config.json: it is not the folder of a model")
    files = _files(folder)
    if not files:
        raise InvalidModel(f"{folder} holds no *.safetensors: weights in other formats are not loaded")
    return tuple(tensor for file in files for tensor in of_file(file))


def _files(folder: Path) -> list[Path]:
    """Those that transformers loads: a repository may hold the same weights once more, under other names."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file():
        return [whole]
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    try:
        return [folder / name for name in sorted({*json.loads(index.read_text())["weight_map"].values()})]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidModel(f"{index} can't be read ({error}): fetch the model anew") from None


def of_file(path: Path) -> tuple[Tensor, ...]:
    """The tensors of one file.

    Raises:
        InvalidModel: It is damaged or cut off.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= min(_LONGEST_HEADER, path.stat().st_size - 8):
                raise ValueError("its header is longer than the file")
            header: Mapping[str, Any] = json.loads(file.read(length))
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        data = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
        if path.stat().st_size < 8 + length + data:
            raise ValueError("it is cut off")
        unknown = {entry["dtype"] for entry in entries.values()} - _BYTES.keys()
        if unknown:
            raise ValueError(f"it has numbers of the type {min(unknown)}")
        return tuple(
            Tensor(name, tuple(int(side) for side in entry["shape"]), entry["dtype"])
            for name, entry in entries.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise InvalidModel(f"{path} can't be read ({error}): fetch the model anew") from None


def linear(model: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The weights of linear modules, without embeddings and the head."""
    return tuple(
        tensor
        for tensor in model
        if len(tensor.shape) == 2
        and tensor.name.endswith(".weight")
        and not any(word in tensor.module.rpartition(".")[2] for word in ("embed", _HEAD))
    )


def targets(model: Sequence[Tensor], names: Sequence[str]) -> tuple[Tensor, ...]:
    """The weights that modules of these names have.

    Args:
        model: All tensors.
        names: Ends of the names of modules, or all-linear.

    Raises:
        InvalidModel: The model has no module of a name.
    """
    if list(names) == [ALL_LINEAR]:
        return linear(model)
    matrices = [t for t in model if len(t.shape) == 2 and t.name.endswith(".weight")]
    chosen: dict[str, Tensor] = {}
    for name in names:
        of_name = [t for t in matrices if t.module == name or t.module.endswith(f".{name}")]
        if not of_name and name != _HEAD:
            ends = {tensor.module.rpartition(".")[2] for tensor in matrices}
            raise InvalidModel(f"the model has no module {name} for LoRA; {nearest(name, ends)}")
        chosen |= {tensor.name: tensor for tensor in of_name}
    return tuple(chosen.values())
