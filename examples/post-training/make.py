"""A tiny language model with random weights, its tokenizer, and data for each method: nothing is downloaded.

    python make.py FOLDER

makes FOLDER/model, and FOLDER/sft, FOLDER/dpo and FOLDER/grpo with a file of JSON lines each, and with
FOLDER/grpo/rewards.py. The model has 120,000 parameters and is of the kind of Qwen2. The same comes of it
on every node, so that each may make it for itself.
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

FOLDER = Path(sys.argv[1])
END = "<|endoftext|>"  # of Qwen2's tokenizers, which would add it
SUMS = [(a, b) for a in range(10) for b in range(10)]
REWARDS = '''"""More digits, more reward."""


def digits(completions, **_):
    """The share of digits in the first eight characters of each completion."""
    return [sum(character.isdigit() for character in text[:8]) / 8 for text in completions]
'''


def rows(name: str, lines: list[dict[str, str]]) -> None:
    """Write a dataset."""
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    (FOLDER / name / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


sums = [{"prompt": f"{a} plus {b} is", "completion": f" {a + b}"} for a, b in SUMS]
rows("sft", sums)
rows("dpo", [{"prompt": s["prompt"], "chosen": s["completion"], "rejected": " no"} for s in sums])
rows("grpo", [{"prompt": s["prompt"]} for s in sums])
(FOLDER / "grpo" / "rewards.py").write_text(REWARDS)

bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
learn = trainers.BpeTrainer(
    vocab_size=320,
    special_tokens=["<pad>", END],
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    show_progress=False,
)
bpe.train_from_iterator([s["prompt"] + s["completion"] for s in sums], learn)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<pad>", eos_token=END)  # noqa: S106
tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
tokenizer.save_pretrained(FOLDER / "model")

torch.manual_seed(0)
config = Qwen2Config(
    vocab_size=len(tokenizer),
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    pad_token_id=tokenizer.pad_token_id,
    eos_token_id=tokenizer.eos_token_id,
    bos_token_id=None,
)
Qwen2ForCausalLM(config).save_pretrained(FOLDER / "model")
