"""Versions that work together: the data of `compatibility.yaml`, as refusals and as a page.

`make generate` writes the page that is checked in; a test fails when the two differ.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Any

import yaml

_MINOR = re.compile(r"v?([0-9]+\.[0-9]+)(?:[.+-].*)?")

HEAD = """\
# Versions that work together

<!-- Made from api/trainyard_api/compatibility.yaml by `make generate`; do not edit. -->

`pulumi preview` refuses every other combination of these parts, and lists the combinations that work. It uses
the versions of the parts that it installs, and the Kubernetes version in `cluster.version`.

*upstream*: the projects document that the versions work together. *seen*: the versions ran with this
platform. *refused*: the versions are known to fail.
"""


class Standing(StrEnum):
    """The compatibility of a pair of versions."""

    UPSTREAM = "upstream"
    SEEN = "seen"
    REFUSED = "refused"


@dataclass(frozen=True)
class Pair:
    """Two parts in one version each."""

    parts: Mapping[str, str]
    standing: Standing
    why: str = ""


@dataclass(frozen=True)
class Table:
    """The content of `compatibility.yaml`."""

    names: Mapping[str, str]
    pairs: Sequence[Pair]

    @classmethod
    @cache
    def read(cls) -> "Table":
        """The parsed `compatibility.yaml`."""
        text = files(__package__).joinpath("compatibility.yaml").read_text(encoding="utf-8")
        document: dict[str, Any] = yaml.safe_load(text)
        return cls(document["names"], [_pair(dict(entry)) for entry in document["pairs"]])

    def problems(self, versions: Mapping[str, str]) -> Iterator[str]:
        """A sentence for every two parts that do not work together.

        Args:
            versions: Version of each part that is used, such as `v0.19.0`.
        """
        for _, problem in self.refused(versions):
            yield problem

    def refused(self, versions: Mapping[str, str]) -> Iterator[tuple[tuple[str, str], str]]:
        """The pairs of parts that do not work together, each with its sentence; see `problems`."""
        for first, second in combinations(sorted(versions), 2):
            pairs = [pair for pair in self.pairs if set(pair.parts) == {first, second}]
            used = {first: minor(versions[first]), second: minor(versions[second])}
            pair = next((pair for pair in pairs if pair.parts == used), None)
            if pairs and (pair is None or pair.standing is Standing.REFUSED):
                why = f": {pair.why}" if pair and pair.why else ""
                sentence = f"{self._shown(used)} do not work together{why} ({self._way_out(pairs)})"
                yield (first, second), sentence

    def page(self) -> str:
        """The page of the documentation."""
        sections = []
        for first, second in dict.fromkeys(tuple(pair.parts) for pair in self.pairs):
            rows = [
                f"| {pair.parts[first]} | {pair.parts[second]} | {pair.standing} | {pair.why} |"
                for pair in self.pairs
                if tuple(pair.parts) == (first, second)
            ]
            title = f"## {self.names[first]} and {self.names[second]}"
            table = [f"| {self.names[first]} | {self.names[second]} | | |", "|---|---|---|---|", *rows]
            sections.append("\n".join([title, "", *table, ""]))
        return "\n".join([HEAD, *sections])

    def _shown(self, parts: Mapping[str, str]) -> str:
        return " and ".join(f"{self.names[part]} {version}" for part, version in parts.items())

    def _way_out(self, pairs: Sequence[Pair]) -> str:
        working = [self._shown(pair.parts) for pair in pairs if pair.standing is not Standing.REFUSED]
        return f"these do: {'; '.join(working)}"


def minor(version: str) -> str:
    """`v0.19.0` and `0.19` as `0.19`; other texts unchanged."""
    match = _MINOR.fullmatch(version)
    return match[1] if match else version


def _pair(entry: dict[str, str]) -> Pair:
    standing, why = Standing(entry.pop("standing")), entry.pop("why", "")
    return Pair(entry, standing, why)
