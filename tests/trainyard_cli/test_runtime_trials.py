"""Whether a cluster would take runtimes: what is sent, and what is made of the answers."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.fake_api import FakeApi, status
from tests.support.objects import RUNTIMES, runtime
from trainyard_cli.cluster import runtime_trials
from trainyard_kube.client import ApiError
from trainyard_kube.credentials import Credentials
from trainyard_platform.stack.settings import StackSettings

WEBHOOK = 'admission webhook "clustertrainingruntime.policy.trainyard.dev" denied the request: '
POLICY = (
    'clustertrainingruntimes.trainer.kubeflow.org "rt" is forbidden: ValidatingAdmissionPolicy "no-gpus" '
    'with binding "no-gpus" denied request: '
)
NO_RIGHT = 'clustertrainingruntimes.trainer.kubeflow.org is forbidden: User "ci" cannot create resource'


def asked(api: FakeApi, *manifests: dict[str, Any]) -> Sequence[str]:
    async def ask() -> Sequence[str]:
        async with api.client() as client:
            return await runtime_trials.refused(client, manifests)

    return asyncio.run(ask())


def test_a_new_runtime_is_created_and_one_that_is_there_replaced_in_dry_runs() -> None:
    api = FakeApi()
    live = api.put(f"{RUNTIMES}/rt", runtime())
    assert asked(api, runtime(), runtime("new")) == []
    assert api.writes() == [("PUT", f"{RUNTIMES}/rt"), ("POST", RUNTIMES)]
    sent = [body for body in api.bodies if body is not None]
    assert sent[0]["metadata"]["resourceVersion"] == live["metadata"]["resourceVersion"]
    assert api.objects == {f"{RUNTIMES}/rt": live}


@pytest.mark.parametrize(
    "answer",
    [
        status(403, "Forbidden", f"{WEBHOOK}no such volume"),
        status(422, "Invalid", f"{POLICY}no such volume"),
        status(422, "Invalid", "no such volume"),
    ],
    ids=["the webhook", "a policy", "the schema"],
)
def test_who_refuses_a_runtime_is_heard(answer: dict[str, Any]) -> None:
    api = FakeApi()
    api.refuse_next("POST", RUNTIMES, answer)
    assert asked(api, runtime(), runtime("fine")) == [
        "refused by the cluster: ClusterTrainingRuntime rt: no such volume"
    ]


def test_a_missing_right_is_no_refusal() -> None:
    api = FakeApi()
    api.refuse_next("POST", RUNTIMES, status(403, "Forbidden", NO_RIGHT))
    with pytest.raises(ApiError, match="cannot create resource"):
        asked(api, runtime())


def test_a_cluster_that_knows_no_runtimes_yet_refuses_none() -> None:
    api = FakeApi()
    api.missing.add("/apis/trainer.kubeflow.org/")
    assert asked(api, runtime()) == []


def test_a_stacks_runtimes_are_asked_about_without_the_label_that_lets_them_pass() -> None:
    api = FakeApi()
    labels = {
        "trainer.kubeflow.org/framework": "torch",
        "trainer.kubeflow.org/webhook-validation": "disabled",
    }
    labelled = {**runtime(), "metadata": {"name": "rt", "labels": labels}}
    assert asked(api, labelled) == []
    assert api.bodies[-1]["metadata"]["labels"] == {"trainer.kubeflow.org/framework": "torch"}


def test_a_stack_is_asked_about_with_all_that_it_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = StackSettings.model_validate({"operator": {"image": "example.com/operator:1"}})
    seen: list[Any] = []

    async def refused(client: Any, manifests: Any) -> list[str]:
        seen.extend(one["metadata"]["name"] for one in manifests)
        return ["no"]

    monkeypatch.setattr(runtime_trials, "refused", refused)
    assert runtime_trials.refusals(stack, lambda: Credentials("http://127.0.0.1:1", None)) == ["no"]
    assert {"plain", "torch-distributed"} <= set(seen)
