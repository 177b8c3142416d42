"""Stack files, for the commands that ask what a stack says; nothing here needs Pulumi or a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import yaml

from trainyard_platform import settings
from trainyard_platform.errors import PlatformError
from trainyard_platform.settings import StackSettings

from .manifests import CATALOG

STACKS: Final = CATALOG.parent / "stacks"


_ANOTHER: Final = "PULUMI_OPTION_CONFIG_FILE"
"""Where Pulumi is told, as by a sandbox, to read the stack file elsewhere."""


def read(name: str, folder: Path = STACKS) -> StackSettings:
    """What `Pulumi.<name>.yaml` says; raises `PlatformError`."""
    return _read(name, folder / f"Pulumi.{name}.yaml")


def read_as_pulumi(name: str) -> StackSettings:
    """What the file says from which Pulumi takes the stack; raises `PlatformError`."""
    return _read(name, Path(os.environ.get(_ANOTHER) or STACKS / f"Pulumi.{name}.yaml"))


def _read(name: str, path: Path) -> StackSettings:
    try:
        # As Pulumi reads it: a stack file may have anchors.
        section = yaml.safe_load(path.read_text(encoding="utf-8"))["config"][settings.CONFIG_KEY]
    except UnicodeDecodeError as error:
        raise PlatformError(f"{path}:1: not UTF-8") from error
    except OSError as error:
        raise PlatformError(f"{path}:1: {error.strerror}") from error
    except (yaml.YAMLError, KeyError, TypeError) as error:
        why = " ".join(str(error).split())
        raise PlatformError(f"{path}: is no stack file with {settings.CONFIG_KEY}: {why}") from error
    return settings.of(section, name)
