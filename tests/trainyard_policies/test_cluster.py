"""What the webhook says about a request: the rules, on what it makes worse."""

from datetime import date
from typing import Any

import pytest

from tests.support.packs import applicable
from tests.support.rule_examples import changed, of_workloads
from trainyard_policies import cluster, engine, rules
from trainyard_policies.cluster import Answer
from trainyard_policies.parameters import KUEUE
from trainyard_policies.rule import MOST, Level
from trainyard_policies.settings import DEFAULT, Levels, Policies

TODAY = date(2026, 11, 21)
ADA = "ada"
POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"
TOKEN = {f"{POD}.containers[0].env": [{"name": "HF_TOKEN", "value": "x"}]}
SAID = (
    f"secrets-by-reference: {POD}.containers[0].env[0].value: must be valueFrom.secretKeyRef: "
    f"HF_TOKEN is the name of a secret. {rules.BY_ID['secrets-by-reference'].remedy}"
)


def answer(value: dict[str, Any], old: dict[str, Any] | None = None, user: str = ADA) -> Answer:
    return cluster.answer(value, old, user, TODAY, DEFAULT)


def test_the_webhook_refuses_and_warns():
    assert answer(changed("runtime", TOKEN)) == Answer(refusals=(SAID,))
    host = rules.BY_ID["host-access"]
    refusal = f"host-access: {POD}.hostPID: must not be true. {host.remedy}"
    assert answer(changed("runtime", {f"{POD}.hostPID": True})) == Answer(refusals=(refusal,))
    job = changed("trainjob", {"spec.trainer.env": [{"name": "HF_TOKEN", "value": "x"}]})
    assert [text.split(":")[0] for text in answer(job).warnings] == ["secrets-by-reference"]


def test_a_level_of_the_stack_decides_what_follows():
    value = changed("runtime", {f"{POD}.hostPID": True})
    answers = {
        level: cluster.answer(
            value, None, ADA, TODAY, Policies(levels=Levels(runtimes={"host-access": level}))
        )
        for level in Level
    }
    refusals = answer(value).refusals
    assert answers == {
        Level.DISABLED: Answer(),
        Level.ADVISORY: Answer(warnings=refusals),
        Level.REMEDIATE: Answer(refusals=refusals),
        Level.MANDATORY: Answer(refusals=refusals),
    }


def test_the_webhook_shows_an_exception_that_holds_and_refuses_what_one_has_ended_for():
    host = {f"{POD}.hostPID": True}
    key = "metadata.annotations[policy.trainyard.dev/host-access]"
    said = f"host-access: {POD}.hostPID: must not be true"
    due = f"exception-due: {key}: ends on 2026-11-21. {rules.BY_ID['exception-due'].remedy}"
    assert answer(changed("runtime", {**host, key: "until=2026-11-21; probes"})) == Answer(
        warnings=(f"{said}, excepted until 2026-11-21: probes", due)
    )
    remedy = rules.BY_ID["host-access"].remedy
    assert answer(changed("runtime", {**host, key: "until=2026-11-20; probes"})) == Answer(
        refusals=(f"{said} (the exception ended on 2026-11-20). {remedy}",)
    )


def test_what_was_wrong_before_is_not_asked_about_again_unless_an_exception_covered_it():
    before = changed("runtime", TOKEN)
    assert (
        answer({**before, "metadata": {**before["metadata"], "annotations": {"a": "b"}}}, before) == Answer()
    )
    key = "metadata.annotations[policy.trainyard.dev/secrets-by-reference]"
    excepted = changed("runtime", {**TOKEN, key: "until=2027-01-01; a test"})
    assert answer(before, excepted) == Answer(refusals=(SAID,))


def test_what_was_wrong_before_is_not_exchanged_for_something_else():
    before, other = (
        changed("runtime", {f"{POD}.volumes": [{"name": "disk", "hostPath": {"path": path}}]})
        for path in ("/data", "/etc")
    )
    labelled = {**before, "metadata": {**before["metadata"], "annotations": {"a": "b"}}}
    assert answer(labelled, before) == Answer()
    assert [text.split(":")[0] for text in answer(other, before).refusals] == ["host-access"]


TERM = f"{POD}.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"
ADDED = f"{POD}.containers[0].securityContext.capabilities.add"
TEAM = {"matchLabels": {"team": "a"}}
TEN = [f"C{n}" for n in range(10)]
MOST_BYTES = {"name": "kernel.msgmax", "value": "65536"}


@pytest.mark.parametrize(
    ("rule", "path", "had", "has"),
    [
        ("pod-affinity", TERM, [{"namespaceSelector": TEAM}], [{"namespaceSelector": {}}]),
        ("pod-affinity", TERM, [{"namespaces": ["a"]}], [{"namespaces": ["b"]}]),
        ("privileges", ADDED, [*TEN, "IPC_LOCK"], [*TEN, "SYS_ADMIN"]),
        ("privileges", f"{POD}.securityContext.sysctls", [{**MOST_BYTES, "value": "1"}], [MOST_BYTES]),
        ("pod-consistency", f"{POD}.overhead", {"cpu": "2"}, {"cpu": "1m"}),
    ],
)
def test_what_was_wrong_before_is_not_exchanged_for_what_has_the_same_message(
    rule: str, path: str, had: Any, has: Any
):
    before, after = (changed("runtime", {path: value}) for value in (had, has))
    labelled = {**before, "metadata": {**before["metadata"], "annotations": {"a": "b"}}}
    assert answer(labelled, before) == Answer()
    assert [text.split(":")[0] for text in answer(after, before).refusals] == [rule]


def test_of_jobs_and_containers_that_lack_something_the_rest_may_change():
    path = f"{POD}.containers[0]"
    before = changed("runtime", {f"{path}.name": "train"})
    after = changed("runtime", {f"{path}.name": "train", f"{path}.env": [{"name": "A", "value": "b"}]})
    assert [text.split(":")[0] for text in answer(before).refusals] == ["trainer-step"]
    assert answer(after, before) == Answer()


def test_controllers_of_the_platform_are_not_asked():
    assert answer(changed("runtime", TOKEN), user=KUEUE) == Answer()


@pytest.mark.parametrize("value", [{}, {"metadata": []}, {"metadata": {"annotations": 7}}, {"spec": [[]]}])
def test_whatever_an_object_holds_there_is_an_answer(value: dict[str, Any]):
    for kind in ("TrainJob", "ClusterTrainingRuntime"):
        answer({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, **value})


def test_no_example_of_a_rule_gets_past_the_webhook():
    for example in of_workloads():
        if example.findings and example in applicable():
            response = cluster.answer(example.manifest, None, ADA, TODAY, example.policies)
            texts = (*response.refusals, *response.warnings)
            assert any(text.startswith(f"{example.rule.id}: ") for text in texts), example


def test_findings_that_are_not_named_hide_no_new_ones_and_keep_nobody_from_suspending():
    broken = {"spec.trainer.env": [{"name": f"A{n}", "value": "x", "valueFrom": {}} for n in range(60)]}
    old = changed("trainjob", broken)
    more = f"pod-consistency: {engine.MORE.message}. {rules.BY_ID['pod-consistency'].remedy}"
    other = changed("trainjob", {**broken, "spec.trainer.numNodes": 3})
    assert answer(other, old) == Answer(refusals=(more,))
    assert answer(changed("trainjob", {**broken, "spec.suspend": True}), old) == Answer()
    assert len(answer(old).refusals) == MOST
