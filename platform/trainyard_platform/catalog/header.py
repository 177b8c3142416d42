"""What a file of the catalog says about itself: the comment at its top.

One sentence, then prose for the people who choose a runtime, then a TrainJob to
start with. `trainyard runtimes` shows it; tests check each file.
"""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SCHEMA: Final = "# yaml-language-server: $schema=../schema.json"
"""The line by which editors find the schema of a file of the catalog."""

INDENT: Final = "#   "
"""The prefix of each line of the TrainJob."""
_EDITORS: Final = "# yaml-language-server:"
_EXAMPLE: Final = "  apiVersion: trainer.kubeflow.org/"


@dataclass(frozen=True)
class Header:
    """The parts of a header; each is empty where it is missing."""

    summary: str
    """What the runtime is for, in a sentence."""
    about: str
    """For whom, and what they have to know."""
    example: str
    """A TrainJob on it, as YAML."""

    def successors(self, runtimes: Iterable[str]) -> list[str]:
        """Those of the runtimes that take its place, sorted; none where it is not deprecated."""
        deprecation = self.about.partition("Deprecated: ")[2].partition("\n\n")[0]
        words = {word.rstrip(".,:;") for word in deprecation.split()}
        return sorted(words.intersection(runtimes))


def parse(text: str) -> Header:
    """The header of a file of the catalog."""
    comment = text.removesuffix(body(text)).splitlines()
    lines = [line.removeprefix("#").removeprefix(" ") for line in comment if not line.startswith(_EDITORS)]
    starts = [at for at, line in enumerate(lines) if line.startswith(_EXAMPLE)]
    prose, example = (lines[: starts[0]], lines[starts[0] :]) if starts else (lines, [])
    summary, _, about = "\n".join(prose).strip().partition("\n\n")
    return Header(
        " ".join(summary.split()), about.strip(), "".join(f"{line.removeprefix('  ')}\n" for line in example)
    )


def body(text: str) -> str:
    """What follows the header."""
    lines = text.splitlines(keepends=True)
    return "".join(itertools.dropwhile(lambda line: line.startswith("#"), lines))
