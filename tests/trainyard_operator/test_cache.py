"""The cache: never back in time, whoever tells it what."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.support import objects
from trainyard_operator.core.decide.views import Revision, RuntimeKey, trainjob_of
from trainyard_operator.core.model import JobSet, Runtime, TrainJob
from trainyard_operator.watch.cache import Cache, Key, Store

KEY = Key("team", "tj")


def jobset(version: int, uid: str = "u") -> JobSet:
    return JobSet("team", "tj", uid, str(version), "job-uid", suspend=False)


def store(*, at: int | None = None) -> Store[str, JobSet]:
    found: Store[str, JobSet] = Store()
    if at is not None:
        found.observe("tj", jobset(at))
    return found


def trainjob(version: int = 1, uid: str = "u", runtime: str = "rt") -> TrainJob:
    return TrainJob(
        "team", "tj", uid, str(version), datetime(2026, 1, 1, tzinfo=UTC), {"runtimeRef": {"name": runtime}}
    )


def test_an_older_or_equal_view_is_refused() -> None:
    jobs = store(at=9)
    assert not jobs.observe("tj", jobset(9))
    assert not jobs.observe("tj", jobset(5, uid="earlier incarnation"))
    assert jobs.get("tj") == jobset(9)


def test_versions_are_compared_as_numbers() -> None:
    jobs = store(at=9)
    assert jobs.observe("tj", jobset(10))


def test_the_answer_to_our_write_counts_until_the_stream_is_past_it() -> None:
    jobs = store(at=9)
    assert jobs.answered("tj", jobset(12))
    assert not jobs.observe("tj", jobset(12)), "its echo is no news"
    assert jobs.remove("tj", uid="u", resource_version="13")
    assert not jobs.answered("tj", jobset(12)), "a late answer must not bring back what is gone"


def test_only_the_object_that_is_meant_is_removed() -> None:
    jobs = store(at=9)
    assert not jobs.remove("tj", uid="another")
    assert not jobs.remove("tj", resource_version="8")
    assert jobs.remove("tj", uid="u", resource_version="9")


def test_what_is_gone_does_not_come_back_with_what_the_stream_still_delivers_of_it() -> None:
    jobs = store(at=9)
    assert not jobs.gone("tj", uid="another")
    assert jobs.gone("tj")
    assert not jobs.observe("tj", jobset(10))
    assert not jobs.answered("tj", jobset(11))
    assert jobs.observe("tj", jobset(12, uid="of the same name"))
    assert not jobs.remove("tj", uid="u", resource_version="13"), "the other is another"
    assert jobs.get("tj") == jobset(12, uid="of the same name")


def test_how_many_are_remembered_as_gone_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard_operator.watch.cache.GONE", 2)
    jobs = store()
    for uid in ("a", "b", "c"):
        jobs.observe("tj", jobset(1, uid))
        jobs.gone("tj")
    assert [jobs.observe("tj", jobset(2, uid)) for uid in ("c", "b", "a")] == [False, False, True]


def test_a_complete_list_drops_what_it_does_not_hold_but_not_what_is_newer_than_it() -> None:
    jobs = store(at=9)
    jobs.observe("old", jobset(3))
    jobs.answered("new", jobset(30))
    jobs.replace({"tj": jobset(12)}, at=20)
    assert set(jobs) == {"tj", "new"}


def test_a_runtime_knows_its_users() -> None:
    cache = Cache()
    runtime, other = (
        RuntimeKey("ClusterTrainingRuntime", None, "rt"),
        RuntimeKey("ClusterTrainingRuntime", None, "x"),
    )
    cache.trainjobs.observe(KEY, trainjob(1))
    assert cache.users(runtime) == {KEY}
    cache.trainjobs.observe(KEY, trainjob(2, uid="next", runtime="x"))
    assert (cache.users(runtime), cache.users(other)) == (set(), {KEY})
    cache.trainjobs.remove(KEY, uid="next")
    assert cache.users(other) == set()


def test_a_runtime_knows_what_its_revisions_keep() -> None:
    def revision(version: int, runtime: Runtime | None) -> Revision:
        return Revision("r", "u", str(version), datetime(2026, 1, 1, tzinfo=UTC), runtime)

    cache = Cache()
    kept = Runtime("TrainingRuntime", "rt", "team", "uid", {"number": 1})
    other = replace(kept, name="x")
    keys = [RuntimeKey("TrainingRuntime", "team", name) for name in ("rt", "x")]
    cache.revisions.observe("r", revision(1, kept))
    assert [cache.recorded(key) for key in keys] == [[kept], []]
    cache.revisions.keep("r", revision(1, replace(kept, spec={"number": 2})))
    assert [cache.recorded(key) for key in keys] == [[replace(kept, spec={"number": 2})], []]
    cache.revisions.observe("r", revision(2, other))
    assert [cache.recorded(key) for key in keys] == [[], [other]]
    cache.revisions.observe("r", revision(3, None))
    assert [cache.recorded(key) for key in keys] == [[], []]
    cache.revisions.remove("r")
    assert [cache.recorded(key) for key in keys] == [[], []]


def test_a_trainjob_is_kept_without_what_nobody_reads() -> None:
    manifest = objects.trainjob()
    manifest["metadata"] |= {
        "uid": "u",
        "resourceVersion": "4",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "managedFields": [{}],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{...}",
            "of": "others",
            "trainyard.dev/retention": "1h",
            "trainyard.dev/max-restarts": "0",
            "kueue.x-k8s.io/elastic-job": "x" * 200_000,
        },
        "labels": {"of": "others", "kueue.x-k8s.io/queue-name": "q"},
    }
    manifest["status"] = {
        "conditions": [],
        "jobsStatus": [],
        "trainerStatus": {
            "metrics": [],
            "progressPercentage": 40,
            "lastUpdatedTime": "2026-01-01T00:00:09Z",
        },
    }
    expected = TrainJob(
        namespace="team",
        name="tj",
        uid="u",
        resource_version="4",
        created=datetime(2026, 1, 1, tzinfo=UTC),
        spec=manifest["spec"],
        status={
            "conditions": [],
            "jobsStatus": [],
            "trainerStatus": {"progressPercentage": 40, "lastUpdatedTime": "2026-01-01T00:00:09Z"},
        },
        labels={"kueue.x-k8s.io/queue-name": "q"},
        annotations={
            "trainyard.dev/retention": "1h",
            "trainyard.dev/max-restarts": "0",
            "kueue.x-k8s.io/elastic-job": "x" * 64,
        },
    )
    assert trainjob_of(manifest) == expected
    manifest["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert trainjob_of(manifest) == replace(expected, deleting=True)
    manifest["metadata"]["finalizers"] = ["x.io/keep"]
    assert trainjob_of(manifest) == replace(expected, deleting=True)
    for collected in ("foregroundDeletion", "orphan"):
        manifest["metadata"]["finalizers"] = ["x.io/keep", collected]
        assert trainjob_of(manifest) == replace(expected, deleting=True, collected=True)
