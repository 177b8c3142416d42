"""Each cause is made for real, and `trainyard explain` names it once it is there."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.harness.selection import asked_for, core_if
from tests.support.cluster import Cluster, Object, scaled_down
from tests.support.patience import NOTICED, SOON, eventually, looks
from trainyard_policies.parameters import KUEUE

from .asked import Answer, ask, namespace
from .explained import CASES, GHOST, JOB, LABEL, Case, runtime, trainjob
from .life import unchecked

pytestmark = pytest.mark.sandbox(area="explain")

CORE = ("runtime", "suspended", "quota", "resource", "exits")
"""Causes, by the id of their case."""
GHOST_TAINT = {"key": "haunted", "value": "true", "effect": "NoSchedule"}


def held(platform: Cluster) -> dict[str, str]:
    """What each namespace holds, as text."""
    kinds = "trainjobs,jobs,pods,persistentvolumeclaims,events"
    found: dict[str, list[str]] = {}
    for item in json.loads(platform.kubectl("get", kinds, "--all-namespaces", "-o", "json"))["items"]:
        item["metadata"].pop("managedFields", None)
        found.setdefault(item["metadata"]["namespace"], []).append(json.dumps(item, ensure_ascii=False))
    return {namespace: "\n".join(texts) for namespace, texts in found.items()}


@contextmanager
def ghost(platform: Cluster) -> Iterator[None]:
    """A node without a kubelet, that was ready for a moment."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": GHOST, "labels": {LABEL: GHOST}},
        "spec": {"taints": [GHOST_TAINT]},
    }
    platform.apply(node)
    status = {
        "status": {
            "allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"},
            "capacity": {"cpu": "1", "memory": "1Gi", "pods": "10"},
        }
    }
    platform.kubectl("patch", "node", GHOST, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    try:
        yield
    finally:
        platform.kubectl("delete", "node", GHOST, "--wait=false")


@contextmanager
def no_jobsets(platform: Cluster) -> Iterator[None]:
    """An admission policy refuses the JobSets of namespaces with a label."""
    group = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rule = {
        "apiGroups": ["jobset.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["jobsets"],
    }
    selector = {"namespaceSelector": {"matchLabels": {LABEL: "no-jobsets"}}}
    policy = {
        **group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-jobsets"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "no JobSets here"}],
        },
    }
    binding = {
        **group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "no-jobsets"},
        "spec": {"policyName": "no-jobsets", "validationActions": ["Deny"], "matchResources": selector},
    }
    platform.apply(policy, binding)
    try:
        yield
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            platform.kubectl("delete", kind, "no-jobsets")


def made(case: Case, *, trainjobs: bool) -> list[Object]:
    objects = [case.trainjob] if trainjobs else [*case.beside, *([case.runtime] if case.runtime else [])]
    return [{**found, "metadata": {**found["metadata"], "namespace": case.namespace}} for found in objects]


@pytest.fixture(scope="module")
def answers(request: pytest.FixtureRequest, platform: Cluster) -> Iterator[dict[str, Answer]]:
    """What is said of each cause: as soon as it is named, or once it has been there for `WITHIN`.

    Of each that is asked for, and of those that other tests look at.
    """
    asked = asked_for(request, "case")
    cases = [case for case in CASES if case in asked or case.id in ("runtime", "resource")]
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": c.namespace, "labels": c.labels}}
        for c in cases
    ]
    try:
        with ghost(platform), no_jobsets(platform):
            platform.apply(*namespaces)
            # Some would be refused by the rules; they are to be explained where those are off.
            let_through(platform, *(found for case in cases for found in made(case, trainjobs=False)))
            [missing] = [case for case in cases if case.runtime is None]
            probe = {**missing.trainjob, "metadata": {"name": "probe", "namespace": missing.namespace}}
            with unchecked(platform, probe):
                platform.apply(*(found for case in cases for found in made(case, trainjobs=True)))
            yield collected(platform, cases)
    finally:
        names = [case.namespace for case in cases]
        platform.kubectl("delete", "namespaces", *names, "--wait=false", "--ignore-not-found")


def let_through(platform: Cluster, *manifests: Object) -> None:
    """Apply as a controller that the rules do not ask about."""
    kueue = ("--as", KUEUE, "--as-group", "system:masters")
    platform.kubectl("apply", "--server-side", *kueue, "-f", "-", stdin=yaml.safe_dump_all(manifests))


def collected(platform: Cluster, cases: list[Case]) -> dict[str, Answer]:
    there: dict[str, float] = {}
    answers: dict[str, Answer] = {}
    open_cases = {case.id: case for case in cases}
    for _ in looks(NOTICED):
        if not open_cases:
            break
        texts = held(platform)
        for case in list(open_cases.values()):
            if case.id not in there and re.search(case.evidence, texts.get(case.namespace, "")):
                there[case.id] = time.monotonic()
            asked = time.monotonic()
            answer = answers[case.id] = ask(platform, case.namespace)
            finding = answer.document["finding"] or {}
            named = (answer.document["state"], finding.get("cause")) == (case.state, case.cause)
            answer.there = case.id in there
            answer.late = asked - there.get(case.id, asked) > SOON.now
            if (named and answer.there) or answer.late:
                del open_cases[case.id]
    return answers


@pytest.mark.parametrize("case", core_if(lambda case: case.id in CORE, CASES), ids=lambda case: case.id)
def test_a_cause_is_named_with_its_object_and_the_next_step(case: Case, answers: dict[str, Answer]) -> None:
    answer = answers[case.id]
    found = answer.document["finding"] or {}
    shown = f"{answer.document['answer']}\n{json.dumps(found, indent=2)}"
    assert answer.there, f"the cause has not come about: {shown}"
    assert (answer.document["state"], found.get("cause")) == (case.state, case.cause), shown
    assert answer.code == (1 if case.cause else 0)
    if not found:
        return
    place = found["object"]["namespace"]
    named = f"{found['object']['kind']} {place + '/' if place else ''}{found['object']['name']}"
    for pattern, said in (
        (case.object, named),
        (case.message, found["message"]),
        (case.next_step.replace("-n {ns}", r"-n {ns} --kubeconfig \S+"), found["nextStep"]),
        (case.ranks, str(found["ranks"])),
    ):
        assert re.fullmatch(pattern.replace("{ns}", case.namespace), said), shown
    assert tuple(found["log"]) == case.log, shown


def asker(platform: Cluster, namespace: str, folder: Path, *resources: str) -> Path:
    """A kubeconfig of somebody who may get and list these resources of the namespace, and nothing else."""
    platform.kubectl("create", "serviceaccount", "asker", "-n", namespace)
    rights = [f"--resource={resource}" for resource in resources]
    platform.kubectl("create", "role", "asker", "-n", namespace, "--verb=get,list", *rights)
    who = f"--serviceaccount={namespace}:asker"
    platform.kubectl("create", "rolebinding", "asker", "-n", namespace, "--role=asker", who)
    token = platform.kubectl("create", "token", "asker", "-n", namespace).strip()
    config = yaml.safe_load(platform.sandbox.instance.kubeconfig.read_text())
    [context] = [c for c in config["contexts"] if c["name"] == config["current-context"]]
    context["context"] |= {"namespace": namespace, "user": "asker"}
    config["users"] = [{"name": "asker", "user": {"token": token}}]
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def test_what_the_asker_may_not_see_is_said_and_the_cause_named_all_the_same(
    platform: Cluster, answers: dict[str, Answer], tmp_path: Path
) -> None:
    rights = ("trainjobs.trainer.kubeflow.org", "pods", "jobs.batch")
    kubeconfig = asker(platform, "explain-resource", tmp_path, *rights)
    answer = platform.run("trainyard", "explain", JOB, "--kubeconfig", str(kubeconfig), check=False)
    assert (answer.returncode, answer.stderr) == (1, "")
    first, *rest = answer.stdout.splitlines()
    assert re.fullmatch(
        r"TrainJob explain-resource/job is held up: NoNodeFits: 0/10 nodes are available: "
        r".*Insufficient ephemeral-storage.* \(the pod asks for ephemeral-storage 900Ti\)",
        first,
    )
    unseen = {
        "runtime": "get trainingruntimes.trainer.kubeflow.org",
        "JobSet": "get jobsets.jobset.x-k8s.io",
        "nodes": "list nodes; your platform team can tell whether they are ready and have room",
        "PersistentVolumeClaims": "list persistentvolumeclaims",
        "events": "list events",
    }
    said = [line for line in rest if line.startswith("Could not see")]
    assert said == [f"Could not see the {what}: you are not allowed to {why}" for what, why in unseen.items()]
    refused = platform.run(
        "trainyard", "explain", JOB, "-n", "default", "--kubeconfig", str(kubeconfig),
        check=False,
    )  # fmt: skip
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "403 Forbidden" in refused.stderr


def test_a_job_that_is_not_there_cannot_be_asked_about(platform: Cluster) -> None:
    answer = platform.run("trainyard", "explain", "nobody", "-n", "default", check=False)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "TrainJob nobody is not found: namespace default has none of this name\n"


def created(platform: Cluster, place: str, *manifests: Object) -> None:
    """Create the objects in the namespace."""
    platform.apply(*({**m, "metadata": {**m["metadata"], "namespace": place}} for m in manifests))


def first_cause(platform: Cluster, place: str, kubeconfig: Path | None = None) -> str | None:
    finding = ask(platform, place, kubeconfig=kubeconfig).document["finding"]
    return finding and str(finding["cause"])


def test_a_jobset_controller_that_is_down_is_named_and_seen_by_its_absence_without_rights(
    platform: Cluster, tmp_path: Path
) -> None:
    with namespace(platform, "explain-jobset-down") as place:
        rights = ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io", "pods", "jobs.batch")
        kubeconfig = asker(platform, place, tmp_path, *rights)
        with scaled_down(platform, "jobset-system", "jobset-controller"):
            created(platform, place, runtime(), trainjob("true"))
            assert first_cause(platform, place) == "JobSetControllerDown"
            finding = ask(platform, place).document["finding"]
            assert finding["object"] == {
                "kind": "Deployment",
                "name": "jobset-controller",
                "namespace": "jobset-system",
            }
            assert finding["message"] == "it has no available pods (replicas: 0)"
            eventually("it is missed", lambda: first_cause(platform, place, kubeconfig) == "JobSetNotCreated")
        eventually("it completes", lambda: ask(platform, place).document["state"] == "Complete")


def test_an_operator_that_is_down_is_named(platform: Cluster) -> None:
    with namespace(platform, "explain-operator-down") as place:
        created(platform, place, runtime(), trainjob(suspend=True))
        eventually("it is suspended", lambda: first_cause(platform, place) == "Suspended")
        eventually(
            "its JobSet", lambda: "job" in platform.kubectl("get", "jobsets", "-n", place, "-o", "name")
        )
        with scaled_down(platform, "trainyard-system", "trainyard-operator"):
            assert first_cause(platform, place) == "Suspended"
            platform.kubectl("delete", "jobset", JOB, "-n", place)
            finding = ask(platform, place).document["finding"]
            assert (finding["cause"], finding["object"]) == (
                "OperatorNotRunning",
                {"kind": "Lease", "name": "trainyard-operator", "namespace": "trainyard-system"},
            )
            assert re.fullmatch(r"nobody holds it; it was last renewed \d+ s ago", finding["message"])
