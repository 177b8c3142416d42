"""Where our answer is not the reference's: quirks of Kubeflow Trainer v2.3.0 that nothing depends on.

Each entry names the number of the quirk, the paths that differ, which have to
differ (an exception that no case needs fails its test), and why it is right.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """That our answer differs from the reference's."""

    quirk: int
    why: str
    paths: tuple[str, ...] = ()


BUILDS: dict[str, Allowed] = {}
"""By case, what may be built otherwise."""
