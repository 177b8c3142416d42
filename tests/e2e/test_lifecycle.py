"""What happens to stacks: an `up` that is killed, and a state that is lost."""

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import (
    LESS_GARBAGE,
    UNTIL_TOLD,
    Cluster,
    Object,
    finish,
    sandbox_of_its_own,
    trainjob,
)
from tests.support.patience import eventually
from trainyard_sandbox.paths import PROJECT

UP = ("make", "up", "STACK=sandbox")
EVENTFUL = (
    *("env", "PULUMI_DEBUG_COMMANDS=1", "PULUMI_SKIP_CHECKPOINTS=true"),
    *("pulumi", "up", "--stack", "sandbox", "--yes", "--skip-preview"),
)
"""The update of `make up`, which writes its state once, at the end; `--event-log` says what it makes."""


def kill_session(leader: int) -> None:
    """Kill all of a session's processes: Pulumi's plugins are in groups of their own."""
    for pid in (int(folder.name) for folder in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def killed(platform: Cluster, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs while the block does, and is killed at its end with all that it has started."""
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env={**os.environ, **LESS_GARBAGE, **platform.sandbox.environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_session(process.pid)
        process.wait()


def resources(platform: Cluster) -> list[Object]:
    exported = json.loads(platform.pulumi("stack", "export", "--stack", "sandbox").stdout)["deployment"]
    assert "pending_operations" not in exported
    return list(exported["resources"])


def identities(platform: Cluster) -> dict[str, str]:
    """The uid of each object of the stack."""
    return {
        resource["urn"]: resource["outputs"]["metadata"]["uid"]
        for resource in resources(platform)
        if resource["custom"] and "metadata" in resource.get("outputs", {})
    }


def restarts(platform: Cluster) -> dict[str, int]:
    """How often the containers of each pod have started anew."""
    pods = json.loads(platform.kubectl("get", "pods", "--all-namespaces", "-o", "json"))["items"]
    return {
        pod["metadata"]["uid"]: sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))
        for pod in pods
    }


@pytest.mark.soak
def test_a_platform_that_runs_is_taken_back_when_its_state_is_lost(platform: Cluster) -> None:
    platform.apply(trainjob("outlives-the-state", UNTIL_TOLD))
    [pod] = eventually(
        "it runs",
        lambda: [p for p in platform.pods("outlives-the-state") if p["status"]["phase"] == "Running"],
    )
    before, started = identities(platform), restarts(platform)
    assert len(before) > 100
    for path in platform.sandbox.instance.dir.glob("pulumi/.pulumi/stacks/**/sandbox.json*"):
        path.unlink()
    assert json.loads(platform.pulumi("stack", "ls", "--json").stdout) == []
    # From the project in which the sandbox has made it: here it would write a salt into git's stack file.
    project = str(platform.sandbox.instance.dir / "pulumi" / "project")
    platform.pulumi("stack", "init", "sandbox", "--cwd", project)
    platform.run(*UP)
    assert identities(platform) == before
    assert restarts(platform) == started
    platform.run("make", "drift", "STACK=sandbox")
    finish(platform, pod)
    platform.wait_for_condition("outlives-the-state", "Complete")


@pytest.fixture
def empty() -> Iterator[Cluster]:
    """A sandbox of its own with nothing installed."""
    with sandbox_of_its_own("killed") as cluster:
        yield cluster


def components(urns: Iterable[str]) -> set[str]:
    """The types of the platform's components that resources are part of, from their URNs."""
    return {urn.split("::")[2].partition("$")[0] for urn in urns}


def threes(urns: Iterable[str]) -> set[int]:
    """A mark for each three components."""
    return set(range(len(components(urns)) // 3))


def tens(urns: Iterable[str]) -> set[int]:
    """A mark for each ten resources."""
    return set(range(len(list(urns)) // 10))


def beginning(
    steps: Callable[[Iterable[str]], Set[Any]], urns: Iterable[str], seen: set[str]
) -> Iterator[str]:
    """Those of the resources with which a step begins that none of the `seen` had begun; adds to them."""
    for urn in urns:
        before = steps(seen)
        seen.add(urn)
        if steps(seen) > before:
            yield urn


@pytest.mark.holds("rollout", "tenants")
@pytest.mark.core
@pytest.mark.sandbox(area="platform")
def test_what_is_missing_is_drift_and_an_up_that_was_killed_as_it_put_it_back_is_repaired_by_the_next(
    platform: Cluster, tmp_path: Path
) -> None:
    missing = ("low", "high")
    platform.kubectl("delete", "workloadpriorityclass", *missing)
    try:
        drift = platform.run("make", "drift", "STACK=sandbox", check=False)
        events = tmp_path / "events"
        with killed(platform, *EVENTFUL, "--refresh", "--event-log", str(events)) as process:
            first = next(made(process, events), None)
        assert (process.returncode, bool(first)) == (-signal.SIGKILL, True)
    finally:
        platform.pulumi("cancel", "--stack", "sandbox", "--yes", check=False)
        platform.pulumi("up", "--stack", "sandbox", "--yes", "--skip-preview", "--refresh")
    said = drift.stdout + drift.stderr
    assert drift.returncode != 0, said
    assert "no changes were expected for preview but changes were proposed" in said, said
    lines = r"^(\+ WorkloadPriorityClass (low|high)\n){2}sandbox: 2 to create, \d+ unchanged\n"
    assert re.search(lines, said, re.M), said
    assert [name for name in missing if platform.get("workloadpriorityclass", name) is None] == []
    platform.pulumi("preview", "--stack", "sandbox", "--expect-no-changes")


def made(process: subprocess.Popen[bytes], events: Path) -> Iterator[str]:
    """The URNs of what an `up` makes in the cluster, as its engine tells of them while it runs."""
    events.touch()
    with events.open() as told:
        line = ""
        while process.poll() is None:
            line += told.readline()
            if not line.endswith("\n"):  # it is being written
                time.sleep(0.05)
                continue
            event = json.loads(line).get("resOutputsEvent", {}).get("metadata", {})
            line = ""
            if event.get("op") == "create" and event["type"].startswith("kubernetes:"):
                yield event["urn"]


@pytest.mark.parametrize(
    ("steps", "at_least"),
    [
        pytest.param(threes, 3, id="every third component", marks=pytest.mark.sandbox(area="platform")),
        pytest.param(components, 10, id="components", marks=pytest.mark.soak),
        pytest.param(tens, 25, id="tens", marks=pytest.mark.soak),
    ],
)
def test_an_up_that_is_killed_at_every_step_comes_to_the_same_platform(
    empty: Cluster, tmp_path: Path, steps: Callable[[Iterable[str]], Set[Any]], at_least: int
) -> None:
    seen: set[str] = set()
    for kills in itertools.count():
        events = tmp_path / f"events-{kills}"
        with killed(empty, *EVENTFUL, "--event-log", str(events)) as process:
            further = next(beginning(steps, made(process, events), seen), None)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        assert further is not None
        print(f"killed after {further}")
        if kills == 0:
            locked = empty.run(*EVENTFUL, check=False)
            assert locked.returncode != 0
            assert "the stack is currently locked by 1 lock(s)" in locked.stdout + locked.stderr
        empty.pulumi("cancel", "--stack", "sandbox", "--yes")
    assert kills >= at_least
    # Beside the state lies nothing that is written in place, of which a kill would leave half.
    assert list(empty.sandbox.instance.dir.glob("pulumi/.pulumi/**/*.attrs")) == []
    found = [one["urn"] for one in resources(empty) if one["custom"]]
    assert len(found) == len(set(found))
    empty.pulumi("preview", "--stack", "sandbox", "--expect-no-changes")
    empty.apply(trainjob("after-all"))
    empty.wait_for_condition("after-all", "Complete")
