"""Whether a method can train on a dataset."""

from pathlib import Path
from typing import Any

import pytest

from trainyard_trainers import columns
from trainyard_trainers.failures import InvalidArgument, InvalidDataset
from trainyard_trainers.settings import Dpo, Grpo, Settings, Sft

from .models import model

CHAT = [{"role": "user", "content": "2 plus 2?"}]


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        (Sft(), {"text": "a"}),
        (Sft(), {"prompt": "a", "completion": "b", "id": 1}),
        (Dpo(), {"chosen": "a", "rejected": "b"}),
        (Dpo(), {"prompt": "a", "chosen": "a", "rejected": "b"}),
        (Grpo(reward=("a:b",)), {"prompt": "a", "answer": 4}),
    ],
)
def test_it_has_the_columns_that_the_method_needs(settings: Settings, first: dict[str, Any]) -> None:
    columns.check(settings, list(first), first)


@pytest.mark.parametrize(
    ("settings", "needs"),
    [
        (Sft(), "sft needs the columns prompt and completion or messages or text"),
        (Dpo(), "dpo needs the columns chosen and rejected"),
        (Grpo(reward=("a:b",)), "grpo needs the column prompt"),
    ],
)
def test_what_it_lacks_is_told_with_what_it_has(settings: Settings, needs: str) -> None:
    with pytest.raises(InvalidDataset) as caught:
        columns.check(settings, ["output", "instruction"], {"instruction": "a", "output": "b"})
    assert str(caught.value) == f"InvalidDataset: /workspace/dataset: {needs}; it has instruction, output"


@pytest.mark.parametrize(
    ("settings", "has", "kept"),
    [
        (Sft(), ["id", "messages", "prompt"], ["messages"]),
        (Sft(), ["prompt", "text", "input_ids"], ["text"]),
        (Sft(), ["tools", "messages", "prompt", "completion"], ["tools", "prompt", "completion"]),
        (Sft(), ["messages", "chat_template_kwargs", "text"], ["messages", "chat_template_kwargs"]),
        (Dpo(), ["prompt", "chosen", "rejected", "id"], ["prompt", "chosen", "rejected", "id"]),
        (Grpo(reward=("a:b",)), ["prompt", "answer"], ["prompt", "answer"]),
    ],
)
def test_sft_keeps_what_it_trains_on_alone(settings: Settings, has: list[str], kept: list[str]) -> None:
    assert columns.kept(settings, has) == kept


def test_an_empty_one_is_told() -> None:
    with pytest.raises(InvalidDataset, match="/workspace/dataset: split train has no rows"):
        columns.check(Sft(), ["text"], None)


def test_a_step_of_grpo_needs_prompts() -> None:
    settings = Grpo(reward=("a:b",), gradient_accumulation_steps=8)
    columns.check_prompts(settings, rows=64, processes=8)
    with pytest.raises(InvalidDataset) as caught:
        columns.check_prompts(settings, rows=63, processes=8)
    assert str(caught.value) == (
        "InvalidDataset: /workspace/dataset: a step needs 64 prompts, and split train has 63: lower "
        "per_device_train_batch_size or gradient_accumulation_steps, ask for fewer nodes or GPUs, "
        "or add prompts"
    )


def test_messages_need_a_template_of_the_model_or_of_the_job(tmp_path: Path) -> None:
    def check(folder: Path, template: str = "") -> None:
        settings = Sft(model=str(folder), chat_template_path=template)
        columns.check(settings, ["messages"], {"messages": CHAT})

    check(model(tmp_path / "with", template="{{ messages }}"))
    without = model(tmp_path / "without")
    check(without, "chat.jinja")
    with pytest.raises(InvalidDataset, match=r"messages holds messages, and .*/without has no chat template"):
        check(without)
    (without / "chat_template.jinja").touch()
    check(without)


def test_a_template_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text("{{ messages }}")
    assert columns.template(Sft(chat_template_path=str(file))) == "{{ messages }}"
    assert columns.template(Sft()) is None
    with pytest.raises(InvalidArgument, match=r"chat_template_path=.*: .*No such file"):
        columns.template(Sft(chat_template_path=str(tmp_path / "none")))
