"""Whether a model can be trained in the memory that there is, before it is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .failures import TooLarge
from .settings import Settings
from .weights import Tensor, targets

_ADAM = 2
"""Numbers that AdamW holds of each that it trains."""
_SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNLIMITED = 2**60


def needed(model: Sequence[Tensor], settings: Settings) -> int:
    """Bytes that one process needs at least: weights, gradients and optimizer; without activations.

    Raises:
        InvalidModel: The model has no modules of the names for LoRA.
    """
    size = _SIZES.get(settings.dtype)
    frozen = sum(tensor.elements * (size or tensor.size) for tensor in model)
    if settings.use_peft:
        adapted = targets(model, settings.lora_target_modules)
        whole = targets(model, settings.lora_modules_to_save)
        trained = sum(settings.lora_r * sum(tensor.shape) for tensor in adapted)
        trained += sum(tensor.elements for tensor in whole)
        # PEFT holds an adapter in float32, whatever the model's type is.
        return frozen + trained * _SIZES["float32"] * (2 + _ADAM)
    # What it starts from is held beside it, to stay near to it.
    reference = frozen if settings.method != "sft" and getattr(settings, "beta", 0) > 0 else 0
    return frozen * (2 + _ADAM) + reference


def check(model: Sequence[Tensor], settings: Settings, limit: int | None, processes: int, place: str) -> None:
    """Refuse to train what does not fit.

    Args:
        model: All tensors.
        settings: How it is trained.
        limit: Bytes that there are; None: nobody knows.
        processes: That share them.
        place: Whose memory it is, for the message.

    Raises:
        TooLarge: It does not fit.
        InvalidModel: As `needed`.
    """
    least = needed(model, settings) * processes
    if limit is not None and least > limit:
        ways = [] if settings.use_peft else ["use_peft=true"]
        # Only frozen weights may be of 16 bits.
        halves = settings.use_peft and settings.dtype == "float32" and not settings.lora_modules_to_save
        ways += ["dtype=bfloat16"] if halves else []
        ways += ["ask for more memory"]
        raise TooLarge(
            f"training {settings.model} needs at least {_human(least)} for weights, gradients and optimizer "
            f"({processes} process{'es' * (processes != 1)}), and {place} has {_human(limit)}: "
            f"{' or '.join(ways)}"
        )


def of_container(files: Sequence[str] = _LIMITS) -> int | None:
    """The container's limit in bytes; None if it has none.

    Args:
        files: Where the kernel says it, in versions 2 and 1 of control groups.
    """
    for file in files:
        try:
            text = Path(file).read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdigit() and int(text) < _UNLIMITED else None
    return None


def _human(size: float) -> str:
    for unit in ("KiB", "MiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.0f} {unit}"
    return f"{size / 1024:.1f} GiB"
