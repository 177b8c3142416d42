"""What both controllers are shown and say of a TrainJob."""

from typing import NamedTuple

from tests.support import live
from tests.support.patience import eventually

THEN = "2026-01-02T03:04:05Z"
"""When the JobSet says that something happened."""


NOW = "(now)"
"""In place of a time that a controller has chosen."""


def counts(name="node", **numbers):
    """The state of one ReplicatedJob, the same in a JobSet and in a TrainJob."""
    zero = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
    return {"name": name, **zero, **numbers}


def condition(kind, status, reason, message, since=NOW, **more):
    said = {"type": kind, "status": status, "reason": reason, "message": message}
    return {**said, "lastTransitionTime": since, **more}


SUSPENDED = condition("Suspended", "True", "Suspended", "TrainJob is suspended")


RESUMED = condition("Suspended", "False", "Resumed", "TrainJob is resumed")


TOO_LATE = condition("Failed", "True", "DeadlineExceeded", "TrainJob exceeded its active deadline")


COMPLETED = condition("Completed", "True", "AllJobsCompleted", "jobset completed successfully", THEN)


COMPLETE = {**COMPLETED, "type": "Complete"}


def failed(reason, message, **more):
    return condition("Failed", "True", reason, message, THEN, **more)


FAILED = failed("FailedJobs", "jobset failed due to one or more job failures")


STARTED = counts(active=1)


READY = counts(active=1, ready=1)


DONE = counts(succeeded=1)


def jobset_says(*conditions, jobs=()):
    """Step: the JobSet's status becomes this."""
    status = {"conditions": list(conditions), "replicatedJobsStatus": list(jobs)}
    return lambda side, name: live.done(
        side.api.merge(live.JOBSET, "JobSet", name, {"status": status}, sub="status")
    )


def suspend(value):
    """Step: the TrainJob's `spec.suspend` becomes this."""
    return lambda side, name: live.done(
        side.api.merge(live.TRAINER, "TrainJob", name, {"spec": {"suspend": value}})
    )


def see_jobset(side, name):
    """Step: wait until there is a JobSet."""
    eventually("its JobSet", lambda: side.api.get(live.JOBSET, "JobSet", name))


def status(*conditions, jobs=()):
    """What a TrainJob's status is to be, all of it."""
    whole = {"conditions": list(conditions), "jobsStatus": list(jobs)}
    return {field: value for field, value in whole.items() if value}


class Soon(NamedTuple):
    """What it says after a step, and what it says next, by itself: a look may come too late for the first."""

    now: dict
    then: dict


class Either(NamedTuple):
    """What both may say after a step, and what the reference may say by a race of its own."""

    both: dict
    reference: dict


def may_say(expected):
    """What may be said: by ours the first of `Either`, by the reference any."""
    return list(expected) if isinstance(expected, Either | Soon) else [expected]


def said(side, name):
    """The status of a TrainJob, without the times that the controller chose."""
    found = side.api.get(live.TRAINER, "TrainJob", name).get("status", {})
    conditions = [
        {**one, "lastTransitionTime": NOW if one["lastTransitionTime"] != THEN else THEN}
        for one in found.get("conditions", ())
    ]
    return status(*conditions, jobs=found.get("jobsStatus", ()))


def says(side, name, expected, number=0):
    any_of_them = side.name == "reference" or isinstance(expected, Soon)
    allowed = may_say(expected) if any_of_them else may_say(expected)[:1]

    def as_expected():
        found = said(side, name)
        assert found in allowed, f"{side.name}, step {number}: {found}"
        return True

    eventually(f"{expected}", as_expected)


def jobset_of(side, name):
    return side.api.get(live.JOBSET, "JobSet", name)


def present(side, name):
    return jobset_of(side, name) is not None
