"""What Pulumi's engine tells, and what is said of it."""

import json
from typing import Any

import pytest

from trainyard_delivery import impact
from trainyard_delivery.drift.verdicts import Ref
from trainyard_delivery.rollout import events, words
from trainyard_delivery.rollout.events import (
    Diagnostic,
    Done,
    Ended,
    Op,
    Planned,
    Severity,
    Step,
    Violation,
    Waiting,
)
from trainyard_platform.objects.annotations import KEPT
from trainyard_platform.objects.declare import annotated

QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "ClusterQueue",
    "metadata": {"name": "team-a"},
    "spec": {"stopPolicy": "None"},
}
URN = "urn:pulumi:prod::trainyard::kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue::q"
DRAINED = {**QUEUE, "spec": {"stopPolicy": "HoldAndDrain"}}


def manifest(kind: str, name: str, namespace: str = "", **content: Any) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **place}, **content}


def state(inputs: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"custom": True, "inputs": {"__initialApiVersion": "v1", **inputs}, **others}


def pre(op: str, *, old: Any = None, new: Any = None, planning: bool = True, **others: Any) -> str:
    metadata = {"op": op, "urn": URN, "type": "kubernetes:x:Y", "old": old, "new": new, **others}
    return json.dumps({"sequence": 1, "resourcePreEvent": {"metadata": metadata, "planning": planning}})


# --- events -----------------------------------------------------------------


def test_a_change_is_told_with_what_was_and_what_is_to_be_asked_for() -> None:
    line = pre("update", old=state(QUEUE), new=state(DRAINED))
    assert events.read(line) == Planned(Step(URN, Op.UPDATE, QUEUE, DRAINED), preview=True)
    assert events.read(pre("create", new=state(QUEUE), planning=False)) == Planned(
        Step(URN, Op.CREATE, {}, QUEUE), preview=False
    )


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(pre("refresh", old=state(QUEUE), new=state(QUEUE)), id="a look at what is there"),
        pytest.param(pre("create-replacement", new=state(QUEUE)), id="a part of a replacement"),
        pytest.param(pre("create", new={**state({}), "custom": False}), id="a component"),
        pytest.param(pre("create", new=state({}), type="pulumi:providers:kubernetes"), id="a provider"),
        pytest.param(json.dumps({"preludeEvent": {"config": {}}}), id="the beginning"),
        pytest.param(
            json.dumps({"diagnosticEvent": {"severity": "info", "message": "wait", "ephemeral": True}}),
            id="a message for a moment",
        ),
        pytest.param(
            json.dumps({"diagnosticEvent": {"severity": "debug", "message": "x"}}), id="a debug message"
        ),
    ],
)
def test_what_is_nothing_to_users_is_not_told(line: str) -> None:
    assert events.read(line) is None


def test_what_is_done_a_message_a_violation_and_the_end() -> None:
    outputs = {"metadata": {"op": "create", "urn": URN, "new": state(QUEUE)}, "planning": False}
    assert events.read(json.dumps({"resOutputsEvent": outputs})) == Done(URN, preview=False)
    said = {"severity": "error", "urn": URN, "prefix": "<{%fg 1%}>error: <{%reset%}>", "message": "no\n"}
    assert events.read(json.dumps({"diagnosticEvent": said})) == Diagnostic(Severity.ERROR, URN, "no")
    waits = {"severity": "info", "urn": URN, "message": "[1/2] Waiting for its pods", "ephemeral": True}
    assert events.read(json.dumps({"diagnosticEvent": waits})) == Waiting(URN, "[1/2] Waiting for its pods")
    policy = {
        "resourceUrn": URN,
        "policyName": "image-tag",
        "enforcementLevel": "mandatory",
        "message": "must name a digest",
    }
    assert events.read(json.dumps({"policyEvent": policy})) == Violation(
        "image-tag", mandatory=True, urn=URN, text="must name a digest"
    )
    assert events.read(json.dumps({"summaryEvent": {"isPreview": True, "result": "failed"}})) == Ended(
        preview=True, succeeded=False
    )


def test_what_refuses_an_object_is_told_while_the_provider_still_tries_again() -> None:
    refused = 'configmaps "one" is forbidden: exceeded quota: full'
    told = {"severity": "info", "urn": URN, "message": f"Retry #0; creation failed: {refused}\n"}
    again = json.dumps({"diagnosticEvent": {**told, "ephemeral": True}})
    assert events.read(again) == Diagnostic(Severity.WARNING, URN, refused)


@pytest.mark.parametrize("line", ["Logging in ...", "[]", '"text"', "{"])
def test_a_line_that_is_no_event_is_said_to_be_none(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        events.read(line)


def test_a_step_is_named_as_users_know_the_object() -> None:
    assert Step(URN, Op.CREATE, {}, QUEUE).name == "ClusterQueue team-a"
    assert Step(URN, Op.CREATE, {}, manifest("ConfigMap", "one", "team-a")).name == "ConfigMap team-a/one"
    group = "urn:pulumi:prod::trainyard::trainyard:platform:Pool$aws:eks/nodeGroup:NodeGroup::gpu"
    assert Step(group, Op.DELETE, {"clusterName": "c"}, {}).name == "NodeGroup gpu"


@pytest.mark.parametrize("op", [Op.REPLACE, Op.DELETE])
def test_a_pool_whose_node_group_goes_loses_its_nodes(op: Op) -> None:
    group = "urn:pulumi:prod::trainyard::trainyard:platform:EksPool$aws:eks/nodeGroup:NodeGroup::gpu"
    inputs = {"clusterName": "c"}
    assert words.change(Step(group, op, inputs, inputs if op is Op.REPLACE else {})) == impact.Change(
        impact.Ref("NodePool", "", "gpu"), impact.Verb.REMOVED, {"provider": "eks"}, {}
    )
    template = group.replace("eks/nodeGroup:NodeGroup", "ec2/launchTemplate:LaunchTemplate")
    assert words.change(Step(template, op, inputs, {})) is None
    assert words.change(Step(group, Op.UPDATE, inputs, inputs)) is None


GROUPS = {
    "eks": "aws:eks/nodeGroup:NodeGroup",
    "gke": "gcp:container/nodePool:NodePool",
    "aks": "azure:containerservice/kubernetesClusterNodePool:KubernetesClusterNodePool",
}


@pytest.mark.parametrize(
    ("provider", "before", "after", "recreated"),
    [
        ("eks", {"launchTemplate": {"version": "1"}}, {"launchTemplate": {"version": "2"}}, True),
        ("eks", {"releaseVersion": "1.35.2-20260120"}, {"releaseVersion": "1.35.2-20260220"}, True),
        ("eks", {"scalingConfig": {"maxSize": 2}, "labels": {}}, {"labels": {"a": "b"}}, False),
        ("gke", {"nodeConfig": {"machineType": "a"}}, {"nodeConfig": {"machineType": "b"}}, True),
        ("gke", {"nodeConfig": {"taints": []}}, {"nodeConfig": {"labels": {"a": "b"}}}, False),
        ("gke", {"nodeCount": 1}, {"nodeCount": 2}, False),
        ("aks", {"orchestratorVersion": "1.34"}, {"orchestratorVersion": "1.35"}, True),
        ("aks", {"maxCount": 1}, {"maxCount": 2}, False),
    ],
)
def test_a_node_group_that_stays_loses_its_nodes_to_those_that_its_cloud_creates(
    provider: str, before: dict[str, Any], after: dict[str, Any], recreated: bool
) -> None:
    urn = f"urn:pulumi:prod::trainyard::trainyard:platform:Pool${GROUPS[provider]}::gpu"
    changed = Step(urn, Op.UPDATE, before, after)
    ref = impact.Ref("NodePool", "", "gpu")
    loss = impact.Change(ref, impact.Verb.REMOVED, {"provider": provider}, {})
    assert words.change(changed) == (loss if recreated else None)
    sentence = "    the cloud recreates its nodes, one after the other; protect does not prevent this"
    assert (sentence in words.details([changed], {})) is recreated


# --- words ------------------------------------------------------------------


def step(op: Op, before: Any = None, after: Any = None, urn: str = URN, **others: Any) -> Step:
    return Step(urn, op, before or {}, after or {}, **others)


def test_a_preview_says_of_each_object_what_changes_and_what_that_does_to_jobs() -> None:
    job = impact.Job(
        "team-a",
        "llama",
        impact.State.RUNNING,
        impact.Ref("ClusterTrainingRuntime", "", "torch"),
        started=True,
        cluster_queue="team-a",
    )
    tenant = manifest("Namespace", "team-b")
    tenant["metadata"]["labels"] = {"trainyard.dev/tenant": "team-b"}
    viewers = manifest(
        "RoleBinding",
        "trainyard-viewer",
        "team-b",
        roleRef={"name": "trainyard-viewer"},
        subjects=[{"kind": "Group", "name": "auditors"}],
    )
    steps = [
        step(Op.SAME, QUEUE, QUEUE, "a"),
        step(Op.CREATE, None, manifest("ConfigMap", "new", "team-a"), "b"),
        step(Op.UPDATE, QUEUE, DRAINED),
        step(Op.DELETE, manifest("Role", "old", "team-a"), None, "c"),
        step(Op.DELETE, viewers, None, "f"),
        step(Op.LEAVE, tenant, None, "d"),
        step(Op.REPLACE, manifest("Job", "once", "x", spec=1), manifest("Job", "once", "x", spec=2), "e"),
    ]
    change = words.change(steps[2])
    assert change is not None
    effects = {URN: impact.touched(change, [job], words.after(steps))}
    assert list(words.details(steps, effects)) == [
        "± Job x/once: deleted, and recreated",
        "    spec: 1 -> 2",
        "~ ClusterQueue team-a",
        "    spec.stopPolicy: None -> HoldAndDrain",
        "    team-a/llama (running) keeps its place in the queue; loses its pods: Kueue suspends it",
        "- Role team-a/old",
        "- RoleBinding team-b/trainyard-viewer",
        "    Group auditors can no longer see TrainJobs in team-b, and read their logs",
        "= Namespace team-b: stays in the cluster",
        "    its TrainJobs, volume claims and Secrets stay in it: a tenant with another name gets none",
        "+ ConfigMap team-a/new",
    ]
    assert words.summary(steps) == (
        "1 to create, 1 to change, 1 to replace, 2 to delete, 1 to leave in the cluster, 1 unchanged"
    )


def kept(kind: str, name: str, namespace: str = "") -> dict[str, Any]:
    return annotated(manifest(kind, name, namespace), KEPT)


def test_what_a_removed_stack_left_in_the_cluster_is_taken_over_and_not_called_created() -> None:
    steps = [
        step(Op.CREATE, None, kept("Namespace", "team-a"), "a"),
        step(Op.CREATE, None, kept("Namespace", "team-b"), "b"),
        step(Op.CREATE, None, kept("LocalQueue", "default", "team-a"), "c"),
        step(Op.CREATE, None, manifest("ConfigMap", "new", "team-a"), "d"),
        step(Op.SAME, kept("Namespace", "team-c"), kept("Namespace", "team-c"), "e"),
    ]
    wanted = {Ref("v1", "Namespace", "", "team-a"), Ref("v1", "Namespace", "", "team-b")}
    queue = Ref("v1", "LocalQueue", "team-a", "default")
    assert words.may_exist(steps) == {*wanted, queue}
    found = list(words.taken_over(steps, {queue, Ref("v1", "Namespace", "", "team-a")}))
    assert list(words.details(found, {})) == [
        "* LocalQueue team-a/default: exists already, and is taken over",
        "* Namespace team-a: exists already, and is taken over",
        "+ ConfigMap team-a/new",
        "+ Namespace team-b",
    ]
    assert words.summary(found) == "2 to create, 2 to take over, 1 unchanged"


def test_controllers_to_create_are_those_whose_deletion_a_removal_brings() -> None:
    steps = [
        step(Op.CREATE, None, kept("Namespace", "team-a"), "a"),
        step(Op.CREATE, None, manifest("Namespace", "kueue-system"), "b"),
        step(Op.CREATE, None, manifest("Deployment", "kueue", "kueue-system"), "c"),
        step(Op.CREATE, None, manifest("ConfigMap", "new", "kueue-system"), "d"),
        step(Op.UPDATE, manifest("Namespace", "x"), manifest("Namespace", "x"), "e"),
        step(Op.CREATE, None, kept("ValidatingWebhookConfiguration", "ours"), "f"),
        step(Op.CREATE, None, manifest("ValidatingWebhookConfiguration", "kueue-v"), "g"),
        step(Op.CREATE, None, manifest("MutatingWebhookConfiguration", "kueue-m"), "h"),
    ]
    assert words.controllers(steps) == {
        Ref("v1", "Namespace", "", "kueue-system"),
        Ref("v1", "Deployment", "kueue-system", "kueue"),
        Ref("v1", "ValidatingWebhookConfiguration", "", "kueue-v"),
        Ref("v1", "MutatingWebhookConfiguration", "", "kueue-m"),
    }


def test_an_object_that_git_has_and_that_is_being_deleted_is_said_to_go() -> None:
    """Its removal was reverted while something held it: what git says of it is not what will be."""
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
    live = {**QUEUE, "metadata": {"name": "team-a", **going}}
    planned = events.read(pre("same", old=state(QUEUE, outputs=live), new=state(QUEUE)))
    assert isinstance(planned, Planned)
    assert list(words.details([planned.step], {})) == [
        "! ClusterQueue team-a: is being deleted since 2026-01-01T00:00:00Z, "
        "held by kueue.x-k8s.io/resource-in-use",
        "    Kubernetes deletes it as soon as nothing holds it. Then roll out again to recreate it.",
    ]


def test_many_new_objects_are_counted_by_kind() -> None:
    steps = [
        step(Op.CREATE, None, manifest("ConfigMap" if number else "Secret", f"n{number}"), str(number))
        for number in range(30)
    ]
    assert list(words.details(steps, {})) == ["+ 29 ConfigMap, 1 Secret"]


def test_what_pods_are_made_of_changes_and_pods_are_made_anew() -> None:
    template = {"template": {"spec": {"priorityClassName": "a"}}, "replicas": 1}
    before = manifest("Deployment", "d", "x", spec=template)
    after = manifest("Deployment", "d", "x", spec={**template, "template": {"spec": {}}})
    assert list(words.details([step(Op.UPDATE, before, after)], {})) == [
        "~ Deployment x/d",
        "    spec.template.spec.priorityClassName: a -> nothing",
        "    its pods are recreated, one after the other",
    ]


def test_what_a_secret_holds_is_not_shown_nor_what_is_pulumis_affair() -> None:
    before = manifest("Secret", "s", "x", data={"a": "MQ=="})
    after = manifest("Secret", "s", "x", data={"a": "Mg=="})
    after["metadata"] = {**after["metadata"], "annotations": {"pulumi.com/patchForce": "true"}}
    before["metadata"] = {**before["metadata"], "annotations": {}}
    assert list(words.details([step(Op.UPDATE, before, after)], {})) == [
        "~ Secret x/s",
        "    data.a: (not shown) -> (not shown)",
    ]


def test_a_copy_of_a_secret_in_an_annotation_is_not_shown_in_a_preview() -> None:
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    before, after = manifest("Secret", "s", "x"), manifest("Secret", "s", "x")
    before["metadata"] = {**before["metadata"], "annotations": {applied: '{"data": {"a": "MQ=="}}'}}
    assert list(words.details([step(Op.UPDATE, before, after)], {})) == [
        "~ Secret x/s",
        f'    metadata.annotations: {{"{applied}": "(not shown)"}} -> nothing',
    ]


def ops(*steps: Step, **deleted_with: str) -> dict[str, Op]:
    return {one.urn: one.op for one in words.left(steps, deleted_with)}


def test_of_a_tenant_that_goes_what_stays_with_its_namespace_is_not_called_deleted() -> None:
    namespace = step(Op.DELETE, manifest("Namespace", "a"), urn="n", retained=True)
    quota = step(Op.DELETE, manifest("ResourceQuota", "q", "a"), urn="q")
    role = step(Op.DELETE, manifest("RoleBinding", "r", "a"), urn="r")
    assert ops(namespace, quota, role, q="n") == {"n": Op.LEAVE, "q": Op.LEAVE, "r": Op.DELETE}
    assert ops(quota, q="n") == {"q": Op.DELETE}, "the namespace stays in the stack"


def test_what_is_said_to_go_with_a_namespace_stays_unless_it_is_inside() -> None:
    """Queues outlive Kueue, which is in the namespace that they are said to go with."""
    namespace = step(Op.DELETE, manifest("Namespace", "kueue-system"), urn="n")
    inside = step(Op.DELETE, manifest("ConfigMap", "c", "kueue-system"), urn="c")
    queue = step(Op.DELETE, QUEUE, urn="q")
    assert ops(namespace, inside, queue, c="n", q="n") == {"n": Op.DELETE, "c": Op.DELETE, "q": Op.LEAVE}


def test_what_is_said_to_go_with_a_component_stays_where_that_goes() -> None:
    """Karpenter's pools, and queues of a Kueue that was there before, outlive the stack."""
    pool = step(Op.DELETE, manifest("NodePool", "p"), urn="p")
    assert [one.op for one in words.left([pool], {"p": "crds"}, {"crds"})] == [Op.LEAVE]
    assert ops(pool, p="crds") == {"p": Op.DELETE}, "the component stays in the stack"


def test_what_refuses_is_said_first_then_advice_on_what_changes_and_how_much_there_is_on_the_rest() -> None:
    steps = [
        step(Op.UPDATE, QUEUE, DRAINED),
        step(Op.SAME, QUEUE, QUEUE, "same"),
        *(step(Op.CREATE, None, manifest("ConfigMap", f"n{number}"), str(number)) for number in range(5)),
    ]
    found = [
        Violation("b", mandatory=False, urn=URN, text="should\n  not"),
        Violation("b", mandatory=False, urn="same", text="should not"),
        *(Violation("c", mandatory=False, urn=str(number), text="should not") for number in range(5)),
        Violation("a", mandatory=True, urn="", text="must not"),
    ]
    assert list(words.violations(found, steps)) == [
        "refused by a: must not",
        "advised against by b: ClusterQueue team-a: should not",
        "advised against by c: ConfigMap n0, ConfigMap n1, ConfigMap n2 and 2 more: VERBOSE=1 says what",
        "advice on what does not change, 1 object: VERBOSE=1 has it",
    ]
