"""Storage by role: a stack's StorageClasses, and the claims of the catalog that get them."""

import json
from typing import Any

import pytest

from tests.support.program import ROOT
from trainyard_api import names
from trainyard_platform.catalog import equipment
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog.files import Runtime
from trainyard_platform.errors import PlatformError
from trainyard_platform.parts.storage import manifests as storage_manifests
from trainyard_platform.stack import settings
from trainyard_platform.stack.storage import Storage

EFS = {
    "provisioner": "efs.csi.aws.com",
    "parameters": {"provisioningMode": "efs-ap"},
    "mountOptions": ["tls"],
    "reclaimPolicy": "Retain",
    "volumeBindingMode": "Immediate",
    "allowVolumeExpansion": False,
}
STORE = {"endpoint": "https://s3.example.com", "region": "here"}


def storage(**given: Any) -> Storage:
    return Storage.model_validate(given)


def claim(role: str | None, **spec: Any) -> dict[str, Any]:
    annotations = {"annotations": {"trainyard.dev/storage": role}} if role else {}
    return {"metadata": {"name": "data", **annotations}, "spec": {"accessModes": ["ReadWriteMany"], **spec}}


def job(
    name: str, step: str | None, env: list[Any] | None = None, container_name: str | None = None
) -> dict[str, Any]:
    labels = {"metadata": {"labels": {names.ANCESTOR_LABEL: step}}} if step else {}
    container = {"name": container_name or name, **({"env": env} if env else {})}
    return {
        "name": name,
        "template": {**labels, "spec": {"template": {"spec": {"containers": [container]}}}},
    }


def runtime(claims: list[Any], jobs: list[Any]) -> Runtime:
    spec = {"volumeClaimPolicies": [{"templates": claims}], "replicatedJobs": jobs}
    return Runtime(name="r", framework="torch", manifest={"spec": {"template": {"spec": spec}}})


def test_a_role_with_a_provisioner_is_a_storage_class_of_its_name() -> None:
    assert storage_manifests.storage_classes(
        storage(shared=EFS, scratch={"provisioner": "ebs.csi.aws.com"})
    ) == [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "trainyard-shared"},
            "provisioner": "efs.csi.aws.com",
            "parameters": {"provisioningMode": "efs-ap"},
            "mountOptions": ["tls"],
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": False,
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "trainyard-scratch"},
            "provisioner": "ebs.csi.aws.com",
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
        },
    ]


def test_a_class_that_is_there_is_not_made() -> None:
    assert storage_manifests.storage_classes(storage(shared={"className": "efs"})) == []


def test_claims_get_the_class_of_their_role_and_others_stay_as_they_are() -> None:
    claims = [
        claim("shared"),
        claim("scratch"),
        claim(None),
        claim("shared", storageClassName="cluster-default"),
    ]
    has = storage(shared=EFS, scratch={"className": "local-path"})
    assert equipment.stored(runtime(claims, []), has) == runtime(
        [
            claim("shared", storageClassName="trainyard-shared"),
            claim("scratch", storageClassName="local-path"),
            claim(None),
            claim("shared", storageClassName="trainyard-shared"),
        ],
        [],
    )


def test_a_role_that_the_stack_says_nothing_about_is_the_default_storage_class() -> None:
    asks = runtime([claim("shared"), claim("scratch")], [])
    assert equipment.stored(asks, storage()) == asks


def test_a_role_that_there_is_not_is_refused() -> None:
    with pytest.raises(PlatformError) as stopped:
        equipment.stored(runtime([claim("sharde")], []), storage())
    assert str(stopped.value) == (
        "the runtime 'r': the claim 'data' has the annotation trainyard.dev/storage: sharde; "
        "the roles are shared and scratch; did you mean shared?"
    )


def test_whoever_loads_or_trains_is_told_the_object_store_in_the_words_of_the_sdks() -> None:
    own = [{"name": "AWS_REGION", "value": "elsewhere"}]
    jobs = [
        job("dataset-initializer", "dataset-initializer"),
        job("launcher", "trainer"),
        job("node", None, own),
        job("chief", None, container_name="node"),
        job("sidekick", None),
    ]
    told = equipment.stored(runtime([], jobs), storage(objectStore=STORE))
    endpoint = {"name": "AWS_ENDPOINT_URL_S3", "value": "https://s3.example.com"}
    both = [endpoint, {"name": "AWS_REGION", "value": "here"}]
    assert told == runtime(
        [],
        [
            job("dataset-initializer", "dataset-initializer", both),
            job("launcher", "trainer", both),
            job("node", None, [*own, endpoint]),
            job("chief", None, both, container_name="node"),
            job("sidekick", None),
        ],
    )


@pytest.mark.parametrize("path", sorted((ROOT / "runtimes").glob("*/*.yaml")), ids=lambda path: path.stem)
def test_every_training_container_of_the_catalog_gets_the_object_store(path: Any) -> None:
    told = equipment.stored(catalog.read(path), storage(objectStore=STORE))
    variables = [
        {entry["name"] for entry in container.get("env", [])}
        for job in told.manifest["spec"]["template"]["spec"]["replicatedJobs"]
        for container in job["template"]["spec"]["template"]["spec"]["containers"]
        if container["name"] == names.NODE
    ]
    assert variables
    assert all({"AWS_ENDPOINT_URL_S3", "AWS_REGION"} <= of_one for of_one in variables)


@pytest.mark.parametrize("path", sorted((ROOT / "runtimes").glob("*/*.yaml")), ids=lambda path: path.stem)
def test_every_claim_of_the_catalog_names_a_role_and_no_class(path: Any) -> None:
    asked = catalog.read(path)
    for policy in asked.manifest["spec"]["template"]["spec"].get("volumeClaimPolicies", []):
        for template in policy["templates"]:
            assert template["metadata"]["annotations"][names.STORAGE_ANNOTATION] in ("shared", "scratch")
            assert "storageClassName" not in template["spec"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs either className, of an existing StorageClass, or provisioner"),
        (
            {"className": "efs", "provisioner": "efs.csi.aws.com"},
            "needs either className, of an existing StorageClass, or provisioner",
        ),
        (
            {"className": "efs", "reclaimPolicy": "Retain"},
            "an existing StorageClass stays as it is: remove the keys besides className",
        ),
    ],
    ids=["nothing", "both", "one that is there, to be changed"],
)
def test_a_wrong_entry_is_one_sentence(given: dict[str, Any], message: str) -> None:
    base = {"operator": {"image": "docker.io/trainyard/operator:1"}}
    with pytest.raises(PlatformError) as stopped:
        settings.load(json.dumps({**base, "storage": {"shared": given}}), "demo")
    assert str(stopped.value) == (
        f"stacks/Pulumi.demo.yaml is not valid:\n  trainyard:platform.storage.shared: {message}"
    )
