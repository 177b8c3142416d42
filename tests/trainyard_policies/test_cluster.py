"""What goes into the cluster for the rules, and what the webhook is left with."""

from datetime import date
from typing import Any

import pytest

from tests.support.rule_examples import changed, of_workloads
from trainyard_api import names
from trainyard_policies import cluster, engine, rules
from trainyard_policies.cel import Webhook
from trainyard_policies.cluster import Answer
from trainyard_policies.parameters import KUEUE, Parameters
from trainyard_policies.rule import MOST, Level, Subject
from trainyard_policies.rules import well_formed
from trainyard_policies.settings import DEFAULT, Levels, Policies

TODAY = date(2026, 11, 21)
ADA = "ada"
POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"
TOKEN = {f"{POD}.containers[0].env": [{"name": "HF_TOKEN", "value": "x"}]}
SAID = (
    f"secrets-by-reference: {POD}.containers[0].env[0].value: must be valueFrom.secretKeyRef: "
    f"HF_TOKEN is the name of a secret. {rules.BY_ID['secrets-by-reference'].remedy}"
)


def made(policies: Policies = DEFAULT) -> dict[str, dict[str, Any]]:
    """Kind and name of each object, without the common end of the names."""
    objects = cluster.objects(policies, "system")
    return {
        f"{one['kind']} {one['metadata']['name']}".removesuffix(f".{names.POLICY_DOMAIN}"): one
        for one in objects
    }


def test_a_rule_that_cel_can_say_is_a_policy_with_a_binding_for_each_subject_at_its_level():
    actions = {Level.ADVISORY: ["Warn", "Audit"], Level.MANDATORY: ["Deny"]}
    expected = {}
    for rule in rules.OF_WORKLOADS:
        if not isinstance(rule.cluster, Webhook):
            for subject, level in rule.levels.items():
                suffix = "-of-trainjobs" if subject is Subject.TRAINJOBS else ""
                expected[rule.id + suffix] = actions[level]
    kind = "ValidatingAdmissionPolicyBinding "
    bound = {key.removeprefix(kind): one["spec"] for key, one in made().items() if key.startswith(kind)}
    assert bound.pop("exempting-label")["validationActions"] == ["Deny"]
    assert {name: spec["validationActions"] for name, spec in bound.items()} == expected
    assert {spec["policyName"] for spec in bound.values()} == {
        one["metadata"]["name"]
        for key, one in made().items()
        if one["kind"] == "ValidatingAdmissionPolicy" and "exempting-label" not in key
    }


def test_a_level_of_the_stack_is_a_bindings_action_and_what_is_disabled_is_not_there():
    levels = Levels(
        runtimes={
            "image-digest": Level.MANDATORY,
            "image-tag": Level.DISABLED,
            "host-access": Level.REMEDIATE,
        },
        train_jobs={"image-tag": Level.DISABLED},
    )
    found = made(Policies(levels=levels))
    binding = found["ValidatingAdmissionPolicyBinding image-digest"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    assert found["ValidatingAdmissionPolicyBinding host-access"]["spec"]["validationActions"] == ["Deny"]
    assert [key for key in found if "image-tag" in key] == []


def test_only_who_has_the_right_may_have_the_webhooks_stay_away_from_a_runtime():
    """Beside the label any exception, ended or malformed, would keep the admission policies away too."""
    policy = made()["ValidatingAdmissionPolicy exempting-label"]["spec"]
    label = ".metadata.?labels[?\"trainer.kubeflow.org/webhook-validation\"].orValue('') == 'disabled'"
    right = "authorizer.group('trainyard.dev').resource('runtimes').check('exempt')"
    assert policy == {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["trainer.kubeflow.org"],
                    "apiVersions": ["v1alpha1"],
                    "operations": ["CREATE", "UPDATE"],
                    "resources": ["clustertrainingruntimes"],
                }
            ]
        },
        "matchConditions": [
            {"name": "labelled", "expression": f"object{label}"},
            {
                "name": "changed",
                "expression": f"oldObject == null || !(oldObject{label}) || object.?spec != oldObject.?spec "
                "|| object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})",
            },
        ],
        "validations": [
            {
                "expression": f"{right}.allowed()",
                "message": "metadata.labels[trainer.kubeflow.org/webhook-validation]: must not be disabled, "
                "which is for roll-outs of a stack. Leave it out, or get the verb exempt on "
                "runtimes.trainyard.dev",
                "reason": "Forbidden",
            }
        ],
    }


def test_parameters_are_an_object_of_their_own():
    parameters = Parameters(
        registries=("ghcr.io/a/", "quay.io"), max_nodes=8, max_resources={"nvidia.com/gpu": "8", "cpu": "64"}
    )
    assert made(Policies(parameters=parameters))["ConfigMap trainyard-policies"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "trainyard-policies", "namespace": "system"},
        "data": {
            "registries": "ghcr.io/a\nquay.io",
            "maxNodes": "8",
            "longestGrace": "3600",
            "maxResources": "cpu=64\nmemory=128Ti\nnvidia.com/gpu=8",
            "exceptionsIn": "ClusterTrainingRuntime",
            "controllers": KUEUE,
        },
    }


def test_every_rule_says_its_cel_or_why_it_has_none():
    for rule in rules.OF_WORKLOADS:
        assert rule.cluster, rule.id
        if isinstance(rule.cluster, Webhook):
            assert len(rule.cluster.why) > 10, rule.id


def answer(value: dict[str, Any], old: dict[str, Any] | None = None, user: str = ADA) -> Answer:
    return cluster.answer(value, old, user, TODAY, DEFAULT)


def test_the_webhook_refuses_warns_and_leaves_alone_what_admission_policies_hold():
    assert answer(changed("runtime", TOKEN)) == Answer(refusals=(SAID,))
    assert answer(changed("runtime", {f"{POD}.hostPID": True})) == Answer()
    job = changed("trainjob", {"spec.trainer.env": [{"name": "HF_TOKEN", "value": "x"}]})
    assert [text.split(":")[0] for text in answer(job).warnings] == ["secrets-by-reference"]


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


def test_controllers_of_the_platform_are_not_asked():
    assert answer(changed("runtime", TOKEN), user=KUEUE) == Answer()


@pytest.mark.parametrize("value", [{}, {"metadata": []}, {"metadata": {"annotations": 7}}, {"spec": [[]]}])
def test_whatever_an_object_holds_there_is_an_answer(value: dict[str, Any]):
    for kind in ("TrainJob", "ClusterTrainingRuntime"):
        answer({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind, **value})


def test_what_webhook_and_admission_policies_are_asked_is_everything_together():
    """No rule's examples get past both: what CEL does not hold, the webhook finds, or the schema before."""
    for example in (one for one in of_workloads() if one.rule is not well_formed.RULE):
        if isinstance(example.rule.cluster, Webhook) and example.findings:
            said = cluster.answer(example.manifest, None, ADA, TODAY, example.policies)
            texts = (*said.refusals, *said.warnings)
            assert any(text.startswith(f"{example.rule.id}: ") for text in texts), example


def test_findings_that_are_not_named_hide_no_new_ones_and_keep_nobody_from_suspending():
    broken = {"spec.trainer.env": [{"name": f"A{n}", "value": "x", "valueFrom": {}} for n in range(60)]}
    old = changed("trainjob", broken)
    more = f"pod-consistency: {engine.MORE.message}. {rules.BY_ID['pod-consistency'].remedy}"
    other = changed("trainjob", {**broken, "spec.trainer.numNodes": 3})
    assert answer(other, old) == Answer(refusals=(more,))
    assert answer(changed("trainjob", {**broken, "spec.suspend": True}), old) == Answer()
    assert len(answer(old).refusals) == MOST
