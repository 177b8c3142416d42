"""A rule says the same at every gate: on a file, in the policy pack, and to a real API server."""

import contextlib
import re
from typing import Any

import pytest

from benchmarks import plane
from tests.support import live
from tests.support.packs import applicable, arguments, named, policy_name, reported
from tests.support.patience import STARTED, eventually
from tests.support.rule_examples import OnThatDay, changed, of_workloads
from tests.support.rule_tables import cases
from trainyard_api import names
from trainyard_platform.parts.policies import manifests
from trainyard_policies import engine, pack, rules
from trainyard_policies.parameters import KUEUE
from trainyard_policies.rule import Level
from trainyard_policies.settings import Levels, Policies
from trainyard_policies.subject import Subject

from . import gates

pytestmark = pytest.mark.sandbox

TODAY = gates.NOW.date()
ADVISORY = Levels(
    runtimes={rule.id: Level.ADVISORY for rule in rules.OF_WORKLOADS if Subject.RUNTIMES in rule.levels},
    train_jobs={rule.id: Level.ADVISORY for rule in rules.OF_WORKLOADS if Subject.TRAINJOBS in rule.levels},
)
"""So that one answer tells everything: a refusal would end with the first that refuses."""
EXAMPLES = of_workloads()
DISTINCT = list(dict.fromkeys(one.policies.parameters.model_dump_json() for one in EXAMPLES))
SHIPPED = "shipped"
POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"
PATCH = f"spec.runtimePatches[0].trainingRuntimeSpec.{POD.removeprefix('spec.')}"
EXCEPTION = "metadata.annotations[policy.trainyard.dev/host-access]"


def stack_of(example):
    """The name of the stack that an example is of: one for all with the same parameters."""
    return f"stack-{DISTINCT.index(example.policies.parameters.model_dump_json())}"


STACKS = {stack_of(one): Policies(levels=ADVISORY, parameters=one.policies.parameters) for one in EXAMPLES}


@pytest.fixture(scope="module")
def api():
    """An API server with the rules of every stack of the examples, and those as shipped."""
    plane.build()
    every = {**STACKS, SHIPPED: Policies()}
    with contextlib.ExitStack() as stack:
        kubeconfig = stack.enter_context(live.control_plane("conf-gates")).sandbox.instance.kubeconfig
        hooks = stack.enter_context(gates.webhooks(every, kubeconfig, tried=SHIPPED))
        api = live.Api(kubeconfig)
        live.done(api.create(hooks))
        eventually("every webhook is asked", lambda: in_force(api), within=STARTED)
        yield api


def in_force(api):
    """Whether each rule speaks on what it has to speak on, as shipped too."""
    failing = [one for one in EXAMPLES if one.findings]
    mute = [
        str(one)
        for one, said in zip(failing, live.at_once(lambda one: verdict(api, one), failing), strict=True)
        if not said
    ]
    assert mute == []
    asked = live.at_once(lambda case: gates.ask(api, changed(case[1], case[2]), SHIPPED), AS_SHIPPED)
    return all(
        (said.code, word in said_by(said)) == (code, True)
        for (code, _, _, word), said in zip(AS_SHIPPED, asked, strict=True)
    )


def said_by(answer):
    return " ".join((answer.message, *answer.warnings))


def verdict(api, example):
    """Rule and path of each thing that the API server finds wrong; `invalid` if it is no object for it."""
    answer = gates.ask(api, example.manifest, stack_of(example))
    if answer.code in (400, 422):
        return {("invalid", "")}
    live.done(answer)
    return {found for text in answer.warnings for found in findings(text)}


def findings(text):
    """`rule: path: sentence. Remedy.`"""
    rule, _, rest = text.partition(": ")
    return {(rule, path) for path in re.findall(r"^((?:spec|metadata)[^ ]*): ", rest)}


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_gates_agree_on_every_example(api, example, monkeypatch):
    monkeypatch.setattr(pack, "date", OnThatDay)
    judged = engine.check(example.manifest, TODAY, STACKS[stack_of(example)])
    mine = {(v.rule.id, str(v.finding.path)) for v in judged if v.rule is example.rule}
    in_cluster = verdict(api, example)
    if in_cluster == {("invalid", "")}:
        assert mine, "the API server refuses what the rules have nothing against"
    else:
        assert {found for found in in_cluster if found[0] == example.rule.id} == mine
        if STACKS[stack_of(example)].parameters == Policies().parameters:
            assert in_cluster == {(v.rule.id, str(v.finding.path)) for v in judged}
    if example in applicable():
        policy = named(policy_name(example), example.policies)
        in_preview = [text for text, _ in reported(policy, arguments(example.manifest))]
        assert {text.partition(": ")[0] for text in in_preview} == {path for _, path in mine}


HOST = {f"{POD}.hostNetwork": True}
ROOT = {"name": "scratch", "hostPath": {"path": "/"}}
TOKEN = {"name": "HF_TOKEN", "value": "x"}


AS_SHIPPED: list[tuple[int, str, dict[str, Any], str]] = [
    (201, "runtime", {}, ""),
    (201, "trainjob", {}, ""),
    (403, "runtime", HOST, "host-access: "),
    (201, "runtime", {**HOST, EXCEPTION: "until=2026-11-21; EFA"}, "until 2026-11-21: EFA"),
    (403, "runtime", {**HOST, EXCEPTION: "until=2026-11-20; EFA"}, "ended on 2026-11-20"),
    (403, "runtime", {**HOST, EXCEPTION: "please"}, "must be"),
    (403, "trainjob", {f"{PATCH}.volumes[0]": ROOT}, "host-access: "),
    (201, "trainjob", {"spec.trainer.image": "docker.io/library/busybox:latest"}, "image-tag: "),
    (201, "trainjob", {"spec.trainer.env": [TOKEN]}, "secrets-by-reference: "),
]


@pytest.mark.core
@pytest.mark.parametrize(("code", "manifest", "fields", "word"), AS_SHIPPED)
def test_as_shipped_what_the_sdk_cannot_meet_is_advice_and_the_rest_is_refused(
    api, code, manifest, fields, word
):
    answer = gates.ask(api, changed(manifest, fields), SHIPPED)
    assert answer.code == code, answer
    assert word in said_by(answer)


@pytest.mark.parametrize("kind", ["TrainingRuntime", "TrainJob"])
def test_in_a_namespace_there_is_no_way_round(api, kind):
    """No exception, and no label that Trainer's own webhook stays away for."""
    manifest = changed(
        "trainjob" if kind == "TrainJob" else "runtime",
        {
            EXCEPTION: "until=2027-01-31; I say so",
            "metadata.labels[trainer.kubeflow.org/webhook-validation]": "disabled",
            f"{PATCH if kind == 'TrainJob' else POD}.volumes": [{"name": "root", "hostPath": {"path": "/"}}],
        },
    )
    answer = gates.ask(api, {**manifest, "kind": kind}, SHIPPED)
    assert (answer.code, "host-access" in answer.message) == (403, True), answer


def test_what_was_wrong_before_keeps_nobody_from_changing_something_else(api):
    """What is new is refused all the same."""
    job = changed("trainjob", {f"{PATCH}.volumes[0]": ROOT, "spec.suspend": True})
    job["metadata"] = {"name": "before"}
    live.done(api.create(job))

    def change(**fields):
        return api.merge(live.TRAINER, "TrainJob", "before", fields)

    assert change(metadata={"labels": {gates.LABEL: SHIPPED}}).code == 200
    assert change(metadata={"annotations": {"a": "b"}}).code == 200
    privileged = {"name": "node", "securityContext": {"privileged": True}}
    another = changed("trainjob", {f"{PATCH}.containers": [privileged]})["spec"]["runtimePatches"]
    patches = [*job["spec"]["runtimePatches"], {**another[0], "manager": "example.com/other"}]
    answer = change(spec={"runtimePatches": patches})
    assert (answer.code, "privileges: " in answer.message) == (403, True), answer


def test_kueue_may_write_what_a_flavor_needs(api):
    job = changed("trainjob", {f"{PATCH}.nodeSelector": {"disk": "ssd"}})
    stack = stack_of(next(e for e in EXAMPLES if e.rule.id == "pool-match" and e.policies.parameters.pools))
    assert any("pool-match" in text for text in gates.ask(api, job, stack).warnings)
    admitted = api.impersonating(KUEUE, "system:masters")
    assert gates.ask(admitted, job, stack).warnings == ()


FAULTY = cases("faulty")
HONEST = [case for case in cases("honest") if case.policies == Policies()]


@pytest.mark.parametrize("case", FAULTY, ids=str)
def test_a_mistake_is_refused_as_shipped(api, case):
    answer = gates.ask(api, case.manifest, SHIPPED)
    assert answer.code in (400, 403, 422), answer


EXIT = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3, 1]}}
LABELS = [{"matchExpressions": [{"key": "a", "operator": "In"}]}]
NODES = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": LABELS}}}
SLEEP = {"preStop": {"exec": {"command": ["a"]}, "sleep": {"seconds": 1}}}
TOKEN_FOR_A_MOMENT = {"serviceAccountToken": {"path": "token", "expirationSeconds": 5}}
HOPELESS = {
    "exit codes out of order": ("JOB.podFailurePolicy", {"rules": [EXIT]}),
    "a name server that is not said": ("POD.dnsPolicy", "None"),
    "an address that is none": ("POD.hostAliases", [{"ip": "here", "hostnames": ["a"]}]),
    "two ways to stop": ("NODE.lifecycle", SLEEP),
    "a toleration of any value and of one": (
        "POD.tolerations",
        [{"key": "a", "operator": "Exists", "value": "b"}],
    ),
    "a toleration for a while of what evicts nobody": (
        "POD.tolerations",
        [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}],
    ),
    "an affinity to no value": ("POD.affinity", NODES),
    "a selector of nodes that is no label": ("POD.nodeSelector", {"a b": "c"}),
    "a selector of pods of one's own": ("JOB.manualSelector", True),
    "a container that is put into a pod that runs": (
        "POD.ephemeralContainers",
        [{"name": "x", "image": "registry.example.com/a:1"}],
    ),
    "a token for a moment": (
        "POD.volumes",
        [{"name": "token", "projected": {"sources": [TOKEN_FOR_A_MOMENT]}}],
    ),
    "a volume of less than nothing": (
        "POD.volumes",
        [{"name": "scratch", "emptyDir": {"sizeLimit": "-1Gi"}}],
    ),
    "a field that a pod has not": (
        "NODE.env",
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nonsense"}}}],
    ),
}


@pytest.mark.parametrize(("path", "value"), HOPELESS.values(), ids=HOPELESS)
def test_what_no_rule_knows_and_kubernetes_would_refuse_is_refused_before_it_holds_quota(api, path, value):
    first, _, rest = path.partition(".")
    job = f"{POD.removesuffix('.template.spec')}"
    place = {"JOB": job, "POD": POD, "NODE": f"{POD}.containers[0]"}[first]
    manifest = changed("runtime", {f"{place}.{rest}": value})
    assert [v for v in engine.check(manifest, TODAY, Policies()) if v.refuses] == []
    answer = gates.ask(api, manifest, SHIPPED)
    assert answer.code == 403, answer
    assert f"Kubernetes would refuse the Jobs: {place}" in answer.message


@pytest.mark.parametrize("case", HONEST, ids=str)
def test_what_is_only_unusual_is_taken_as_shipped(api, case):
    answer = gates.ask(api, case.manifest, SHIPPED)
    assert answer.code == 201, answer.message


def test_while_the_webhook_is_missing_no_namespaces_user_writes_what_it_would_judge(api):
    """A first `up` has the policy before the webhook, and a removal after it."""
    for manifest in gates.past_the_webhook():
        live.done(api.create(manifest))
    job, runtime = changed("trainjob", {}), {**changed("runtime", {}), "kind": "TrainingRuntime"}
    of_the_cluster = changed("runtime", {})

    def refusals():
        return {
            manifest["kind"]: answer.message
            for manifest in (job, runtime, of_the_cluster)
            if (answer := gates.ask(api, manifest, gates.GUARDED)).code != 201
        }

    def missing():
        return {kind: "no params found" in message for kind, message in refusals().items()}

    both = {"TrainJob": True, "TrainingRuntime": True}
    eventually("it is missed", lambda: missing() == both, within=STARTED)
    name = names.VALIDATING_WEBHOOKS
    api.apply(gates.configuration(name, [gates.silent_webhook("TrainJob")]))
    lacks = (
        f"'{manifests.PAST_THE_WEBHOOK}' denied request: ValidatingWebhookConfiguration {name} does not hold "
        "this kind to the rules of the stack. Have the platform team roll the stack out."
    )
    eventually(
        "one of them is there",
        lambda: list(refusals()) == ["TrainingRuntime"] and lacks in refusals()["TrainingRuntime"],
        within=STARTED,
    )
    webhooks = [gates.silent_webhook(kind) for kind in gates.KINDS]
    api.apply(gates.configuration(name, webhooks))
    eventually("both are there", lambda: refusals() == {}, within=STARTED)


def test_the_expressions_of_the_platforms_policies_pass_the_api_servers_own_check(api):
    policies = [
        one for one in manifests.manifests(longest_grace=600) if one["kind"] == "ValidatingAdmissionPolicy"
    ]
    api.apply(*policies)

    def checked():
        found = api.list("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
        checks = [one["status"]["typeChecking"] for one in found if "typeChecking" in one.get("status", {})]
        return checks if len(checks) == len(policies) else None

    warnings = eventually("the types are checked", checked)
    assert [one for one in warnings if one.get("expressionWarnings")] == []


def deletion(api, pod, seconds):
    """What the API server says to the deletion of this pod with a grace period, without deleting it."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}
    grace = {} if seconds is None else {"gracePeriodSeconds": seconds}
    answer = api.call("DELETE", live.path_to(pod), {**options, **grace})
    return answer.code, answer.message


def test_a_pod_of_a_tenant_is_deleted_with_its_own_grace_period_or_with_one_that_the_stack_allows(api):
    pods = {
        (namespace, name): {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "nodeName": "node",
                "terminationGracePeriodSeconds": seconds,
                "containers": [{"name": "main", "image": "registry.example.com/a:1"}],
            },
        }
        for namespace in ("team-a", "elsewhere")
        for name, seconds in (("brief", 30), ("old", 7200))
    }
    for namespace, labels in (("team-a", {names.TENANT_LABEL: "team-a"}), ("elsewhere", {})):
        api.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        )
        api.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "default", "namespace": namespace},
            }
        )
    api.apply(*pods.values())
    api.apply(*(one for one in manifests.manifests(600) if one["metadata"]["name"] == manifests.PODS_END))
    brief, old = pods["team-a", "brief"], pods["team-a", "old"]
    refusal = (
        f"pods \"brief\" is forbidden: ValidatingAdmissionPolicy '{manifests.PODS_END}' with binding "
        f"'{manifests.PODS_END}' denied request: gracePeriodSeconds: must be at most 600, since the pod uses "
        "its GPUs beside the quota until it has ended. Delete the pod with a shorter grace period, or "
        "without one, or ask your platform team to allow more (policies.parameters.longestGrace in the stack "
        "file)."
    )
    eventually("it is refused", lambda: deletion(api, brief, 601) == (403, refusal), within=STARTED)
    assert [deletion(api, brief, seconds)[0] for seconds in (None, 0, 600, 86_400)] == [200, 200, 200, 403]
    assert [deletion(api, old, seconds)[0] for seconds in (None, 0, 7200, 7201)] == [200, 200, 200, 403]
    assert deletion(api, pods["elsewhere", "brief"], 86_400)[0] == 200
