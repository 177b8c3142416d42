"""Image references, with what container runtimes add to a short one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_REGISTRY: Final = "docker.io"
_ALIASES: Final = {"index.docker.io": DEFAULT_REGISTRY}
"""Other names of registries, which container runtimes replace."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image: registry and repository in full, tag and digest if given."""

    repository: str
    tag: str | None
    digest: str | None


def parse(text: str) -> Image:
    """Take a reference apart; `python:3` and `docker.io/python:3` are `docker.io/library/python`, tag `3`."""
    name, _, digest = text.partition("@")
    name, tag = _split_tag(name)
    registry, slash, path = name.partition("/")
    if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
        registry, path = DEFAULT_REGISTRY, name
    registry = _ALIASES.get(registry, registry)
    if registry == DEFAULT_REGISTRY and "/" not in path:
        path = f"library/{path}"
    return Image(f"{registry}/{path}", tag, digest or None)


def allows(source: str, image: Image) -> bool:
    """Whether the image comes from the registry or repository; a source with a digest is only that image."""
    name, at, digest = source.partition("@")
    if at:
        return (image.repository, image.digest) == (parse(name).repository, digest)
    return _within(image.repository, source)


def _within(repository: str, prefix: str) -> bool:
    """Whether a repository in full is the prefix or below it."""
    registry, slash, path = prefix.rstrip("/").partition("/")
    prefix = f"{_ALIASES.get(registry, registry)}{slash}{path}"
    return repository == prefix or repository.startswith(f"{prefix}/")


def _split_tag(name: str) -> tuple[str, str | None]:
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, None)
