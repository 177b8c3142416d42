"""Writes are guarded, remembered, and a lasting no is told from a passing one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, run, status
from trainyard_api.reasons import Reason
from trainyard_kube.client import Client, error_from
from trainyard_kube.resources import JOBSETS, SECRETS
from trainyard_operator.core import model
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.decide.views import jobset_of, trainjob_of
from trainyard_operator.watch.cache import Cache, Key
from trainyard_operator.work.apply import Applier, RefusedError, Written, refusal
from trainyard_operator.work.queue import RetryError

KEY = Key("team", "tj")
PATH = f"{objects.JOBSETS}/tj"


class Scene:
    def __init__(self, client: Client) -> None:
        self.cache = Cache()
        self.applier = Applier(client, self.cache, namespace="trainyard-system")

    @property
    def jobset(self) -> model.JobSet | None:
        seen = self.cache.jobsets.get(KEY)
        return None if seen is None else seen.jobset


def update(stored: dict[str, Any], **spec: Any) -> model.Update:
    manifest = objects.jobset()
    manifest["metadata"] = {"name": "tj", "namespace": "team", "labels": {"new": "label"}}
    manifest["spec"] = spec
    return model.Update(manifest, stored["metadata"]["uid"], stored["metadata"]["resourceVersion"])


def delete(uid: str) -> model.Delete:
    return model.Delete("jobset.x-k8s.io/v1alpha2", "JobSet", "team", "tj", uid)


def test_what_we_created_is_known_before_any_watch_says_so() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            scene = Scene(client)
            await scene.applier.write(KEY, model.Create(objects.jobset()))
            assert scene.jobset is not None
            assert scene.jobset.resource_version == api.objects[PATH]["metadata"]["resourceVersion"]

    run(test)


def test_a_jobset_that_exists_already_is_observed_and_decided_on_anew() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(PATH, objects.jobset(owner="another"))
        async with api.client() as client:
            scene = Scene(client)
            with pytest.raises(RetryError):
                await scene.applier.write(KEY, model.Create(objects.jobset()))
            assert scene.jobset is not None
            assert scene.jobset.owner_uid == "another"

    run(test)


def test_a_jobset_that_no_trainjob_controls_is_a_lasting_no_though_no_cache_keeps_it() -> None:
    async def test() -> None:
        api = FakeApi()
        foreign = objects.jobset()
        foreign["metadata"]["ownerReferences"] = []
        api.put(PATH, foreign)
        async with api.client() as client:
            scene = Scene(client)
            scene.cache.jobsets.seen = 1_000_000  # the stream is past it and did not keep it
            with pytest.raises(RefusedError) as refused:
                await scene.applier.write(KEY, model.Create(objects.jobset()))
        assert refused.value.rejection == model.Rejection(
            Reason.JOBSET_CONFLICT, 'JobSet "tj" exists and belongs to another owner'
        )

    run(test)


HOSTS = "/api/v1/namespaces/team/configmaps/tj-hostfile"
SECRET = "/api/v1/namespaces/team/secrets/tj-hostfile"
PLACEHOLDERS = {"ssh-privatekey": "(generated)", "ssh-publickey": "(generated)"}


def companion(owner: str = "job-uid", kind: str = "ConfigMap", **content: Any) -> dict[str, Any]:
    manifest = {**objects.jobset("tj-hostfile", owner), "apiVersion": "v1", "kind": kind, **content}
    del manifest["spec"]
    return manifest


def test_a_companion_is_returned_as_it_was_written_for_no_watch_tells_of_it() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            applier = Scene(client).applier
            made = (await applier.write(KEY, model.Create(companion(data={"hostfile": "old"})))).companion
            assert made is not None
            assert (made.identity, made.owner_uid) == (("v1", "ConfigMap", "tj-hostfile"), "job-uid")
            wanted = companion(data={"hostfile": "new"})
            changed = (
                await applier.write(KEY, model.Update(wanted, made.uid, made.resource_version))
            ).companion
            assert changed is not None
            assert changed.resource_version == api.objects[HOSTS]["metadata"]["resourceVersion"]
            assert api.objects[HOSTS]["data"] == {"hostfile": "new"}

    run(test)


@pytest.mark.parametrize(("kind", "path"), [("ConfigMap", HOSTS), ("Secret", SECRET)])
def test_a_companion_that_exists_already_is_left_alone_and_looked_at_anew(kind: str, path: str) -> None:
    async def test() -> None:
        api = FakeApi()
        there = api.put(path, companion(kind=kind, data={"key": "first"}))
        async with api.client() as client:
            with pytest.raises(RetryError, match="already exists"):
                await Scene(client).applier.write(KEY, model.Create(companion(kind=kind, data={})))
        assert api.objects[path] == there

    run(test)


def test_a_key_is_drawn_for_a_new_secret_and_neither_logged_nor_sent_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    kinds = model.Generated.SSH_KEY

    async def test() -> dict[str, Any]:
        api = FakeApi()
        async with api.client() as client:
            manifest = companion(kind="Secret", data=PLACEHOLDERS)
            made = (await Scene(client).applier.write(KEY, model.Create(manifest, kinds))).companion
            assert manifest["data"] == PLACEHOLDERS
            assert "ssh" not in repr(made)
        assert api.whole == []
        data: dict[str, Any] = api.objects[SECRET]["data"]
        return data

    one, other = run(test), run(test)
    assert one.keys() == other.keys() == PLACEHOLDERS.keys()
    assert one != other
    assert not any(value in caplog.text for value in (*one.values(), *other.values()))


def test_an_update_replaces_what_is_wanted_and_keeps_the_rest() -> None:
    async def test() -> None:
        api = FakeApi()
        original = objects.jobset(status={"restarts": 1})
        original["metadata"] |= {"labels": {"old": "label"}, "finalizers": ["keep"]}
        stored = api.put(PATH, original)
        async with api.client() as client:
            scene = Scene(client)
            await scene.applier.write(KEY, update(stored, suspend=True))
            live = api.objects[PATH]
            assert live["spec"] == {"suspend": True, "replicatedJobs": []}
            assert live["metadata"]["labels"] == {"new": "label"}
            assert live["metadata"]["finalizers"] == ["keep"]
            assert live["metadata"]["ownerReferences"] == original["metadata"]["ownerReferences"]
            assert live["status"] == {"restarts": 1}
            assert scene.jobset is not None
            assert scene.jobset.suspend

    run(test)


def test_an_update_never_hits_what_was_not_observed() -> None:
    async def test() -> None:
        api = FakeApi()
        stored = api.put(PATH, objects.jobset())
        decided = update(stored, suspend=True)
        api.put(PATH, objects.jobset(status={"restarts": 2}))
        async with api.client() as client:
            scene = Scene(client)
            with pytest.raises(RetryError):
                await scene.applier.write(KEY, decided)
            with pytest.raises(RetryError):
                await scene.applier.write(KEY, replace(update(api.objects[PATH]), uid="another"))
            assert api.writes() == []
            assert scene.jobset is not None, "the next decision is made on what there is"

    run(test)


def test_an_update_never_brings_back_what_was_deleted() -> None:
    async def test() -> None:
        api = FakeApi()
        stored = api.put(PATH, objects.jobset())
        api.remove(PATH)
        async with api.client() as client:
            scene = Scene(client)
            scene.cache.jobsets.observe(KEY, jobset_of(msgspec.json.encode(stored)))
            with pytest.raises(RetryError):
                await scene.applier.write(KEY, update(stored))
            assert (api.objects, scene.jobset) == ({}, None)

    run(test)


def test_a_delete_hits_the_uid_that_was_observed_or_nothing() -> None:
    async def test() -> None:
        api = FakeApi()
        stored = api.put(PATH, objects.jobset())
        async with api.client() as client:
            scene = Scene(client)
            await scene.applier.write(KEY, delete("of an earlier incarnation"))
            assert PATH in api.objects
            await scene.applier.write(KEY, delete(stored["metadata"]["uid"]))
            assert PATH not in api.objects
            await scene.applier.write(KEY, delete(stored["metadata"]["uid"]))

    run(test)


def test_a_delete_that_is_refused_though_the_object_is_the_same_is_tried_again() -> None:
    async def test() -> None:
        api = FakeApi()
        stored = api.put(PATH, objects.jobset())
        async with api.client() as client:
            scene = Scene(client)
            api.refuse_next("DELETE", PATH, status(409, "Conflict"))
            with pytest.raises(RetryError, match="JobSet tj still exists"):
                await scene.applier.write(KEY, delete(stored["metadata"]["uid"]))
            assert scene.jobset is not None
            await scene.applier.write(KEY, delete(stored["metadata"]["uid"]))
            assert (PATH in api.objects, scene.jobset) == (False, None)

    run(test)


def test_what_a_finalizer_holds_is_remembered_as_being_deleted() -> None:
    async def test() -> None:
        api = FakeApi()
        held = objects.jobset()
        held["metadata"]["finalizers"] = ["foregroundDeletion"]
        stored = api.put(PATH, held)
        async with api.client() as client:
            scene = Scene(client)
            await scene.applier.write(KEY, delete(stored["metadata"]["uid"]))
            assert scene.jobset is not None
            assert scene.jobset.deleting

    run(test)


def test_a_revision_is_recorded_once() -> None:
    async def test() -> None:
        api = FakeApi()
        live = revisions.live(api.put(f"{objects.RUNTIMES}/rt", objects.runtime()))
        write = model.RecordRevision(live, revisions.name_of(live))
        async with api.client() as client:
            scene = Scene(client)
            await scene.applier.write(KEY, write)
            await scene.applier.write(KEY, write)
            assert api.writes() == [("POST", objects.REVISIONS)]
            other = Scene(client)
            await other.applier.write(KEY, write)
            assert write.name in other.cache.revisions, "another replica had recorded it"
            assert write.name in scene.cache.revisions_used

    run(test)


def test_a_status_goes_to_the_version_it_was_decided_on() -> None:
    async def test() -> None:
        api = FakeApi()
        job = trainjob_of(api.put(f"{objects.JOBS}/tj", objects.trainjob()))
        async with api.client() as client:
            scene = Scene(client)
            scene.cache.trainjobs.observe(Key.of(job), job)
            await scene.applier.status(job, {"conditions": []})
            assert api.bodies[-1]["metadata"] == {"resourceVersion": job.resource_version}
            known = scene.cache.trainjobs.get(KEY)
            assert known is not None
            assert known.status == {"conditions": []}
            with pytest.raises(RetryError):
                await scene.applier.status(job, {"conditions": [1]})
            assert api.objects[f"{objects.JOBS}/tj"]["status"] == {"conditions": []}
            api.remove(f"{objects.JOBS}/tj")
            await scene.applier.status(job, {"conditions": []})
            assert KEY not in scene.cache.trainjobs

    run(test)


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (422, 'JobSet.jobset.x-k8s.io "tj" is invalid: spec: bad', Reason.JOBSET_REJECTED),
        (400, 'admission webhook "v" denied the request: no', Reason.JOBSET_REJECTED),
        (403, 'admission webhook "vjobset.kb.io" denied the request: name too long', Reason.JOBSET_REJECTED),
        (422, "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no", Reason.JOBSET_REJECTED),
        (500, "etcdserver: request is too large", Reason.JOBSET_REJECTED),
        (403, 'jobsets "tj" is forbidden: exceeded quota: q, requested: count=1', Reason.QUOTA_EXCEEDED),
        (403, 'jobsets is forbidden: User "u" cannot create resource "jobsets"', Reason.FORBIDDEN),
    ],
    ids=["schema", "webhook 400", "webhook", "policy", "too large", "quota", "permissions"],
)
def test_a_lasting_no_has_a_reason_that_a_user_can_act_on(code: int, message: str, reason: Reason) -> None:
    error = error_from(code, msgspec.json.encode(status(code, "Any", message)))
    refused = refusal(error, JOBSETS, "tj")
    assert isinstance(refused, RefusedError)
    assert refused.rejection == model.Rejection(reason, f"JobSet tj: {message}")


def test_where_mpi_jobs_may_not_run_the_refusal_says_who_decides_that() -> None:
    message = 'secrets is forbidden: User "u" cannot create resource "secrets"'
    refused = refusal(error_from(403, msgspec.json.encode(status(403, "Forbidden", message))), SECRETS, "key")
    assert isinstance(refused, RefusedError)
    way_out = "MPI jobs run in namespaces of tenants and of the stack's operator.mpiNamespaces"
    assert refused.rejection == model.Rejection(Reason.FORBIDDEN, f"Secret key: {message}. {way_out}")


def test_a_missing_crd_is_a_lasting_no_and_a_missing_namespace_a_passing_one() -> None:
    crd = refusal(error_from(404, b"404 page not found\n"), JOBSETS, "tj")
    assert isinstance(crd, RefusedError)
    assert crd.rejection.reason == "CRDMissing"
    gone = status(404, "NotFound", 'namespaces "team" not found', name="team", kind="namespaces")
    assert isinstance(refusal(error_from(404, msgspec.json.encode(gone)), JOBSETS, "tj"), RetryError)
    causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
    ending = status(403, "Forbidden", "it is being terminated", causes=causes)
    assert isinstance(refusal(error_from(403, msgspec.json.encode(ending)), JOBSETS, "tj"), RetryError)


def test_objects_that_a_quota_does_not_count_yet_are_tried_again() -> None:
    message = 'jobsets "tj" is forbidden: status unknown for quota: tenant, resources: count/jobsets'
    refused = refusal(error_from(403, msgspec.json.encode(status(403, "Forbidden", message))), JOBSETS, "tj")
    assert (type(refused), str(refused)) == (RetryError, message)


@pytest.mark.parametrize("code", [410, 429, 500, 503])
def test_a_passing_no_is_never_a_condition(code: int) -> None:
    error = error_from(code, b"{}")
    assert refusal(error, JOBSETS, "tj") is error


def test_labels_are_set_on_what_was_observed_and_nothing_else_of_it_is_written() -> None:
    async def test() -> None:
        api = FakeApi()
        manifest = objects.jobset(spec={"suspend": False, "replicatedJobs": [], "kept": True})
        manifest["metadata"]["labels"] = {"its": "own", "priority": "low"}
        stored = api.put(PATH, manifest)
        async with api.client() as client:
            scene = Scene(client)
            uid, version = stored["metadata"]["uid"], stored["metadata"]["resourceVersion"]
            label = model.Label("team", "tj", uid, version, {"priority": "high"})
            await scene.applier.write(KEY, label)
            live = api.objects[PATH]
            assert live["metadata"]["labels"] == {"its": "own", "priority": "high"}
            assert live["spec"] == stored["spec"]
            assert scene.jobset is not None
            assert scene.jobset.resource_version == live["metadata"]["resourceVersion"]
            with pytest.raises(RetryError, match="is not what was observed"):
                await scene.applier.write(KEY, label)

    run(test)


def test_a_jobset_is_suspended_as_it_was_observed_and_nothing_is_written_but_a_note() -> None:
    async def test() -> None:
        api = FakeApi()
        stored = api.put(PATH, objects.jobset(spec={"suspend": False, "replicatedJobs": [], "kept": True}))
        async with api.client() as client:
            scene = Scene(client)
            metadata = stored["metadata"]
            note = {"trainyard.dev/ran-as": "digest"}
            suspend = model.Suspend("team", "tj", metadata["uid"], metadata["resourceVersion"], note)
            await scene.applier.write(KEY, suspend)
            assert api.objects[PATH]["spec"] == {**stored["spec"], "suspend": True}
            kept = metadata.get("annotations") or {}
            assert api.objects[PATH]["metadata"]["annotations"] == {**kept, **note}
            assert scene.jobset is not None
            assert scene.jobset.suspend
            with pytest.raises(RetryError, match="is not what was observed"):
                await scene.applier.write(KEY, suspend)

    run(test)


WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads"
DEACTIVATE = model.Activate("team", "tj", "js-uid", active=False)


def workload(name: str, jobset: str = "js-uid", *, finished: bool = False, **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Finished", "status": str(finished)}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "team", "ownerReferences": [{"uid": jobset}]},
        "spec": spec,
        "status": {"conditions": conditions},
    }


def test_the_workloads_of_a_jobset_that_have_not_finished_are_deactivated_and_activated_once() -> None:
    async def test() -> None:
        api = FakeApi()
        for manifest in (workload("mine"), workload("old", finished=True), workload("another", "x")):
            api.put(f"{WORKLOADS}/{manifest['metadata']['name']}", manifest)

        def active() -> dict[str, Any]:
            found = {path.rpartition("/")[2]: body for path, body in api.objects.items()}
            return {name: body["spec"].get("active") for name, body in found.items()}

        async with api.client() as client:
            applier = Scene(client).applier
            assert await applier.write(KEY, DEACTIVATE) == Written(deactivated=True)
            assert active() == {"mine": False, "old": None, "another": None}
            assert await applier.write(KEY, DEACTIVATE) == Written(changed=False, deactivated=True)
            assert await applier.write(KEY, replace(DEACTIVATE, active=True)) == Written()
            assert active() == {"mine": True, "old": None, "another": None}

    run(test)


def test_a_jobset_without_a_workload_is_looked_at_again_as_long_as_kueue_may_be_about_to_make_one() -> None:
    async def test() -> None:
        async with FakeApi().client() as client:
            applier = Scene(client).applier
            with pytest.raises(RetryError, match="no Workload of JobSet tj yet"):
                await applier.write(KEY, replace(DEACTIVATE, awaited=True))
            for write in (DEACTIVATE, replace(DEACTIVATE, active=True)):
                assert await applier.write(KEY, write) == Written(changed=False)

    run(test)


def test_two_replicas_that_create_at_once_make_one_jobset() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client:
            scenes = Scene(client), Scene(client)
            results = await asyncio.gather(
                *(scene.applier.write(KEY, model.Create(objects.jobset())) for scene in scenes),
                return_exceptions=True,
            )
        assert [type(result) for result in results if not isinstance(result, Written)] == [RetryError]
        assert list(api.objects) == [PATH]

    run(test)
