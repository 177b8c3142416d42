"""How long the commands take that people wait for: render, validate, lint, jobs, preview, up."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from trainyard_api import documents
from trainyard_assist.render import render
from trainyard_sandbox.isolation import die_with_parent
from trainyard_sandbox.paths import PROJECT

from .bench import Bench
from .driver import trainjob
from .errors import BenchmarkError
from .plane import fresh_sandbox

_TRAINYARD = str(Path(sys.executable).parent / "trainyard")
_RUNTIME = PROJECT / "runtimes" / "torch" / "torch-distributed.yaml"
_CATALOG = sorted((PROJECT / "runtimes").glob("*/*.yaml"))
_EXAMPLES = sorted((PROJECT / "examples").glob("*/trainjob.yaml"))
_ON_STACK = ("--stack", "sandbox", "--non-interactive", "--suppress-progress")
_END_SECONDS = 20.0
"""Pulumi has so long to end what it does, and is then killed."""
_UP = ("pulumi", "up", *_ON_STACK, "--yes", "--skip-preview")


async def commands(bench: Bench, *, runtimes: int, jobs: int, times: int) -> dict[str, float]:
    """The median of so many `times`; lint reads so many runtimes, jobs so many TrainJobs.

    Preview finds a cluster that has nothing else of the platform.
    """
    with TemporaryDirectory(prefix="trainyard-bench-") as name:
        folder = Path(name)
        job = folder / "job.yaml"
        job.write_text(yaml.safe_dump(trainjob("a")))
        catalog = folder / "catalog"
        catalog.mkdir()
        manifest = yaml.safe_load(_RUNTIME.read_text())
        for number in range(runtimes):
            manifest["metadata"]["name"] = f"runtime-{number}"
            (catalog / f"runtime-{number}.yaml").write_text(yaml.safe_dump(manifest))
        command_lines = {
            "render a TrainJob, s": (_TRAINYARD, "render", "-f", str(job)),
            "validate a TrainJob, s": (_TRAINYARD, "validate", "-f", str(job)),
            f"lint of {runtimes} runtimes, s": (_TRAINYARD, "lint", str(catalog)),
            f"jobs over {jobs} TrainJobs, s": (_TRAINYARD, "jobs", "--all-namespaces", "--all"),
            "pulumi preview of the sandbox stack, s": ("pulumi", "preview", *_ON_STACK),
        }
        environment = bench.plane.sandbox.environment()
        await bench.driver.submit([f"listed-{number}" for number in range(jobs)], suspend=True)
        await bench.driver.until("with a JobSet", lambda: len(bench.driver.jobsets), jobs)
        return {
            name: statistics.median([await _seconds(command, environment) for _ in range(times)])
            for name, command in command_lines.items()
        } | {"of it the building of the slowest example, ms": max(_building())}


def _building() -> Iterator[float]:
    """Milliseconds that it takes to build what becomes of each example, the median of 15 times."""
    catalog = [document for path in _CATALOG for document in documents.parse(path.read_text(), path.name)]
    for path in _EXAMPLES:
        job = documents.parse(path.read_text(), path.name)
        taken = []
        for _ in range(15):
            began = time.perf_counter()
            render(job, catalog)
            taken.append((time.perf_counter() - began) * 1000)
        yield statistics.median(taken)


async def platform(bench: Bench, *, times: int) -> dict[str, float]:
    """The median of so many `times`; each has a sandbox of its own with a node, and the bench's own idles."""
    turns = []
    for _ in range(times):
        with fresh_sandbox(f"{bench.plane.sandbox.instance.name}-platform", nodes=1) as sandbox:
            # As `make up` has it: the state is written once, at the end.
            environment = {**sandbox.environment(), "PULUMI_SKIP_CHECKPOINTS": "true"}
            turns.append(
                {
                    "pulumi up on an empty cluster, s": await _seconds(_UP, environment),
                    "pulumi up that changes nothing, s": await _seconds(_UP, environment),
                }
            )
    return {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}


async def _seconds(command: tuple[str, ...], environment: Mapping[str, str]) -> float:
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=PROJECT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=die_with_parent,
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        try:
            await asyncio.wait_for(process.communicate(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
        raise
    # Of lint's, 1 is an answer: it has found something.
    if process.returncode not in ((0, 1) if "lint" in command else (0,)):
        raise BenchmarkError(f"{' '.join(command)}: {errors.decode(errors='replace')[-2000:]}")
    return time.monotonic() - began
