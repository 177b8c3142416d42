"""What users make large is kept small."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap

import pytest

from trainyard_operator.watch.packed import Packed

SMALL = {"suspend": False, "trainer": {"numNodes": 2}}
LARGE = {"suspend": True, "trainer": {"args": ["x" * 100] * 100}}
HEAD = frozenset({"suspend", "managedBy"})


@pytest.mark.parametrize("value", [{}, SMALL, LARGE], ids=["empty", "small", "large"])
def test_what_is_packed_is_what_it_was(value: dict[str, object]) -> None:
    found = Packed(value, HEAD)
    assert found == value
    assert dict(found) == value
    assert found == Packed(value)
    assert {name: found.get(name) for name in ("suspend", "managedBy", "trainer", "other")} == {
        name: value.get(name) for name in ("suspend", "managedBy", "trainer", "other")
    }
    assert ("suspend" in found, "managedBy" in found) == ("suspend" in value, False)


def test_what_differs_is_not_equal() -> None:
    assert Packed(SMALL) != Packed(LARGE)
    assert Packed(SMALL) != LARGE


FILL = """
import json, sys
from trainyard_operator.watch.cache import Cache, Key, runtime_of, trainjob_of

def mib():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) / 1024

spec = json.load(sys.stdin)
metadata = {"namespace": "t", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
cache, before = Cache(), mib()
for number in range(500):
    spec["number"] = str(number)
    text = json.dumps({"metadata": {**metadata, "name": f"j-{number}"}, "spec": spec})
    job = trainjob_of(json.loads(text))
    cache.trainjobs.observe(Key.of(job), job)
for number in range(20):
    spec["number"] = str(number)
    text = json.dumps({"metadata": {**metadata, "name": f"r-{number}", "generation": 1}, "spec": spec})
    runtime = runtime_of(json.loads(text), "TrainingRuntime")
    cache.runtimes.observe(("TrainingRuntime", "t", f"r-{number}"), runtime)
print(mib() - before)
"""
LIMIT = 256 * 1024
"""The most that admission lets in of one spec, in bytes."""
NOISE = "".join(random.Random(1).choices([chr(n) for n in range(35, 127) if chr(n) != "\\"], k=255_000))  # noqa: S311 - no secret


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        pytest.param({"selector": {f"{n:x}": "" for n in range(25_000)}}, 60, id="many keys"),
        pytest.param({"text": NOISE}, 150, id="what cannot be compressed"),
    ],
)
@pytest.mark.long
def test_a_tenant_that_fills_its_quota_leaves_the_operator_memory_to_work(spec: object, most: int) -> None:
    """500 TrainJobs and 20 TrainingRuntimes of the largest size; a replica has 256 MiB and needs 75."""
    size = len(json.dumps(spec, separators=(",", ":")))
    assert 0.8 * LIMIT < size <= LIMIT
    fill = [sys.executable, "-c", textwrap.dedent(FILL)]
    done = subprocess.run(fill, input=json.dumps(spec), capture_output=True, text=True, check=True)
    assert float(done.stdout) < most
