"""The door of the webhooks: what each path asks of an object first, and what all reviews may take."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import pytest

from tests.support import cost, objects
from tests.support.fake_api import FakeApi, run, status
from tests.support.junk import DEEP
from trainyard_api import names
from trainyard_api.rate import Buckets
from trainyard_api.webhook_paths import HOLD_TRAINJOB, MUTATE_TRAINJOB, POLICIES, VALIDATE
from trainyard_operator.core.admit import admission_review, limits
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.decide.views import jobset_of, revision_of
from trainyard_operator.serve import admission
from trainyard_operator.serve.budget import SMALL, Budget
from trainyard_operator.serve.dry_runs import BURST
from trainyard_operator.watch.cache import Key
from trainyard_policies.settings import Policies

from .admission_reviews import TRAINJOB, body, denial, webhooks

RULES: Final = Policies()
OF_TRAINJOBS: Final = (MUTATE_TRAINJOB, HOLD_TRAINJOB, TRAINJOB, f"{POLICIES}trainjob")
OF_RUNTIMES: Final = tuple(
    f"{path}{kind}" for path in (VALIDATE, POLICIES) for kind in ("trainingruntime", "clustertrainingruntime")
)
CONTAINERS: Final = [{"name": f"c{number}"} for number in range(501)]
TOO_MUCH: Final[dict[str, tuple[Any, str]]] = {
    "bytes": (["x" * 300_000], "spec: Too long: may not be more than 262144 bytes as JSON, but has"),
    "values": ([0] * 15_000, "spec: Too long: may not have more than 15000 values, but has"),
    "containers": ([{"containers": CONTAINERS}], "spec: Too long: may not have more than 500 containers"),
    "depth": (DEEP, 'spec: Invalid value: "...": must not be nested deeper than 100 levels'),
}


def kind_of(path: str) -> str:
    return {"clustertrainingruntime": "ClusterTrainingRuntime", "trainingruntime": "TrainingRuntime"}.get(
        path.rpartition("-")[2], "TrainJob"
    )


def sent_to(path: str, **spec: Any) -> dict[str, Any]:
    if kind_of(path) == "TrainJob":
        return objects.trainjob(**spec)
    runtime = objects.runtime()
    return {**runtime, "kind": kind_of(path), "spec": {**runtime["spec"], **spec}}


@pytest.mark.parametrize("what", TOO_MUCH)
@pytest.mark.parametrize("path", [*OF_TRAINJOBS, *OF_RUNTIMES])
def test_what_is_too_large_is_refused_on_every_path(path: str, what: str) -> None:
    content, said = TOO_MUCH[what]

    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            large, small = sent_to(path, unknown=content), sent_to(path)
            for old in (None, small):
                code, message = denial(await hooks.ask(path, large, old, kind=kind_of(path)))
                assert code == 403
                assert message.startswith(said)
            assert api.requests == []

    run(test)


@pytest.mark.parametrize("what", ["bytes", "values", "containers"])
@pytest.mark.parametrize("path", [*OF_TRAINJOBS, *OF_RUNTIMES])
def test_what_was_stored_too_large_passes_unless_it_changes_otherwise_than_to_be_suspended(
    path: str, what: str
) -> None:
    async def test() -> None:
        content, said = TOO_MUCH[what]
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            stored = sent_to(path, unknown=content)
            same = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
            kind = kind_of(path)
            assert (await hooks.ask(path, same, stored, kind=kind))["allowed"]
            changed = sent_to(path, unknown=content, another=1)
            assert denial(await hooks.ask(path, changed, stored, kind=kind))[1].startswith(said)
            if kind == "TrainJob":
                suspended = sent_to(path, unknown=content, suspend=True)
                assert (await hooks.ask(path, suspended, stored))["allowed"]

    run(test)


def test_a_runtime_that_was_stored_too_large_is_none_to_build_from() -> None:
    async def test() -> None:
        api = FakeApi()
        large = objects.runtime()
        large["spec"]["unknown"] = [0] * 15_000
        api.put(f"{objects.RUNTIMES}/rt", large)
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            assert (await hooks.ask(f"{POLICIES}trainjob", objects.trainjob()))["allowed"]
            assert api.writes() == [], "its Jobs are not tried"
            code, message = denial(await hooks.ask(TRAINJOB, objects.trainjob()))
            assert code == 403
            assert message == (
                'spec.runtimeRef: Invalid value: {"name":"rt","apiGroup":"trainer.kubeflow.org",'
                '"kind":"ClusterTrainingRuntime"}: the runtime is too large: '
                "spec may not have more than 15000 values, but has 15021"
            )
            waiting = objects.trainjob(suspend=True)
            assert (await hooks.ask(TRAINJOB, objects.trainjob(suspend=False), waiting))["allowed"]

    run(test)


def test_a_small_trainjob_on_a_large_runtime_is_judged_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    run_aside = admission.Aside.run

    async def noted(aside: Any, size: int, call: Any, *args: Any, **options: Any) -> Any:
        sizes.append(size)
        return await run_aside(aside, size, call, *args, **options)

    monkeypatch.setattr(admission.Aside, "run", noted)

    async def test() -> None:
        api = FakeApi()
        large = objects.runtime()
        large["spec"]["unknown"] = "x" * admission.SMALL
        api.put(f"{objects.RUNTIMES}/rt", large)
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            for path in (TRAINJOB, f"{POLICIES}trainjob"):
                sizes.clear()
                assert (await hooks.ask(path, objects.trainjob()))["allowed"]
                assert sizes[-1] > admission.SMALL

    run(test)


def test_names_that_no_object_can_have_cost_no_look_and_no_memory() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client) as hooks:
            for number in range(2 * admission.LOOKS_BURST):
                guess = {"name": f"{number}{'x' * 253}", "kind": "TrainingRuntime"}
                code, message = denial(await hooks.ask(TRAINJOB, objects.trainjob(runtimeRef=guess)))
                assert (code, "not found" in message) == (403, True)
            assert api.requests == []

    run(test)


def test_a_limiter_keeps_digests_whatever_it_is_asked_about() -> None:
    buckets: Buckets[object] = Buckets(0.0, 1, clock=lambda: 0.0)
    keys = ("a", ("a", None), ("a", "None"), "b" * 1_000_000, "\ud800")
    assert [buckets.take(key) for key in keys] == [0.0] * len(keys)
    assert {len(key) for key in buckets._left} == {16}


@pytest.mark.parametrize(
    "piece", ['{"":0}', '{"":{"":0}}', "[[]]", '{"ab":"cd"}', '"é"', '"😀aaaaaaaa"', "1.5"]
)
def test_what_a_body_takes_is_known_before_it_is_read(piece: str) -> None:
    content = f"[{','.join([piece] * 5_000)}]".encode()
    assert cost.peak(lambda: json.loads(content)) < admission_review.memory(content) * 1.2


def test_reviews_that_are_being_answered_have_a_bound_together() -> None:
    async def test() -> None:
        budget = Budget(8 * SMALL)
        order: list[str] = []

        async def held(address: str, size: int, until: asyncio.Event) -> None:
            async with budget.take(address, size):
                order.append(address)
                await until.wait()

        done = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for address, size in (
                ("much", 4 * SMALL),
                ("much", 2 * SMALL),  # an address gets half
                ("more", 2 * SMALL),
                ("large", 2 * SMALL),  # a quarter is left to small ones
                ("small", SMALL),
            ):
                tasks.create_task(held(address, size, done))
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert order == ["much", "more", "small"]
            done.set()
        assert sorted(order[3:]) == ["large", "much"]
        assert budget._taken == {}

    run(test)


def test_a_body_that_would_take_too_much_is_not_read() -> None:
    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            many = objects.trainjob(unknown="@")
            sent = body(many).replace(b'"@"', b'"' + "é".encode() * 3_500_000 + b'"')
            code, text = await hooks.send(TRAINJOB, sent)
            assert code == 400
            assert "takes" in text

    run(test)


def refusal() -> Any:
    cause = {"reason": "FieldValueNotFound", "field": "spec.x", "message": 'Not found: "data"'}
    return status(422, "Invalid", group="batch", kind="Job", causes=[cause])


def test_a_job_that_was_stored_broken_is_suspended_without_a_trial() -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
            running, suspended = (objects.trainjob(suspend=on) for on in (False, True))
            assert (await hooks.ask(f"{POLICIES}trainjob", suspended, running))["allowed"]
            assert api.writes() == []

    run(test)


@pytest.mark.parametrize("unanswered", [status(500, "InternalError", "no etcd"), None])
def test_an_update_passes_where_nobody_says_what_was_wrong_before(unanswered: Any) -> None:
    async def test() -> None:
        api = FakeApi()
        async with api.client() as client, webhooks(client, policies=RULES) as hooks:
            api.put(f"{objects.RUNTIMES}/rt", objects.runtime())
            path = f"{POLICIES}trainjob"
            tried = BURST - 2 if unanswered is None else 0  # and one JobSet
            for number in range(tried):
                await hooks.ask(path, objects.trainjob(trainer={"image": f"i:{number}"}))
            api.refuse_next("POST", "/jobs", refusal())
            if unanswered is not None:
                api.refuse_next("POST", "/jobs", unanswered)
            changed = objects.trainjob(trainer={"numNodes": 2})
            assert (await hooks.ask(path, changed, objects.trainjob()))["allowed"]
            assert len(api.writes()) == (BURST if unanswered is None else 3)

    run(test)


def test_a_namespace_whose_jobsets_are_built_from_a_hundred_revisions_changes_no_runtime() -> None:
    """Each is kept in the memory of every replica for as long as its JobSet is there."""

    async def test() -> None:
        async with FakeApi().client() as client, webhooks(client) as hooks:
            path, kind = f"{VALIDATE}trainingruntime", names.TRAINING_RUNTIME
            metadata = {"name": "rt", "namespace": "team", "uid": "uid"}
            runtime = {**objects.runtime(), "kind": kind, "metadata": metadata}
            for number in range(limits.REVISIONS):
                assert (await hooks.ask(path, runtime, kind=kind))["allowed"]
                live = {**runtime, "spec": {**runtime["spec"], "mlPolicy": {"numNodes": number + 1}}}
                recorded = revisions.manifest_of(revisions.live(live), "trainyard-system")
                given = {
                    "resourceVersion": "1",
                    "creationTimestamp": "2026-11-21T12:00:00Z",
                    "uid": f"{number}",
                }
                revision = revision_of({**recorded, "metadata": {**recorded["metadata"], **given}})
                hooks.cache.revisions.observe(revision.name, revision)
                jobset = objects.jobset(f"tj-{number}")
                jobset["metadata"] |= {
                    "uid": f"jobset-{number}",
                    "resourceVersion": "1",
                    "annotations": {names.RUNTIME_REVISION_ANNOTATION: revision.name},
                }
                hooks.cache.jobsets.observe(
                    Key("team", f"tj-{number}"), jobset_of(json.dumps(jobset).encode())
                )
            code, message = denial(await hooks.ask(path, runtime, kind=kind))
            assert (code, message) == (
                403,
                "spec: Forbidden: JobSets of this namespace are built from 100 revisions of its runtimes, "
                "and may be from 100: delete finished TrainJobs first",
            )
            labelled = {**runtime, "metadata": {**runtime["metadata"], "labels": {"a": "b"}}}
            assert (await hooks.ask(path, labelled, runtime, kind=kind))["allowed"]
            cluster = {**runtime, "kind": names.CLUSTER_TRAINING_RUNTIME}
            of_all = f"{VALIDATE}clustertrainingruntime"
            assert (await hooks.ask(of_all, cluster, kind=names.CLUSTER_TRAINING_RUNTIME))["allowed"]

    run(test)
