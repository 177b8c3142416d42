"""What to fetch: the environment of the container as a checked value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from .failures import InvalidSource

DATASET = "dataset"
MODEL = "model"

# Upstream's defaults, the formats of weights that are safe to load, and chat templates, which upstream leaves
# out: newer tokenizers have theirs in a file of its own.
_MODEL_FILES = ("*.json", "*.safetensors", "*.model", "*.txt", "*.gguf", "*.jinja")
_NO_MODEL_FILES = ("*.msgpack", "*.h5", "*.bin", "*.pt", "*.pth")
ADDRESS = re.compile(r"https?://[^\s/@]+(/\S*)?")
"""Of a server, without user and password."""
_LONGEST = 2048
_CONTROLS = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"  # controls, line separators, halves of characters
    r"|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"  # what reorders the text around it
)


def plain(text: str) -> bool:
    """Whether a terminal shows the text as it is: on one line, and its characters in their order."""
    return not _CONTROLS.search(text)


@dataclass(frozen=True)
class Uri:
    """`scheme://authority/path`, taken literally: `?`, `#` and `%` are parts of names."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def parse(cls, text: str) -> Uri:
        """Read a STORAGE_URI.

        Raises:
            InvalidSource: If it is invalid. The message does not repeat text that may hold a password.
        """
        scheme, separator, rest = text.partition("://")
        if not separator or not scheme or not rest or len(text) > _LONGEST or not plain(text):
            raise InvalidSource(
                "STORAGE_URI must be scheme://..., at most 2048 characters long, without control characters, "
                "such as hf://owner/dataset or s3://bucket/folder"
            )
        authority, _, path = rest.partition("/")
        if ":" in authority:
            raise InvalidSource(
                "STORAGE_URI must hold no user, password or port: credentials come from ACCESS_TOKEN "
                "or ACCESS_KEY_ID and SECRET_ACCESS_KEY, addresses from HF_ENDPOINT or ENDPOINT"
            )
        return cls(scheme.lower(), authority, path)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}" + (f"/{self.path}" if self.path else "")


@dataclass(frozen=True)
class Patterns:
    """Which files are wanted, as globs over whole paths; `*` matches `/` too, a final `/` means all below."""

    allow: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def want(self, path: str) -> bool:
        """Whether to fetch a file."""
        allowed = not self.allow or any(fnmatchcase(path, one) for one in self.allow)
        return allowed and not any(fnmatchcase(path, one) for one in self.ignore)


@dataclass(frozen=True)
class Request:
    """One dataset or model to fetch."""

    step: str
    uri: Uri
    patterns: Patterns
    environment: Mapping[str, str] = field(repr=False)

    def get(self, name: str) -> str | None:
        """A variable without surrounding space; None if it is absent or empty.

        Secrets made with `echo` end with a newline.
        """
        return self.environment.get(name, "").strip() or None

    @property
    def endpoint(self) -> str | None:
        """Of the store with the S3 API: the TrainJob's, else the platform's; None: Amazon's."""
        return self.get("ENDPOINT") or self.get("AWS_ENDPOINT_URL_S3")

    @property
    def region(self) -> str | None:
        """Of that store, likewise; None if nobody says it."""
        return self.get("REGION") or self.get("AWS_REGION")

    def identity(self) -> Mapping[str, Any]:
        """What was requested, as JSON values; requests with the same identity fill a folder alike."""
        return {
            "source": str(self.uri),
            "server": self.get("HF_ENDPOINT") if self.uri.scheme == "hf" else self.endpoint,
            "allow": list(self.patterns.allow),
            "ignore": list(self.patterns.ignore),
        }


def read(step: str, environment: Mapping[str, str]) -> Request:
    """The request in the variables of a container.

    Args:
        step: `dataset` or `model`.
        environment: STORAGE_URI, IGNORE_PATTERNS and what the source's module reads.

    Raises:
        InvalidSource: If STORAGE_URI is missing or malformed.
    """
    text = environment.get("STORAGE_URI", "").strip()
    if not text:
        raise InvalidSource(
            f"STORAGE_URI is not set: set spec.initializer.{step}.storageUri in the TrainJob, "
            "or the variable in the runtime's container"
        )
    uri = Uri.parse(text)
    patterns = environment.get("IGNORE_PATTERNS")
    ignore = _globs(patterns.split(",")) if patterns is not None else _NO_MODEL_FILES if step == MODEL else ()
    allow = _MODEL_FILES if step == MODEL and uri.scheme == "hf" else ()
    return Request(step, uri, Patterns(allow, ignore), environment)


def _globs(items: list[str]) -> tuple[str, ...]:
    stripped = (item.strip() for item in items)
    return tuple(f"{item}*" if item.endswith("/") else item for item in stripped if item)
