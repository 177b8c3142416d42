"""What users make large is kept small."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap

import pytest

from trainyard_operator.core.packed import Contents, Packed
from trainyard_operator.watch.cache import REVISIONS_BYTES
from trainyard_platform.stack import operator_memory

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


@pytest.mark.parametrize("value", [{}, SMALL, LARGE], ids=["empty", "small", "large"])
def test_it_says_without_being_read_how_long_it_is_as_json(value: dict[str, object]) -> None:
    packed = Packed(value)
    held = packed.held()
    packed.drop()
    assert held is not None
    assert held.length == packed.length == len(json.dumps(value, separators=(",", ":")))


def test_what_differs_is_not_equal() -> None:
    assert Packed(SMALL) != Packed(LARGE)
    assert Packed(SMALL) != LARGE


def test_of_many_contents_those_used_last_are_kept_and_the_others_dropped() -> None:
    packed = {name: Packed({"name": name, "text": name * 40}) for name in "abc"}
    contents = Contents(2 * packed["a"].size)
    for name in ("a", "b", "a", "c"):
        contents.use(name, packed[name])
    assert {name: kept.size > 0 for name, kept in packed.items()} == {"a": True, "b": False, "c": True}
    assert contents.size == packed["a"].size + packed["c"].size
    contents.forget("c")
    assert (contents.size, packed["c"].size) == (packed["a"].size, 0)


def test_what_is_held_outlives_that_it_is_dropped_elsewhere() -> None:
    packed = Packed(SMALL)
    held = packed.held()
    packed.drop()
    assert held == SMALL
    assert packed.held() is None
    with pytest.raises(KeyError, match="not kept"):
        packed["trainer"]


FILL = """
import json, sys
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.model import Runtime
from trainyard_operator.core.decide.views import revision_of, runtime_of, trainjob_of
from trainyard_operator.watch.cache import Cache, Key

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
for number in range(int(sys.argv[1])):
    spec["number"] = str(number)
    owner = Runtime("TrainingRuntime", "r", "t", "u", dict(spec))
    stored = json.loads(json.dumps(revisions.manifest_of(owner, "trainyard-system")))
    revision = revision_of({**stored, "metadata": {**stored["metadata"], **metadata}})
    cache.revisions.observe(revision.name, revision)
print(mib() - before)
"""
LIMIT = 256 * 1024
"""The most that admission lets in of one spec, in bytes."""
NOISE = "".join(random.Random(1).choices([chr(n) for n in range(35, 127) if chr(n) != "\\"], k=255_000))  # noqa: S311 - no secret


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"selector": {f"{n:x}": "" for n in range(25_000)}}, id="many keys"),
        pytest.param({"text": NOISE}, id="what cannot be compressed"),
    ],
)
@pytest.mark.long
def test_a_tenant_that_fills_its_quota_fits_into_the_memory_that_the_platform_gives(spec: object) -> None:
    """500 TrainJobs and 20 TrainingRuntimes of the largest size, and more revisions than are kept whole."""
    size = len(json.dumps(spec, separators=(",", ":")))
    assert 0.8 * LIMIT < size <= LIMIT
    fill = [sys.executable, "-c", textwrap.dedent(FILL), "200"]
    done = subprocess.run(fill, input=json.dumps(spec), capture_output=True, text=True, check=True)
    assert float(done.stdout) < operator_memory.needed(520) - operator_memory.BASE
    assert operator_memory.REVISIONS == REVISIONS_BYTES // 1024 // 1024
