"""The starter of a command on each node: torchrun, mpirun, the runtime's own command, or none.

As Kubeflow's SDK does: torchrun where the runtime's ML policy is PyTorch's, mpirun
where it is MPI's. Who names a starter, or starts a shell, has decided for
themselves.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from trainyard_api.errors import UserError

TORCHRUN: Final = "torchrun"
MPIRUN: Final = "mpirun"
STARTERS: Final = frozenset(
    {TORCHRUN, MPIRUN, "mpiexec", "orterun", "prterun", "accelerate", "deepspeed", "horovodrun", "tune"}
)
"""Programs that start the ranks of a node, or of all, themselves."""
SHELLS: Final = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
OF_SUFFIX: Final = {".py": "python", ".sh": "bash"}
"""Interpreters of scripts."""
_MODULES: Final = ("torch.distributed", "accelerate.", "deepspeed.")
_PYTHON: Final = re.compile(r"python([23](\.[0-9]{1,2})?)?")
_NO_PROGRAM: Final = re.compile(r"-|[A-Za-z_][A-Za-z0-9_.]{0,200}=")
"""How words begin that name no program: options, and settings such as `lr=0.1`."""
_NAMES_ON_PATH: Final = frozenset({"python", "python3"})


@dataclass(frozen=True, slots=True)
class Start:
    """`command` and `args` of a TrainJob's trainer; where it has no command, the runtime's own starts."""

    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """All of it."""
        return self.command + self.args


def start(words: Sequence[str], policy: str, own: Sequence[str], variables: Sequence[str] = ()) -> Start:
    """How the words of a command start on a runtime.

    Args:
        words: As they were given; none for the runtime's own command.
        policy: The runtime's ML policy, such as `torch`; empty for none.
        own: The runtime's own command.
        variables: Names of those that ranks need: mpirun passes on to other nodes only what it is told.

    Raises:
        UserError: There is nothing to start.
    """
    if not names_program(words):
        if not own:
            problem = f"{words[0]!r} is not a program" if words else "there is no command"
            raise UserError(f"{problem}, and the runtime has none of its own: say what to run after --")
        return Start(args=tuple(words))
    script = OF_SUFFIX.get(PurePosixPath(words[0]).suffix)
    command = (*((script,) if script else ()), *words)
    program = PurePosixPath(command[0]).name
    after_python = _after_python(command)
    is_module = after_python[:1] == ["-m"] and len(after_python) > 1
    if program in STARTERS or (is_module and after_python[1].startswith(_MODULES)):
        return Start(command)
    if policy == "torch" and after_python:
        # It takes a script or a module of Python; for the rest, it starts Python as any program.
        is_script = after_python[0] == "-m" or not after_python[0].startswith("-")
        ranks = tuple(after_python) if is_script else ("--no_python", *command)
        if any(TORCHRUN in word for word in own):
            return Start(args=ranks)
        # The ranks are of the Python that was named.
        by = (TORCHRUN,) if command[0] in _NAMES_ON_PATH else (command[0], "-m", "torch.distributed.run")
        return Start((*by, *ranks))
    if policy == "mpi" and program not in SHELLS:
        return Start((MPIRUN, *(word for name in variables for word in ("-x", name)), *command))
    return Start(command)


def names_program(words: Sequence[str]) -> bool:
    """Whether a command says itself what starts; otherwise its words are for what starts anyway."""
    return bool(words) and not _NO_PROGRAM.match(words[0])


def script_of(words: Sequence[str]) -> str:
    """The script that a command runs, as far as its words tell; empty if it has none.

    It is the program itself where that is no interpreter, otherwise the first script after it. Another file
    is one only where there is no script: it may be the value of an option.
    """
    files: list[str] = []
    for position, word in enumerate(words):
        name, suffix = PurePosixPath(word).name, PurePosixPath(word).suffix
        if word in ("-c", "-m"):
            return ""
        if word.startswith("-") or _PYTHON.fullmatch(name) or name in STARTERS or name in SHELLS:
            continue
        if position == 0 or suffix in OF_SUFFIX:
            return word
        files += [word] if suffix else []
    return files[0] if files else ""


def _after_python(command: Sequence[str]) -> list[str]:
    """Python's arguments without `-u`, which the runtime sets; none for another program."""
    if not _PYTHON.fullmatch(PurePosixPath(command[0]).name):
        return []
    rest = list(command[1:])
    while rest[:1] == ["-u"]:
        del rest[0]
    return rest
