"""What can be set, of each method, under the names that TRL, PEFT and transformers have for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal


def _set(default: Any, help: str, least: float | None = None, most: float | None = None) -> Any:  # noqa: A002
    """A setting with what it is for, and its bounds, both inclusive."""
    metadata = {"help": help, "least": least, "most": most}
    if isinstance(default, tuple):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Those that every method has."""

    method: ClassVar[str]
    columns: ClassVar[tuple[tuple[str, ...], ...]]
    """Columns of a dataset: those of one of these are needed, and the first that it has are trained on."""

    model: str = _set("/workspace/model", "folder of the model and its tokenizer")
    dataset: str = _set("/workspace/dataset", "folder of the dataset: Parquet, JSON, JSON Lines or CSV")
    dataset_train_split: str = _set("train", "split of the dataset to train on")
    output_dir: str = _set("/workspace/output", "folder of checkpoints and results, shared by all nodes")
    chat_template_path: str = _set("", "file with a chat template (Jinja) in place of the model's own")

    max_steps: int = _set(-1, "steps to train; -1: as num_train_epochs says", -1, 10**9)
    num_train_epochs: float = _set(3.0, "how often to go through the dataset", 0, 10**6)
    per_device_train_batch_size: int = _set(8, "examples of a step, of each process", 1, 10**6)
    gradient_accumulation_steps: int = _set(1, "steps whose gradients are added up", 1, 10**6)
    learning_rate: float = _set(2e-5, "of AdamW at its highest", 0, 10)
    lr_scheduler_type: Literal["linear", "cosine", "constant", "constant_with_warmup"] = _set(
        "linear", "how the learning rate goes down"
    )
    warmup_steps: float = _set(0.0, "steps of warm-up; below 1 it is a share of all", 0, 10**9)
    weight_decay: float = _set(0.0, "of AdamW", 0, 10)
    max_grad_norm: float = _set(1.0, "where gradients are clipped", 0, 10**6)
    gradient_checkpointing: bool = _set(True, "compute activations twice, to hold fewer of them")
    dtype: Literal["float32", "bfloat16", "float16", "auto"] = _set(
        "float32",
        "of the weights in memory; auto: as they are stored. Only an adapter alone needs no float32. "
        "float16 needs a GPU",
    )
    seed: int = _set(42, "of everything random", 0, 2**32 - 1)
    logging_steps: int = _set(10, "steps between two lines of progress", 1, 10**9)
    save_steps: int = _set(100, "steps between two checkpoints", 1, 10**9)
    save_total_limit: int = _set(2, "checkpoints to keep", 1, 10**6)

    use_peft: bool = _set(False, "train an adapter (LoRA) and leave the model as it is")
    lora_r: int = _set(16, "rank of LoRA", 1, 65536)
    lora_alpha: int = _set(32, "scale of LoRA", 1, 10**6)
    lora_dropout: float = _set(0.05, "dropout of LoRA", 0, 1)
    lora_target_modules: tuple[str, ...] = _set(("all-linear",), "modules that get an adapter")
    lora_modules_to_save: tuple[str, ...] = _set((), "modules that are trained whole beside it")
    merge_adapter: bool = _set(False, "also write the model with the adapter merged into it")


@dataclass(frozen=True, kw_only=True)
class Sft(Settings):
    """Supervised fine-tuning."""

    method = "sft"
    columns = (("prompt", "completion"), ("messages",), ("text",))

    max_length: int = _set(1024, "tokens of an example; what is longer is cut", 1, 10**8)
    packing: bool = _set(False, "put several examples into one sequence")
    assistant_only_loss: bool = _set(False, "learn only what the assistant says in messages")


@dataclass(frozen=True, kw_only=True)
class Dpo(Settings):
    """Direct preference optimization."""

    method = "dpo"
    columns = (("chosen", "rejected"),)

    learning_rate: float = _set(1e-6, "of AdamW at its highest", 0, 10)
    max_length: int = _set(1024, "tokens of an example; what is longer is cut", 1, 10**8)
    beta: float = _set(0.1, "how near to the model that it starts from it stays", 0, 10**6)
    label_smoothing: float = _set(0.0, "share of preferences that are taken for wrong", 0, 0.5)


@dataclass(frozen=True, kw_only=True)
class Grpo(Settings):
    """Group relative policy optimization."""

    method = "grpo"
    columns = (("prompt",),)

    learning_rate: float = _set(1e-6, "of AdamW at its highest", 0, 10)
    reward: tuple[str, ...] = _set((), "functions that reward: FILE.py:FUNCTION or MODULE:FUNCTION")
    reward_weights: tuple[float, ...] = _set((), "weight of each of them; 1 by default")
    num_generations: int = _set(8, "completions of a prompt, which are compared", 2, 10**5)
    max_completion_length: int = _set(256, "tokens of a completion", 1, 10**7)
    temperature: float = _set(1.0, "of sampling", 1e-6, 100)
    beta: float = _set(
        0.0, "how near to the model that it starts from it stays; 0: that one is not held", 0, 10**6
    )

    def completions(self, processes: int) -> int:
        """How many a step needs.

        Args:
            processes: How many train.
        """
        return self.per_device_train_batch_size * self.gradient_accumulation_steps * processes


METHODS: dict[str, type[Settings]] = {kind.method: kind for kind in (Sft, Dpo, Grpo)}
"""The methods, by the word that chooses them."""
