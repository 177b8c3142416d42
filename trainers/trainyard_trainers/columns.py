"""Whether a method can train on a dataset, by its columns and its first row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .failures import InvalidArgument, InvalidDataset
from .settings import Grpo, Settings, Sft


def check(settings: Settings, columns: Sequence[str], first: Mapping[str, Any] | None) -> None:
    """Refuse a dataset that the method cannot train on.

    Args:
        settings: The method's, with the dataset's folder.
        columns: Names of its columns.
        first: Its first row; None if it has none.

    Raises:
        InvalidDataset: It is empty, lacks columns, or holds messages that no template makes text of.
    """
    if first is None:
        raise InvalidDataset(f"{settings.dataset}: split {settings.dataset_train_split} has no rows")
    fitting = _fitting(settings, columns)
    if not fitting:
        ways = " or ".join(" and ".join(names) for names in settings.columns)
        raise InvalidDataset(
            f"{settings.dataset}: {settings.method} needs the column"
            f"{'s' * (len(settings.columns[0]) > 1)} {ways}; it has {', '.join(sorted(columns))}"
        )
    is_conversation = any(_is_messages(first[name]) for name in fitting)
    if is_conversation and not settings.chat_template_path and not has_template(Path(settings.model)):
        raise InvalidDataset(
            f"{settings.dataset}: {fitting[0]} holds messages, and {settings.model} has no chat template: "
            "name a file with one as chat_template_path"
        )


def kept(settings: Settings, columns: Sequence[str]) -> list[str]:
    """Those to leave in a dataset that the method can train on.

    Args:
        settings: The method's.
        columns: Names of its columns.
    """
    if not isinstance(settings, Sft):
        return [*columns]
    # TRL tells the kinds of rows apart by single columns: a prompt beside messages would need a completion.
    return [
        name for name in columns if name in {*_fitting(settings, columns), "tools", "chat_template_kwargs"}
    ]


def _fitting(settings: Settings, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that the method trains on; none if it cannot."""
    return next((names for names in settings.columns if set(names) <= set(columns)), ())


def check_prompts(settings: Grpo, rows: int, processes: int) -> None:
    """Refuse a dataset with fewer prompts than a step needs: TRL would leave out all of them.

    Args:
        settings: The method's, with the dataset's folder.
        rows: How many the dataset has.
        processes: How many train.

    Raises:
        InvalidDataset: It has too few.
    """
    prompts = settings.completions(processes) // settings.num_generations
    if rows < prompts:
        raise InvalidDataset(
            f"{settings.dataset}: a step needs {prompts} prompts, and split {settings.dataset_train_split} "
            f"has {rows}: lower per_device_train_batch_size or gradient_accumulation_steps, ask for fewer "
            "nodes or GPUs, or add prompts"
        )


def template(settings: Settings) -> str | None:
    """The chat template to use in place of the model's own; None if that is to be used.

    Raises:
        InvalidArgument: There is no such file.
    """
    if not settings.chat_template_path:
        return None
    try:
        return Path(settings.chat_template_path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"chat_template_path={settings.chat_template_path}: {error}") from None


def has_template(model: Path) -> bool:
    """Whether the tokenizer in a model's folder has a chat template."""
    if any(model.glob("chat_template.*")) or (model / "additional_chat_templates").is_dir():
        return True
    try:
        tokenizer = json.loads((model / "tokenizer_config.json").read_text())
    except (OSError, ValueError):
        return False
    return isinstance(tokenizer, dict) and bool(tokenizer.get("chat_template"))


def _is_messages(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "role" in value[0]
