"""The file in which a preview leaves what it comes to, for `report`: whole at any moment.

Called by `rollout`, which writes it, and by `report`, which reads it;
`trainyard_delivery.rollout.outcome` has the format.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from trainyard_delivery.rollout import outcome as core
from trainyard_delivery.rollout.outcome import Outcome
from trainyard_platform.errors import PlatformError

from . import whole

UNFINISHED: Final = Outcome(errors=("the preview ended without a result",))
"""What a preview leaves when it begins, and so if it is killed."""
_LARGEST: Final = 10_000_000
"""Bytes that are read; a thousand refusals have a tenth of that."""
_AGAIN: Final = "run the preview again, from the same commit as the report"


def write(file: Path, stack: str, outcome: Outcome) -> None:
    """Replace the file, and make its folder, in a way that its readers never see half of it.

    Raises:
        PlatformError: It cannot be written.
    """
    try:
        whole.write(file, json.dumps(core.document(stack, outcome), indent=2) + "\n")
    except OSError as error:
        raise PlatformError(
            f"{file}: the result of the preview cannot be written: {error.strerror}. Name another file"
        ) from error


def read(file: Path, stack: str) -> Outcome:
    """The stored result of a stack's preview.

    Raises:
        PlatformError: There is no such file, or something else is in it; with the way out.
    """
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"has more than {_LARGEST} bytes")
        return core.read(content, stack)
    except FileNotFoundError as error:
        raise PlatformError(
            f"{file} is not there: run make preview with OUTCOME={file}, as .github/scripts/keep does"
        ) from error
    except OSError as error:
        raise PlatformError(f"{file} cannot be read ({error.strerror}): {_AGAIN}") from error
    except ValueError as error:
        raise PlatformError(f"{file} {error}: {_AGAIN}") from error
