"""Images of Trainyard that a stack has from another version: pure.

Called by `verify`. An update moves what comes with the package; the images
that a stack file names stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard_api import names
from trainyard_platform.stack.settings import StackSettings

_NAME: Final = f"/(?:{'|'.join(names.RELEASE_IMAGES)})"
_VERSION: Final = r":([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(?:(?:a|b|rc)[0-9]{1,9})?)(?![0-9A-Za-z.])"
_LISTED: Final = re.compile(f"{_NAME}{_VERSION}")
"""An image in `artifacts.images`, and its version."""
_VERSIONED: Final = re.compile(f"/trainyard(?!/lightgbm:){_NAME}{_VERSION}")
"""An image of a release, and its version; what a site has built on top of it may say more behind a hyphen.
Sites have built an image for LightGBM too, with LightGBM's version."""


def of_other_versions(settings: StackSettings, version: str) -> Iterator[str]:
    """Images of another version than this one: sentences that begin with the field."""
    listed = settings.artifacts.images
    images = {
        **{place: image for place, image in settings.images_of_trainyard.items() if image not in listed},
        **{f"runtimes.{name}.image": overlay.image for name, overlay in settings.runtimes.items()},
    }
    matches = {
        **{f"artifacts.images[{position}]": _LISTED.search(image) for position, image in enumerate(listed)},
        **{place: _VERSIONED.search(image or "") for place, image in images.items()},
    }
    for place, match in matches.items():
        if match is not None and match[1] != version:
            yield (
                f"{place}: has version {match[1]}, but the stack is rolled out with Trainyard {version}: set "
                f"it to the image of version {version}"
            )
