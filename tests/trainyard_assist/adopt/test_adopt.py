"""Taking over and giving back: what is found, what becomes of each TrainJob, and the steps."""

from dataclasses import replace
from datetime import timedelta

import pytest
import yaml

from tests.support.core_values import PLAIN, T0, jobset, runtime, trainjob
from trainyard_assist import adopt
from trainyard_assist.adopt import (
    Check,
    Fate,
    ForeignJob,
    HandOver,
    Keep,
    LetPass,
    Level,
    Put,
    Scale,
    State,
)
from trainyard_assist.adopt.model import Ref
from trainyard_assist.adopt.ownership import handed_over, owners
from trainyard_operator.core.decide.views import packed
from trainyard_operator.core.model import Runtime, RuntimeProblem

from .seen import CRDS, NAMESPACE, binding, crd, deployment, entry, public, webhooks


def observed(controller=None, objects=None, **fields):
    return adopt.Observed(
        now=T0 + timedelta(minutes=1),
        controller=controller or deployment(),
        objects=[*CRDS, public()] if objects is None else objects,
        **fields,
    )


def foreign(job=None, js=None, rt=PLAIN, **fields):
    return ForeignJob(job or trainjob(), js, rt, **fields)


def levels(plan):
    return {check.about: check.level for check in plan.checks}


def record(*before, replicas="2"):
    data = {"replicas": replicas, "before.yaml": yaml.safe_dump_all(before)}
    metadata = {"name": "trainyard-adoption", "namespace": NAMESPACE, "uid": "r", "resourceVersion": "8"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


# --- checks -----------------------------------------------------------------


def test_trainer_2_3_may_be_taken_over():
    plan = adopt.adopt(observed())
    assert levels(plan) == {"CRDs": Level.FINE, "version": Level.FINE}
    assert not plan.refused


def test_the_way_back_is_on_the_same_cluster():
    assert adopt.adopt(observed(), "trainyard adopt --context lab").next_steps == (
        "pulumi up --refresh",
        "trainyard adopt --context lab --back, to give the cluster back",
    )


def test_without_trainers_controller_there_is_nothing_to_take_over():
    plan = adopt.adopt(replace(observed(), controller=None))
    assert (levels(plan), plan.steps, plan.refused) == ({"controller": Level.STOP}, (), True)


@pytest.mark.parametrize(
    ("objects", "level", "words"),
    [
        ([*CRDS, public("v2.2.1")], Level.STOP, "it is Trainer v2.2.1; move it to v2.3 first"),
        ([*CRDS, public("v2.30.0")], Level.STOP, "it is Trainer v2.30.0; move it to v2.3 first"),
        ([*CRDS, public("v2.3.7")], Level.FINE, "it is Trainer v2.3.7"),
        (CRDS, Level.FINE, "it is Trainer v2.3.0"),
    ],
    ids=["too old", "too new", "a patch", "by the image's tag"],
)
def test_it_must_be_a_trainer_of_the_same_api(objects, level, words):
    [check] = [one for one in adopt.adopt(observed(objects=objects)).checks if one.about == "version"]
    assert (check.level, check.message.startswith(words)) == (level, True)


def test_a_version_that_cannot_be_seen_is_said():
    controller = deployment()
    controller["spec"]["template"]["spec"]["containers"][0]["image"] = "registry:5000/manager@sha256:0"
    assert levels(adopt.adopt(observed(controller, CRDS)))["version"] is Level.NOTE


def test_crds_that_store_something_else_are_refused():
    plan = adopt.adopt(observed(objects=[crd("trainjobs", storage=False), crd("trainingruntimes")]))
    assert levels(plan)["CRDs"] is Level.STOP


def test_who_would_undo_it_is_named():
    by_argo = deployment(annotations={"argocd.argoproj.io/tracking-id": "x"})
    of_release = {"meta.helm.sh/release-name": "kf"}
    by_helm = deployment(annotations={**of_release, "meta.helm.sh/release-namespace": "releases"}, labels={})
    by_template = deployment(annotations=of_release, labels={})
    controllers = (by_argo, by_helm, by_template)
    said = [one.message for c in controllers for one in adopt.adopt(observed(c)).checks[2:]]
    assert said == [
        "Argo CD installs it, and would scale it up again: first stop Argo CD from managing it, without "
        "deleting what it has installed",
        *(
            "it belongs to the Helm release kf: neither upgrade nor uninstall that, because Helm can delete "
            "the CRDs with all TrainJobs, and JobSet's controller. When Trainyard works, have Helm forget "
            f"the release: kubectl delete secrets -n {where} -l owner=helm,name=kf"
            for where in ("releases", NAMESPACE)
        ),
    ]


def test_feature_gates_and_another_jobset_controller_are_brought_to_mind():
    text = yaml.safe_dump({"featureGates": {"TrainJobStatus": True, "Other": False}})
    configuration = {"data": {"controller_manager_config.yaml": text}}
    hooks = webhooks("jobset-webhook-service")
    plan = adopt.adopt(observed(configuration=configuration, jobset_webhooks=hooks))
    assert plan.checks[2:] == (
        Check(
            Level.NOTE,
            "feature gates",
            "TrainJobStatus is on: set it in the stack file too, operator.featureGates",
        ),
        Check(
            Level.NOTE,
            "JobSet",
            "its controller exists already, in namespace kubeflow-system: set `jobset.enabled: false` in the "
            "stack file, so that there are not two",
        ),
    )


# --- TrainJobs --------------------------------------------------------------


def ended(kind):
    condition = {"type": kind, "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "t"}
    return trainjob(status={"conditions": [condition]})


SNAPSHOT = Runtime("ClusterTrainingRuntime", "rt", None, "", PLAIN.spec)

FATES = {
    "a running one goes on": (
        foreign(js=jobset(), rt=SNAPSHOT, snapshot=True),
        State.RUNNING,
        Level.FINE,
        "continues: JobSet js-uid and its pods are not touched",
    ),
    "a running one goes on though its runtime is gone": (
        foreign(js=jobset(), rt=RuntimeProblem.NOT_FOUND, lost=True),
        State.RUNNING,
        Level.FINE,
        "continues: JobSet js-uid and its pods are not touched",
    ),
    "a suspended one is built from what Trainer kept": (
        foreign(trainjob({"suspend": True}), jobset(suspend=True), SNAPSHOT, snapshot=True),
        State.SUSPENDED,
        Level.FINE,
        "keeps JobSet js-uid, and starts when resumed, from the runtime that ConfigMap tj-runtime-snapshot "
        "keeps",
    ),
    "a suspended one whose runtime was not kept": (
        foreign(trainjob({"suspend": True}), jobset(suspend=True), lost=True),
        State.SUSPENDED,
        Level.NOTE,
        "keeps JobSet js-uid, and starts when resumed, from its runtime as it is now",
    ),
    "a finished one stays": (
        foreign(ended("Complete"), jobset()),
        State.FINISHED,
        Level.FINE,
        "stays as it is, and never restarts",
    ),
    "one that waits gets its JobSet": (
        foreign(),
        State.WAITING,
        Level.FINE,
        "gets its JobSet from Trainyard",
    ),
    "one of MultiKueue stays there": (
        foreign(trainjob({"managedBy": "kueue.x-k8s.io/multikueue"})),
        State.ELSEWHERE,
        Level.FINE,
        "stays with kueue.x-k8s.io/multikueue",
    ),
    "one that Trainyard cannot build is said to be blocked": (
        foreign(rt=runtime({"flux": {}})),
        State.WAITING,
        Level.NOTE,
        "would be blocked: ",
    ),
}


@pytest.mark.parametrize("case", FATES)
def test_what_becomes_of_a_trainjob(case):
    job, state, level, words = FATES[case]
    [fate] = adopt.adopt(observed(jobs=[job])).fates
    assert fate.becomes.startswith(words), fate
    assert fate == Fate("team", "tj", state, fate.becomes, level)
    assert words.endswith(": ") or fate.becomes == words


# --- steps ------------------------------------------------------------------


def test_what_is_there_is_kept_then_handed_over_and_the_controller_goes_last():
    fields = [entry("kubectl"), entry("gate", time="2026-01-02T00:00:00Z", fields={"f:webhooks": {}})]
    plan = adopt.adopt(
        observed(objects=[*CRDS, public(), webhooks(managedFields=fields, annotations={"a": "b"})])
    )
    keep, hand_over, scale = plan.steps
    assert isinstance(keep, Keep)
    assert keep.manifest["data"]["replicas"] == "1"
    before = list(yaml.safe_load_all(keep.manifest["data"]["before.yaml"]))
    assert before[1]["metadata"] == {"name": "validator.trainer.kubeflow.org", "annotations": {"a": "b"}}
    assert [one["kind"] for one in before] == ["ConfigMap", "ValidatingWebhookConfiguration"]
    ref = Ref(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "",
        "validator.trainer.kubeflow.org",
    )
    assert hand_over == HandOver(ref, "w", "6", ("kubectl", "gate"), handed_over(fields))
    controller = Ref("apps/v1", "Deployment", NAMESPACE, "kubeflow-trainer-controller-manager")
    assert scale == Scale(controller, "u", 1, 0)


def asked(name, resource, service="kubeflow-trainer-controller-manager", policy="Fail"):
    return {
        "name": name,
        "failurePolicy": policy,
        "clientConfig": {"service": {"name": service, "namespace": NAMESPACE}},
        "rules": [{"resources": [resource]}],
    }


def test_trainers_webhooks_let_runtimes_pass_before_runtimes_change_hands_and_nothing_else() -> None:
    """With nobody to answer them `pulumi up` could not write the catalog, which it does first."""
    hooks = {
        **webhooks(managedFields=[entry("kubectl")]),
        "webhooks": [
            asked("jobs", "trainjobs"),
            asked("runtimes", "clustertrainingruntimes"),
            asked("all", "*"),
            asked("of-others", "clustertrainingruntimes", service="others"),
            asked("passes", "clustertrainingruntimes", policy="Ignore"),
        ],
    }
    rt = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "rt", "uid": "rt", "resourceVersion": "7", "managedFields": [entry("kubectl")]},
    }
    plan = adopt.adopt(observed(objects=[*CRDS, public(), hooks, rt], record=record()))
    hand_over, let_pass, runtime_too, scale = plan.steps
    ref = hand_over.ref
    assert let_pass == LetPass(ref, "w", {1: "runtimes", 2: "all"})
    assert str(let_pass) == (
        "let runtimes be written while nothing serves runtimes, all of ValidatingWebhookConfiguration "
        "validator.trainer.kubeflow.org"
    )
    assert [type(runtime_too), runtime_too.ref.name, type(scale)] == [HandOver, "rt", Scale]


def test_what_a_webhook_was_told_is_not_handed_over_and_not_told_again() -> None:
    told = entry("trainyard-adopt-webhooks", fields={"f:webhooks": {"f:failurePolicy": {}}})
    hooks = webhooks(managedFields=[entry("trainyard-platform", "Apply"), told])
    hooks["webhooks"] = [asked("runtimes", "clustertrainingruntimes", policy="Ignore")]
    plan = adopt.adopt(observed(deployment(0), [*CRDS, public(), hooks], record=record()))
    assert plan.steps == ()


def test_what_broke_off_goes_on_and_what_is_done_is_not_done_again():
    controller = Ref("apps/v1", "Deployment", NAMESPACE, "kubeflow-trainer-controller-manager")
    half = observed(deployment(0), record=record(public()), working={controller})
    assert adopt.adopt(half).steps == (Scale(controller, "u", 0, 0),)
    assert adopt.adopt(observed(deployment(0), record=record(public()))).steps == ()


def test_fields_change_hands_whole_with_the_time_of_the_latest_and_not_those_of_the_status():
    status = entry("controller", subresource="status")
    mine, other = handed_over(
        [
            entry("helm", fields={"f:spec": {"f:a": {}, "f:b": {"f:c": {}}}}),
            entry("hand", time="2026-01-03T00:00:00Z", fields={"f:spec": {"f:b": {"f:d": {}}}}),
            status,
        ]
    )
    assert mine == {
        **entry("trainyard-platform", "Apply", time="2026-01-03T00:00:00Z"),
        "fieldsV1": {"f:spec": {"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}},
    }
    assert other == status
    assert owners([mine, other]) == ()


def test_what_our_operator_has_written_stays_its_own() -> None:
    bundle = entry("trainyard", fields={"f:webhooks": {"f:caBundle": {}}})
    assert owners([bundle]) == ()
    assert handed_over([entry("kubectl"), bundle]) == (entry("trainyard-platform", "Apply"), bundle)


# --- back -------------------------------------------------------------------


def test_back_needs_what_was_kept():
    plan = adopt.give_back(observed())
    words = "there is no ConfigMap kubeflow-system/trainyard-adoption: nothing has been taken over here"
    assert (plan.checks, plan.refused) == ((Check(Level.STOP, "record", words),), True)


def test_back_refuses_a_record_that_it_cannot_read():
    assert adopt.give_back(observed(record=record(replicas="many"))).refused


def test_back_deletes_the_policies_when_trainer_works_and_only_its_runtimes_are_left():
    before = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"kubeflow_trainer_version": "v2.3.0"}}
    before["metadata"] = {"name": "kubeflow-trainer-public", "namespace": NAMESPACE}
    hooks = {key: value for key, value in webhooks().items() if key != "metadata"}
    hooks["metadata"] = {"name": "validator.trainer.kubeflow.org"}
    own = deployment(2, name="trainyard-operator", namespace="trainyard-system")
    kept = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "rt"},
        "spec": {},
    }
    plan = adopt.give_back(
        observed(
            deployment(0),
            [public("v2.3.1"), webhooks("trainyard-operator")],
            own=own,
            record=record(before, kept, hooks),
            policy_bindings=[binding("exempting-label.policy.trainyard.dev")],
        )
    )
    assert [str(step) for step in plan.steps] == [
        "write ConfigMap kubeflow-system/kubeflow-trainer-public as it was before",
        "scale Deployment trainyard-system/trainyard-operator from 2 to 0, and wait until its pods are gone",
        "write ValidatingWebhookConfiguration validator.trainer.kubeflow.org as it was before",
        "scale Deployment kubeflow-system/kubeflow-trainer-controller-manager from 0 to 2, and wait until "
        "it is ready",
        "delete ValidatingAdmissionPolicyBinding exempting-label.policy.trainyard.dev: "
        "a policy of the platform",
        "create ClusterTrainingRuntime rt as it was before",
        "delete ConfigMap kubeflow-system/trainyard-adoption: everything is as it was before",
    ]


def test_back_leads_no_webhook_to_our_operator_where_it_was_there_before_trainers_manifests():
    hooks = {**webhooks(), "metadata": {"name": "validator.trainer.kubeflow.org"}}
    both = {**hooks, "webhooks": [*hooks["webhooks"], *webhooks("trainyard-operator")["webhooks"]]}
    plan = adopt.give_back(observed(deployment(0), [], record=record(both)))
    assert plan.steps[0] == Put(hooks)


def test_back_creates_what_a_destroyed_stack_took_away():
    hooks = {**webhooks(), "metadata": {"name": "validator.trainer.kubeflow.org"}}
    plan = adopt.give_back(observed(deployment(0), [], record=record(hooks)))
    assert plan.steps[0] == Put(hooks)
    assert plan.next_steps == ()


def test_back_leaves_trainer_the_runtime_of_a_job_that_started_with_trainyard():
    job = foreign(js=jobset(), rt=packed(PLAIN))
    plan = adopt.give_back(observed(deployment(0), [], record=record(), jobs=[job]))
    put = plan.steps[0]
    assert isinstance(put, Put)
    metadata = put.manifest["metadata"]
    assert (metadata["name"], metadata["ownerReferences"][0]["uid"]) == ("tj-runtime-snapshot", "job-uid")
    kept = yaml.safe_load(put.manifest["data"]["runtime"])
    assert (kept["kind"], kept["metadata"], kept["spec"]) == (
        "ClusterTrainingRuntime",
        {"name": "rt"},
        PLAIN.spec,
    )


LOST = {
    "whose ConfigMap is another's": (
        {"occupied": True},
        "ConfigMap team/tj-runtime-snapshot exists, and is no snapshot of its runtime; to keep one, delete "
        "that first",
    ),
    "whose runtime is too large for it": (
        {"rt": replace(PLAIN, spec={"text": "x" * 262_144})},
        "its runtime is too large for ConfigMap team/tj-runtime-snapshot",
    ),
    "whose runtime is gone": (
        {"rt": RuntimeProblem.NOT_FOUND},
        "the runtime that it started with is not known: RuntimeNotFound",
    ),
}


@pytest.mark.parametrize(("job", "why"), LOST.values(), ids=LOST)
def test_back_is_not_stopped_by_a_job_that_loses_its_snapshot(job, why):
    plan = adopt.give_back(observed(deployment(0), [], record=record(), jobs=[foreign(js=jobset(), **job)]))
    words = "TrainJob team/tj gets no snapshot of its runtime, so Trainer uses the runtime as it then is: "
    assert plan.checks[1:] == (Check(Level.NOTE, "TrainJobs", words + why),)
    assert [type(step).__name__ for step in plan.steps] == ["Scale", "Delete"]
    assert not plan.refused


def test_back_tells_of_a_job_that_it_cannot_read():
    plan = adopt.give_back(observed(deployment(0), [], record=record(), unreadable=["team/odd"]))
    words = "TrainJob team/odd gets no snapshot of its runtime, so Trainer uses the runtime as it then is: "
    assert plan.checks[1:] == (Check(Level.NOTE, "TrainJobs", f"{words}it cannot be read"),)
