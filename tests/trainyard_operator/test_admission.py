"""The webhooks over TLS: what they answer about real objects, and what they do with what is none."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import logging
import ssl
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, eventually, run, status
from trainyard_api import names
from trainyard_api.webhook_paths import HOLD_TRAINJOB, MUTATE_TRAINJOB, POLICIES
from trainyard_operator.core.admit import admission_review, validation
from trainyard_operator.core.admit.limits import Limits
from trainyard_operator.core.build.info import Settings
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.decide.views import RuntimeKey, SeenJobSet, jobset_of, runtime_of
from trainyard_operator.metrics import Metrics
from trainyard_operator.serve import admission, bodies, certificates
from trainyard_operator.serve.admission import Decider, WebhookServer
from trainyard_operator.serve.bodies import Bodies, _Body
from trainyard_operator.serve.dry_runs import BURST
from trainyard_operator.watch.cache import Key
from trainyard_policies import rules
from trainyard_policies.engine import RuleError
from trainyard_policies.settings import Policies

from .admission_reviews import (
    CLUSTER_RUNTIME,
    RUNTIME,
    TRAINJOB,
    Webhooks,
    body,
    denial,
    tried_last,
    tries,
    webhooks,
)

JOBSETS = Settings(queue_holds_jobset=True)
PLAIN = {
    "runtimes": dict.fromkeys(
        (
            *("framework-label", "image-digest", "image-tag"),
            *("resources-declared", "run-as-non-root", "service-account-token"),
        ),
        "disabled",
    ),
    "trainJobs": {"image-digest": "disabled"},
}
"""Without the rules that the plain objects of these tests do not meet."""


def test_a_trainjob_is_let_in_when_its_runtime_is_there() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client) as hooks:
            missing = await hooks.ask(TRAINJOB, objects.trainjob())
            code, message = denial(missing)
            assert code == 403
            assert message == (
                'spec.RuntimeRef: Invalid value: {"name":"rt","apiGroup":"trainer.kubeflow.org",'
                '"kind":"ClusterTrainingRuntime"}: clustertrainingruntimes.trainer.kubeflow.org "rt" '
                "not found: specified clusterTrainingRuntime must be created before the TrainJob is created"
            )
            api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
            assert await hooks.ask(TRAINJOB, objects.trainjob()) == {"uid": "review-uid", "allowed": True}
            asked = len(api.requests)
            await hooks.ask(TRAINJOB, objects.trainjob())
            assert len(api.requests) == asked, "the second time it is in the cache"

    run(test)


def test_a_trainjob_whose_runtime_is_of_the_other_kind_is_told_so() -> None:
    async def test() -> None:
        api = FakeApi()
        kind = "TrainingRuntime"
        path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainingruntimes/rt"
        live = api.put(path, {**objects.runtime(), "kind": kind})
        async with api.client() as client, webhooks(client) as hooks:
            hooks.cache.runtimes.observe(RuntimeKey(kind, "team", "rt"), runtime_of(live, kind))
            _, message = denial(await hooks.ask(TRAINJOB, objects.trainjob()))
            way_out = "There is a TrainingRuntime of that name: say runtimeRef.kind: TrainingRuntime"
            assert message.endswith(f"must be created before the TrainJob is created. {way_out}")

    run(test)


def test_a_trainjob_whose_runtime_is_misspelt_is_told_the_nearest_of_its_kind() -> None:
    async def test() -> None:
        api = FakeApi()
        live = api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        async with api.client() as client, webhooks(client) as hooks:
            key = RuntimeKey(live["kind"], None, "rt-distributed")
            hooks.cache.runtimes.observe(key, runtime_of(live, key.kind))
            wrong = objects.trainjob(runtimeRef={"name": "rt-distribted"})
            _, message = denial(await hooks.ask(TRAINJOB, wrong))
            assert message.endswith("before the TrainJob is created. Did you mean rt-distributed?")

    run(test)


def test_a_trainjob_that_its_queue_can_never_admit_is_let_in_with_a_warning() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        job = objects.trainjob()
        job["metadata"] = {**job["metadata"], "labels": {"kueue.x-k8s.io/queue-name": "nowhere"}}
        warned = {
            "uid": "review-uid",
            "allowed": True,
            "warnings": [
                "this job will wait forever: there is no LocalQueue nowhere in namespace team; correct "
                "the label kueue.x-k8s.io/queue-name, or ask the platform team for a queue in this namespace"
            ],
        }
        async with api.client() as client, webhooks(client, settings=JOBSETS) as hooks:
            assert await hooks.ask(TRAINJOB, job) == warned
            assert await hooks.ask(TRAINJOB, job, job) == {"uid": "review-uid", "allowed": True}
            asked = [path for _, path in api.requests if "kueue" in path]
            assert await hooks.ask(TRAINJOB, job) == warned
            assert [path for _, path in api.requests if "kueue" in path] == asked, "for ten seconds"
            assert await hooks.ask(TRAINJOB, objects.trainjob()) == {"uid": "review-uid", "allowed": True}
            assert [path for _, path in api.requests if "kueue" in path] == asked, "it names no queue"
        async with api.client() as client, webhooks(client) as hooks:
            assert "warnings" not in await hooks.ask(TRAINJOB, job), "queues hold TrainJobs"

    run(test)


def test_a_path_to_another_namespaces_runtime_is_the_name_of_none() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(
            "/apis/trainer.kubeflow.org/v1alpha1/namespaces/other/trainingruntimes/rt",
            {**objects.runtime(), "kind": "TrainingRuntime"},
        )
        reference = {"name": "../../other/trainingruntimes/rt", "kind": "TrainingRuntime"}
        async with api.client() as client, webhooks(client) as hooks:
            code, message = denial(await hooks.ask(TRAINJOB, objects.trainjob(runtimeRef=reference)))
            assert code == 403
            assert "not found" in message
            assert api.requests == []

    run(test)


def test_warnings_come_along() -> None:
    async def test() -> None:
        api = FakeApi()
        runtime = objects.runtime()
        runtime["metadata"]["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
        api.put(f"{objects.RUNTIMES}/rt", runtime)
        async with api.client() as client, webhooks(client) as hooks:
            response = await hooks.ask(TRAINJOB, objects.trainjob())
            (warning,) = response["warnings"]
            assert warning.startswith('Referenced ClusterTrainingRuntime "rt" is deprecated')
            response = await hooks.ask(CLUSTER_RUNTIME, runtime, kind="ClusterTrainingRuntime")
            assert response["allowed"]
            assert response["warnings"][0].startswith('ClusterTrainingRuntime "rt" is deprecated')

    run(test)


def outcomes(hooks: Webhooks) -> dict[str, float]:
    """How many requests have had which outcome."""
    return {
        sample.labels["outcome"]: sample.value
        for metric in hooks.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "trainyard_admission_requests_total"
    }


def test_an_api_server_that_does_not_answer_is_a_503_that_says_so() -> None:
    async def test() -> None:
        api = FakeApi()
        api.refuse_next("GET", "/rt", status(500, "InternalError", "etcd is away"))
        async with api.client() as client, webhooks(client) as hooks:
            code, message = denial(await hooks.ask(TRAINJOB, objects.trainjob()))
            assert code == 503
            assert "etcd is away" in message
            assert outcomes(hooks) == {"unavailable": 1}

    run(test)


def started(api: FakeApi, **fields: Any) -> SeenJobSet:
    """The JobSet of job-uid, built from a recorded revision of a runtime that may be gone."""
    stored = api.put(f"{objects.JOBSETS}/tj", objects.jobset(**fields))
    return jobset_of(json.dumps(stored).encode())


def suspended(suspend: bool, **spec: Any) -> dict[str, Any]:
    job = objects.trainjob(suspend=suspend, **spec)
    job["metadata"] |= {"uid": "job-uid", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return job


def test_a_job_is_suspended_whatever_has_become_of_its_runtime() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client) as hooks:
            hooks.cache.jobsets.observe(Key("team", "tj"), started(api))
            assert (await hooks.ask(TRAINJOB, suspended(True), suspended(False)))["allowed"]

    run(test)


@pytest.mark.parametrize("synced", [True, False])
def test_a_job_resumes_from_its_revision_when_its_runtime_is_deleted(synced: bool) -> None:
    async def test() -> None:
        api = FakeApi()
        live = api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        recorded = revisions.manifest_of(revisions.live(live), "trainyard-system")
        api.put(f"{objects.REVISIONS}/{recorded['metadata']['name']}", recorded)
        api.remove(f"{objects.RUNTIMES}/rt")
        seen = started(
            api,
            metadata={
                **objects.jobset()["metadata"],
                "annotations": {"trainyard.dev/runtime-revision": recorded["metadata"]["name"]},
            },
        )
        async with api.client() as client, webhooks(client) as hooks:
            hooks.synced = synced
            if synced:
                hooks.cache.jobsets.observe(Key("team", "tj"), seen)
            assert (await hooks.ask(TRAINJOB, suspended(False), suspended(True)))["allowed"]
            other = suspended(False)
            other["metadata"] |= {"uid": "another", "creationTimestamp": "2025-01-01T00:00:00Z"}
            assert not (await hooks.ask(TRAINJOB, other, suspended(True)))["allowed"]

    run(test)


def test_patches_may_not_change_while_pods_of_the_jobset_are_active() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        active = {"replicatedJobsStatus": [{"name": "node", "active": 1}]}
        async with api.client() as client, webhooks(client) as hooks:
            hooks.cache.jobsets.observe(Key("team", "tj"), started(api, status=active))
            patched = suspended(True, runtimePatches=[{"manager": "a.io/x"}])
            code, message = denial(await hooks.ask(TRAINJOB, patched, suspended(True)))
            assert (code, "node is still active" in message) == (403, True)

    run(test)


def test_pods_of_a_jobset_that_is_another_jobs_keep_no_job_from_changing() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        active = {"replicatedJobsStatus": [{"name": "node", "active": 1}]}
        before, patched = suspended(True), suspended(True, runtimePatches=[{"manager": "a.io/x"}])
        for job in (before, patched):
            job["metadata"]["uid"] = "another"
        async with api.client() as client, webhooks(client) as hooks:
            hooks.cache.jobsets.observe(Key("team", "tj"), started(api, status=active))
            assert (await hooks.ask(TRAINJOB, patched, before))["allowed"]

    run(test)


def test_a_job_that_is_sent_suspended_to_a_queue_is_held_until_it_is_resumed() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client) as hooks:
            response = await hooks.ask(HOLD_TRAINJOB, objects.trainjob(suspend=True))
            assert response["allowed"]
            *_, operation = json.loads(base64.b64decode(response["patch"]))
            assert operation["value"] == names.SENT_SUSPENDED
            held = objects.trainjob(suspend=True)
            held["metadata"]["annotations"] = {names.QUEUE_GATES_ANNOTATION: operation["value"]}
            resumed = {**held, "spec": {**held["spec"], "suspend": False}}
            response = await hooks.ask(HOLD_TRAINJOB, resumed, held)
            assert json.loads(base64.b64decode(response["patch"])) == [
                {"op": "remove", "path": operation["path"]}
            ]
            assert "patch" not in await hooks.ask(HOLD_TRAINJOB, objects.trainjob())
            assert api.requests == []

    run(test)


def test_the_time_of_a_patch_is_set() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client) as hooks:
            job = objects.trainjob(runtimePatches=[{"manager": "a.io/x"}])
            response = await hooks.ask(MUTATE_TRAINJOB, job)
            (operation,) = json.loads(base64.b64decode(response["patch"]))
            assert (operation["op"], operation["path"]) == ("add", "/spec/runtimePatches/0/time")
            age = datetime.now(UTC) - datetime.fromisoformat(operation["value"])
            assert abs(age) < timedelta(minutes=10)
            assert "patch" not in await hooks.ask(MUTATE_TRAINJOB, objects.trainjob())
            assert api.requests == []

    run(test)


def test_runtimes_of_both_kinds_are_looked_at_on_create_and_update() -> None:
    async def test() -> None:
        bad = objects.runtime()
        bad["spec"]["template"]["spec"]["replicatedJobs"][0]["replicas"] = 2
        async with FakeApi().client() as client, webhooks(client) as hooks:
            for path, kind in (
                (CLUSTER_RUNTIME, "ClusterTrainingRuntime"),
                (RUNTIME, "TrainingRuntime"),
            ):
                for before in (None, objects.runtime()):
                    code, message = denial(await hooks.ask(path, bad, before, kind=kind))
                    assert code == 403
                    assert message == (
                        "spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2: always must be 1"
                    )

    run(test)


def excepted(**rules: str) -> dict[str, Any]:
    """A TrainJob whose image has a tag that moves, with exceptions from rules."""
    job = objects.trainjob(trainer={"image": "registry.example.com/train:latest"})
    annotations = {
        f"policy.trainyard.dev/{rule.replace('_', '-')}": written for rule, written in rules.items()
    }
    job["metadata"]["annotations"] = annotations
    return job


def test_the_rules_refuse_warn_and_let_pass() -> None:
    async def test() -> None:
        parameters = {
            "exceptionsIn": ["TrainJob"],
            "registries": ["docker.io/library", "registry.example.com"],
        }
        policies = Policies.model_validate({"levels": PLAIN, "parameters": parameters})
        moves = "image-tag: spec.trainer.image: must not have the tag latest, which changes over time"
        async with FakeApi().client() as client, webhooks(client, policies=policies) as hooks:
            let_pass = {"uid": "review-uid", "allowed": True}
            day = date.today() + timedelta(days=300)
            good, over = f"until={day}; for now", "until=2020-01-01; for now"
            holds = f"{moves}, excepted until {day}: for now"
            ended = (
                f"{moves} (the exception ended on 2020-01-01). Use the tag of a version, or better a digest."
            )
            for exception, warning in ((good, holds), (over, ended)):
                answer = await hooks.ask(f"{POLICIES}trainjob", excepted(image_tag=exception))
                assert answer == {**let_pass, "warnings": [warning], "auditAnnotations": {"advice": warning}}
            wrong = excepted(image_tag=good, nothing="x", never="x")
            answer = await hooks.ask(f"{POLICIES}trainjob", wrong)
            remedy = (
                'Write policy.trainyard.dev/<rule-id>: "until=YYYY-MM-DD; reason", or remove the annotation.'
            )
            assert denial(answer) == (
                403,
                "; ".join(
                    f"exception-form: metadata.annotations[policy.trainyard.dev/{rule}]: "
                    f"does not name a rule: there is no {rule}. {remedy}"
                    for rule in ("never", "nothing")
                ),
            )
            assert answer["warnings"] == [holds]
            assert (await hooks.ask(f"{POLICIES}trainjob", wrong, wrong))["allowed"], "it was wrong before"
            for kind in ("TrainingRuntime", "ClusterTrainingRuntime"):
                runtime = {**objects.runtime(), "kind": kind}
                assert await hooks.ask(f"{POLICIES}{kind.lower()}", runtime, kind=kind) == let_pass

    run(test)


RULES = Policies.model_validate({"levels": PLAIN})
MOUNT = "spec.template.spec.containers[0].volumeMounts[0].name"


def no_such_volume(*more: dict[str, str]) -> dict[str, Any]:
    """What the API server answers about a Job that mounts a volume which it has not."""
    cause = {"reason": "FieldValueNotFound", "field": MOUNT, "message": 'Not found: "data"'}
    return status(422, "Invalid", group="batch", kind="Job", causes=[cause, *more])


def test_policies_that_have_changed_count_from_the_next_request_on() -> None:
    async def test() -> None:
        small, large = (Policies.model_validate({"parameters": {"maxNodes": nodes}}) for nodes in (2, 8))
        async with FakeApi().client() as client, webhooks(client, policies=small) as hooks:
            job = objects.trainjob(trainer={"numNodes": 4})
            before = await hooks.ask(f"{POLICIES}trainjob", job)
            assert hooks.decider is not None
            hooks.decider.hold_to(large)
            after = await hooks.ask(f"{POLICIES}trainjob", job)
        assert "must be at most 2 on this platform, is 4" in denial(before)[1]
        assert "must be at most" not in json.dumps(after)

    run(test)


def test_a_trainjob_whose_jobs_kubernetes_would_refuse_is_refused_before_it_holds_quota() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
            api.refuse_next("POST", "/namespaces/team/jobs", no_such_volume())
            answer = await hooks.ask(f"{POLICIES}trainjob", objects.trainjob())
            assert denial(answer) == (
                403,
                f'Kubernetes would refuse the Jobs: Job node: {MOUNT}: Not found: "data"',
            )
            tried = tried_last(api, "Job")
            assert tried["apiVersion"] == "batch/v1"
            assert tried["metadata"] == {
                "name": "trial-node-0",
                "namespace": "team",
                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"},
            }
            assert (tried["spec"]["suspend"], tried["spec"]["completionMode"]) == (True, "Indexed")
            pod = tried["spec"]["template"]["spec"]
            assert (pod["restartPolicy"], pod["containers"][0]["image"]) == ("OnFailure", "img")
            assert not [path for path in api.objects if "/jobs/" in path], "it was a dry run"

    run(test)


def test_what_has_passed_is_not_tried_again_under_another_name_or_suspended() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
            patches = [{"manager": "a.example.com", "time": "2026-01-01T00:00:00Z"}]
            later = [{"manager": "a.example.com", "time": "2026-01-02T00:00:00Z"}]
            for job in (
                objects.trainjob("a", runtimePatches=patches),
                objects.trainjob("b", runtimePatches=later),
                objects.trainjob("c", runtimePatches=later, suspend=True),
            ):
                assert (await hooks.ask(f"{POLICIES}trainjob", job))["allowed"]
            assert (tries(api, "Job"), tries(api, "JobSet")) == (1, 1)
            other = objects.trainjob("a", trainer={"image": "another", "numNodes": 8})
            assert (await hooks.ask(f"{POLICIES}trainjob", other))["allowed"]
            assert (tries(api, "Job"), tries(api, "JobSet")) == (2, 1), "a JobSet's webhooks see no image"

    run(test)


def test_a_sweep_is_tried_once() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.put(f"{objects.RUNTIMES}/rt", objects.runtime())

            async def tries_of(**trainer: Any) -> int:
                before = tries(api, "Job")
                answer = await hooks.ask(f"{POLICIES}trainjob", objects.trainjob(trainer=trainer))
                assert answer["allowed"]
                return tries(api, "Job") - before

            def rate(value: str) -> list[dict[str, str]]:
                return [{"name": "RATE", "value": value}]

            assert await tries_of(command=["train"], args=["--rate", "1"], env=rate("1")) == 1
            assert await tries_of(command=["train", "-v"], args=["--rate", "2", "x"], env=rate("2")) == 0
            assert await tries_of(command=["train"], env=rate("1")) == 1, "without arguments"
            assert await tries_of(command=["train"], args=["1"], env=rate("")) == 1, "an empty value"
            assert await tries_of(command=["train"], args=["1"], env=[{"name": "RATES", "value": "1"}]) == 1

    run(test)


@pytest.mark.parametrize(
    "said",
    [
        status(403, "Forbidden", "jobs.batch is forbidden"),
        status(500, "InternalError", "no etcd"),
        status(422, "Invalid", kind="jobs", causes=[{"message": "denied by a policy of the site"}]),
        status(422, "Invalid", kind="Job", causes=None),
    ],
    ids=lambda said: f"{said['code']}-{said['details'].get('kind')}",
)
def test_what_is_not_kubernetes_own_refusal_of_a_field_lets_a_trainjob_pass(said: dict[str, Any]) -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
            api.refuse_next("POST", "/jobs", said)
            answer = await hooks.ask(f"{POLICIES}trainjob", objects.trainjob())
            assert answer == {"uid": "review-uid", "allowed": True}
            assert tries(api, "Job") == 1

    run(test)


@pytest.mark.parametrize(
    ("kind", "namespace"), [("ClusterTrainingRuntime", "default"), ("TrainingRuntime", "team")]
)
def test_a_runtime_is_tried_and_may_leave_the_image_to_its_trainjobs(kind: str, namespace: str) -> None:
    async def test() -> None:
        api = FakeApi()
        image = {
            "reason": "FieldValueRequired",
            "field": "spec.template.spec.containers[0].image",
            "message": "Required value",
        }
        runtime = {**objects.runtime(), "kind": kind}
        path = f"{POLICIES}{kind.lower()}"
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.refuse_next("POST", f"/namespaces/{namespace}/jobs", no_such_volume(image))
            assert denial(await hooks.ask(path, runtime, kind=kind)) == (
                403,
                "Kubernetes would refuse the Jobs: "
                f'spec.template.spec.replicatedJobs[0].template.{MOUNT}: Not found: "data"',
            )
            api.refuse_next("POST", "/jobs", status(422, "Invalid", kind="Job", causes=[image]))
            assert (await hooks.ask(path, runtime, kind=kind))["allowed"]

    run(test)


def test_a_claim_that_jobset_makes_is_a_volume_of_the_job_that_is_tried() -> None:
    async def test() -> None:
        api = FakeApi()
        runtime = objects.runtime()
        claim = {"templates": [{"metadata": {"name": "data"}, "spec": {}}]}
        runtime["spec"]["template"]["spec"]["volumeClaimPolicies"] = [claim]
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            path = f"{POLICIES}clustertrainingruntime"
            await hooks.ask(path, runtime, kind="ClusterTrainingRuntime")
            assert tried_last(api, "Job")["spec"]["template"]["spec"]["volumes"] == [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
            ]

    run(test)


def test_an_update_is_held_only_to_what_it_makes_worse() -> None:
    async def test() -> None:
        api = FakeApi()
        changed = objects.runtime()
        changed["spec"]["mlPolicy"] = {"numNodes": 2}
        kind = "ClusterTrainingRuntime"
        path = f"{POLICIES}clustertrainingruntime"
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            assert (await hooks.ask(path, objects.runtime(), objects.runtime(), kind=kind))["allowed"]
            assert api.writes() == [], "nothing changes in it"
            api.refuse_next("POST", "/jobs", no_such_volume())
            api.refuse_next("POST", "/jobs", no_such_volume())
            assert (await hooks.ask(path, changed, objects.runtime(), kind=kind))["allowed"]
            assert tries(api, "Job") == 2

    run(test)


def test_nobody_keeps_the_api_server_busy_with_trials_and_the_log_says_once_that_none_are_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
            for number in range(BURST + 10):
                job = objects.trainjob(trainer={"image": f"img:{number}"})
                assert (await hooks.ask(f"{POLICIES}trainjob", job))["allowed"]
            assert len(api.writes()) == BURST

    run(test)
    assert [line.getMessage() for line in caplog.records if line.levelname == "WARNING"] == [
        "Jobs are not checked before they are created: more than 20 dry runs per second are requested; "
        "check who sends TrainJobs and runtimes, and who connects to the webhook's port"
    ]


def test_without_rules_there_is_nobody_to_ask_about_them() -> None:
    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            for kind in ("trainjob", "trainingruntime", "clustertrainingruntime"):
                assert (await hooks.send(f"{POLICIES}{kind}", body(excepted(nothing="x"))))[0] == 404

    run(test)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", 400),
        (b"not JSON", 400),
        (b"[" * 1_000_000, 400),
        (b"{}", 400),
        (body(objects.runtime(), kind="ClusterTrainingRuntime"), 400),
        (b" " * (bodies.MAX_BODY + 1), 413),
    ],
)
def test_what_is_no_review_is_answered_without_a_traceback(
    sent: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            answered, text = await hooks.send(TRAINJOB, sent)
            assert (answered, text.count("\n")) == (code, 1)
            assert 'outcome="malformed",webhook="validate-trainjob"} 1.0' in hooks.metrics.render().decode()
            api_works = await hooks.ask(MUTATE_TRAINJOB, objects.trainjob())
            assert api_works["allowed"]

    with caplog.at_level(logging.WARNING):
        run(test)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "spec",
    [None, [], 7, "x", {"runtimeRef": 7}, {"runtimeRef": {"name": []}}, {"trainer": [1]}, {"suspend": "x"}],
)
def test_objects_that_no_schema_has_seen_are_refused_in_words(spec: Any) -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        strange = {**objects.trainjob(), "spec": spec}
        async with api.client() as client, webhooks(client) as hooks:
            for manifests in ((strange,), (strange, objects.trainjob()), (objects.trainjob(), strange)):
                for path in (TRAINJOB, MUTATE_TRAINJOB):
                    response = await hooks.ask(path, *manifests)
                    assert response["allowed"] or response["status"]["code"] == 403
            assert 'outcome="failed"' not in hooks.metrics.render().decode()

    run(test)


def test_an_object_of_three_megabytes_is_answered() -> None:
    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        big = objects.trainjob(trainer={"args": ["x" * 1_000_000] * 3})
        async with api.client() as client, webhooks(client) as hooks:
            code, message = denial(await hooks.ask(TRAINJOB, big, objects.trainjob()))
            assert code == 403
            assert message.startswith("spec: Too long: may not be more than 262144 bytes as JSON")
            assert (await hooks.ask(TRAINJOB, suspended(True, **big["spec"]), big))["allowed"]

    run(test)


def test_one_who_sends_slowly_holds_nobody_up() -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(2)

    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client, bodies=Bodies(seconds=0.2)) as hooks:
            waiting = asyncio.create_task(hooks.send(TRAINJOB, slow(), headers={"Content-Length": "2"}))
            await asyncio.sleep(0.05)
            assert (await hooks.ask(MUTATE_TRAINJOB, objects.trainjob()))["allowed"]
            assert (await waiting)[0] == 504

    run(test)


def test_all_bodies_together_have_a_bound() -> None:
    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client, bodies=Bodies(held=1000)) as hooks:
            assert (await hooks.send(TRAINJOB, b" " * 1001))[0] == 503
            assert (await hooks.ask(MUTATE_TRAINJOB, objects.trainjob()))["allowed"], "all is let go"

    run(test)


def test_a_body_that_is_said_to_be_too_large_is_refused_before_it_is_sent() -> None:
    async def test() -> None:
        async with (
            FakeApi().client() as client,
            webhooks(client, bodies=Bodies(most=9, seconds=0.5)) as hooks,
        ):
            for length, answered in ((10, b" 413 "), (9, b" 504 ")):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", hooks.server.port, ssl=hooks.trust
                )
                head = f"POST {TRAINJOB} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n"
                writer.write(head.encode())
                assert answered in await reader.readline()
                writer.close()

    run(test)


def test_a_body_of_which_nobody_says_how_large_it_is_is_not_read() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"{}"

    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            with pytest.raises(aiohttp.ClientConnectionError):
                await hooks.send(TRAINJOB, pieces())
            assert (await hooks.ask(MUTATE_TRAINJOB, objects.trainjob()))["allowed"]

    run(test)


def test_a_body_that_is_whole_makes_no_room_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def slow(_: Decider, request: admission_review.Request) -> Any:
        begun.set()
        await go.wait()
        return admission_review.allowed(request)

    monkeypatch.setattr(Decider, "default_trainjob", slow)

    async def test() -> None:
        sent = body(objects.trainjob(trainer={"args": ["x" * 900]}))
        async with (
            FakeApi().client() as client,
            webhooks(client, bodies=Bodies(held=len(sent) + 99)) as hooks,
        ):
            waiting = asyncio.create_task(hooks.send(MUTATE_TRAINJOB, sent))
            await begun.wait()
            assert (await hooks.send(TRAINJOB, b" " * 100)) == (
                503,
                "too much data is being sent, try again\n",
            )
            assert (await hooks.send(TRAINJOB, b" " * 99))[0] == 400, "there is room for this one"
            go.set()
            assert (await waiting)[0] == 200

    run(test)


def test_a_failure_of_ours_is_a_500_with_the_traceback_in_the_log_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(admission_review, "defaults", broken)

    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            code, text = await hooks.send(MUTATE_TRAINJOB, body(objects.trainjob()))
            assert (code, "ZeroDivisionError" in text) == (500, False)

    run(test)
    assert "ZeroDivisionError" in caplog.text


def test_of_a_rule_of_a_site_that_fails_the_log_has_the_sentence_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rule = replace(rules.BY_ID["image-tag"], page="policies/site/owner.py")

    def broken(*_: Any) -> Any:
        raise RuleError(rule, "policies/site/owner.py:7: a sentence") from ValueError("what a tenant wrote")

    monkeypatch.setattr(admission_review, "defaults", broken)

    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            code, text = await hooks.send(MUTATE_TRAINJOB, body(objects.trainjob()))
            assert (code, "sentence" in text) == (500, False)

    run(test)
    assert "failed: policies/site/owner.py:7: a sentence" in caplog.text
    assert "tenant" not in caplog.text


def test_a_certificate_is_replaced_without_a_restart_and_a_bad_one_is_not_taken() -> None:
    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            assert hooks.server.unready("") == []
            issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
            with pytest.raises((ValueError, OSError)):
                hooks.server.load(issued.certificate, certificates.issue(["x"], datetime.now(UTC)).key)
            with pytest.raises(ValueError, match="cannot be read"):
                hooks.server.load(b"", b"")
            assert (await hooks.ask(MUTATE_TRAINJOB, objects.trainjob()))["allowed"]
            hooks.server.load(issued.certificate, issued.key)
            assert (await hooks.ask(MUTATE_TRAINJOB, objects.trainjob()))["allowed"], "it stays open"
            trust = ssl.create_default_context(cadata=issued.authorities.decode())
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
                new = Webhooks(hooks.server, hooks.cache, hooks.metrics, session, trust)
                assert (await new.ask(MUTATE_TRAINJOB, objects.trainjob()))["allowed"]

    run(test)


def test_nobody_is_turned_away_while_certificates_take_turns() -> None:
    async def test() -> None:
        taking_turns = [certificates.issue(["127.0.0.1"], datetime.now(UTC)) for _ in range(2)]
        trust = ssl.create_default_context(cadata="".join(i.authorities.decode() for i in taking_turns))
        async with FakeApi().client() as client, webhooks(client) as hooks:
            hooks.server.load(taking_turns[0].certificate, taking_turns[0].key)

            async def call() -> list[bool]:
                answers = []
                for _ in range(20):  # each with a connection of its own
                    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
                        one = Webhooks(hooks.server, hooks.cache, hooks.metrics, session, trust)
                        answers.append((await one.ask(MUTATE_TRAINJOB, objects.trainjob()))["allowed"])
                return answers

            async def rotate() -> None:
                for number in itertools.count():
                    issued = taking_turns[number % 2]
                    hooks.server.load(issued.certificate, issued.key)
                    await asyncio.sleep(0.01)

            rotation = asyncio.create_task(rotate())
            answers = await asyncio.gather(*(call() for _ in range(8)))
            rotation.cancel()
        assert answers == [[True] * 20] * 8

    run(test)


@pytest.mark.parametrize("wrong", ["of another authority", "for another name", "that has run out"])
def test_a_caller_does_not_take_a_certificate(wrong: str) -> None:
    async def test() -> None:
        now = datetime.now(UTC)
        name = "127.0.0.2" if wrong == "for another name" else "127.0.0.1"
        age = timedelta(days=4000) if wrong == "that has run out" else timedelta(0)
        served = certificates.issue([name], now - age)
        known = certificates.issue(["127.0.0.1"], now) if wrong == "of another authority" else served
        trust = ssl.create_default_context(cadata=known.authorities.decode())
        async with FakeApi().client() as client, webhooks(client) as hooks:
            hooks.server.load(served.certificate, served.key)
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
                caller = Webhooks(hooks.server, hooks.cache, hooks.metrics, session, trust)
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await caller.ask(MUTATE_TRAINJOB, objects.trainjob())

    run(test)


def test_it_is_unready_until_it_listens_and_has_a_certificate_that_is_good() -> None:
    async def test() -> None:
        now = datetime.now(UTC)
        server = WebhookServer({}, Metrics(), host="127.0.0.1", port=0, now=lambda: now)
        assert server.unready("") == ["the webhook does not listen"]
        await server.start()
        assert server.unready("for a reason") == ["the webhook has no certificate yet for a reason"]
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on who notices first
            await asyncio.open_connection("127.0.0.1", server.port, ssl=trusting)
        issued = certificates.issue(["a"], now - certificates.LIFETIME - timedelta(hours=1))
        server.load(issued.certificate, issued.key)
        assert server.unready("") == ["the webhook's certificate has expired"]
        issued = certificates.issue(["a"], now)
        server.load(issued.certificate, issued.key)
        assert server.unready("") == []
        await server.stop()

    run(test)


def test_before_its_end_it_sends_callers_elsewhere() -> None:
    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            hooks.server.closing = True
            url = f"https://127.0.0.1:{hooks.server.port}{MUTATE_TRAINJOB}"
            async with hooks.session.post(url, data=body(objects.trainjob())) as answer:
                assert (answer.status, answer.headers["Connection"]) == (200, "close")

    run(test)


def test_a_runtime_above_the_limit_of_the_configuration_is_refused() -> None:
    async def test() -> None:
        async with (
            FakeApi().client() as client,
            webhooks(client, limits=Limits(max_runtime_bytes=100)) as hooks,
        ):
            code, message = denial(await hooks.ask(RUNTIME, objects.runtime(), kind="TrainingRuntime"))
            size = len(json.dumps(objects.runtime()["spec"], separators=(",", ":")))
            assert code == 403
            assert message == f"spec: Too long: may not be more than 100 bytes as JSON, but has {size}"

    run(test)


def test_a_large_review_is_judged_aside_and_small_ones_do_not_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "ANSWER_TIMEOUT", 0.5)
    judge, released = validation.validate, threading.Event()

    def slow(job: Any, *rest: Any, **options: Any) -> Any:
        if len(json.dumps(job.spec)) > admission.SMALL:
            released.wait(5)
        return judge(job, *rest, **options)

    monkeypatch.setattr(validation, "validate", slow)

    async def test() -> None:
        api = FakeApi()
        api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
        large = objects.trainjob(trainer={"args": ["x" * admission.SMALL]})
        async with api.client() as client, webhooks(client) as hooks:
            waiting = asyncio.create_task(hooks.send(TRAINJOB, body(large)))
            await asyncio.sleep(0.1)
            assert (await hooks.ask(TRAINJOB, objects.trainjob()))["allowed"]
            assert await waiting == (504, "not answered in time\n")
            released.set()
            assert (await hooks.ask(TRAINJOB, large))["allowed"]

    run(test)


@pytest.mark.parametrize(
    ("piece", "around", "code"),
    [
        (b"[],", (b"[", b"0]"), 400),
        (b"{},", (b"[", b"0]"), 400),
        (b"0,", (b"[", b"0]"), 400),
        (b'{"a":[{}]},', (b"[", b"0]"), 400),
        (b"[", (b"", b""), 400),
        (b'{"a":', (b"", b""), 400),
        (b" ", (b"", b""), 400),
        (b"1", (b"", b""), 400),
        (b"1", (b"0.", b""), 200),
        (b"a", (b'"', b'"'), 200),
        (b"\\u0041", (b'"', b'"'), 400),
    ],
)
def test_a_body_of_any_form_is_answered(piece: bytes, around: tuple[bytes, bytes], code: int) -> None:
    async def test() -> None:
        filled = piece * ((bodies.MAX_BODY - 4096) // len(piece))
        sent = body(objects.trainjob(labels="@")).replace(b'"@"', around[0] + filled + around[1])
        async with FakeApi().client() as client, webhooks(client) as hooks:
            answered, _ = await hooks.send(TRAINJOB, sent)
            assert answered == code

    run(test)


def test_a_body_of_very_many_values_is_not_read() -> None:
    many = b"[" + b"[]," * admission_review.MOST_VALUES + b"0]"
    with pytest.raises(admission_review.MalformedError, match="the body has more than 200000 values"):
        admission_review.read(many)


def test_those_who_send_much_and_slowly_make_room_for_an_honest_request() -> None:
    async def hog() -> AsyncIterator[bytes]:
        yield b" " * 900
        await asyncio.sleep(300)

    bodies = Bodies(held=4000, seconds=300)

    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client, bodies=bodies) as hooks:
            length = {"Content-Length": "1000"}
            hogs = [asyncio.create_task(hooks.send(TRAINJOB, hog(), headers=length)) for _ in range(4)]
            await eventually(lambda: [len(one.data) for one in bodies._bodies] == [900] * 4)
            for _ in range(3):
                assert (await hooks.ask(MUTATE_TRAINJOB, objects.trainjob()))["allowed"]
            (first,) = (await asyncio.wait(hogs, timeout=60, return_when=asyncio.FIRST_COMPLETED))[0]
            assert first.result()[0] == 503, "one of them had to go, the others still send"
            for task in hogs:
                task.cancel()

    run(test)


def test_a_body_whose_time_runs_out_as_it_makes_room_costs_nobody_else_anything() -> None:
    async def test() -> None:
        bodies = Bodies(held=10)
        late = _Body("hog", asyncio.timeout(0), data=bytearray(10))
        bodies._bodies[late] = None
        with contextlib.suppress(TimeoutError):
            async with late.limit:
                await asyncio.sleep(60)
        bodies._evict(_Body("honest", asyncio.timeout(9)))
        assert late.evicted

    run(test)


def test_who_asks_again_and_again_for_a_missing_runtime_is_told_to_wait() -> None:
    async def test() -> None:
        api = FakeApi()
        guess = {"name": "guess", "kind": "TrainingRuntime"}
        async with api.client() as client, webhooks(client) as hooks:
            for _ in range(admission.LOOKS_FOR_ONE_BURST):
                code, message = denial(await hooks.ask(TRAINJOB, objects.trainjob(runtimeRef=guess)))
                assert (code, "not found" in message) == (403, True)
            for _ in range(admission.LOOKS_FOR_ONE_BURST):
                code, message = denial(await hooks.ask(TRAINJOB, objects.trainjob(runtimeRef=guess)))
                assert (code, "try again" in message) == (503, True), "nobody looked: it may be there by now"
            assert len(api.requests) == admission.LOOKS_FOR_ONE_BURST
            assert outcomes(hooks) == {"denied": 2 * admission.LOOKS_FOR_ONE_BURST}

    run(test)


def test_a_job_can_be_suspended_while_too_many_look_for_its_missing_runtime() -> None:
    async def test() -> None:
        guess = {"name": "guess", "kind": "TrainingRuntime"}
        running, suspended = (objects.trainjob(runtimeRef=guess, suspend=on) for on in (False, True))
        async with FakeApi().client() as client, webhooks(client) as hooks:
            for _ in range(2 * admission.LOOKS_FOR_ONE_BURST):
                await hooks.ask(TRAINJOB, objects.trainjob(runtimeRef=guess))
            answer = await hooks.ask(TRAINJOB, suspended, running)
            assert answer["allowed"]

    run(test)


def test_callers_who_guess_names_cost_the_api_server_a_bounded_number_of_reads() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client) as hooks:
            for number in range(2 * admission.LOOKS_BURST):
                guess = {"name": f"guess-{number}", "kind": "TrainingRuntime"}
                await hooks.ask(TRAINJOB, objects.trainjob(runtimeRef=guess))
            assert len(api.requests) == admission.LOOKS_BURST
            code, message = denial(await hooks.ask(TRAINJOB, objects.trainjob(runtimeRef={"name": "new"})))
            assert (code, "try again" in message) == (503, True), "nobody can say that it is missing"

    run(test)
