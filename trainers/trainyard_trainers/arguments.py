"""`KEY=VALUE` on the command line as checked settings; what cannot be meant is told with what can."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from .failures import InvalidArgument, nearest
from .settings import METHODS, Settings

_TRUTHS: Mapping[str, bool] = {"true": True, "false": False}


def read(arguments: Sequence[str]) -> Settings:
    """The settings of a method.

    Args:
        arguments: The method, and behind it `KEY=VALUE` as often as wanted.

    Raises:
        InvalidArgument: There is no such method or setting, or its value cannot be meant.
    """
    if not arguments:
        raise InvalidArgument(f"which method? There are {', '.join(METHODS)}")
    method, *assignments = arguments
    if method not in METHODS:
        raise InvalidArgument(f"{method}: no such method; {nearest(method, METHODS)}")
    kind = METHODS[method]
    types, settings = get_type_hints(kind), {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.removeprefix("--")
        if name not in settings:
            if others := [
                other for other, its in METHODS.items() if name in {field.name for field in fields(its)}
            ]:
                raise InvalidArgument(f"{name}: a setting of {' and '.join(others)}, not of {method}")
            raise InvalidArgument(f"{name}: {method} has no such setting; {nearest(name, settings)}")
        if not equals:
            raise InvalidArgument(f"{name}: write it as {name}=VALUE")
        if name in values:
            raise InvalidArgument(f"{name}: given twice")
        values[name] = _value(settings[name], types[name], text)
    return _checked(kind(**values))


def usage() -> str:
    """All settings of all methods with their defaults, as text."""
    common = {field.name: field.default for field in fields(Settings)}
    lines = []
    for title, kind in (("every method", Settings), *METHODS.items()):
        lines.append(f"settings of {title}:")
        for field in fields(kind):
            if kind is Settings or field.name not in common or field.default != common[field.name]:
                lines.append(f"  {field.name}={shown(field)}\n        {field.metadata['help']}")
    return "\n".join(lines)


def shown(field: Field[Any]) -> str:
    """The default of a setting as one would write it."""
    default: Any = field.default_factory() if callable(field.default_factory) else field.default
    if isinstance(default, tuple):
        return ",".join(default)
    return str(default).lower() if isinstance(default, bool) else str(default)


def _value(field: Field[Any], kind: Any, text: str) -> Any:
    if get_origin(kind) is tuple:
        of = get_args(kind)[0]
        items = [item.strip() for item in text.strip("[]").split(",")]
        return tuple(_value(field, of, item.strip("'\"")) for item in items if item)
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise InvalidArgument(f"{field.name}={text}: {nearest(text, get_args(kind))}")
        return text
    if kind is bool:
        if text.lower() not in _TRUTHS:
            raise InvalidArgument(f"{field.name}={text}: true or false")
        return _TRUTHS[text.lower()]
    if kind is str:
        return _text(field, text)
    return _number(field, kind, text)


def _text(field: Field[Any], text: str) -> str:
    if not text.isprintable() or len(text) > 4096:
        raise InvalidArgument(f"{field.name}: at most 4096 printable characters")
    return text


def _number(field: Field[Any], kind: Callable[[str], float], text: str) -> float:
    word = "a whole number" if kind is int else "a number"
    try:
        number = kind(text) if len(text) <= 40 else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InvalidArgument(f"{field.name}={text}: not {word}")
    least, most = field.metadata["least"], field.metadata["most"]
    if (least is not None and number < least) or (most is not None and number > most):
        raise InvalidArgument(f"{field.name}={text}: {word} from {least} to {most}")
    return number


def _checked(settings: Settings) -> Settings:
    """What no setting says alone.

    Raises:
        InvalidArgument: Two that exclude each other, or one that another needs.
    """
    if settings.max_steps == 0 or (settings.max_steps < 0 and settings.num_train_epochs == 0):
        raise InvalidArgument("max_steps and num_train_epochs: there is nothing to train")
    if settings.merge_adapter and not settings.use_peft:
        raise InvalidArgument("merge_adapter=true: only with use_peft=true is there an adapter")
    if settings.dtype != "float32" and (settings.lora_modules_to_save or not settings.use_peft):
        # AdamW changes weights in place: small steps round away in bfloat16, and float16 overflows.
        cause = "lora_modules_to_save" if settings.use_peft else "use_peft=false"
        way = "leave out lora_modules_to_save" if settings.use_peft else "set use_peft=true"
        raise InvalidArgument(
            f"dtype={settings.dtype}: {cause} trains weights in place, and only float32 is exact enough. "
            f"Leave out dtype (a GPU that can compute in bfloat16 does so anyway), or {way}"
        )
    if not settings.lora_target_modules:
        raise InvalidArgument("lora_target_modules: name some, or all-linear")
    reward = getattr(settings, "reward", None)
    if reward == ():
        raise InvalidArgument("reward: grpo needs one, such as reward=/workspace/dataset/rewards.py:FUNCTION")
    weights = getattr(settings, "reward_weights", ())
    if weights and len(weights) != len(reward or ()):
        raise InvalidArgument(f"reward_weights: {len(weights)} for {len(reward or ())} functions of reward")
    return settings
