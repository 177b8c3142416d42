"""Errors: field paths and field errors, worded as Kubernetes words them, and what ends a command.

Field errors are for everything that refuses a manifest: the operator's
plugins, admission, the command line. The text of a `FieldError` equals that of
`k8s.io/apimachinery/pkg/util/validation/field`, because people and tools
match on it. `UserError` is the base of the errors that each package has for
the users of its commands.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from .printable import printable


class UserError(Exception):
    """Ends a command, in words for its user: the thing, the place and the way out.

    The command prints it and ends with its exit code; nobody sees a traceback.
    """

    exit_code: ClassVar[int] = 2
    """2: there is no answer; 1: the answer is no."""

    @property
    def shown(self) -> str:
        """The text made safe for a terminal: line breaks stay, control characters go."""
        return "\n".join(map(printable, str(self).split("\n")))


class ErrorType(StrEnum):
    """Kind of a field error; the value is how Kubernetes prints it."""

    DUPLICATE = "Duplicate value"
    FORBIDDEN = "Forbidden"
    INTERNAL = "Internal error"
    INVALID = "Invalid value"
    NOT_SUPPORTED = "Unsupported value"
    REQUIRED = "Required value"
    TOO_LONG = "Too long"


_WITHOUT_VALUE = frozenset({ErrorType.FORBIDDEN, ErrorType.INTERNAL, ErrorType.REQUIRED, ErrorType.TOO_LONG})


LONGEST_KEY: Final = 317
"""Characters of a key of labels, annotations or resources: a prefix of 253, a slash, a name of 63."""


@dataclass(frozen=True, slots=True)
class FieldPath:
    """The address of a field, such as `spec.replicatedJobs[0].template`."""

    text: str = ""

    def child(self, *names: str) -> FieldPath:
        """The field of that name (or names, one below the other)."""
        return FieldPath(".".join((self.text, *names)) if self.text else ".".join(names))

    def index(self, position: int) -> FieldPath:
        """The list element at that position."""
        return FieldPath(f"{self.text}[{position}]")

    def key(self, name: str) -> FieldPath:
        """The map entry of that key; a key that is too long for Kubernetes is cut."""
        return FieldPath(f"{self.text}[{name[:LONGEST_KEY]}]")

    @property
    def steps(self) -> tuple[str, ...]:
        """The names, positions and keys that the path is made of, each as text."""
        return tuple(key or name for key, name in _STEP.findall(self.text))

    @property
    def end(self) -> str:
        """The last two fields, which tell people what it is: `containers[0].image`."""
        return "".join(_FIELD.findall(self.text)[-2:]).removeprefix(".")

    def __str__(self) -> str:
        return self.text


_FIELD = re.compile(rf"\.?[^.\[\]]+(?:\[[^\]]{{0,{LONGEST_KEY}}}+\])*")
_STEP = re.compile(rf"\[([^\]]{{0,{LONGEST_KEY}}}+)\]|([^.\[\]]+)")


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error in one field.

    `value` is the offending JSON value; it is printed for the types where
    Kubernetes prints it and ignored for the others.
    """

    type: ErrorType
    path: str
    value: Any
    detail: str = ""

    def __str__(self) -> str:
        parts = [self.path, self.type.value]
        if self.type not in _WITHOUT_VALUE:
            parts.append(_go_json(self.value))
        if self.detail:
            parts.append(self.detail)
        return ": ".join(parts)


class InvalidFieldError(ValueError):
    """Raised for invalid values; carries the field errors."""

    def __init__(self, *errors: FieldError) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


def invalid(path: FieldPath | str, value: Any, detail: str) -> InvalidFieldError:
    """The exception for a field whose value is wrong."""
    return InvalidFieldError(FieldError(ErrorType.INVALID, str(path), value, detail))


def required(path: FieldPath | str, detail: str = "") -> InvalidFieldError:
    """The exception for a field that is missing."""
    return InvalidFieldError(FieldError(ErrorType.REQUIRED, str(path), None, detail))


def _go_json(value: Any) -> str:
    """JSON as Go's encoder writes it; a lone string as `%q` does."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, str):
        return text
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
