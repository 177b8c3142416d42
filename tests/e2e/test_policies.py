"""The policy pack in `pulumi preview`: what a stack may do, what it may not, and what is repaired."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.checked_in import hold
from tests.support.cluster import Cluster, Object, runtime, trainjob
from trainyard_policies.shapes import check, generate

pytestmark = pytest.mark.sandbox(area="policies")

POD = "spec.template.spec.replicatedJobs[0].template.spec.template.spec"


@pytest.mark.core
def test_the_shapes_that_are_checked_in_are_those_of_the_cluster(platform: Cluster) -> None:
    crds = json.loads(platform.kubectl("get", "customresourcedefinitions", "-o", "json"))["items"]
    batch = json.loads(platform.kubectl("get", "--raw", "/openapi/v3/apis/batch/v1"))
    hold(Path(check.__file__).with_name("shapes.json"), generate.text(generate.document(crds, batch)))


def preview(bare: Cluster, name: str, changes: dict[str, Any], *arguments: str) -> tuple[int, str]:
    """Exit code and words of a preview with the pack, of the sandbox's stack with changes."""
    document = bare.stack()
    settings = document["config"]["trainyard:platform"]
    settings["policies"] = changes["policies"]
    settings["runtimes"]["torch-distributed"] |= changes["runtime"]
    stack = bare.sandbox.instance.dir / f"{name}.yaml"
    stack.write_text(yaml.safe_dump(document))
    answer = bare.pulumi(
        "preview", "--stack", "sandbox", "--config-file", str(stack), "--policy-pack", "policies", *arguments,
        check=False,
    )  # fmt: skip
    return answer.returncode, answer.stdout + answer.stderr


@pytest.mark.core
def test_jobs_that_kubernetes_would_refuse_are_refused_with_their_trainjob_and_their_runtime(
    platform: Cluster,
) -> None:
    """In the words of the API server's own validation, which no rule of ours repeats."""
    wrong = {"key": "nvidia.com/gpu", "operator": "Exists", "value": "b"}
    why = "spec.tolerations[0].operator: Invalid value"
    place = "spec.template.spec.replicatedJobs[0].template.spec.template"
    for sent, said in (
        (tolerating(wrong), f"Job node: spec.template.{why}"),
        (runtime("hopeless", pod={"tolerations": [wrong]}), f"{place}.{why}"),
    ):
        answer = platform.run("kubectl", "create", "-f", "-", check=False, stdin=json.dumps(sent))
        assert answer.returncode == 1
        assert f"Kubernetes would refuse the Jobs: {said}" in answer.stderr
    platform.apply(tolerating({"key": "nvidia.com/gpu", "operator": "Exists"}))
    platform.kubectl("delete", "trainjob", "hopeless")


@pytest.mark.jobset_queues
def test_a_jobset_that_webhooks_would_refuse_is_refused_with_its_runtime_and_its_trainjob(
    platform: Cluster,
) -> None:
    """A gate of JobSet's that is off, a time that Kueue does not take: no rule of ours knows of either."""
    sent = runtime("in-place")
    sent["spec"]["template"]["spec"]["failurePolicy"] = {"restartStrategy": "InPlaceRestart"}
    timeless = trainjob("timeless")
    limit = "kueue.x-k8s.io/max-exec-time-seconds"
    timeless["metadata"] |= {
        "namespace": "team-a",
        "labels": {"kueue.x-k8s.io/queue-name": "default", limit: "0"},
    }
    for manifest, said in (
        (sent, "spec.template.spec: InPlaceRestart restart strategy cannot be set"),
        (timeless, f"metadata.labels[{limit}]: Invalid value"),
    ):
        answer = platform.run("kubectl", "create", "-f", "-", check=False, stdin=json.dumps(manifest))
        assert answer.returncode == 1
        assert f"Kubernetes would refuse the JobSet: {said}" in answer.stderr
    sent["spec"]["template"]["spec"]["failurePolicy"] = {"restartStrategy": "BlockingRecreate"}
    platform.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(sent))


def tolerating(toleration: dict[str, str]) -> Object:
    """A suspended TrainJob that patches a toleration into its pods."""
    job = {"name": "node", "template": {"spec": {"template": {"spec": {"tolerations": [toleration]}}}}}
    patch = {
        "manager": "example.com/taints",
        "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
    }
    return trainjob("hopeless", suspend=True, runtimePatches=[patch])


def test_a_stack_whose_levels_it_does_not_meet_is_refused(bare: Cluster) -> None:
    config = bare.sandbox.instance.dir / "policy-config.json"
    config.write_text(json.dumps({"node-bounds": {"enforcementLevel": "mandatory", "maxNodes": 8}}))
    changes = {
        "policies": {
            "levels": {"runtimes": {"run-as-non-root": "mandatory", "image-digest": "disabled"}},
            "parameters": {"registries": ["docker.io/trainyard"]},
        },
        "runtime": {"image": "docker.io/library/train:latest"},
    }
    code, said = preview(bare, "refused", changes, "--policy-pack-config", str(config))
    assert code != 0, said
    for expected in (
        f"{POD}.containers[0].image: must not have the tag latest",
        f"{POD}.containers[0].image: must come from an allowed registry (docker.io/trainyard)",
        f"{POD}.containers[0].securityContext: should set runAsNonRoot: true",
        "[mandatory] [severity: medium]  run-as-non-root",
        "[advisory] [severity: medium]  resources-declared",
    ):
        assert expected in said, said
    assert "]  image-digest" not in said
    assert "]  node-bounds" not in said
    assert "Traceback" not in said


def test_what_a_rule_can_repair_is_repaired_on_the_way_to_the_cluster(bare: Cluster) -> None:
    # Without a queue in front of it; Kueue adds the tolerations of those that have one.
    pool = {
        "name": "mi300",
        "resources": {"amd.com/gpu": "8"},
        "taints": [{"key": "amd.com/gpu", "value": "present"}],
    }
    changes = {
        "policies": {
            "levels": {"runtimes": {"pool-match": "remediate"}},
            "parameters": {"pools": [pool]},
        },
        "runtime": {"resources": {"amd.com/gpu": "1"}},
    }
    code, said = preview(bare, "repaired", changes, "--diff")
    assert code == 0, said
    assert "[remediate]" in said, said
    assert "tolerations" in said, said
