"""Removes secrets from objects and logs before somebody sends them away. Pure.

Called by `trainyard dump`. docs/data-scientists.md says what it removes. It
goes by names and forms, so it removes too much rather than too little, but no program knows every secret:
read the result before you send it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from trainyard_api import secret_forms
from trainyard_api.json_types import JsonValue

REMOVED: Final = "(removed)"
"""The replacement of a secret."""
DEEPEST: Final = 64
"""Levels of an object; what is nested deeper is removed."""

_DROPPED: Final = frozenset({"managedFields", "kubectl.kubernetes.io/last-applied-configuration"})
"""Fields and annotations that repeat all of an object, or say only who wrote it."""
_SECRET_NAME: Final = re.compile(
    r"TOKEN|PASS|PWD|SECRET|KEY|CREDENTIAL|AUTH(?!OR)|COOKIE|SESSION|SIGNATURE|DSN|WEBHOOK", re.IGNORECASE
)
"""Variables and annotations that may hold secrets, by a part of their names."""

_WORD: Final = (
    r"(?i:passw(?:or)?d|passphrase|passcode|pwd|secret|token|credentials?|cookie|authorization|signature"
    r"|(?:access|account|api|auth|deploy|encryption|license|master|private|secret|service|shared|signing|ssh"
    r"|storage)[ _-]?key(?:[ _-]?id)?)|[A-Z0-9]_KEY(?:_ID)?"
)
"""How the name of a secret ends in text; more names than these are words of a log."""
_VALUE: Final = r"""(?!\(removed\))(?:"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|\\{1,3}"[^"\n]*+"?|[^\s"'&]++)"""
"""The value after the name: in quotes, or to the next space, unless already removed."""
_FIELD: Final = re.compile(rf"(?:{_WORD})\Z")
_OPTION: Final = rf"(?<![A-Za-z0-9_-])--?[A-Za-z0-9_-]{{0,40}}?(?:{_WORD})"
"""An option of a command whose value follows."""
_FLAG: Final = re.compile(rf"{_OPTION}\Z")

_PRIVATE_KEY: Final = re.compile(
    rf"{secret_forms.PRIVATE_KEY}(?s:.{{0,16384}}?-----END [A-Z ]{{0,40}}PRIVATE KEY-----|.{{0,16384}})"
)
_OF_KEYS: Final = "PRIVATE KEY-----"
"""What the first and the last line of each private key end with."""
_BASE64: Final = re.compile(r"\s?[A-Za-z0-9+/=]{1,100}\s?")
_LINE: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (
            r"""((?i:\bauthorization)["'\\]{0,4}[ \t]{0,3}[:=][ \t]{0,3}["'\\]{0,4})[^\n"'\\]++""",
            rf"\1{REMOVED}",
        ),
        (r"((?i:\bbearer)[ \t]{1,3})[A-Za-z0-9+/._~=-]{8,}+", rf"\1{REMOVED}"),
        (r"""://[^\s"'<>@/:]{0,256}+:[^\s"'<>@]{1,256}+@""", f"://{REMOVED}@"),
        (r"""://[^\s"'<>@/?#]{1,1024}+@""", f"://{REMOVED}@"),
        (rf"((?i:[?&]sig)=){_VALUE}", rf"\1{REMOVED}"),
        (rf"({_OPTION}[ \t]{{1,3}})(?!-){_VALUE}", rf"\1{REMOVED}"),
        (rf"""((?:{_WORD})["'\\]{{0,4}}[ \t]{{0,3}}(?:=>|[=:])[ \t]{{0,3}}){_VALUE}""", rf"\1{REMOVED}"),
        (
            rf"\b(?:{secret_forms.TOKENS}|eyJ[\w-]{{8,}}+\.[\w-]{{8,}}+(?:\.[\w-]*+)?|AIza[\w-]{{35}})",
            REMOVED,
        ),
    )
)
"""Expressions to remove from a line, in order: headers, addresses, arguments, settings, and known forms."""
_HINTS: Final = (
    *("authorization", "bearer", "cookie", "credential", "key", "pass", "pwd", "secret", "sig=", "signature"),
    *("token", "://", "aiza", "akia", "asia", "eyj", "gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_"),
    *("glpat-", "hf_", "sk-", "xox"),
)
"""Substrings of every line with a secret: most lines have none, which is fast to check."""


def text(of: str) -> str:
    """The text, of any number of lines, without what looks like a secret."""
    if _OF_KEYS not in of:
        return "\n".join(map(_line, of.split("\n")))
    lines = _PRIVATE_KEY.sub(REMOVED, of).split("\n")
    return "\n".join(map(_line, _without_ends(lines)))


def _without_ends(lines: list[str]) -> list[str]:
    """The lines, less the end of a private key whose beginning is not among them."""
    for number, line in enumerate(lines):
        if "-----END " not in line or _OF_KEYS not in line:
            continue
        lines[number] = REMOVED
        before = number - 1
        while before >= 0 and _BASE64.fullmatch(lines[before]):
            lines[before] = REMOVED
            before -= 1
    return lines


def value(of: JsonValue) -> JsonValue:
    """An object or any other value without what looks like a secret, and without what repeats the object."""
    return _value(of, DEEPEST)


def _line(of: str) -> str:
    lowered = of.lower()
    if not any(hint in lowered for hint in _HINTS):
        return of
    for pattern, replacement in _LINE:
        of = pattern.sub(replacement, of)
    return of


def _value(of: JsonValue, depth: int) -> JsonValue:
    if isinstance(of, str):
        return _text(of, depth)
    if not isinstance(of, Mapping | list | tuple):
        return of
    if depth == 0:
        return REMOVED
    if isinstance(of, list | tuple):
        return _list([*of], depth - 1)
    name = of.get("name")
    is_secret = isinstance(name, str) and _SECRET_NAME.search(name) is not None
    return {
        key: REMOVED
        if isinstance(field, str) and ((is_secret and key == "value") or _FIELD.search(key))
        else _annotations(field, depth - 1)
        if key == "annotations" and isinstance(field, Mapping)
        else _value(field, depth - 1)
        for key, field in of.items()
        if key not in _DROPPED
    }


def _annotations(of: Mapping[str, JsonValue], depth: int) -> JsonValue:
    kept = {key: REMOVED if _SECRET_NAME.search(key) else annotation for key, annotation in of.items()}
    return _value(kept, max(depth, 1))


def _list(of: list[JsonValue], depth: int) -> JsonValue:
    """The items; of a command line what follows a flag such as `--token` is removed.

    Items without line breaks may be the lines of a log, and a private key is in several of them.
    """
    lines = [item for item in of if isinstance(item, str) and "\n" not in item]
    if len(lines) == len(of) and any(_OF_KEYS in line for line in lines):
        of = [*text("\n".join(lines)).split("\n")]
    before = [None, *of]
    return [
        REMOVED
        if isinstance(item, str) and isinstance(flag, str) and _FLAG.fullmatch(flag)
        else _value(item, depth)
        for flag, item in zip(before, of, strict=False)
    ]


def _text(of: str, depth: int) -> str:
    """A text; of an object that is written as text, each field counts."""
    if of.startswith(("{", "[")):
        try:
            decoded = msgspec.json.decode(of)
        except (msgspec.DecodeError, RecursionError):
            return text(of)
        return msgspec.json.encode(_value(decoded, depth)).decode()
    return text(of)
