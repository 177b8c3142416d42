"""Lock the requirements: what `LOCKS` lists, with hashes and without the address of an index.

Run by `make lock`, which keeps each pin that still fits. `make lock UPGRADE="ruff uv"`
takes the newest versions of these packages that fit. docs/adr/0045 says why there
is no `uv.lock`.
"""

import argparse
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
DEV = "requirements/dev.txt"
COMMON = ("--quiet", "--generate-hashes")
PLAIN = ("--no-emit-index-url", "--no-annotate", "--no-header")


@dataclass(frozen=True)
class Lock:
    """One file of this folder: `<name>.txt`."""

    name: str
    purpose: str
    """What is installed from it."""
    arguments: tuple[str, ...]
    """Of `uv pip compile`: what to resolve, and how."""
    python: str = "3.11"
    """The version that they are installed with."""
    requirements: tuple[str, ...] = ()
    """What is resolved where the arguments name the standard input, `-`."""

    @property
    def within_dev(self) -> bool:
        """Whether its pins are those of `dev.txt`."""
        return DEV in self.arguments


OURS = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
GROUPS = {**OURS["optional-dependencies"], "cli": OURS["dependencies"]}


def deliverable(name: str, purpose: str) -> Lock:
    """The lock of a group of `pyproject.toml`, without what the command needs, as a part of `dev.txt`."""
    return Lock(name, purpose, ("-", "-c", DEV), requirements=tuple(GROUPS[name]))


def cloud(name: str) -> Lock:
    """The lock of a cloud's one package, to be installed beside the rest (docs/adr/0010)."""
    return Lock(name, f"pools of {name.upper()}", ("-", "--no-deps"), requirements=tuple(GROUPS[name]))


DELIVERABLES = (
    deliverable("operator", "the operator's image"),
    deliverable("platform", "the program of `pulumi up`"),
    deliverable("policies", "the policy pack"),
    deliverable("initializers", "the initializers' image"),
    deliverable("data-cache", "the data cache's image"),
    deliverable("cli", "`trainyard`"),
)
EXTRAS = tuple(f"--extra={lock.name}" for lock in DELIVERABLES if lock.name != "cli")
IMAGES = ("jax-xgboost", "lightgbm", "paddle")
LOCKS = (
    Lock(
        "dev",
        "`.venv`: everything but the clouds",
        ("pyproject.toml", *EXTRAS, "--group", "dev"),
    ),
    *DELIVERABLES,
    *(cloud(name) for name in ("eks", "gke", "aks")),
    Lock("uv", "uv, which installs the others (Makefile)", ("requirements/uv.in", "-c", DEV)),
    Lock("audit", "what looks at the others (`make audit`, `make sbom`)", ("requirements/audit.in",)),
    Lock("go", "Go, for machines without it", ("requirements/go.in",)),
    *(Lock(name, "the sandbox's image of that name", (f"requirements/{name}.in",)) for name in IMAGES),
    Lock(
        "tensorflow",
        "the sandbox's image of that name, without what the overrides leave out",
        ("requirements/tensorflow.in", "--override", "requirements/tensorflow-overrides.in"),
    ),
    Lock("mpi", "the sandbox's image of that name, beside NumPy", ("requirements/mpi.in",)),
    Lock(
        "deepspeed",
        "the sandbox's image of that name, beside PyTorch and NumPy, which are its base's",
        ("requirements/deepspeed.in", "--override", "requirements/torch.base"),
        python="3.13",
    ),
    Lock(
        "trainers",
        "the trainers' image, beside PyTorch and NumPy, which are its base's",
        (
            "requirements/trainers.in",
            "--override",
            "requirements/torch.base",
            "--override",
            "requirements/trainers-overrides.in",
        ),
        python="3.13",
    ),
)
"""All that is locked, in this order: the parts of `dev.txt` come after it."""


def main() -> None:
    """Lock all of them."""
    parser = argparse.ArgumentParser(prog="make lock", description=__doc__)
    parser.add_argument("upgrade", nargs="*", metavar="PACKAGE", help="take the newest version that fits")
    upgrades = [f"--upgrade-package={package}" for package in parser.parse_args().upgrade]
    uv = [str(Path(sys.executable).parent / "uv"), "pip", "compile", *COMMON, *PLAIN, *upgrades]
    for lock in LOCKS:
        command = [
            *uv,
            "--python-version",
            lock.python,
            *lock.arguments,
            "-o",
            f"requirements/{lock.name}.txt",
        ]
        subprocess.run(command, cwd=PROJECT, check=True, text=True, input="\n".join(lock.requirements))


if __name__ == "__main__":
    main()
