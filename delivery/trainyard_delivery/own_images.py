"""Images of Trainyard that a stack has from another version: pure.

Called by `verify`. An update moves what comes with the package; the images
that a stack file names stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from trainyard_platform.stack.settings import StackSettings

_VERSIONED: Final = re.compile(
    r"/trainyard/(?:operator|initializers|data-cache|trainers)"
    r":([0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(?:(?:a|b|rc)[0-9]{1,9})?)(?![0-9A-Za-z.])"
)
"""An image of a release, and its version; what a site has built on top of it may say more behind a hyphen."""


def of_other_versions(settings: StackSettings, version: str) -> Iterator[str]:
    """Images of another version than this one: sentences that begin with the field."""
    images = {
        "operator.image": settings.operator.image,
        "dataCache.initializerImage": settings.data_cache.initializer_image,
        "dataCache.cacheImage": settings.data_cache.cache_image,
        **{f"runtimes.{name}.image": overlay.image for name, overlay in settings.runtimes.items()},
    }
    for place, image in images.items():
        match = _VERSIONED.search(image or "")
        if match is not None and match[1] != version:
            yield (
                f"{place}: has version {match[1]}, but the stack is rolled out with Trainyard {version}: set "
                f"it to the image of version {version}"
            )
