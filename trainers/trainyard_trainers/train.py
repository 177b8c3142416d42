"""One process of the training, as torchrun starts it: TRL's trainer with the settings of the command."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import transformers
import trl
from peft import LoraConfig, PeftModel

from . import arguments, checkpoints, columns, data, memory, precision, rewards, weights
from .failures import Failure, InvalidArgument, InvalidDataset, Unshared
from .settings import Dpo, Grpo, Settings, Sft

KINDS: Mapping[type[Settings], tuple[Any, Any]] = {
    Sft: (trl.SFTConfig, trl.SFTTrainer),
    Dpo: (trl.DPOConfig, trl.DPOTrainer),
    Grpo: (trl.GRPOConfig, trl.GRPOTrainer),
}
OURS = frozenset(
    (
        *(
            "model",
            "dataset",
            "dataset_train_split",
            "chat_template_path",
            "dtype",
            "reward",
            "merge_adapter",
        ),
        *("use_peft", "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_modules_to_save"),
    )
)
"""Settings that TRL's configuration does not have under that name, or has otherwise."""

_log = logging.getLogger(__package__)


def main(given: Sequence[str]) -> int:
    """Train, and leave the result in the output folder.

    Args:
        given: The method and its settings.
    """
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    transformers.utils.logging.disable_progress_bar()
    _log.setLevel(logging.INFO if os.environ.get("RANK", "0") == "0" else logging.ERROR)
    try:
        run(arguments.read(given))
    except Failure as failure:
        print(failure, file=sys.stderr, flush=True)
        return failure.exit_code
    return 0


def run(settings: Settings) -> None:
    """Train with these settings.

    Raises:
        Failure: That is of no use, and why.
    """
    config = configuration(settings)
    folder = Path(settings.output_dir)
    _log.info("%s, process %s of %s", settings.method, config.process_index + 1, config.world_size)
    check_shared(folder)
    checkpoint = agreed(lambda: checkpoints.resumable(settings, config.world_size))
    if config.device.type == "cuda":
        size = torch.cuda.get_device_properties(config.device).total_memory
        memory.check(weights.tensors(Path(settings.model)), settings, size, 1, "the GPU")
    trainer = make_trainer(settings, config)
    if not trainer.is_world_process_zero():
        trainer.remove_callback(transformers.PrinterCallback)
    train(trainer, settings, checkpoint)
    save(trainer, settings)
    if dist.is_initialized():
        dist.barrier()  # no process has trained until the result is written


def train(trainer: Any, settings: Settings, checkpoint: Path | None) -> None:
    """Train on from a checkpoint, or from the start if there is none.

    Raises:
        InvalidDataset: It is of no use for even one step.
    """
    if checkpoint and checkpoints.is_finished(checkpoint):
        # transformers looks for the end behind a step: within an epoch it would take one too many.
        _log.info("finished with %s", checkpoint)
        trainer._load_from_checkpoint(str(checkpoint))  # noqa: SLF001 - nothing public only loads
        return
    _log.info("resumes from %s", checkpoint) if checkpoint else _log.info("starts")
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.state.global_step == 0:
        raise InvalidDataset(
            f"{settings.dataset}: not one step was trained, for it has no rows of use for one"
        )


def configuration(settings: Settings) -> Any:
    """TRL's configuration, for a GPU if there is one.

    Raises:
        InvalidArgument: What TRL cannot do with this number of processes, or without a GPU.
    """
    kind, _ = KINDS[type(settings)]
    values = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.name not in OURS
    }
    has_gpu = torch.cuda.is_available()
    if isinstance(settings, Grpo):
        values["reward_weights"] = list(settings.reward_weights) or None
        batch = settings.completions(int(os.environ.get("WORLD_SIZE", "1")))
        if batch % settings.num_generations:
            raise InvalidArgument(
                f"num_generations={settings.num_generations}: has to divide the {batch} completions of a "
                "step (per_device_train_batch_size times gradient_accumulation_steps times processes)"
            )
    return kind(
        **values,
        model_init_kwargs={"dtype": settings.dtype},
        report_to=[],
        disable_tqdm=True,
        use_cpu=not has_gpu,
        **precision.mixed(
            precision.loaded(settings),
            has_gpu=has_gpu,
            # By default, a GPU that only emulates bfloat16, such as a T4, counts as one that supports it.
            has_bfloat16=has_gpu and torch.cuda.is_bf16_supported(including_emulation=False),
        ),
        # Debian's PyTorch has MPI, which would be taken before gloo.
        ddp_backend=None if has_gpu else "gloo",
        ddp_find_unused_parameters=False,
    )


def make_trainer(settings: Settings, config: Any) -> Any:
    """TRL's trainer.

    Raises:
        Failure: What it cannot train on.
    """
    rows = data.load(settings)
    if isinstance(settings, Grpo):
        columns.check_prompts(settings, len(rows), config.world_size)
    tokenizer = transformers.AutoTokenizer.from_pretrained(settings.model)
    tokenizer.chat_template = columns.template(settings) or tokenizer.chat_template
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    lora = None
    if settings.use_peft:
        names = list(settings.lora_target_modules)
        lora = LoraConfig(
            r=settings.lora_r,
            lora_alpha=settings.lora_alpha,
            lora_dropout=settings.lora_dropout,
            target_modules=weights.ALL_LINEAR if names == [weights.ALL_LINEAR] else names,
            modules_to_save=list(settings.lora_modules_to_save) or None,
            task_type="CAUSAL_LM",
        )
    _, kind = KINDS[type(settings)]
    more = (
        {"reward_funcs": [rewards.load(name) for name in settings.reward]}
        if isinstance(settings, Grpo)
        else {}
    )
    return kind(
        settings.model,
        args=config,
        train_dataset=rows,
        processing_class=tokenizer,
        peft_config=lora,
        **more,
    )


def check_shared(folder: Path) -> None:
    """All processes see the same folder.

    Raises:
        Unshared: One does not see what the first has written there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not dist.is_initialized():
        return
    name = [f".seen-{uuid.uuid4().hex}"]
    dist.broadcast_object_list(name)
    if dist.get_rank() == 0:
        (folder / name[0]).touch()
    dist.barrier()
    sees = [False] * dist.get_world_size()
    dist.all_gather_object(sees, (folder / name[0]).exists())
    if dist.get_rank() == 0:
        (folder / name[0]).unlink()
    if not all(sees):
        raise Unshared(
            f"process {sees.index(False)} does not see what process 0 writes to {folder}: share its volume"
        )


def agreed(find: Callable[[], Path | None]) -> Path | None:
    """What the first process finds: others would look while something is still to be seen.

    Raises:
        Failure: That of the first process.
    """
    answers: list[Path | Failure | None] = [None]
    if not dist.is_initialized() or dist.get_rank() == 0:
        try:
            answers = [find()]
        except Failure as failure:
            answers = [failure]
    if dist.is_initialized():
        dist.broadcast_object_list(answers)
    if isinstance(answers[0], Failure):
        raise answers[0]
    return answers[0]


def save(trainer: Any, settings: Settings) -> None:
    """Write what was trained to `adapter` or `model` in the output folder, at once and whole."""
    folder = Path(settings.output_dir)
    name = "adapter" if settings.use_peft else "model"
    trainer.save_model(str(folder / f".{name}"))
    if not trainer.is_world_process_zero():
        return
    _publish(folder, name)
    if settings.merge_adapter:
        adapted: PeftModel = trainer.accelerator.unwrap_model(trainer.model)
        adapted.merge_and_unload().save_pretrained(folder / ".model")
        trainer.processing_class.save_pretrained(folder / ".model")
        _publish(folder, "model")


def _publish(folder: Path, name: str) -> None:
    shutil.rmtree(folder / name, ignore_errors=True)
    (folder / f".{name}").rename(folder / name)
    _log.info("%s holds the %s", folder / name, name)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: letting go of gloo may hang for ever, in Python for gloo's thread, and there for Python's lock.
    os._exit(code)
