"""Makes the messages of API servers and webhooks fit to log, report and store.

Some messages repeat all of what was rejected: a JobSet with the environment of
its containers, tokens included. So the values are removed and the sentence
stays: which field is wrong, and what is allowed.
"""

from __future__ import annotations

import re
from typing import Final

LONGEST: Final = 600
"""Characters of a message that are kept."""
NOT_SHOWN: Final = "(not shown)"

_VALUE = re.compile(r"(?:Invalid|Unsupported|Duplicate) value: |\{|(?<!\w)\[(?=[{\"\[])|\bmap\[")
"""Text before a value: the words of a field error, or the beginning of an object or list."""
_PART = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\]]|[:,] ', re.DOTALL)
"""Tokens of a value: a string with any content, brackets, and the text that may follow."""


def without_values(message: str) -> str:
    """The message on one line, with `(not shown)` in place of values, and cut to `LONGEST`."""
    kept = []
    at = 0
    while len(message) > at and (match := _VALUE.search(message, at)) is not None:
        named = match.group().endswith(": ")
        kept += [message[at : match.end() if named else match.start()], NOT_SHOWN]
        at = _end(message, match.end(), 0 if named else 1)
    kept.append(message[at:])
    line = " ".join("".join(kept).split())
    line = "".join(character if character.isprintable() else " " for character in line[: LONGEST + 1])
    return line if len(line) <= LONGEST else line[: LONGEST - 4] + " ..."


def _end(message: str, at: int, depth: int) -> int:
    """End of the value that continues at `at`, inside `depth` brackets."""
    inside = depth > 0
    for part in _PART.finditer(message, at):
        text = part.group()
        if text == '"':
            break  # a string without an end
        if text in "{[":
            depth += 1
        elif text in "}]":
            depth -= 1
            if depth < 0:
                return part.start()
            if depth == 0 and inside:
                return part.end()
        elif text in (": ", ", ") and depth == 0:
            return part.start()
    return len(message)
