"""The version of Trainyard that a site's requirements.txt pins; pure.

Called by `main`, which refuses to work with another one, by `report`, and by `init`.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

FILE: Final = "requirements.txt"
_LINE: Final = re.compile(
    r"trainyard(?:\[[a-z, ]{0,99}\])?"
    r"(?:==([^\s;#]{1,99})| ?@ ?https://[^\s;#]{1,999}/trainyard-([0-9a-z.]{1,99})-py3-none-any\.whl)"
)
_BY_NAME: Final = (
    "# By its name, from the index that pip asks. That index must be your own:\n"
    "# Trainyard's releases are wheels at an address, and are in no public index.\n"
)


class Pin(NamedTuple):
    """A version, and its line."""

    version: str
    line: int


def read(text: str) -> Pin | None:
    """What the text of the file pins; None if that is nothing."""
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _LINE.match(line)) is not None:
            return Pin(match[1] or match[2], number)
    return None


def written(version: str, origin: str | None) -> str:
    """The text of the file that pins a version, at the address that it was installed from if it has one.

    Args:
        version: The version.
        origin: What the installer has noted of the address (`direct_url.json`); None after an index.
    """
    noted = json.loads(origin or "{}")
    digest = (noted.get("archive_info", {}).get("hashes") or {}).get("sha256", "")
    line = f"trainyard[site] @ {noted.get('url')}{digest and f'#sha256={digest}'}\n"
    if read(line) == Pin(version, 1):
        return line
    return f"{_BY_NAME}trainyard[site]=={version}\n"
