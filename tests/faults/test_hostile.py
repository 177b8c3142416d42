"""What no honest user sends, stored past admission: it costs its own TrainJob something, and nobody else.

No webhook stands before the operator here, as in a cluster where somebody has
deleted it: whatever the CRD lets in, the operator has to bear.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import TRAINER, done
from tests.support.patience import eventually

from . import gaps, lives
from .hostile import told

MEBIBYTE = 2**20
"""Seconds in which the operator says what it makes of something."""
MEMORY = 64 * MEBIBYTE
"""That all of these together may cost it."""


def _nested(levels):
    found: Any = "x"
    for _ in range(levels):
        found = [found]
    return found


def _patch(spec):
    """A runtime patch of the pods."""
    job = {"name": "node", "template": {"spec": {"template": {"spec": spec}}}}
    template = {"template": {"spec": {"replicatedJobs": [job]}}}
    return {"runtimePatches": [{"manager": "tests.example.com/tests", "trainingRuntimeSpec": template}]}


HOSTILE = {
    "numNodes 2^31-1": {"trainer": {"numNodes": 2**31 - 1}},
    "numNodes 2^31": {"trainer": {"numNodes": 2**31}},
    "numNodes 0": {"trainer": {"numNodes": 0}},
    "numNodes -1": {"trainer": {"numNodes": -1}},
    "numProcPerNode 2^31-1": {"trainer": {"numProcPerNode": 2**31 - 1, "numNodes": 100_000}},
    "args of 1.4 MB": {"trainer": {"args": ["x" * 10_000] * 140}},
    "args of 1.6 MB": {"trainer": {"args": ["x" * 10_000] * 160}},
    "ten thousand variables": {
        "trainer": {"env": [{"name": f"N{n}", "value": "v" * 64} for n in range(10_000)]}
    },
    "a deadline of 2^63-1": {"activeDeadlineSeconds": 2**63 - 1},
    "a hostPath, privileged": _patch(
        {
            "serviceAccountName": "default",
            "hostNetwork": True,
            "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
            "containers": [{"name": "node", "securityContext": {"privileged": True}}],
        }
    ),
    "values nested hundreds deep": _patch({"nodeSelector": {"deep": _nested(400)}}),
    "unicode": {"trainer": {"args": ["\u202e\U0001f4a5\ufdd0", "\x01\x7f", "'$(reboot)`"]}},
    "a runtime with a name that is a path": {
        "runtimeRef": {"name": "../../secrets", "kind": "TrainingRuntime"}
    },
}
LONG = "n" * 63


def resident(pid):
    """Bytes of memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@pytest.mark.parametrize(
    "policy",
    [pytest.param("plain", marks=pytest.mark.soak), pytest.param("mpi", marks=pytest.mark.sandbox)],
)
def test_what_is_hostile_is_refused_or_answered_and_harms_no_other(unhurt, tried, policy):
    scene = unhurt
    case = scene.case()
    case.create({"plain": lives.PLAIN, "mpi": lives.GANG}[policy])
    case.until("its JobSet", lambda: case.jobset)
    pid = scene.replica.pid
    before = resident(pid)
    let_in = []
    for number, (what, spec) in enumerate([*HOSTILE.items(), ("a name of 63 characters", {})]):
        name = LONG if not spec else f"hostile-{number}"
        metadata = {"name": name, "namespace": case.namespace}
        reference = {"name": "runtime", "kind": "TrainingRuntime"}
        manifest = {"apiVersion": TRAINER, "kind": "TrainJob", "metadata": metadata}
        answer = scene.api.create({**manifest, "spec": {"runtimeRef": reference, **spec}})
        assert answer.code in (201, 400, 413, 422, 500), (what, answer)
        assert answer.code != 500 or "request is too large" in answer.message, (what, answer)
        if answer.code == 201:
            let_in.append((what, name))
    for what, name in let_in:
        answered = partial(told, scene.api, case.namespace, name)
        eventually(f"{what} is answered", answered)
    other = scene.case()
    gaps.running(other)
    assert scene.replica.pid == pid, "the operator is the same process"
    assert resident(pid) - before < MEMORY
    for _, name in let_in:
        done(scene.api.delete(TRAINER, "TrainJob", name, case.namespace))
    many = len(HOSTILE) + 1
    tried(f"5.3 hostile TrainJobs ({policy}; the CRD let {len(let_in)} in)", many, many)
