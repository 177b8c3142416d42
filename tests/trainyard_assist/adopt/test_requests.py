"""What is asked of the API server: reads to look, and one guarded write for each step."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.support import objects
from tests.support.fake_api import FakeApi, run, status
from trainyard_assist import adopt
from trainyard_assist.adopt import State
from trainyard_cli.cluster.adopt import carry_out, observe
from trainyard_kube.client import ApiError, Client

from .seen import CRDS, NAMESPACE, binding, deployment, entry, public, webhooks

DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/kubeflow-trainer-controller-manager"
OWN = "/apis/apps/v1/namespaces/trainyard-system/deployments/trainyard-operator"
WEBHOOKS = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/validator.trainer.kubeflow.org"
)
JOBSET_WEBHOOKS = (
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/"
    "jobset-validating-webhook-configuration"
)
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
RULE = f"{BINDINGS}/image-tag.policy.trainyard.dev"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
TRAINJOB = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/tj"
JOBSET = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/tj"
SNAPSHOT = "/api/v1/namespaces/default/configmaps/tj-runtime-snapshot"
RUNTIME = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/rt"


class Cluster(FakeApi):
    """With Trainer, whose Deployment has no pods when it is asked to have none, and is ready otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.put(DEPLOYMENT, self.scaled(deployment()))
        for crd in CRDS:
            name = crd["metadata"]["name"]
            self.put(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", crd)
        self.put(f"{CONFIG_MAPS}/kubeflow-trainer-public", public())
        self.put(WEBHOOKS, webhooks(managedFields=[entry("kubectl")]))
        self.put(RUNTIME, objects.runtime("rt"))
        self.put(TRAINJOB, objects.trainjob("tj"))

    def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """See `FakeApi`."""
        return super().put(path, self.scaled(body) if path in (DEPLOYMENT, OWN) else body)

    def scaled(self, body: Mapping[str, Any]) -> dict[str, Any]:
        replicas = body["spec"]["replicas"]
        selector = {"matchLabels": {"app": "trainer"}}
        return {
            **body,
            "metadata": {**body["metadata"], "generation": 1},
            "spec": {**body["spec"], "selector": selector},
            "status": {"replicas": replicas, "readyReplicas": replicas, "observedGeneration": 1},
        }


async def look(client: Client, catalog: Sequence[str] = ("rt",)) -> adopt.Observed:
    return await observe(client, catalog, trainer_namespace=NAMESPACE, operator_namespace="trainyard-system")


async def do(client: Client, plan: adopt.Plan) -> list[adopt.Check]:
    assert not plan.refused, plan
    return [note for step in plan.steps if (note := await carry_out(client, step)) is not None]


def test_there_and_back_leaves_what_was_there() -> None:
    async def test() -> None:
        api = Cluster()
        async with api.client() as client:
            plan = adopt.adopt(await look(client))
            assert api.writes() == []
            assert [(fate.name, fate.state) for fate in plan.fates] == [("tj", State.WAITING)]
            await do(client, plan)
            assert api.writes() == [
                ("POST", CONFIG_MAPS),
                ("PATCH", WEBHOOKS),
                ("PATCH", DEPLOYMENT),
            ]
            assert api.objects[DEPLOYMENT]["spec"]["replicas"] == 0
            assert adopt.adopt(await look(client)).steps == ()

            api.put(WEBHOOKS, webhooks("trainyard-operator"))
            for name in (RULE, f"{BINDINGS}/of-others"):
                api.put(name, binding(name.rpartition("/")[2]))
            api.put(OWN, deployment(name="trainyard-operator", namespace="trainyard-system"))
            await do(client, adopt.give_back(await look(client)))
            assert api.objects[WEBHOOKS]["webhooks"] == webhooks()["webhooks"]
            assert api.objects[WEBHOOKS]["metadata"]["uid"] == "w"
            assert [api.objects[path]["spec"]["replicas"] for path in (DEPLOYMENT, OWN)] == [1, 0]
            assert f"{CONFIG_MAPS}/trainyard-adoption" not in api.objects
            assert RULE not in api.objects
            assert f"{BINDINGS}/of-others" in api.objects

    run(test)


@pytest.mark.parametrize(("manager", "about"), [("helm", ["JobSet"]), ("pulumi-kubernetes-1a2b3c4d", [])])
def test_a_jobset_of_somebody_else_is_found_whatever_its_namespace(manager: str, about: list[str]) -> None:
    async def test() -> None:
        api = Cluster()
        configuration = webhooks("jobset-webhook-service", managedFields=[entry(manager), entry("manager")])
        api.put(JOBSET_WEBHOOKS, configuration)
        async with api.client() as client:
            plan = adopt.adopt(await look(client))
        assert [check.about for check in plan.checks if check.level is adopt.Level.NOTE] == about

    run(test)


def test_back_writes_a_runtime_as_it_was_though_the_catalog_no_longer_has_it() -> None:
    async def test() -> None:
        api = Cluster()
        async with api.client() as client:
            await do(client, adopt.adopt(await look(client)))
            api.put(RUNTIME, {**objects.runtime("rt"), "spec": {"ours": True}})
            assert adopt.adopt(await look(client, ())).steps == ()
            await do(client, adopt.give_back(await look(client, ())))
            assert api.objects[RUNTIME]["spec"] == objects.runtime("rt")["spec"]
            assert f"{CONFIG_MAPS}/trainyard-adoption" not in api.objects

    run(test)


def test_back_is_done_though_a_tenant_took_the_name_of_a_snapshot() -> None:
    async def test() -> None:
        api = Cluster()
        async with api.client() as client:
            await do(client, adopt.adopt(await look(client)))
            api.put(JOBSET, objects.jobset(owner=api.objects[TRAINJOB]["metadata"]["uid"]))
            api.put(SNAPSHOT, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"mine": ""}})
            api.put(RULE, binding(RULE.rpartition("/")[2]))
            api.put(OWN, deployment(name="trainyard-operator", namespace="trainyard-system"))
            await do(client, adopt.give_back(await look(client)))
            assert [api.objects[path]["spec"]["replicas"] for path in (DEPLOYMENT, OWN)] == [1, 0]
            assert api.objects[SNAPSHOT]["data"] == {"mine": ""}
            assert RULE not in api.objects

    run(test)


@pytest.mark.parametrize(
    ("code", "reason"), [(403, "Forbidden"), (404, "NotFound"), (409, "Conflict"), (422, "Invalid")]
)
def test_back_is_done_though_a_namespace_refuses_a_snapshot(code: int, reason: str) -> None:
    async def test() -> None:
        api = Cluster()
        async with api.client() as client:
            await do(client, adopt.adopt(await look(client)))
            api.put(JOBSET, objects.jobset(owner=api.objects[TRAINJOB]["metadata"]["uid"]))
            api.refuse_next("POST", "/namespaces/default/configmaps", status(code, reason, "not here"))
            notes = await do(client, adopt.give_back(await look(client)))
            message = (
                "TrainJob default/tj gets no snapshot of its runtime, so Trainer uses the runtime as it then "
                f"is: {code} {reason}: not here"
            )
            assert notes == [adopt.Check(adopt.Level.NOTE, "TrainJobs", message)]
            assert api.objects[DEPLOYMENT]["spec"]["replicas"] == 1
            assert SNAPSHOT not in api.objects
            assert f"{CONFIG_MAPS}/trainyard-adoption" not in api.objects

    run(test)


def test_back_stops_where_a_snapshot_may_be_written_later() -> None:
    async def test() -> None:
        api = Cluster()
        async with api.client() as client:
            await do(client, adopt.adopt(await look(client)))
            api.put(JOBSET, objects.jobset(owner=api.objects[TRAINJOB]["metadata"]["uid"]))
            api.refuse_next(
                "POST", "/namespaces/default/configmaps", status(429, "TooManyRequests", "not now")
            )
            with pytest.raises(ApiError, match="not now"):
                await do(client, adopt.give_back(await look(client)))
            assert api.objects[DEPLOYMENT]["spec"]["replicas"] == 0

    run(test)


def test_back_that_stops_leaves_the_policies_and_goes_on_when_it_is_repeated() -> None:
    async def test() -> None:
        api = Cluster()
        async with api.client() as client:
            await do(client, adopt.adopt(await look(client)))
            api.put(RULE, binding(RULE.rpartition("/")[2]))
            api.put(OWN, deployment(name="trainyard-operator", namespace="trainyard-system"))
            api.refuse_next("PATCH", DEPLOYMENT, status(403, "Forbidden", "not today"))
            with pytest.raises(ApiError, match="not today"):
                await do(client, adopt.give_back(await look(client)))
            assert RULE in api.objects
            await do(client, adopt.give_back(await look(client)))
            assert api.objects[DEPLOYMENT]["spec"]["replicas"] == 1
            assert RULE not in api.objects
            assert f"{CONFIG_MAPS}/trainyard-adoption" not in api.objects

    run(test)


def pod(phase: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "trainer"}, **metadata}, "status": {"phase": phase}}


def test_pods_that_have_ended_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard_cli.cluster.adopt.PATIENCE", 5.0)

    async def test() -> None:
        api = Cluster()
        for phase in ("Failed", "Succeeded"):
            api.put(f"{PODS}/{phase.lower()}", pod(phase))
        async with api.client() as client:
            await do(client, adopt.adopt(await look(client)))
            assert api.objects[DEPLOYMENT]["spec"]["replicas"] == 0
            assert adopt.adopt(await look(client)).steps == ()

    run(test)


def test_a_pod_that_is_being_deleted_is_waited_for_also_when_the_command_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainyard_cli.cluster.adopt.PATIENCE", 0.1)

    async def test() -> None:
        api = Cluster()
        api.put(f"{PODS}/old", pod("Running", deletionTimestamp="2026-01-01T00:00:00Z"))
        async with api.client() as client:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await do(client, adopt.adopt(await look(client)))
            api.remove(f"{PODS}/old")
            assert adopt.adopt(await look(client)).steps == ()

    run(test)


def test_a_runtime_waits_until_trainers_webhook_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainyard_cli.cluster.adopt.PAUSE", 0.0)

    async def test() -> None:
        api = Cluster()
        async with api.client() as client:
            await do(client, adopt.adopt(await look(client)))
            api.put(RUNTIME, {**objects.runtime("rt"), "spec": {"ours": True}})
            refused = status(500, "InternalError", 'failed calling webhook "validator": connection refused')
            api.refuse_next("PUT", RUNTIME, refused)
            await do(client, adopt.give_back(await look(client)))
            assert api.objects[RUNTIME]["spec"] == objects.runtime("rt")["spec"]

    run(test)


def test_a_webhook_lets_pass_what_it_is_asked_about_runtimes_and_back_it_does_not() -> None:
    async def test() -> None:
        api = Cluster()
        asks = {**webhooks()["webhooks"][0], "failurePolicy": "Fail"}
        about_jobs = {**asks, "name": "jobs", "rules": [{"resources": ["trainjobs"]}]}
        about_runtimes = {**asks, "name": "runtimes", "rules": [{"resources": ["clustertrainingruntimes"]}]}
        api.put(WEBHOOKS, {**webhooks(), "webhooks": [about_jobs, about_runtimes]})
        async with api.client() as client:
            await do(client, adopt.adopt(await look(client)))
            lets_pass = {**about_runtimes, "failurePolicy": "Ignore"}
            assert api.objects[WEBHOOKS]["webhooks"] == [about_jobs, lets_pass]
            assert adopt.adopt(await look(client)).steps == ()
            await do(client, adopt.give_back(await look(client)))
            assert api.objects[WEBHOOKS]["webhooks"] == [about_jobs, about_runtimes]

    run(test)


def test_webhooks_in_another_order_than_they_were_seen_in_are_left_alone() -> None:
    async def test() -> None:
        api = Cluster()
        one = {**webhooks()["webhooks"][0], "rules": [{"resources": ["clustertrainingruntimes"]}]}
        api.put(WEBHOOKS, {**webhooks(), "webhooks": [one]})
        async with api.client() as client:
            plan = adopt.adopt(await look(client))
            there = [{**one, "name": "another"}, one]
            api.put(WEBHOOKS, {**webhooks(), "webhooks": there})
            [let_pass] = [step for step in plan.steps if isinstance(step, adopt.LetPass)]
            with pytest.raises(ApiError, match="testing value failed"):
                await carry_out(client, let_pass)
            assert api.objects[WEBHOOKS]["webhooks"] == there

    run(test)


def test_what_is_no_longer_as_it_was_seen_is_left_alone() -> None:
    async def test() -> None:
        api = Cluster()
        async with api.client() as client:
            plan = adopt.adopt(await look(client))
            api.put(DEPLOYMENT, deployment(3))
            [scale] = [step for step in plan.steps if isinstance(step, adopt.Scale)]
            with pytest.raises(ApiError, match="testing value failed"):
                await carry_out(client, scale)
            assert api.objects[DEPLOYMENT]["spec"]["replicas"] == 3

    run(test)
