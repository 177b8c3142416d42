"""Runtimes with what a stack has for them: storage, accelerators, a data cache; pure."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainyard_api import names
from trainyard_api.json_types import Manifest, copied
from trainyard_api.names import StorageRole
from trainyard_api.similar import hint

from ..errors import PlatformError
from ..stack import accelerators
from ..stack.accelerators import Accelerator, AcceleratorKind
from ..stack.data_cache import DataCache
from ..stack.storage import ObjectStore, Storage, class_name
from . import overlay
from .files import Runtime


def stored(runtime: Runtime, storage: Storage) -> Runtime:
    """The runtime with the StorageClass of each claim's role, and the object store in its containers.

    Raises:
        PlatformError: If a claim names a role that does not exist.
    """
    manifest = copied(runtime.manifest)
    jobset = manifest["spec"]["template"]["spec"]
    for claim in _claims(jobset):
        role = _role(runtime.name, claim)
        settings = storage.of(role) if role else None
        if role and settings:
            claim["spec"] = {**claim.get("spec", {}), "storageClassName": class_name(role, settings)}
    if storage.object_store:
        for container in _containers(jobset):
            _add_variables(container, _variables(storage.object_store))
    return replace(runtime, manifest=manifest)


def _claims(jobset: Manifest) -> Iterator[Manifest]:
    for policy in jobset.get("volumeClaimPolicies", []):
        yield from policy.get("templates", [])


def _role(runtime: str, claim: Manifest) -> StorageRole | None:
    metadata = claim.get("metadata", {})
    role = metadata.get("annotations", {}).get(names.STORAGE_ANNOTATION)
    if role is None:
        return None
    roles = [str(role) for role in StorageRole]
    if role not in roles:
        raise PlatformError(
            f"the runtime {runtime!r}: the claim {metadata.get('name')!r} has the annotation "
            f"{names.STORAGE_ANNOTATION}: {role}; the roles are {' and '.join(roles)}{hint(role, roles)}"
        )
    return StorageRole(role)


def _containers(jobset: Manifest) -> Iterator[Manifest]:
    """The containers that load or train."""
    for job in jobset["replicatedJobs"]:
        is_whole = overlay.step(job) or job["name"] == names.NODE
        for container in job["template"]["spec"]["template"]["spec"]["containers"]:
            # Elsewhere `node` trains too: a chief, which writes checkpoints, or a parameter server.
            if is_whole or container["name"] == names.NODE:
                yield container


def _variables(store: ObjectStore) -> dict[str, str]:
    """The variables for a container, which the AWS SDKs read.

    Initializers read ENDPOINT and REGION before them: those of a Secret, which a variable of the same name
    would hide.
    """
    region = {"AWS_REGION": store.region} if store.region else {}
    return {"AWS_ENDPOINT_URL_S3": store.endpoint, **region}


def _add_variables(container: Manifest, variables: Mapping[str, str]) -> None:
    existing = {entry["name"] for entry in container.get("env", [])}
    added = [{"name": name, "value": value} for name, value in variables.items() if name not in existing]
    if added:
        container["env"] = [*container.get("env", []), *added]


def equipped(runtime: Runtime, stack: Mapping[AcceleratorKind, Accelerator]) -> Runtime:
    """The runtime, with what their accelerators need in the environment of the training containers.

    A TrainJob may add any accelerator to a container that requests none, so that container gets the
    variables of all kinds.
    """
    offers = {kind: accelerators.resources(kind, accelerator) for kind, accelerator in stack.items()}
    manifest = copied(runtime.manifest)
    for container in overlay.training_containers(manifest):
        limits = set((container.get("resources") or {}).get("limits") or {})
        requested = [kind for kind, resources in offers.items() if limits.intersection(resources)]
        environment: dict[str, str] = {}
        for kind in requested or stack:
            environment |= {**accelerators.facts()[kind].environment, **stack[kind].environment}
        _add_variables(container, environment)
    return replace(runtime, manifest=manifest)


def starts_cache(runtime: Runtime) -> bool:
    """Whether the runtime's initializer starts a cache in the cluster."""
    return any(
        entry.get("name") == names.CACHE_IMAGE
        for job in runtime.manifest["spec"]["template"]["spec"]["replicatedJobs"]
        for container in job["template"]["spec"]["template"]["spec"]["containers"]
        for entry in container.get("env") or []
    )


def cached(runtime: Runtime, settings: DataCache) -> Runtime:
    """The runtime, with the images that the stack has for caches in place of those that its file names."""
    if not starts_cache(runtime):
        return runtime
    manifest = copied(runtime.manifest)
    for container in _containers(manifest["spec"]["template"]["spec"]):
        for entry in container.get("env") or []:
            if entry.get("name") == names.CACHE_IMAGE:
                entry["value"] = settings.cache_image or entry.get("value")
                container["image"] = settings.initializer_image or container["image"]
    return replace(runtime, manifest=manifest)
