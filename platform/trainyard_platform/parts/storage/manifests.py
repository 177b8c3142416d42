"""From a stack's storage to its StorageClasses, and to runtimes that use it: pure."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainyard_api import names
from trainyard_api.closed import nearest
from trainyard_api.names import StorageRole

from ...catalog.files import Runtime
from ...errors import PlatformError
from ...objects.manifest import Manifest
from .settings import ObjectStore, Storage, StorageClass


def class_name(role: StorageRole, settings: StorageClass) -> str:
    """The StorageClass of a role: the cluster's own, or the platform's."""
    return settings.class_name or f"trainyard-{role}"


def storage_classes(storage: Storage) -> list[Manifest]:
    """The StorageClasses that the platform creates."""
    return [
        _storage_class(role, settings)
        for role in StorageRole
        if (settings := storage.of(role)) and settings.provisioner
    ]


def stored(runtime: Runtime, storage: Storage) -> Runtime:
    """The runtime with the StorageClass of each claim's role, and the object store in its containers.

    Raises:
        PlatformError: If a claim names a role that does not exist.
    """
    manifest = copy.deepcopy(runtime.manifest)
    jobset = manifest["spec"]["template"]["spec"]
    for claim in _claims(jobset):
        role = _role(runtime.name, claim)
        settings = storage.of(role) if role else None
        if role and settings:
            claim["spec"] = {**claim.get("spec", {}), "storageClassName": class_name(role, settings)}
    if storage.object_store:
        for container, step in _containers(jobset):
            _tell(container, _variables(storage.object_store, step))
    return replace(runtime, manifest=manifest)


def _storage_class(role: StorageRole, settings: StorageClass) -> Manifest:
    optional = {"parameters": dict(settings.parameters), "mountOptions": list(settings.mount_options)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": class_name(role, settings)},
        "provisioner": settings.provisioner,
        "reclaimPolicy": str(settings.reclaim_policy),
        "volumeBindingMode": str(settings.volume_binding_mode),
        "allowVolumeExpansion": settings.allow_volume_expansion,
        **{key: value for key, value in optional.items() if value},
    }


def _claims(jobset: Manifest) -> Iterator[Manifest]:
    for policy in jobset.get("volumeClaimPolicies", []):
        yield from policy.get("templates", [])


def _role(runtime: str, claim: Manifest) -> StorageRole | None:
    metadata = claim.get("metadata", {})
    role = metadata.get("annotations", {}).get(names.STORAGE_ANNOTATION)
    if role is None:
        return None
    roles = [str(one) for one in StorageRole]
    if role not in roles:
        raise PlatformError(
            f"the runtime {runtime!r}: the claim {metadata.get('name')!r} has the annotation "
            f"{names.STORAGE_ANNOTATION}: {role}; the roles are {' and '.join(roles)}{nearest(role, roles)}"
        )
    return StorageRole(role)


def _containers(jobset: Manifest) -> Iterator[tuple[Manifest, str | None]]:
    """The containers that load or train, with their step."""
    for job in jobset["replicatedJobs"]:
        template = job["template"]
        step = template.get("metadata", {}).get("labels", {}).get(names.ANCESTOR_LABEL)
        if step or job["name"] == names.NODE:
            for container in template["spec"]["template"]["spec"]["containers"]:
                yield container, step


def _variables(store: ObjectStore, step: str | None) -> dict[str, str]:
    """The variables for a container: initializers have names of their own, trainers those of the AWS SDKs."""
    initializes = step in names.INITIALIZERS
    endpoint, region = ("ENDPOINT", "REGION") if initializes else ("AWS_ENDPOINT_URL_S3", "AWS_REGION")
    return {endpoint: store.endpoint, **({region: store.region} if store.region else {})}


def _tell(container: Manifest, variables: Mapping[str, str]) -> None:
    known = {entry["name"] for entry in container.get("env", [])}
    added = [{"name": name, "value": value} for name, value in variables.items() if name not in known]
    if added:
        container["env"] = [*container.get("env", []), *added]
