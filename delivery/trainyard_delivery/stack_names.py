"""Which stacks exist, and which of them a change in git affects.

Called by `trainyard stacks`, from which a pipeline derives its jobs.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from trainyard_api import places
from trainyard_platform.errors import PlatformError

EVERY_STACK_DEPENDS_ON: Final = frozenset(
    {
        *("Pulumi.yaml", "api", "platform", "policies", "pyproject.toml", "requirements", "runtimes"),
        *("program", "requirements.txt"),
    }
)
"""Top-level folders and files of a clone or another site; a change in one affects all stacks."""

SANDBOX: Final = "sandbox"
"""The stack that is for trying things out on one machine, and is delivered nowhere."""
LINKED: Final = (
    "must not be a symbolic link, because a change of its target would affect no stack; copy the target here"
)
_SUFFIXES: Final = ("-preview", "-drift")
"""How the other environments of a stack in a pipeline end; the first has the stack's name."""
# As in Pulumi; so a name is safe in a shell, in JSON and as a file name.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def stacks(folder: Path) -> tuple[str, ...]:
    """The stacks with a file in a folder, sorted.

    Raises `PlatformError` for a symbolic link, for a name that Pulumi refuses, and for that of an environment
    of another stack.
    """
    names = []
    files = sorted(folder.glob(places.stack_file("*")))
    for path in (folder, *files):
        if path.is_symlink():
            raise PlatformError(f"{path}: {LINKED}")
    for path in files:
        name = places.stack_of(path.name)
        if not is_name(name):
            raise PlatformError(
                f"{path}: a stack's name has letters, digits, hyphens, underscores and periods, "
                "at most 100; rename the file"
            )
        names.append(name)
    # GitHub ignores the case of an environment's name.
    spelt = {name.casefold(): name for name in reversed(names)}
    for name in names:
        folded = name.casefold()
        environments = (
            folded,
            *(folded.removesuffix(suffix) for suffix in _SUFFIXES if folded.endswith(suffix)),
        )
        for other in (spelt.get(environment, name) for environment in environments):
            if other != name:
                raise PlatformError(
                    f"{folder / places.stack_file(name)}: {name} is also the name of an environment of the "
                    f"stack {other} in a pipeline, which would give one stack the credentials of the other; "
                    "rename the stack (pulumi stack rename) and its file"
                )
    return tuple(names)


def delivered(folder: Path) -> tuple[str, ...]:
    """The stacks with a file in a folder that are rolled out to clusters; raises as `stacks`."""
    return tuple(name for name in stacks(folder) if name != SANDBOX)


def is_name(name: str) -> bool:
    """Whether Pulumi accepts the name for a stack."""
    return _NAME.fullmatch(name) is not None


def touched(
    names: Iterable[str], changes: Iterable[str], folders: Mapping[str, Path] = MappingProxyType({})
) -> tuple[str, ...]:
    """The stacks that the changed files affect.

    Args:
        names: The existing stacks.
        changes: Paths from the site; of removed files too. A submodule is one path.
        folders: By stack, the folder with its charts and manifests, if the repository has them.
    """
    changed = [Path(change).parts for change in changes]
    if any(parts[0] in EVERY_STACK_DEPENDS_ON or parts == ("stacks",) for parts in changed):
        return tuple(names)
    files = {parts[1] for parts in changed if parts[0] == "stacks" and len(parts) == 2}
    return tuple(
        name
        for name in names
        if places.stack_file(name) in files or (name in folders and _any_in(folders[name].parts, changed))
    )


def _any_in(folder: tuple[str, ...], changed: Iterable[tuple[str, ...]]) -> bool:
    """Whether one is in the folder, or is a submodule that the folder is in."""
    return any(parts[: len(folder)] == folder[: len(parts)] for parts in changed)
