"""The pack says what the rules say: the same examples, through Pulumi's own policy classes."""

import json
from datetime import date
from typing import Any

import pulumi_policy as crossguard
import pytest
from pulumi.runtime.proto import analyzer_pb2
from pulumi_policy import policy
from pulumi_policy.proxy import UnknownValueError, unknown_checking_proxy

from tests.support.packs import applicable, arguments, named, policy_name, reported
from tests.support.rule_examples import (
    STRICT,
    Example,
    OnThatDay,
    changed,
    ending_with,
    manifest,
    of_the_stack,
    strict_rule,
)
from trainyard_api.errors import invalid
from trainyard_api.pools import Taint
from trainyard_policies import engine, pack, rules
from trainyard_policies.parameters import Pool
from trainyard_policies.settings import DEFAULT
from trainyard_policies.subject import Subject

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
UNTIL = "until=2027-06-30; until then"
CONTAINER = "spec.template.spec.replicatedJobs[0].template.spec.template.spec.containers[0]"


@pytest.fixture(autouse=True)
def on_the_day_of_the_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "date", OnThatDay)


@pytest.mark.parametrize("example", applicable(), ids=str)
def test_a_policy_agrees_with_its_rule(example: Example):
    policy = named(policy_name(example), example.policies)
    said = [f"{finding.path}: {finding.message}" for _, finding in example.findings]
    assert reported(policy, arguments(example.manifest)) == [
        (f"{one}{'' if one.endswith('?') else '.'} {example.rule.remedy}", None) for one in said
    ]


@pytest.mark.parametrize("example", [e for e in applicable() if any(f.edits for _, f in e.findings)], ids=str)
def test_a_remediation_leaves_what_only_people_can_decide(example: Example):
    policy = named(policy_name(example), example.policies)
    repaired = policy.remediate(arguments(example.manifest))
    left = engine.check(repaired, date(2026, 11, 21), example.policies)
    assert [v.finding.path for v in left if v.rule is example.rule] == [
        finding.path for _, finding in example.findings if not finding.edits
    ]


@pytest.mark.parametrize("example", of_the_stack(), ids=str)
def test_a_stack_policy_agrees_with_its_rule(example: Example):
    resources = [
        crossguard.PolicyResource(
            f"kubernetes:{value['apiVersion']}:{value['kind']}",
            unknown_checking_proxy(value),
            f"urn:{position}",
            "name",
            None,
            None,
            None,
            [],
            {},
        )
        for position, value in enumerate(example.manifests)
    ]
    policy = named(example.rule.id)
    assert reported(policy, crossguard.StackValidationArgs(resources)) == [
        (f"{finding.path}: {finding.message}. {example.rule.remedy}", f"urn:{of}")
        for of, finding in example.findings
    ]


def test_a_stack_policy_whose_rule_cannot_read_a_resource_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "OF_THE_STACK", (strict_rule(),))
    value = manifest("runtime")
    resource = crossguard.PolicyResource(
        f"kubernetes:{value['apiVersion']}:{value['kind']}",
        unknown_checking_proxy(value),
        "urn:0",
        "name",
        None,
        None,
        None,
        [],
        {},
    )
    assert reported(named("chart-hooks"), crossguard.StackValidationArgs([resource])) == [(STRICT, None)]


def test_a_policy_whose_rule_ends_with_an_exception_says_so_and_repairs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "OF_WORKLOADS", (ending_with(KeyError("spec"), "service-account-token"),))
    policy, runtime = named("service-account-token"), arguments(manifest("runtime"))
    said = "the rule service-account-token ends with KeyError: 'spec'; report this as a bug in the rules"
    assert (reported(policy, runtime), policy.remediate(runtime)) == ([(said, None)], None)


@pytest.mark.parametrize("level", ["mandatory", "advisory", "disabled"])
def test_a_rule_that_ends_with_an_exception_is_reported_by_its_own_policy_only(
    monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    others = [rules.BY_ID[name] for name in ("well-formed", "image-tag", "exception-unused")]
    failing = ending_with(KeyError("spec"), "service-account-token")
    monkeypatch.setattr(rules, "OF_WORKLOADS", (failing, *others))
    policies = pack.of_stack(json.dumps({"policies": {"levels": {"runtimes": {failing.id: level}}}}))
    exception = "metadata.annotations[policy.trainyard.dev/{}]"
    exceptions = {exception.format(name): UNTIL for name in (failing.id, "image-tag")}
    value = arguments(changed("runtime", {"spec.misspelt": 1, **exceptions}))
    messages = [
        message
        for name in (failing.id, "well-formed", "image-tag", "exception-unused")
        for message, _ in reported(named(name, policies), value)
    ]
    assert [message.partition(": ")[0] for message in messages] == [
        f"the rule {failing.id} ends with KeyError",
        "spec.misspelt",
        exception.format("image-tag"),
    ]


def test_a_rule_that_the_stack_disables_reads_nothing_for_the_policy_well_formed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies = pack.of_stack(json.dumps({"policies": {"levels": {"runtimes": {"image-tag": "disabled"}}}}))
    unreadable = ending_with(invalid("spec.x", "y", "must be an object"), "image-tag")
    monkeypatch.setattr(rules, "OF_WORKLOADS", (rules.BY_ID["well-formed"], unreadable))
    for of, findings in ((DEFAULT, 1), (policies, 0)):
        assert len(reported(named("well-formed", of), arguments(manifest("runtime")))) == findings


def test_every_rule_is_a_policy_at_the_level_of_the_stack():
    levels = {"runtimes": {"image-tag": "remediate"}, "stack": {"unique-names": "disabled"}}
    policies = pack.of_stack(json.dumps({"policies": {"levels": levels}}))
    expected = {
        rule.id + suffix: rule.levels[subject]
        for rule in rules.ALL
        for subject, suffix in (
            (Subject.RUNTIMES, ""),
            (Subject.TRAINJOBS, "-of-trainjobs"),
            (Subject.STACK, ""),
        )
        if subject in rule.levels
    }
    assert {policy.name: policy.enforcement_level.value for policy in pack.all_policies(policies)} == {
        **expected,
        "exceptions": "advisory",
        "image-tag": "remediate",
        "unique-names": "disabled",
    }


def test_the_engine_tells_the_stacks_levels_once_the_pack_has_started():
    served = pack.Servicer()
    stack = {"policies": {"levels": {"runtimes": {"image-tag": "disabled", "image-digest": "mandatory"}}}}
    request = analyzer_pb2.AnalyzerStackConfigureRequest(config={pack.CONFIG: json.dumps(stack)})
    served.ConfigureStack(request, None)
    told = {p.name: p.enforcementLevel for p in served.GetAnalyzerInfo(None, None).policies}
    assert (told["image-tag"], told["image-digest"], told["resources-declared"]) == (
        analyzer_pb2.DISABLED,
        analyzer_pb2.MANDATORY,
        analyzer_pb2.ADVISORY,
    )


def test_a_policys_config_comes_before_the_stacks_parameters():
    stack = {"policies": {"parameters": {"registries": ["a.example"]}}}
    policy = named("image-registry", pack.of_stack(json.dumps(stack)))
    [(of_stack, _)] = reported(policy, arguments(manifest("runtime")))
    [(of_config, _)] = reported(policy, arguments(manifest("runtime"), {"registries": ["b.example"]}))
    assert ("(a.example)" in of_stack, "(b.example)" in of_config) == (True, True)
    assert policy.config_schema.properties == {"registries": {"type": "array"}}


def test_exactly_the_images_that_the_stack_lists_are_allowed():
    image = f"ghcr.io/acme/train/trainers:1.0.0@sha256:{'0' * 64}"
    for listed, used, findings in (([], image, 1), ([image], image, 0), ([image], image[:-1] + "1", 1)):
        policies = pack.of_stack(json.dumps({"artifacts": {"images": listed}}))
        value = changed("runtime", {f"{CONTAINER}.image": used})
        assert len(reported(named("image-registry", policies), arguments(value))) == findings


def test_a_config_that_is_wrong_is_said_and_refused():
    policy = named("node-bounds")
    [(message, _)] = reported(policy, arguments(manifest("runtime"), {"maxNodes": 0.0}))
    assert message == "node-bounds: its config.maxNodes: must be greater than or equal to 1; is 0.0"


def test_a_pool_that_the_stack_declares_is_one_that_runtimes_are_compared_with():
    text = """{"nodePools": {"gpu": {
        "provider": "kwok", "nodes": 2, "machine": {"cpu": "8", "memory": "1Gi"},
        "accelerator": {"type": "nvidia-h100", "count": 8},
        "taints": [{"key": "nvidia.com/gpu"}], "quota": []}}}"""
    assert pack.of_stack(text).parameters.pools == (
        Pool(
            name="gpu",
            labels={
                "trainyard.dev/pool": "gpu",
                "trainyard.dev/capacity-type": "on-demand",
                "trainyard.dev/accelerator": "nvidia-h100",
            },
            taints=(Taint(key="nvidia.com/gpu"), Taint(key="kwok.x-k8s.io/node", value="fake")),
            resources={"nvidia.com/gpu": "8", "cpu": "8", "memory": "1Gi"},
        ),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"policies": {"levls": {}}}',
            "trainyard:platform.policies.levls: there is no such key "
            "(allowed here: levels, parameters); did you mean levels?",
        ),
        (
            '{"nodePools": {"gpu": {"nodes": 1, "machine": {"cpu": "8", "memory": "1Gi"}}}}',
            "trainyard:platform.nodePools.gpu.provider: is required",
        ),
        ("[]", "trainyard:platform: must be a mapping; is []"),
        ("{", "trainyard:platform: must be a mapping"),
    ],
)
def test_a_stack_that_is_wrong_is_one_sentence(text: str, message: str):
    with pytest.raises(ValueError, match=r"trainyard:platform") as error:
        pack.of_stack(text)
    assert str(error.value) == message


def test_an_exception_is_shown_and_not_refused():
    value = changed(
        "runtime",
        {
            "metadata.annotations[policy.trainyard.dev/privileges]": "until=9999-01-01; the driver",
            f"{CONTAINER}.securityContext.privileged": True,
        },
    )
    assert reported(named("privileges"), arguments(value)) == []
    assert named("privileges").remediate(arguments(value)) is None
    assert reported(named("exceptions"), arguments(value)) == [
        (
            f"privileges: {CONTAINER}.securityContext.privileged: must not be true, "
            "excepted until 9999-01-01: the driver",
            None,
        )
    ]


def test_a_name_that_pulumi_makes_is_no_mistake():
    assert reported(named("well-formed"), arguments(changed("runtime", {"metadata.name": None}))) == []


def test_what_is_not_known_yet_is_not_guessed_at():
    value = changed("runtime", {f"{CONTAINER}.image": UNKNOWN})
    with pytest.raises(UnknownValueError):
        reported(named("image-tag"), arguments(value))


def test_other_resources_are_none_of_its_business():
    value = {"apiVersion": "v1", "kind": "Secret", "data": {"token": UNKNOWN}}
    assert [
        reported(p, arguments(value)) for p in pack.all_policies(DEFAULT) if hasattr(p, "remediate")
    ].count([]) > 20


def test_what_the_engine_asks_about_no_workload_is_nothing_and_is_not_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unpacked(*_: Any) -> Any:
        raise AssertionError("the SDK was asked")

    monkeypatch.setattr(policy, "deserialize_properties", unpacked)
    request = analyzer_pb2.AnalyzeRequest(type="kubernetes:core/v1:Secret")
    request.properties.update({"apiVersion": "v1", "kind": "Secret", "data": {"token": UNKNOWN}})
    assert pack.Servicer().Analyze(request, None) == analyzer_pb2.AnalyzeResponse()
    assert pack.Servicer().Remediate(request, None) == analyzer_pb2.RemediateResponse()


def test_what_the_engine_asks_about_a_runtime_is_answered_by_its_rules() -> None:
    value = changed("runtime", {f"{CONTAINER}.image": "example.com/trainer:latest"})
    request = analyzer_pb2.AnalyzeRequest(
        type=f"kubernetes:{value['apiVersion']}:{value['kind']}", name="name"
    )
    request.properties.update(value)
    told = pack.Servicer().Analyze(request, None)
    assert "image-tag" in {diagnostic.policyName for diagnostic in told.diagnostics}


def test_rules_of_the_stack_see_crds_without_their_schemas() -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobs.example.com"},
        "spec": {"group": "example.com", "versions": [{"name": "v1", "schema": {"openAPIV3Schema": {}}}]},
    }
    request = analyzer_pb2.AnalyzeStackRequest()
    resource = request.resources.add(
        type="kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition", urn="u"
    )
    resource.properties.update(crd)
    told = pack.Servicer().AnalyzeStack(request, None)
    assert [(one.policyName, one.urn) for one in told.diagnostics] == [("crds-retained", "u")]
    assert resource.properties["spec"] == {"group": "example.com", "versions": [{"name": "v1"}]}
