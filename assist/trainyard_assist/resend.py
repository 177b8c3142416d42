"""The manifest that sends a TrainJob again: what its user wrote, without what a cluster has put into it.

Called by `trainyard retry`. Of what stands in a TrainJob, the API server, Kueue
and the operator's webhooks add these, and would add them again: metadata such
as the uid, `status`, `spec.managedBy` and `spec.suspend` where they are the
defaults, Kueue's entry in `spec.runtimePatches`, the times of these patches,
and the gate of a job that is sent suspended. The queue and the priority stay in the labels: the job returns
to its old queue. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainyard_api import names
from trainyard_api.json_types import Json, Manifest

from . import read
from .migrate import live
from .stops import held_by_kueue, is_sent_suspended

_TOOLS: Final = (
    "argocd.argoproj.io/",
    "helm.toolkit.fluxcd.io/",
    "kapp.k14s.io/",
    "kustomize.toolkit.fluxcd.io/",
    "meta.helm.sh/",
    "objectset.rio.cattle.io/",
)
"""Prefixes of the labels and annotations by which tools for GitOps and releases know their objects."""
_OF_TOOLS: Final = frozenset({"app.kubernetes.io/instance", "app.kubernetes.io/managed-by"})
"""Labels that they use for the same. Argo CD knows its objects by the first one, if it is set up so."""


def manifest(trainjob: Json, name: str | None = None) -> Manifest:
    """The TrainJob as its user wrote it.

    Args:
        trainjob: It, as the API server has it.
        name: Another name for it; None: its own.
    """
    wish = live.manifest(trainjob)
    metadata, spec = dict(live.mapping(wish.get("metadata"))), dict(live.mapping(wish.get("spec")))
    _put(metadata, "annotations", _annotations(trainjob))
    if name is not None:
        metadata["name"] = name
        for part in ("labels", "annotations"):
            _put(metadata, part, unmarked(read.texts(metadata, part)))
    _put(
        metadata,
        "finalizers",
        [name for name in metadata.get("finalizers") or () if name not in names.DELETION_FINALIZERS],
    )
    _put(metadata, "ownerReferences", [owner for owner in _owners(trainjob) if not owner.get("controller")])
    if spec.get("managedBy") == names.MANAGED_BY_TRAINER:
        del spec["managedBy"]
    if not read.suspended(trainjob) or (held_by_kueue(trainjob) and not is_sent_suspended(trainjob)):
        spec.pop("suspend", None)
    _put(spec, "runtimePatches", list(patches(trainjob)))
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": names.TRAINJOB,
        "metadata": metadata,
        "spec": spec,
    }


def refusal(trainjob: Json, name: str | None = None) -> str:
    """Why it cannot be sent again, as the end of a sentence; empty if it can.

    Args:
        trainjob: It, as the API server has it.
        name: The name that the new one gets; None: its own.
    """
    if any(
        names.PREBUILT_WORKLOAD in read.texts(trainjob, "metadata", part)
        for part in ("labels", "annotations")
    ):
        return "was sent by MultiKueue from another cluster: retry it there"
    owner = next((owner for owner in _owners(trainjob) if owner.get("controller") is True), None)
    if owner is not None and name is None:
        whose = f"{read.text(owner, 'kind')} {read.text(owner, 'name')}"
        return f"belongs to {whose}, which sends it: retry that, or send a job of your own with --name"
    return ""


def unmarked(entries: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations of a copy: without those by which a tool knows the objects that it manages.

    Such a tool would delete the copy, since its source does not contain it. `trainyard run` would take it for
    the last job of the folder that the first one was sent from, whoever has sent the copy.
    """
    marks = _OF_TOOLS | {names.FOLDER_LABEL}
    return {key: text for key, text in entries.items() if key not in marks and not key.startswith(_TOOLS)}


def mounted(trainjob: Json) -> list[tuple[str, str]]:
    """Kind and name of each Secret and ConfigMap that its patches mount into its pods."""
    volumes = [
        volume
        for patch in read.objects(trainjob, "spec", "runtimePatches")
        for job in read.objects(patch, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for volume in read.objects(job, "template", "spec", "template", "spec", "volumes")
    ]
    sources = [
        *volumes,
        *(source for volume in volumes for source in read.objects(volume, "projected", "sources")),
    ]
    named = [
        ("Secret", read.text(source, "secret", field))
        for source in sources
        for field in ("secretName", "name")
    ]
    named += [("ConfigMap", read.text(source, "configMap", "name")) for source in sources]
    return [(kind, name) for kind, name in dict.fromkeys(named) if name]


def owners(child: Json, old: Json, new: Json | None = None, *, shared: bool = False) -> list[Json]:
    """The owners of an object that goes from one TrainJob to another.

    Args:
        child: A Secret or a ConfigMap of the old TrainJob.
        old: That TrainJob.
        new: The TrainJob that is to own it; None: there is none yet.
        shared: The old one stays, and keeps it.
    """
    references = []
    for owner in _owners(child):
        is_old = owner.get("uid") == read.uid(old)
        if shared or not is_old:
            references.append(owner)
        if is_old and new is not None:
            references.append({**owner, "name": read.name(new), "uid": read.uid(new)})
    return references


def _annotations(trainjob: Json) -> Json:
    annotations = dict(read.texts(live.manifest(trainjob), "metadata", "annotations"))
    annotations.pop(names.QUEUE_GATES_ANNOTATION, None)
    if others := ",".join(gate for gate in read.gates_of(trainjob) if gate != names.SENT_SUSPENDED):
        annotations[names.QUEUE_GATES_ANNOTATION] = others
    return annotations


def patches(trainjob: Json) -> Iterator[Json]:
    """The patches of its user: not Kueue's, and without their times."""
    for patch in read.objects(trainjob, "spec", "runtimePatches"):
        if patch.get("manager") != names.KUEUES_PATCHES:
            yield {field: value for field, value in patch.items() if field != "time"}


def _owners(of: Json) -> list[Json]:
    return read.objects(of, "metadata", "ownerReferences")


def _put(into: dict[str, Any], field: str, value: Any) -> None:
    """Set the field, or remove it if there is nothing in it."""
    if value:
        into[field] = value
    else:
        into.pop(field, None)
