"""The forms that Kubernetes requires of names and references: each an expression, and a sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a whole text."""

    pattern: re.Pattern[str]
    sentence: str
    longest: int

    def fits(self, text: str) -> bool:
        """Whether a text has the form; one that is too long is not examined."""
        return len(text) <= self.longest and self.pattern.fullmatch(text) is not None


def _form(pattern: str, sentence: str, longest: int) -> Form:
    return Form(re.compile(pattern), f"must be {sentence}, and fit into {longest} characters", longest)


_PART: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST: Final = "[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?"
_PATH: Final = "[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*"

LABEL: Final = _form(_PART, "lower case letters, digits and '-'", 63)
"""RFC 1123, as Kubernetes uses it for containers and volumes."""
STRICT_LABEL: Final = _form(
    "[a-z]([-a-z0-9]*[a-z0-9])?", "lower case letters, digits and '-', the first a letter", 63
)
"""RFC 1035, as it uses it for what gives its name to a Service."""
SUBDOMAIN: Final = _form(rf"{_PART}(\.{_PART})*", "lower case letters, digits, '-' and '.'", 253)
WORD: Final = _form("[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", "letters, digits, '-', '_' and '.'", 63)
"""A label's value, and its key after the prefix."""
PORT: Final = _form(
    "(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*", "lower case letters, digits and single '-', one of them a letter", 15
)
"""RFC 6335, as Kubernetes uses it for the name of a port."""
VARIABLE: Final = _form(
    "[-._a-zA-Z][-._a-zA-Z0-9]*", "letters, digits, '_', '-' and '.', the first not a digit", 1024
)
"""A variable that every shell and every Kubernetes accepts; since 1.34 Kubernetes itself accepts more."""
FAILURE_RULE: Final = _form(
    "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
    "letters, digits, '_', ',' and ':', the first a letter and the last no ',' or ':'",
    128,
)
"""The name of a rule of JobSet's failure policy."""
IMAGE: Final = _form(
    rf"({_HOST}(\.{_HOST})*(:[0-9]+)?/)?{_PATH}(/{_PATH})*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
    r"(@[A-Za-z][A-Za-z0-9]*([+._-][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    "an image such as ghcr.io/example/train:1.2, its name in lower case",
    1024,
)
"""The grammar of the distribution specification."""

BY_NAME: Final = {"image": IMAGE, "label": LABEL, "port": PORT, "variable": VARIABLE}
"""As `shapes.json` names them."""
