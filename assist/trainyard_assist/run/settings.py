"""Settings of a run: on the command line, at the head of its script, and in `trainyard.yaml`.

All three are checked by the same model, and have the same words for the same
mistake; each mistake has its place. Reads no files.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, ValidationError
from pydantic.alias_generators import to_camel

from trainyard_api import documents, strict
from trainyard_api.errors import UserError
from trainyard_api.printable import clean
from trainyard_api.similar import hint
from trainyard_api.strict import Quantity, StrictModel

MARK: Final = "#TRAINYARD"
"""How a line of a script's head begins that has settings, as `#SBATCH` does for Slurm."""
MOST_LINES: Final = 200
"""Lines of a script that are looked at."""
LONGEST_LINE: Final = 4096
"""Characters of a line with settings."""
MOST: Final = 2**31 - 1
"""The largest number that Trainer's API has room for."""
MOST_VARIABLES: Final = 128
"""As many as Trainer's API allows."""

_NAME: Final = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
_OBJECT: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"
_LABEL: Final = r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$"
_WITH_KEY: Final = r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[A-Za-z_][A-Za-z0-9_]{0,252})?$"
_VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_.-]{0,252}$"
_IMAGE: Final = r"^[^\s\x00-\x1f]{1,500}$"
_FILE: Final = r"^[^\x00-\x1f\x7f]{1,500}$"
_WORDS: Final = {
    _NAME: "must be at most 63 small letters, digits and hyphens, and begin with a letter",
    _OBJECT: "must be the name of an object: small letters, digits, hyphens and dots",
    _LABEL: "must be at most 63 letters, digits, hyphens, underscores and dots",
    _WITH_KEY: "must be the name of a Secret, or NAME:KEY for one of its keys",
    _VARIABLE: "must be the name of a variable, such as EPOCHS",
    _IMAGE: "must be an image, such as registry.example.com/team/train:1",
    _FILE: "must be the path of a file, such as requirements.txt",
    strict.QUANTITY: "must be a quantity, such as 500m, 8 or 64Gi",
}


def _as_text(value: object) -> object:
    """A number as YAML has it, such as `cpus: 8`, as the text that it stands for."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:g}" if isinstance(value, float) else str(value) if is_number else value


Amount = Annotated[Quantity, BeforeValidator(_as_text)]
Text = Annotated[str, Field(pattern=r"^[^\x00]*$", max_length=32768)]


class Settings(StrictModel):
    """Settings of a run; unset ones come from the runtime, the queue or the platform."""

    runtime: Annotated[str, Field(pattern=_OBJECT)] | None = None
    nodes: Annotated[int, Field(ge=1, le=MOST)] | None = None
    gpus: Annotated[int, Field(ge=0, le=MOST)] | None = None
    """GPUs per node."""
    cpus: Amount | None = None
    memory: Amount | None = None
    queue: Annotated[str, Field(pattern=_OBJECT)] | None = None
    priority: Annotated[str, Field(pattern=_LABEL)] | None = None
    name: Annotated[str, Field(pattern=_NAME)] | None = None
    image: Annotated[str, Field(pattern=_IMAGE)] | None = None
    env: dict[Annotated[str, Field(pattern=_VARIABLE)], Text] = Field(default={}, max_length=MOST_VARIABLES)
    secrets: list[Annotated[str, Field(pattern=_WITH_KEY)]] = Field(default=[], max_length=MOST_VARIABLES)
    """Secrets of the namespace: their keys become variables, or the key after a colon."""
    command: list[Text] = Field(default=[], max_length=MOST_VARIABLES)
    workspace: Text | None = None
    """The folder that travels with it, from the one that it is run in; empty for none."""
    requirements: Annotated[str, Field(pattern=_FILE)] | None = None
    """A file in it, from the one that it is run in: before the command, pip installs what the file names."""
    workspace_volume: Annotated[str, Field(pattern=_OBJECT)] | None = None
    """A claim of the namespace, over which the folder travels if it is too large for a Secret."""


class SettingsError(UserError, ValueError):
    """A setting is wrong; each line has its place, and says what is right."""


_OF_OPTION: Final[Mapping[str, str]] = {
    **{
        name.replace("_", "-"): name
        for name in Settings.model_fields
        if name not in ("env", "secrets", "command")
    },
    "env": "env",
    "secret": "secrets",
}
"""Field of each option, in the head of a script and on the command line."""


def of_options(options: Mapping[str, Any]) -> Settings:
    """The settings of a command line, by the names of its options; None and empty lists are not given."""
    given = {name: value for name, value in options.items() if value not in (None, [], ())}
    return _of_options(given, lambda option: f"--{option}")


def of_head(lines: Iterable[str], source: str) -> Settings:
    """The settings at the head of a script: of its comments, before anything else.

    Args:
        lines: Those of the script.
        source: What messages call it.

    Raises:
        SettingsError: A line has no such option, or an option no such value.
    """
    options: dict[str, Any] = {}
    places: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if number > MOST_LINES or (text and not text.startswith("#")):
            break
        if text.split(maxsplit=1)[:1] == [MARK]:
            place = f"{source}:{number}"
            for option, value in _options(text.removeprefix(MARK), place):
                places[option] = place
                if option == "env":
                    _pair(value, f"{place}: --{option}")  # whose place is not the last one's
                if option in ("env", "secret"):
                    options.setdefault(option, []).append(value)
                else:
                    options[option] = value
    return _of_options(options, lambda option: f"{places[option]}: --{option}")


def of_file(text: str, source: str) -> Settings:
    """The settings of `trainyard.yaml`.

    Raises:
        SettingsError: A key or a value is wrong; each with `source:line`.
        DocumentError: It is not YAML.
    """
    given = documents.parse(text, source)
    if not given:
        return Settings()
    if len(given) > 1:
        raise SettingsError(f"{given[1].place}: there may be only one document")
    document = given[0]
    try:
        return Settings.model_validate(document.value)
    except ValidationError as error:
        raise SettingsError(
            "\n".join(
                clean(f"{source}:{document.position(location).line}: {strict.path('', location)}: {sentence}")
                for location, sentence in strict.sentences(error, Settings, _WORDS)
            )
        ) from error


def merged(weakest_first: Sequence[Settings]) -> Settings:
    """Settings of several places: the last wins; variables and Secrets of all, the last by their names."""
    values: dict[str, Any] = {}
    for settings in weakest_first:
        given = settings.model_dump(exclude_unset=True)
        env = {**values.get("env", {}), **given.pop("env", {})}
        secrets = list(dict.fromkeys((*values.get("secrets", ()), *given.pop("secrets", ()))))
        values |= given | {"env": env, "secrets": secrets}
    return Settings.model_construct(_fields_set=set(values), **values)


def _options(text: str, place: str) -> Iterable[tuple[str, str]]:
    """Each option with its value, as a shell would have the words."""
    if len(text) > LONGEST_LINE:
        raise SettingsError(f"{place}: {MARK}: the line has more than {LONGEST_LINE} characters")
    try:
        words = list(_words(text))
    except ValueError as error:
        raise SettingsError(f"{place}: {MARK}: {str(error)[:1].lower()}{str(error)[1:]}") from error
    while words:
        word, *words = words
        option, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or option not in _OF_OPTION:
            allowed = ", ".join(f"--{name}" for name in _OF_OPTION)
            near = hint(f"--{option}", [f"--{name}" for name in _OF_OPTION])
            raise SettingsError(
                clean(f"{place}: {MARK}: there is no option {word!r} here (allowed: {allowed}){near}")
            )
        if not equals:
            if not words:
                raise SettingsError(f"{place}: --{option}: has no value")
            value, *words = words
        yield option, value


def _words(text: str) -> Iterable[str]:
    """The words of a line up to its comment, which begins a word; for `shlex.split`, a # within one does."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    try:
        yield from takewhile(lambda word: not word.startswith("#"), lexer)
    except ValueError:
        if not lexer.token.startswith("#"):  # an apostrophe of a comment is no quote
            raise


def _of_options(options: Mapping[str, Any], place: Callable[[str], str]) -> Settings:
    values = {_OF_OPTION.get(option, option): value for option, value in options.items()}
    if "env" in values:
        values["env"] = dict(_pair(text, place("env")) for text in values["env"])
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        option_of = {to_camel(field): option for option, field in _OF_OPTION.items()}
        raise SettingsError(
            "\n".join(
                clean(f"{place(option_of.get(str(location[0]), str(location[0])))}: {sentence}")
                for location, sentence in strict.sentences(error, Settings, _WORDS)
            )
        ) from error


def _pair(text: str, place: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(clean(f"{place} {text}: must be a variable and its value, such as EPOCHS=3"))
    return name, value
