"""Lock the requirements: one file a deliverable, with hashes and without index addresses.

`dev.txt` is resolved first and holds everything but what is of one cloud alone;
the others are its parts. `eks.txt`, `gke.txt` and `aks.txt` are one package each,
to be installed beside the rest (docs/adr/0010).
`uv.txt` is what installs the others (Makefile). `go.txt` carries a Go command for machines without one; `jax-xgboost.txt` is what
the sandbox's image of that name holds, by itself; `audit.txt` looks at the others
(`make audit`, `make sbom`). Run by `make lock`.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parent
COMMON = ["--quiet", "--python-version", "3.11", "--generate-hashes"]
DELIVERABLES = ("operator", "platform", "policies", "initializers", "cli")
PLAIN = ["--no-emit-index-url", "--no-annotate", "--no-header"]


def compile_requirements(source: str, target: str, *arguments: str) -> None:
    """Resolve `source` into `target` (in this folder), keeping pins that still fit."""
    uv = [str(Path(sys.executable).parent / "uv"), "pip", "compile", *COMMON, *PLAIN]
    subprocess.run([*uv, *arguments, source, "-o", f"requirements/{target}"], cwd=PROJECT, check=True)


def main() -> None:
    """Lock all of them."""
    everything = [argument for group in DELIVERABLES for argument in ("--extra", group)]
    compile_requirements("pyproject.toml", "dev.txt", *everything, "--group", "dev")
    for group in DELIVERABLES:
        compile_requirements("pyproject.toml", f"{group}.txt", "--extra", group, "-c", "requirements/dev.txt")
    for cloud in ("eks", "gke", "aks"):
        compile_requirements("pyproject.toml", f"{cloud}.txt", "--extra", cloud, "--no-deps")
    compile_requirements("requirements/uv.in", "uv.txt", "-c", "requirements/dev.txt")
    for alone in ("audit", "go", "jax-xgboost"):
        compile_requirements(f"requirements/{alone}.in", f"{alone}.txt")


if __name__ == "__main__":
    main()
