"""What a model is made of, and whether it fits, from headers alone."""

import json
from pathlib import Path

import pytest

from trainyard_trainers import memory, weights
from trainyard_trainers.failures import InvalidModel, TooLarge
from trainyard_trainers.settings import Dpo, Grpo, Settings, Sft

from .models import SHAPES, model, safetensors

NUMBERS = 32 * 8 + 8 + 2 * (8 + 64 + 64 + 128)


def test_tensors_are_those_of_all_files_of_the_model(tmp_path: Path) -> None:
    folder = model(tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / "model-2.safetensors").write_bytes(safetensors({"lm_head.weight": (32, 8)}, "BF16", 2))
    found = {tensor.name: (tensor.shape, tensor.size) for tensor in weights.tensors(folder)}
    assert found == {**{name: (shape, 4) for name, shape in SHAPES.items()}, "lm_head.weight": ((32, 8), 2)}


@pytest.mark.parametrize("is_in_parts", [False, True])
def test_weights_that_a_repository_holds_once_more_under_another_name_are_not_counted(
    tmp_path: Path, is_in_parts: bool
) -> None:
    folder = model(tmp_path / "model")
    (folder / "consolidated.safetensors").write_bytes(safetensors({"layers.0.wq.weight": (8, 8)}))
    if is_in_parts:
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
        index = {"weight_map": dict.fromkeys(SHAPES, "model-1.safetensors")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert {tensor.name for tensor in weights.tensors(folder)} == {*SHAPES}


@pytest.mark.parametrize("content", ["", "[]", '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "none"}}'])
def test_an_index_that_names_no_files_is_told(tmp_path: Path, content: str) -> None:
    folder = model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(InvalidModel, match=r"can't be read \(.*\): fetch the model anew"):
        weights.tensors(folder)


def test_all_linear_is_without_norms_and_embeddings(tmp_path: Path) -> None:
    found = weights.targets(weights.tensors(model(tmp_path / "model")), ["all-linear"])
    assert sorted({tensor.module.rpartition(".")[2] for tensor in found}) == ["q_proj", "up_proj", "v_proj"]
    assert len(found) == 6


def test_the_head_is_there_even_where_it_shares_the_embeddings(tmp_path: Path) -> None:
    assert weights.targets(weights.tensors(model(tmp_path / "model")), ["lm_head"]) == ()


@pytest.mark.parametrize(
    ("name", "hint"),
    [("q_prj", "did you mean q_proj?"), ("gate", "there are embed_tokens, q_proj, up_proj, v_proj")],
)
def test_a_target_that_the_model_does_not_have_is_told_with_what_it_has(
    tmp_path: Path, name: str, hint: str
) -> None:
    with pytest.raises(InvalidModel) as caught:
        weights.targets(weights.tensors(model(tmp_path / "model")), ["q_proj", name])
    assert str(caught.value) == f"InvalidModel: the model has no module {name} for LoRA; {hint}"


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"holds no config.json: it is not the folder of a model"):
        weights.tensors(tmp_path)
    (tmp_path / "config.json").touch()
    with pytest.raises(InvalidModel, match=r"holds no \*.safetensors"):
        weights.tensors(tmp_path)


WHOLE = safetensors({"a.weight": (2, 2)})


def with_header(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        WHOLE[:20],
        WHOLE[:-1],
        (2**63).to_bytes(8, "little") + b"{}",
        with_header("["),
        with_header("[]"),
        with_header('{"a": 1}'),
        with_header("[" * 50_000),
        with_header(json.dumps({"a": {"dtype": "F3", "shape": [1], "data_offsets": [0, 0]}})),
    ],
    ids=["empty", "cut", "short", "long", "broken", "list", "number", "deep", "unknown"],
)
def test_a_damaged_file_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").touch()
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(InvalidModel, match=r"model.safetensors can't be read \(.*\): fetch the model anew"):
        weights.tensors(tmp_path)


@pytest.mark.parametrize(
    ("settings", "numbers"),
    [
        (Sft(), 4 * 4 * NUMBERS),
        (Dpo(), 5 * 4 * NUMBERS),
        (Grpo(reward=("a:b",)), 4 * 4 * NUMBERS),
        (Grpo(reward=("a:b",), beta=0.1), 5 * 4 * NUMBERS),
        (
            Dpo(use_peft=True, lora_r=2, lora_target_modules=("q_proj",)),
            4 * NUMBERS + 4 * 4 * 2 * 2 * (8 + 8),
        ),
        (
            Sft(use_peft=True, lora_r=2, lora_target_modules=("q_proj",), dtype="bfloat16"),
            2 * NUMBERS + 4 * 4 * 2 * 2 * (8 + 8),
        ),
        (
            Sft(use_peft=True, lora_r=2, lora_target_modules=("q_proj",), dtype="auto"),
            4 * NUMBERS + 4 * 4 * 2 * 2 * (8 + 8),
        ),
        (
            Sft(use_peft=True, lora_r=2, lora_target_modules=("q_proj",), lora_modules_to_save=("up_proj",)),
            4 * NUMBERS + 4 * 4 * (2 * 2 * (8 + 8) + 2 * 128),
        ),
    ],
    ids=["whole", "dpo", "grpo", "grpo with a reference", "adapter", "half", "as it is", "adapter and more"],
)
def test_weights_gradients_and_optimizer_are_what_is_needed_at_least(
    tmp_path: Path, settings: Settings, numbers: int
) -> None:
    assert memory.needed(weights.tensors(model(tmp_path / "model")), settings) == numbers


@pytest.mark.parametrize(
    ("settings", "ways"),
    [
        (Sft(), "use_peft=true or ask for more memory"),
        (Sft(use_peft=True), "dtype=bfloat16 or ask for more memory"),
        (Sft(use_peft=True, dtype="bfloat16"), "ask for more memory"),
        (Sft(use_peft=True, lora_modules_to_save=("up_proj",)), "ask for more memory"),
    ],
)
def test_the_ways_out_are_those_that_train(tmp_path: Path, settings: Settings, ways: str) -> None:
    with pytest.raises(TooLarge) as caught:
        memory.check(weights.tensors(model(tmp_path / "model")), settings, 1, 1, "the container")
    assert str(caught.value).endswith(f"the container has 0 KiB: {ways}")


def test_what_does_not_fit_is_told_with_the_way_out(tmp_path: Path) -> None:
    tensors = weights.tensors(model(tmp_path / "model"))
    least = 2 * 4 * 4 * NUMBERS
    memory.check(tensors, Sft(), least, 2, "the container")
    memory.check(tensors, Sft(), None, 2, "the container")
    with pytest.raises(TooLarge) as caught:
        memory.check(tensors, Sft(), least - 1, 2, "the container")
    assert str(caught.value) == (
        "TooLarge: training /workspace/model needs at least 25 KiB for weights, gradients and optimizer "
        "(2 processes), and the container has 25 KiB: use_peft=true or ask for more memory"
    )


def test_the_containers_limit_is_what_the_kernel_says(tmp_path: Path) -> None:
    files = [str(tmp_path / "v2"), str(tmp_path / "v1")]
    assert memory.of_container(files) is None
    (tmp_path / "v1").write_text(f"{2**63 - 4096}\n")
    assert memory.of_container(files) is None
    (tmp_path / "v1").write_text("1073741824\n")
    assert memory.of_container(files) == 2**30
    (tmp_path / "v2").write_text("max\n")
    assert memory.of_container(files) is None
