"""What ran where: a test that runs a TrainJob on a runtime of the catalog records that, if it is to.

`TRAINYARD_UPDATE_RUNS=1 make e2e` (and `make test-gpu`) writes runtimes/runs.yaml, and
`make generate` the table of docs/what-ran-where.md from it.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from trainyard_api import names
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import header as catalog_header
from trainyard_platform.catalog import runs as catalog_runs
from trainyard_platform.catalog.runs import Place, Run

from .checked_in import ROOT
from .cluster import Cluster
from .together import locked

UPDATE: Final = "TRAINYARD_UPDATE_RUNS"
"""The variable with which tests record their runs."""
CATALOG: Final = ROOT / "runtimes"

VERSIONS: Final = r"""
import importlib.metadata, json, re, subprocess, sys

def version(package):
    if package == "openmpi":
        return re.search(r"\d+[.\d]*", subprocess.check_output(["mpirun", "--version"], text=True))[0]
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None

print(json.dumps({package: version(package) for package in sys.argv[1:]}))
"""
"""Prints the version of each package that it is called with, null for one that is not there."""

HEAD: Final = """\
# What of the catalog has run, and where: the tests record it when they pass
# (`TRAINYARD_UPDATE_RUNS=1 make e2e`, and `make test-gpu` on a machine with a GPU).
# Nobody writes it by hand. docs/what-ran-where.md shows it.
"""
COLUMNS: Final = (
    "| runtime | example | CPU sandbox | simulated GPU nodes | one GPU |",
    "|---|---|---|---|---|",
)


def record(
    cluster: Cluster,
    job: str,
    *packages: str,
    example: str | None = None,
    place: Place = Place.SANDBOX,
) -> None:
    """Record the run of a TrainJob that is Complete, if `TRAINYARD_UPDATE_RUNS` is set.

    Args:
        cluster: Where its pods still are.
        job: Its name.
        packages: Whose versions to read in the image of its pods: the framework first.
        example: The folder of `examples/` that it is from.
        place: Where its pods were: on simulated nodes there is no image to look into.
    """
    if not recording():
        return
    runtime = (cluster.get("trainjob", job) or {})["spec"]["runtimeRef"]["name"]
    image, versions = None, {}
    if place is Place.SANDBOX:
        containers = [container for pod in cluster.pods(job) for container in pod["spec"]["containers"]]
        image = next(container["image"] for container in containers if container["name"] == names.NODE)
        versions = _versions(cluster, f"versions-{job}", image, packages)
    run = Run(
        runtime=runtime, example=example, place=place, image=image, versions=versions, test=current_test()
    )
    write(run)


def recording() -> bool:
    """Whether runs are to be recorded."""
    return bool(os.environ.get(UPDATE))


def current_test() -> str:
    """The test that runs, as pytest names it, without its parameters."""
    return os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0].partition("[")[0]


def write(run: Run, folder: Path = CATALOG) -> None:
    """Put a run into the file of a catalog, in place of the one that it repeats."""
    with locked(ROOT / ".reports" / "runs.lock"):
        others = [other for other in catalog_runs.load(folder) if other.key != run.key]
        runs = sorted([*others, run], key=lambda run: run.key)
        listed = [run.model_dump(mode="json", exclude_defaults=True) for run in runs]
        text = yaml.safe_dump({"runs": listed}, sort_keys=False, width=110)
        (folder / catalog_runs.FILE).write_text(f"{HEAD}{text}", encoding="utf-8")


def _versions(cluster: Cluster, name: str, image: str, packages: Sequence[str]) -> dict[str, str | None]:
    if not packages:
        return {}
    container = {
        "name": "versions",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", VERSIONS, *packages],
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    cluster.wait(f"pod/{name}", condition="jsonpath={.status.phase}=Succeeded")
    versions: dict[str, str | None] = json.loads(cluster.log(name))
    cluster.kubectl("delete", "pod", name, "--wait=false")
    return versions


def examples() -> dict[str, set[str]]:
    """The folders of `examples/` with a TrainJob, by its runtime."""
    listed = defaultdict(set)
    for path in (ROOT / "examples").glob("*/*.yaml"):
        for manifest in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if isinstance(manifest, Mapping) and manifest.get("kind") == "TrainJob":
                listed[manifest["spec"]["runtimeRef"]["name"]].add(path.parent.name)
    return listed


def rows(folder: Path, by_runtime: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """The table of what ran where: a line for each runtime and example, whether it has run or not.

    Args:
        folder: The catalog.
        by_runtime: Examples by runtime.
    """
    runs = {run.key: run for run in catalog_runs.load(folder)}
    runtimes = catalog.read_all(folder)
    yield from COLUMNS
    for name, runtime in sorted(runtimes.items()):
        path = folder / runtime.framework / f"{name}.yaml"
        successors = catalog_header.parse(path.read_text(encoding="utf-8")).successors(runtimes)
        deprecated = f", deprecated: use {' or '.join(successors)}" if successors else ""
        own = {example for runtime_name, example, _ in runs if runtime_name == name}
        for example in sorted({*by_runtime.get(name, ()), *own}) or [""]:
            cells = " | ".join(_cell(runs.get((name, example, place))) for place in Place)
            link = f"[{example}](../examples/{example})" if example else ""
            yield f"| [{name}](../runtimes/{runtime.framework}/{name}.yaml){deprecated} | {link} | {cells} |"


def _cell(run: Run | None) -> str:
    if run is None:
        return "not run"
    if run.place is Place.SIMULATED:
        return "scheduled"
    texts = [run.accelerator] if run.accelerator else []
    texts += [f"{name} {version}" if version else f"without {name}" for name, version in run.versions.items()]
    texts += [f"`{run.image.rpartition('/')[2]}`"] if run.image else []
    return ", ".join(texts)
