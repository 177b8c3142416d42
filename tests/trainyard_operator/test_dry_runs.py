"""The JobSet is judged when a TrainJob or a runtime is sent, and not only when the operator creates it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, run, status
from trainyard_api import names
from trainyard_api.webhook_paths import POLICIES
from trainyard_operator.core.build.info import Settings
from trainyard_policies.settings import Policies

from .admission_reviews import denial, tried_last, tries, webhooks

RULES = Policies.model_validate({})
TRAINJOB = f"{POLICIES}trainjob"
KIND = "ClusterTrainingRuntime"
RUNTIME = f"{POLICIES}clustertrainingruntime"
HELD = Settings(queue_holds_jobset=True)

IN_PLACE = "InPlaceRestart restart strategy cannot be set when InPlaceRestart feature gate is disabled"
DENIED = 'admission webhook "vjobset.kb.io" denied the request: '
OF_JOBSET = (
    'admission webhook "validate-jobset-x-k8s-io-v1alpha2-jobset.x-k8s.io" denied the request: '
    'JobSet.jobset.x-k8s.io "trial" is invalid: '
)
"""How the message of JobSet 0.12's webhook begins."""


def invalid(field: str, message: str, reason: str = "FieldValueInvalid", by: str = "") -> dict[str, Any]:
    cause = {"reason": reason, "field": field, "message": message}
    return status(422, "Invalid", by, group="jobset.x-k8s.io", kind="JobSet", causes=[cause])


PODS = '[]v1alpha2.ReplicatedJob{v1alpha2.ReplicatedJob{Name:"node", Token:"secret"}}'
WHY = "replicatedJob containers don't have a matching volumeMount: data from VolumeClaimPolicies"
NO_MOUNT = f"spec.replicatedJobs: Invalid value: (not shown): {WHY}"


def test_the_jobset_that_is_tried_is_the_one_that_would_be_created_suspended_and_owned_by_nobody() -> None:
    async def test() -> None:
        api = FakeApi()
        runtime = objects.runtime()
        runtime["spec"]["template"]["metadata"] = {"labels": {"team": "vision"}}
        api.put(f"{objects.RUNTIMES}/rt", runtime)
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            assert (await hooks.ask(TRAINJOB, objects.trainjob()))["allowed"]
            tried = tried_last(api, "JobSet")
            (job,) = tried["spec"].pop("replicatedJobs")
            assert tried == {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": "trial", "namespace": "team", "labels": {"team": "vision"}},
                "spec": {"suspend": True},
            }
            assert job["template"]["spec"]["template"]["spec"]["containers"][0]["image"] == "img"
            assert objects.JOBSETS + "/trial" not in api.objects, "it was a dry run"

    run(test)


def sound_runtime() -> dict[str, Any]:
    """One that the rules let pass, so that it comes to the dry run."""
    runtime = objects.runtime()
    runtime["metadata"]["labels"] = {names.FRAMEWORK_LABEL: "plain"}
    [job] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    job["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "img:1"
    return runtime


@pytest.mark.parametrize(
    ("answer", "of_trainjob", "of_runtime"),
    [
        pytest.param(
            invalid("spec.network.subdomain", "must be a DNS label"),
            "ClusterTrainingRuntime rt: spec.template.spec.network.subdomain: must be a DNS label",
            "spec.template.spec.network.subdomain: must be a DNS label",
            id="the schema",
        ),
        pytest.param(
            invalid("<nil>", f"Internal error: {IN_PLACE}", "InternalError", by=OF_JOBSET),
            f"ClusterTrainingRuntime rt: spec.template.spec: {IN_PLACE}",
            f"spec.template.spec: {IN_PLACE}",
            id="JobSet's webhook, of no field",
        ),
        pytest.param(
            invalid("spec.replicatedJobs", f"Invalid value: {PODS}: {WHY}", by=OF_JOBSET),
            f"spec.runtimePatches or ClusterTrainingRuntime rt: spec.template.{NO_MOUNT}",
            f"spec.template.{NO_MOUNT}",
            id="JobSet's webhook, with all pods",
        ),
        pytest.param(
            status(403, "Forbidden", f"{DENIED}{IN_PLACE}"),
            f"ClusterTrainingRuntime rt: spec.template.spec: {IN_PLACE}",
            f"spec.template.spec: {IN_PLACE}",
            id="an earlier JobSet's webhook",
        ),
        pytest.param(
            status(403, "Forbidden", f"{DENIED}metadata.labels[kueue.x-k8s.io/queue-name]: too long"),
            "metadata.labels[kueue.x-k8s.io/queue-name]: too long",
            "spec.template.metadata.labels[kueue.x-k8s.io/queue-name]: too long",
            id="Kueue's webhook",
        ),
    ],
)
def test_a_jobset_that_would_be_refused_is_refused_with_its_trainjob_and_its_runtime(
    answer: dict[str, Any], of_trainjob: str, of_runtime: str
) -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.refuse_next("POST", "/jobsets", answer)
            said = denial(await hooks.ask(TRAINJOB, objects.trainjob()))
            assert said == (403, f"Kubernetes would refuse the JobSet: {of_trainjob}")
            api.refuse_next("POST", "/jobsets", answer)
            said = denial(await hooks.ask(RUNTIME, sound_runtime(), kind=KIND))
            assert said == (403, f"Kubernetes would refuse the JobSet: {of_runtime}")

    run(test)


@pytest.mark.parametrize(
    "answer",
    [
        status(403, "Forbidden", 'jobsets.jobset.x-k8s.io is forbidden: User "trainyard" cannot create'),
        status(403, "Forbidden", "jobsets.jobset.x-k8s.io is forbidden: exceeded quota: count/jobsets=2"),
        status(403, "Forbidden", 'admission webhook "site.example.com" denied the request: not today'),
        invalid("spec.ttlSecondsAfterFinished", "not here", by='admission webhook "a.example.com" denied '),
        status(422, "Invalid", kind="jobsets", causes=[{"message": "denied by an admission policy"}]),
        status(404, "NotFound"),
        status(429, "TooManyRequests"),
        status(500, "InternalError", 'failed calling webhook "vjobset.kb.io": connection refused'),
        invalid("spec.volumeClaimPolicies[0].template[0]", "Internal error: no PVC", "InternalError"),
        invalid("<nil>", "some validation rules were not checked because the object was invalid"),
    ],
    ids=lambda answer: f"{answer['code']} {answer['message'][:40]}",
)
def test_trouble_of_the_cluster_and_what_is_no_judgement_lets_pass(answer: dict[str, Any]) -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.refuse_next("POST", "/jobsets", answer)
            assert await hooks.ask(TRAINJOB, objects.trainjob()) == {"uid": "review-uid", "allowed": True}
            assert (tries(api, "JobSet"), tries(api, "Job")) == (1, 1)
            assert (await hooks.ask(TRAINJOB, objects.trainjob()))["allowed"]
            assert (tries(api, "JobSet"), tries(api, "Job")) == (2, 1), (
                "only what has not passed is tried again"
            )

    run(test)


def test_a_webhook_of_jobsets_that_hangs_hides_no_refusal_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        cause = {"reason": "FieldValueInvalid", "field": "spec.x", "message": "no"}
        api.refuse_next("POST", "/jobs", status(422, "Invalid", kind="Job", causes=[cause]))
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            create = client.create

            async def hanging(path: str, *args: Any, **options: Any) -> Any:
                if path.endswith("/jobsets"):
                    raise TimeoutError
                return await create(path, *args, **options)

            monkeypatch.setattr(client, "create", hanging)
            said = denial(await hooks.ask(TRAINJOB, objects.trainjob()))
            assert said == (403, "Kubernetes would refuse the Jobs: Job node: spec.x: no")

    run(test)


@pytest.mark.parametrize(
    ("spec", "again"),
    [
        ({}, 0),
        ({"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}]}, 1),
        ({"coordinator": {"replicatedJob": "node"}}, 1),
    ],
    ids=["its pods", "mounts of claims", "pods that a coordinator is one of"],
)
def test_a_jobset_that_has_passed_is_tried_again_for_what_its_webhooks_judge(
    spec: dict[str, Any], again: int
) -> None:
    async def test() -> None:
        api = FakeApi()
        runtime = objects.runtime()
        runtime["spec"]["template"]["spec"] |= spec
        api.put(f"{objects.RUNTIMES}/rt", runtime)
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            assert (await hooks.ask(TRAINJOB, objects.trainjob()))["allowed"]
            other = objects.trainjob(trainer={"image": "another", "numNodes": 8})
            assert (await hooks.ask(TRAINJOB, other))["allowed"]
            assert (tries(api, "JobSet"), tries(api, "Job")) == (1 + again, 2)

    run(test)


def test_the_policies_of_another_runtime_are_tried_too() -> None:
    async def test() -> None:
        api = FakeApi()
        other = objects.runtime("other")
        other["spec"]["template"]["spec"]["failurePolicy"] = {"maxRestarts": 3}
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        api.put(f"{objects.RUNTIMES}/other", other)
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            reference = {"name": "other", "kind": KIND}
            for job in (objects.trainjob(), objects.trainjob(runtimeRef=reference)):
                assert (await hooks.ask(TRAINJOB, job))["allowed"]
            assert tried_last(api, "JobSet")["spec"]["failurePolicy"] == {"maxRestarts": 3}
            assert tries(api, "JobSet") == 2

    run(test)


def queued(**labels: str) -> dict[str, Any]:
    job = objects.trainjob()
    job["metadata"]["labels"] = labels
    return job


def test_where_a_queue_holds_jobsets_one_is_tried_with_what_kueue_reads() -> None:
    """A tenant's namespace takes no JobSet without a queue, so that of a runtime is in one, too."""

    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        async with api.client() as client, webhooks(client, policies=RULES, settings=HELD) as hooks:
            priority = {names.PRIORITY_CLASS_LABEL: "high"}
            for labels, jobsets in (({}, 1), ({}, 1), (priority, 2)):
                job = queued(**{names.QUEUE_LABEL: "research"}, **labels, unread="x")
                assert (await hooks.ask(TRAINJOB, job))["allowed"]
                assert tried_last(api, "JobSet")["metadata"]["labels"] == {
                    names.QUEUE_LABEL: "research",
                    **labels,
                }
                assert (tries(api, "JobSet"), tries(api, "Job")) == (jobsets, 1)
            assert (await hooks.ask(RUNTIME, sound_runtime(), kind=KIND))["allowed"]
            assert tried_last(api, "JobSet")["metadata"]["labels"] == {names.QUEUE_LABEL: "trial"}

    run(test)


def test_where_a_queue_holds_trainjobs_the_jobset_that_is_tried_is_in_none() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            assert (await hooks.ask(TRAINJOB, queued(**{names.QUEUE_LABEL: "research"})))["allowed"]
            assert tried_last(api, "JobSet")["metadata"] == {"name": "trial", "namespace": "team"}

    run(test)


def test_an_update_is_held_only_to_what_it_makes_wrong_in_the_jobset() -> None:
    async def test() -> None:
        api = FakeApi()
        before, changed = objects.runtime(), objects.runtime()
        changed["spec"]["template"]["spec"]["failurePolicy"] = {"maxRestarts": 3}
        wrong = invalid("spec.network.subdomain", "must be a DNS label")
        other = invalid("spec.failurePolicy", "no")
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            for first, second, allowed in ((wrong, wrong, True), (wrong, other, False), (wrong, None, False)):
                api.refuse_next("POST", "/jobsets", first)
                if second is not None:
                    api.refuse_next("POST", "/jobsets", second)
                assert (await hooks.ask(RUNTIME, changed, before, kind=KIND))["allowed"] is allowed

    run(test)
