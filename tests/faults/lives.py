"""The lives of TrainJobs that faults are tried on, what comes of each, and what must hold in all."""

import json
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tests.support.live import CHILDREN, TRAINER
from trainyard_api.names import UNREFERENCED_SINCE_ANNOTATION

from . import rights
from .scene import QUIET, Case

THEN = "2026-01-02T03:04:05Z"
TERMINAL = ("Complete", "Failed")
COMPLETED = {
    "type": "Completed",
    "status": "True",
    "reason": "AllJobsCompleted",
    "message": "jobset completed successfully",
    "lastTransitionTime": THEN,
}


def _replicated(name, **labels):
    container = {"name": "node", "image": "image"}
    return {
        "name": name,
        "template": {
            "metadata": {"labels": labels},
            "spec": {"template": {"spec": {"containers": [container]}}},
        },
    }


_STEP = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
PLAIN = {
    "mlPolicy": {"numNodes": 1},
    "template": {"spec": {"replicatedJobs": [_replicated("node", **_STEP)]}},
}
GANG = {
    "mlPolicy": {"numNodes": 1, "mpi": {"numProcPerNode": 1}},
    "podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 60}},
    "template": {"spec": {"replicatedJobs": [_replicated("launcher", **_STEP), _replicated("node")]}},
}


def run_to_its_end(case: Case, runtime=PLAIN, **spec):
    case.create(runtime, **spec)
    case.until("its JobSet", lambda: case.jobset)
    case.jobset_says(active=1)
    case.until("its counts", lambda: (case.trainjob.get("status") or {}).get("jobsStatus"))
    case.jobset_says(COMPLETED, succeeded=1)
    case.until("it is complete", lambda: case.condition("Complete") == ("True", "AllJobsCompleted"))


def run_a_gang(case: Case):
    run_to_its_end(case, GANG)


def becomes_suspended(case: Case, wanted):
    """Wait until it is, or is not any more."""
    reason = "Suspended" if wanted else "Resumed"
    case.until(
        f"it is {reason}",
        lambda: (
            case.jobset
            and case.jobset["spec"].get("suspend", False) is wanted
            and case.condition("Suspended") == (str(wanted), reason)
        ),
    )


def suspend_and_resume(case: Case):
    case.create(PLAIN, suspend=True)
    becomes_suspended(case, True)
    case.patch(suspend=False)
    becomes_suspended(case, False)
    case.patch(suspend=True)
    becomes_suspended(case, True)


def exceed_its_deadline(case: Case):
    case.create(PLAIN, suspend=True, activeDeadlineSeconds=2)
    becomes_suspended(case, True)
    case.patch(suspend=False)
    case.until("it is too late", lambda: case.condition("Failed") == ("True", "DeadlineExceeded"))
    case.until("its JobSet is gone", lambda: case.jobset is None)


def be_deleted_and_made_anew(case: Case):
    case.create(PLAIN)
    case.until("its JobSet", lambda: case.jobset)
    first = case.trainjob["metadata"]["uid"]
    case.delete()
    case.until("it is gone, and its JobSet", lambda: case.trainjob is None and case.jobset is None)
    case.create(PLAIN)
    case.until("a JobSet of its own", lambda: case.jobset and _owner(case.jobset) not in (None, first))


def retire(case: Case):
    """It is deleted by the operator, a while after its end."""
    case.create(PLAIN, annotations={"trainyard.dev/retention": "1s"})
    case.until("its JobSet", lambda: case.jobset)
    case.jobset_says(COMPLETED, succeeded=1)
    case.until("it is gone, and its JobSet", lambda: case.trainjob is None and case.jobset is None)


LIVES = (
    run_to_its_end,
    run_a_gang,
    suspend_and_resume,
    exceed_its_deadline,
    be_deleted_and_made_anew,
)
SLOW = (retire,)
"""It may take half a minute until the operator looks."""


@dataclass(frozen=True)
class Outcome:
    """What came of a life: who is there at the end, and how often each was created and deleted by us."""

    objects: dict
    creates: dict
    deletes: dict


def live(case: Case, life) -> Outcome:
    """Go through a life; what came of it, once nothing more comes."""
    life(case)
    return outcome(case)


def outcome(case: Case) -> Outcome:
    """What has come of a life, once nothing has been written for a while."""
    writes = case.scene.proxy.writes
    before = -1
    while before != len(writes(case.namespace)):  # it may be that something is tried again
        before = len(writes(case.namespace))
        time.sleep(QUIET)
    return Outcome(_objects(case), *(_counted(case, verb) for verb in ("create", "delete")))


def all_at_once(lives):
    """The outcomes of these (case, life)s, all lived together."""
    with ThreadPoolExecutor(max_workers=len(lives)) as pool:
        return list(pool.map(lambda pair: live(*pair), lives))


def _counted(case, verb):
    return dict(
        Counter(
            f"{p.request.resource} {_plain(case, p.request.name)}"
            for p in case.scene.proxy.writes(case.namespace)
            if p.request.verb == verb and p.code < 300
        )
    )


def _objects(case):
    api, namespace = case.scene.api, case.namespace
    found = [
        item for kind in ((TRAINER, "TrainJob"), *CHILDREN) for item in api.list(*kind, namespace=namespace)
    ]
    revisions = api.list("apps/v1", "ControllerRevision", namespace=rights.NAMESPACE)
    found += [revision for revision in revisions if revision["data"].get("namespace") == namespace]
    found = [item for item in found if item["metadata"]["name"] != "kube-root-ca.crt"]
    return {f"{item['kind']} {_plain(case, item['metadata']['name'])}": _plain(case, item) for item in found}


def _plain(case, value, key=""):
    """`value` without what differs between two runs in which the same happens."""
    if isinstance(value, dict):
        # The collector of revisions looks every half a minute, whenever that is.
        dropped = {"managedFields", "resourceVersion", "uid", "generation", UNREFERENCED_SINCE_ANNOTATION}
        return {k: _plain(case, v, k) for k, v in value.items() if k not in dropped}
    if isinstance(value, list):
        return [_plain(case, item, key) for item in value]
    if isinstance(value, str):
        value = re.sub(rf"\b{case.namespace}\b", "(namespace)", value)
        value = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "(time)", value)
        value = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "(uid)", value)
        value = re.sub(r"[0-9a-f]{10,}", "(hash)", value)
        return "(key)" if key in ("ssh-privatekey", "ssh-publickey") else value
    return value


def _owner(manifest):
    owners = manifest["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), None)


def violations(case: Case) -> list[str]:
    """What should never have happened to this TrainJob, of the invariants I-1, I-2, I-4, I-5 and I-7."""
    jobs, sets = (o.of(case.namespace) for o in (case.scene.trainjobs, case.scene.jobsets))
    ended = _ends(jobs)
    found = [f"I-2 {uid}: {said}" for uid, said in _reversals(jobs)]
    alive: dict[str, str] = {}
    for event in sets:
        uid, owner = event.object["metadata"]["uid"], _owner(event.object)
        if event.type == "ADDED":
            if owner in alive.values():
                found.append(f"I-1 a second JobSet of {owner}")
            if owner in ended and ended[owner] < event.at:
                found.append(f"I-4 a JobSet of {owner} after its end")
            alive[uid] = owner
        elif event.type == "DELETED":
            alive.pop(uid, None)
    # By its namespace, a write is for a TrainJob: for whom one is that is in no TrainJob's, nobody can tell.
    homes = {
        rights.NAMESPACE,
        *(e.object["metadata"]["namespace"] for e in list(case.scene.trainjobs.events)),
    }
    for passed in list(case.scene.proxy.trace):
        if passed.request.counts and passed.request.namespace not in homes:
            found.append(f"I-5 {passed.request.verb} {passed.request.path}")
    for passed in case.scene.proxy.writes(case.namespace):
        request = passed.request
        if request.verb == "delete" and not (request.body or {}).get("preconditions", {}).get("uid"):
            found.append(f"I-7 {request.path} deleted by name alone")
    return found


def _terminal(event):
    conditions = (event.object.get("status") or {}).get("conditions") or ()
    return sorted(c["type"] for c in conditions if c["type"] in TERMINAL and c["status"] == "True")


def _ends(events):
    """By uid, when a TrainJob was first finished."""
    ends: dict[str, int] = {}
    for event in events:
        if _terminal(event):
            ends.setdefault(event.object["metadata"]["uid"], event.at)
    return ends


def _reversals(events):
    """Ends that were taken back, or became others."""
    said: dict[str, list[str]] = {}
    for event in events:
        uid, now = event.object["metadata"]["uid"], _terminal(event)
        if len(now) > 1 or (said.get(uid) and said[uid] != now):
            yield uid, f"{said.get(uid)} and then {now}"
        said[uid] = now or said.get(uid, [])


def in_words(outcome: Outcome) -> str:
    """For messages."""
    return json.dumps(vars(outcome), indent=1, sort_keys=True, default=str)
