"""`KEY=VALUE` as settings, and what cannot be meant."""

import pytest

from trainyard_trainers import arguments
from trainyard_trainers.failures import InvalidArgument
from trainyard_trainers.settings import METHODS, Dpo, Grpo, Sft


def test_settings_have_the_types_of_their_method() -> None:
    given = ["use_peft=true", "lora_target_modules=q_proj,v_proj", "max_steps=60", "learning_rate=2e-4"]
    assert arguments.read(["sft", *given, "dtype=bfloat16"]) == Sft(
        use_peft=True,
        lora_target_modules=("q_proj", "v_proj"),
        max_steps=60,
        learning_rate=2e-4,
        dtype="bfloat16",
    )


def test_a_list_may_be_written_as_torchtune_had_it_and_a_setting_as_an_option() -> None:
    given = ["--use_peft=True", "lora_target_modules=['q_proj', \"v_proj\"]"]
    assert arguments.read(["dpo", *given]) == Dpo(use_peft=True, lora_target_modules=("q_proj", "v_proj"))


def test_rewards_have_weights() -> None:
    given = ["reward=a.py:f, b:g", "reward_weights=1,0.5"]
    assert arguments.read(["grpo", *given]) == Grpo(reward=("a.py:f", "b:g"), reward_weights=(1.0, 0.5))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "which method? There are sft, dpo, grpo"),
        (["stf"], "stf: no such method; did you mean sft?"),
        (["ppo2"], "ppo2: no such method; there are dpo, grpo, sft"),
        (["sft", "lerning_rate=1"], "lerning_rate: sft has no such setting; did you mean learning_rate?"),
        (["sft", "num_generations=4"], "num_generations: a setting of grpo, not of sft"),
        (["sft", "packing"], "packing: write it as packing=VALUE"),
        (["sft", "packing=maybe"], "packing=maybe: true or false"),
        (["sft", "max_steps=1", "max_steps=2"], "max_steps: given twice"),
        (["sft", "max_steps=1.5"], "max_steps=1.5: not a whole number"),
        (["sft", f"max_steps={'9' * 5000}"], f"max_steps={'9' * 5000}"),
        (["sft", "max_steps=-2"], "max_steps=-2: a whole number from -1 to 1000000000"),
        (["sft", "learning_rate=fast"], "learning_rate=fast: not a number"),
        (["sft", "learning_rate=nan"], "learning_rate=nan: not a number"),
        (["sft", "learning_rate=-1"], "learning_rate=-1: a number from 0 to 10"),
        (["sft", "dtype=float23"], "dtype=float23: did you mean float32?"),
        (["sft", "model=a\nb"], "model: at most 4096 printable characters"),
        (["sft", "max_steps=0"], "max_steps and num_train_epochs: there is nothing to train"),
        (["sft", "merge_adapter=true"], "merge_adapter=true: only with use_peft=true is there an adapter"),
        (["sft", "lora_target_modules="], "lora_target_modules: name some, or all-linear"),
        *(
            (
                ["sft", f"dtype={dtype}"],
                f"dtype={dtype}: use_peft=false trains weights in place, and only float32 is exact enough. "
                "Leave out dtype (a GPU that can compute in bfloat16 does so anyway), or set use_peft=true",
            )
            for dtype in ("bfloat16", "float16", "auto")
        ),
        (
            ["dpo", "dtype=bfloat16", "use_peft=true", "lora_modules_to_save=lm_head"],
            "dtype=bfloat16: lora_modules_to_save trains weights in place, and only float32 is exact enough. "
            "Leave out dtype (a GPU that can compute in bfloat16 does so anyway), or leave out "
            "lora_modules_to_save",
        ),
        (
            ["grpo"],
            "reward: grpo needs one, such as reward=/workspace/dataset/rewards.py:FUNCTION",
        ),
        (["grpo", "reward=a:f", "reward_weights=1,2"], "reward_weights: 2 for 1 functions of reward"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_what_cannot_be_meant_is_told_with_what_can(given: list[str], says: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        arguments.read(given)
    assert str(caught.value).startswith(f"InvalidArgument: {says}"[:1000])
    assert caught.value.exit_code == 2


def test_the_help_has_every_setting_with_its_default() -> None:
    usage = arguments.usage()
    assert "  learning_rate=1e-06\n        of AdamW at its highest" in usage
    assert "  lora_target_modules=all-linear\n" in usage
    assert "  gradient_checkpointing=true\n" in usage
    assert [f"settings of {method}:" in usage for method in METHODS] == [True, True, True]
