"""Image references, with what container runtimes add to a short one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_REGISTRY: Final = "docker.io"


@dataclass(frozen=True, slots=True)
class Image:
    """An image: registry and repository in full, tag and digest if given."""

    repository: str
    tag: str | None
    digest: str | None


def parse(text: str) -> Image:
    """Take a reference apart; `pytorch:2` is `docker.io/library/pytorch`, tag `2`."""
    name, _, digest = text.partition("@")
    name, tag = _split_tag(name)
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"{DEFAULT_REGISTRY}/library/{name}"
    elif not ("." in first or ":" in first or first == "localhost"):
        name = f"{DEFAULT_REGISTRY}/{name}"
    return Image(name, tag, digest or None)


def within(repository: str, prefix: str) -> bool:
    """Whether a repository is the prefix or below it."""
    prefix = prefix.rstrip("/")
    return repository == prefix or repository.startswith(f"{prefix}/")


def _split_tag(name: str) -> tuple[str, str | None]:
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, None)
