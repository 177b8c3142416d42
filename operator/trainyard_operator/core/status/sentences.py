"""How a cause is written: what is wrong, and the next step.

Called by `causes` and `pod_readiness`.
"""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 1000
"""An Event's message holds 1024 bytes."""


def with_step(sentence: str, step: str) -> str:
    """The sentence and the next step; if they are too long, the sentence is cut."""
    room = _LONGEST - len(step) - 5
    return f"{sentence if len(sentence) <= room else sentence[:room] + '...'}; {step}"
