"""`runtimes/runs.yaml`: what of the catalog has run, and where, as the tests have recorded it.

Nobody writes the file by hand (tests/support/runs.py); `trainyard runtimes` and
docs/what-ran-where.md show it. A runtime of a site's own has no run in it.
"""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from .. import yamlfile

FILE: Final = "runs.yaml"


class Place(StrEnum):
    """Where a runtime has run."""

    SANDBOX = "sandbox"
    """In the sandbox's real pods, on CPUs."""
    SIMULATED = "simulated"
    """On the sandbox's simulated GPU nodes: pods are scheduled and end, and nothing runs in them."""
    GPU = "gpu"
    """With the command and the variables of a rendered TrainJob, on a GPU."""


class Run(BaseModel):
    """One TrainJob of a test that ended well."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    runtime: str
    example: str | None = None
    """The folder of `examples/` that it is from; none: it is the test's own."""
    place: Place
    accelerator: str | None = None
    """The name of the GPU."""
    image: str | None = None
    versions: Mapping[str, str | None] = Field(default_factory=dict)
    """Of packages in the image, by name; null: the image does not have it."""
    test: str
    """The test, as pytest names it."""

    @property
    def key(self) -> tuple[str, str, Place]:
        """What there is one run of."""
        return self.runtime, self.example or "", self.place


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: tuple[Run, ...]


def load(folder: Path) -> tuple[Run, ...]:
    """The runs of a catalog; none without the file. Raises `PlatformError` with its place."""
    path = folder / FILE
    return yamlfile.load(path).validated(_File).runs if path.exists() else ()
