"""Secrets are referenced, never written into a manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from trainyard_api import json_reader, names, secret_forms

from ..manifest import Container, Workload
from ..parameters import Parameters
from ..rule import Finding, Level, Rule, Severity
from ..subject import Subject

_SECRET_NAME: Final = re.compile(
    r"(^|_)(TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|API_?KEY|SECRET_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?)$"
)
"""Variables that hold secrets, by their usual names; those of files and ids end differently."""
_SPECIAL_TOKEN: Final = re.compile(
    r"(^|_)(BOS|CLS|EOS|MASK|PAD|SEP|STOP|UNK)_TOKEN$|^(<[^<>]{1,40}>|\[[A-Z]{1,10}\])$"
)
"""A tokenizer's tokens, by their names and by what they look like: `PAD_TOKEN`, `<pad>`, `[MASK]`."""
_REFERENCE: Final = re.compile(r"\$(?:\$|\(([-._A-Za-z][-._A-Za-z0-9]*)\))")
"""Another variable, which Kubernetes puts in its place; `$$` stands for `$`."""
_WORD: Final = re.compile(r"\w")
_SETTING: Final = re.compile(r"[01]|true|false|yes|no|on|off", re.IGNORECASE)
"""Values that turn something on or off, as of `HF_HUB_DISABLE_IMPLICIT_TOKEN`."""
SECRET_VALUE: Final = re.compile(rf"\b(?:{secret_forms.TOKENS})|{secret_forms.PRIVATE_KEY}")
"""Texts that are secrets by their form, wherever they are."""


def check(workload: Workload, parameters: Parameters) -> Iterator[Finding]:
    """No secret in environment, command, arguments or address of a container."""
    for container in workload.containers():
        yield from _env(workload, container)
        yield from _texts(container)
        yield from _address(container)


def _env(workload: Workload, container: Container) -> Iterator[Finding]:
    # A TrainJob adds to the variables of its runtime, and brings an initializer all of a Secret.
    has_others = (
        workload.subject is Subject.TRAINJOBS
        or container.name in names.INITIALIZERS
        or bool(container.value.get("envFrom"))
    )
    sources = {entry["name"] for entry in container.env if entry.get("valueFrom")}
    # Those before, and whether the value comes from elsewhere: it is not written into the manifest.
    before: dict[str, bool] = {}
    for position, entry in enumerate(container.env):
        path = container.path.child("env").index(position).child("value")
        name, value = entry["name"], json_reader.text(entry.get("value"), path) or ""
        references, password = _references(value), _referenced_password(value)
        missing = [] if has_others else [other for other in (*references, *password) if other not in before]
        is_reference = not missing and any(before.get(other, True) for other in references)
        has_password = _with_password(value) and not (
            not missing and any(before.get(other, True) for other in password)
        )
        if value:
            later = next((other for other in missing if other in sources), "")
            order = f", and {later}, to which it refers, must stand before it" if later else ""
            problem = _problem(name, value, is_reference=is_reference, has_password=has_password)
            if problem:
                yield Finding(path, f"must be valueFrom.secretKeyRef: {problem}{order}")
        before[name] = is_reference or bool(entry.get("valueFrom"))


def _problem(name: str, value: str, *, is_reference: bool, has_password: bool) -> str:
    """What is wrong with a variable; empty if nothing is."""
    special = _SPECIAL_TOKEN.search(name.upper()) or _SPECIAL_TOKEN.search(value)
    is_harmless = special or is_reference or _SETTING.fullmatch(value) or _is_file(name, value)
    if _SECRET_NAME.search(name.upper()) and not is_harmless:
        return f"{name} is the name of a secret"
    if SECRET_VALUE.search(value) or has_password:
        return f"what {name} holds looks like a secret"
    return ""


def _references(value: str) -> Sequence[str]:
    """The variables that it consists of, as `$(USER):$(PASSWORD)` does; none if there is more."""
    if _WORD.search(_REFERENCE.sub("", value)):
        return ()
    return [name for name in _REFERENCE.findall(value) if name]


def _is_file(name: str, value: str) -> bool:
    """Whether it is where credentials are, as with `GOOGLE_APPLICATION_CREDENTIALS`."""
    return value.startswith("/") and name.upper().endswith("CREDENTIALS")


def _texts(container: Container) -> Iterator[Finding]:
    for name in ("command", "args"):
        path = container.path.child(name)
        for position, text in enumerate(json_reader.texts(container.value.get(name), path)):
            if SECRET_VALUE.search(text):
                yield Finding(path.index(position), "must not hold a secret: read it from the environment")


def _address(container: Container) -> Iterator[Finding]:
    path = container.path.child("storageUri")
    uri = json_reader.text(container.value.get("storageUri"), path)
    if uri and _with_password(uri):
        yield Finding(path, "must not hold a password: name a Secret in secretRef")


def _with_password(text: str) -> bool:
    return bool(_password(text))


def _password(text: str) -> str:
    """The password in an address; empty if there is none."""
    if "://" not in text or "@" not in text:
        return ""
    try:
        return urlsplit(text).password or ""
    except ValueError:
        return ""


def _referenced_password(text: str) -> Sequence[str]:
    """The variable that is the whole password of an address, as in `postgres://me:$(PASSWORD)@host`."""
    match = _REFERENCE.fullmatch(password := _password(text))
    # Another address in the same text could have a password of its own. The parser removes line breaks.
    is_only = text.count("://") == text.count("@") == 1 and f":{password}@" in text
    return [match[1]] if match and match[1] and is_only else ()


RULE = Rule(
    id="secrets-by-reference",
    title="Secrets are referenced, never written into a manifest",
    why="Everyone who may read a manifest can read the secret, and it stays in git's history. A value that "
    "consists of references to variables before it, such as $(TOKEN), is no secret, unless the manifest "
    "itself contains the values of all these variables. The same applies to the password in an address, such "
    "as postgres://me:$(PASSWORD)@host. For TrainJobs, this is advice by default, because "
    "the SDK sends tokens as plain environment variables.",
    remedy="Put the secret in a Secret and refer to it with valueFrom.secretKeyRef, in an initializer with "
    "secretRef. Replace a secret that was in git.",
    severity=Severity.CRITICAL,
    levels={Subject.RUNTIMES: Level.MANDATORY, Subject.TRAINJOBS: Level.ADVISORY},
    check=check,
)
