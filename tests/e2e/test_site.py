"""docs/site.md on the sandbox: what of a site's stack file needs no cloud."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.cluster import Cluster, Object, sandbox_of_its_own, trainjob
from tests.support.patience import NOTICED, eventually
from tests.support.runs import record
from tests.support.site_stacks import stack_file
from trainyard_platform.catalog.runs import Place
from trainyard_sandbox.paths import PROJECT

pytestmark = pytest.mark.sandbox(area="platform")

CONTROL = ("example.com/role=control", "example.com/role=control:NoSchedule")
COUNTED = "count/trainjobs.trainer.kubeflow.org"
PLATFORMS = ("jobset-system", "kueue-system", "trainyard-system")


def stand_in() -> Object:
    """The CRD of ExternalSecrets, with the API server's word for its objects and nobody behind it."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "ExternalSecret", "plural": "externalsecrets", "singular": "externalsecret"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "externalsecrets.external-secrets.io"},
        "spec": {
            "group": "external-secrets.io",
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def without_a_cloud() -> Object:
    """The guide's stack file, where machines are simulated and images are the sandbox's."""
    document: Object = yaml.safe_load(stack_file())
    settings = document["config"]["trainyard:platform"]
    sandbox = yaml.safe_load((PROJECT / "stacks" / "Pulumi.sandbox.yaml").read_text())
    theirs = sandbox["config"]["trainyard:platform"]
    del settings["cluster"]["eks"]
    settings["artifacts"] = theirs["artifacts"]
    settings["accelerators"] = {kind: {"devicePlugin": "shipped"} for kind in settings["accelerators"]}
    pool = settings["nodePools"]["h100"]
    for key in ("reservation", "capacityType"):
        del pool[key]
    pool["provider"] = "kwok"
    pool["machine"] = {key: pool["machine"][key] for key in ("cpu", "memory", "resources")}
    pool["topology"] = [{**level, "nodes": 8} for level in pool["topology"][:1]]
    for part in ("jobset", "kueue", "operator"):
        settings[part] = {
            **settings[part],
            "resources": theirs[part]["resources"],
            "image": theirs[part]["image"],
        }
    for runtime in settings["runtimes"].values():
        runtime["image"] = theirs["runtimes"]["torch-distributed"]["image"]
        runtime["imagePullPolicy"] = "IfNotPresent"
    del settings["policies"]
    return document


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with sandbox_of_its_own("site") as cluster:
        (node,) = [one["metadata"]["name"] for one in cluster.list("nodes")]
        cluster.kubectl("label", "node", node, CONTROL[0])
        cluster.kubectl("taint", "node", node, CONTROL[1])
        cluster.apply(stand_in())
        yield cluster


def roll_out(site: Cluster, folder: Path) -> None:
    file = folder / "Pulumi.prod.yaml"
    file.write_text(yaml.safe_dump(without_a_cloud()))
    (folder / "Pulumi.yaml").write_text(yaml.safe_dump({"name": "trainyard", "runtime": "python"}))
    (folder / "state").mkdir()
    settings = (f"PULUMI_BACKEND_URL=file://{folder}/state", f"PULUMI_OPTION_CONFIG_FILE={file}")
    pulumi = ("env", *settings, "pulumi")
    site.run(*pulumi, "stack", "init", "prod", "--non-interactive", "--cwd", str(folder))
    site.run(*pulumi, "up", "--stack", "prod", "--yes", "--skip-preview", "--non-interactive")


def wait_until_jobs_are_counted(tenant: Cluster) -> None:
    """A kind that is younger than the quota is counted when Kubernetes looks at all quotas again."""

    def used() -> Object:
        quota = tenant.get("resourcequota", "tenant") or {}
        return dict(quota.get("status", {}).get("used", {}))

    eventually("TrainJobs are counted", lambda: COUNTED in used(), within=NOTICED)


def test_a_sites_stack_runs_on_its_control_nodes_and_trains_on_its_pool(
    site: Cluster, tmp_path: Path
) -> None:
    roll_out(site, tmp_path)
    for namespace in PLATFORMS:
        pods = site.within(namespace).list("pods")
        assert pods, namespace
        for pod in pods:
            spec = pod["spec"]
            assert spec["nodeSelector"]["example.com/role"] == "control", pod["metadata"]["name"]
            assert {"name": "registry"} in spec["imagePullSecrets"], pod["metadata"]["name"]
    names = "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {end}"
    fetched = site.kubectl("get", "externalsecrets", "--all-namespaces", "-o", names).split()
    teams = ("speech/registry", "vision/hugging-face", "vision/registry")
    assert {*fetched} == {*teams, *(f"{namespace}/registry" for namespace in PLATFORMS)}
    vision = site.within("vision")
    limits = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32"}
    job = trainjob("close", runtime="torch-efa")
    job["spec"]["trainer"] |= {"numNodes": 6, "resourcesPerNode": {"requests": limits, "limits": limits}}
    wait_until_jobs_are_counted(vision)
    vision.apply(job)
    vision.wait_for_condition("close", "Complete")
    # A simulated pod may end before the last one has its node, which may then be the same.
    pools = [pod["spec"]["nodeName"].rpartition("-")[0] for pod in vision.pods("close")]
    assert pools == ["h100"] * 6
    record(vision, "close", place=Place.SIMULATED)
    may = ("auth", "can-i", "create")
    who = ("--as=ada", "--as-group=vision-researchers")
    assert vision.kubectl(*may, "configmaps", *who).strip() == "yes"
    assert vision.kubectl(*may, "secrets", *who, check=False).strip() == "no"
    assert site.within("speech").kubectl(*may, "configmaps", *who, check=False).strip() == "no"


@pytest.mark.long
def test_a_stack_of_a_sites_own_is_previewed_and_rolled_out_on_a_sandbox_by_one_command() -> None:
    with sandbox_of_its_own("onprem") as cluster:
        on_it = ("trainyard", "sandbox", "exec", "--name", "onprem", "--stack", "onprem", "--", "make")
        preview = cluster.run(*on_it, "preview", "STACK=onprem")
        assert "onprem: " in preview.stdout
        assert " to create" in preview.stdout
        assert "nodePools: h100: simulated" in preview.stderr
        cluster.run(*on_it, "up", "STACK=onprem")
        vision = cluster.within("vision")
        wait_until_jobs_are_counted(vision)
        vision.apply(trainjob("first"))
        vision.wait_for_condition("first", "Complete")
        # The stack of the sandbox itself would own the same objects.
        refused = cluster.run(
            "trainyard", "sandbox", "exec", "--name", "onprem", "--stack", "eks", "--", "true", check=False
        )
        assert refused.returncode != 0
        assert "This sandbox has the stack 'onprem'" in refused.stderr
