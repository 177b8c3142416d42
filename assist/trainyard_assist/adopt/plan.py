"""The steps of taking over and of giving back, from what was observed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from trainyard_api import documents, names
from trainyard_api.json_types import Json
from trainyard_operator.core.decide import reconcile, revisions
from trainyard_operator.core.model import Runtime, TrainJob
from trainyard_operator.core.status import conditions

from . import checks, model, ownership
from .model import Check, Delete, HandOver, Keep, LetPass, Level, Observed, Plan, Put, Scale, Step, ref_of

COMMAND: Final = "trainyard adopt"
_CRD: Final = "CustomResourceDefinition"
_RUNTIMES: Final = frozenset({names.CLUSTER_TRAINING_RUNTIMES, "*"})
"""How a webhook's rules name the catalog's kind."""
_CONTENT: Final = ("spec", "webhooks", "data", "rules", "roleRef", "subjects")
_KEPT_METADATA: Final = ("name", "namespace", "labels")
_OURS_ANNOTATIONS: Final = ("pulumi.com/", "kubectl.kubernetes.io/last-applied")


def adopt(observed: Observed, command: str = COMMAND) -> Plan:
    """The plan by which Trainyard takes over from Trainer's controller.

    `command` is the one that is called, with the options that lead to this cluster.
    """
    all_checks = tuple(checks.of(observed))
    fates = tuple(checks.fate(job, observed) for job in observed.jobs)
    if observed.controller is None:
        return Plan(False, all_checks, fates)
    steps: list[Step] = []
    if observed.record is None:
        steps.append(_keep(observed, observed.controller))
    # In this order: once Trainer's controller is gone, nothing serves its webhooks. A webhook's failurePolicy
    # changes after its handover, which needs the observed version, and before the runtimes' handover.
    for manifest in observed.objects:
        steps += _hand_over(manifest)
        steps += _let_pass(manifest, observed.namespace)
    steps += _scale(observed.controller, 0, observed.working)
    after = ("pulumi up --refresh", f"{command} --back, to give the cluster back")
    return Plan(False, all_checks, fates, tuple(steps), after)


def give_back(observed: Observed, command: str = COMMAND) -> Plan:
    """The plan by which Trainer's controller takes over again; `command` as of `adopt`."""
    controller, record = observed.controller, observed.record
    problem = _cannot_return(observed)
    if problem or controller is None or record is None:
        return Plan(True, (Check(Level.STOP, "record", problem),))
    before = model.recorded(record)
    if before is None:
        unreadable = f"ConfigMap {observed.namespace}/{model.RECORD} is not as `adopt` wrote it"
        return Plan(True, (Check(Level.STOP, "record", unreadable),))
    present = {ref_of(manifest): manifest for manifest in (*observed.objects, *observed.only_recorded)}
    manifests = {ref: _without_ours(manifest) for ref, manifest in before.objects.items()}
    changed = [
        _put(manifest, present.get(ref))
        for ref, manifest in manifests.items()
        if not _same(manifest, present.get(ref))
    ]
    kept, notes = _snapshots(observed)
    steps: list[Step] = list(kept)
    steps += [
        put
        for put in changed
        if put.manifest["kind"] not in names.RUNTIME_KINDS and "webhooks" not in put.manifest
    ]
    if observed.own is not None:
        steps += _scale(observed.own, 0, observed.working)
    steps += [put for put in changed if "webhooks" in put.manifest]
    steps += _scale(controller, before.replicas, observed.working)
    # The platform's policies go when everything that can stop has been done. Only Trainer's runtimes come
    # after them, which need not meet them; Trainer's webhooks check those.
    steps += [
        Delete(ref_of(binding), binding["metadata"]["uid"], "a policy of the platform")
        for binding in observed.policy_bindings
    ]
    steps += [put for put in changed if put.manifest["kind"] in names.RUNTIME_KINDS]
    steps.append(Delete(ref_of(record), record["metadata"]["uid"], "everything is as it was before"))
    fine = Check(Level.FINE, "record", f"what was there before is in {ref_of(record)}")
    return Plan(True, (fine, *notes), (), tuple(steps), _after_return(observed, command))


def _cannot_return(observed: Observed) -> str:
    where = f"{observed.namespace}/"
    if observed.controller is None:
        return f"there is no Deployment {where}{model.CONTROLLER} to go back to: install Trainer again"
    if observed.record is None:
        return f"there is no ConfigMap {where}{model.RECORD}: nothing has been taken over here"
    return ""


def _after_return(observed: Observed, command: str) -> tuple[str, ...]:
    if observed.own is None:
        return ()
    return (
        "do not run `pulumi up` or `pulumi destroy` on this stack now: both would take webhooks and runtimes "
        "away from Trainer",
        f"{command} --yes, then `pulumi up --refresh`, to take over again",
    )


def _keep(observed: Observed, controller: Json) -> Keep:
    before = [_kept(manifest) for manifest in observed.objects if manifest["kind"] != _CRD]
    data = {
        model.REPLICAS_KEY: str(_replicas(controller) or 1),
        model.RECORD_KEY: documents.dump(before),
    }
    metadata = {"name": model.RECORD, "namespace": observed.namespace}
    return Keep({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _kept(manifest: Json) -> Json:
    """The manifest to recreate the object, without fields that the API server and tools add."""
    metadata: dict[str, Any] = {
        k: manifest["metadata"][k] for k in _KEPT_METADATA if k in manifest["metadata"]
    }
    annotations = {
        key: value
        for key, value in (manifest["metadata"].get("annotations") or {}).items()
        if not key.startswith(_OURS_ANNOTATIONS)
    }
    if annotations:
        metadata["annotations"] = annotations
    content = {key: manifest[key] for key in _CONTENT if key in manifest}
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], "metadata": metadata, **content}


def _without_ours(manifest: Json) -> Json:
    """Without webhooks that lead to our operator: Trainer may have been installed over a platform."""
    if "webhooks" not in manifest:
        return manifest
    kept = [webhook for webhook in manifest["webhooks"] or () if _service(webhook).get("name") != model.OWN]
    return {**manifest, "webhooks": kept}


def _service(webhook: Json) -> Json:
    return model.as_mapping(model.as_mapping(webhook.get("clientConfig")).get("service"))


def _same(before: Json, present: Json | None) -> bool:
    return present is not None and _kept(present) == before


def _put(before: Json, present: Json | None) -> Put:
    if present is None:
        return Put(before)
    return Put(before, present["metadata"]["uid"], present["metadata"]["resourceVersion"])


def _scale(deployment: Json, replicas: int, working: Set[model.Ref]) -> Iterator[Scale]:
    ref, before = ref_of(deployment), _replicas(deployment)
    if before != replicas or (replicas == 0 and ref in working):
        yield Scale(ref, deployment["metadata"]["uid"], before, replicas)


def _replicas(deployment: Json) -> int:
    replicas = deployment["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def _hand_over(manifest: Json) -> Iterator[HandOver]:
    metadata = manifest["metadata"]
    entries = metadata.get("managedFields") or ()
    if owners := ownership.owners(entries):
        yield HandOver(
            ref_of(manifest),
            metadata["uid"],
            metadata["resourceVersion"],
            owners,
            ownership.handed_over(entries),
        )


def _let_pass(manifest: Json, namespace: str) -> Iterator[LetPass]:
    """`pulumi up` writes the catalog before our operator serves Trainer's webhooks."""
    webhooks = {
        index: webhook["name"]
        for index, webhook in enumerate(manifest.get("webhooks") or ())
        if _refuses_runtimes(webhook, namespace)
    }
    if webhooks:
        yield LetPass(ref_of(manifest), manifest["metadata"]["uid"], webhooks)


def _refuses_runtimes(webhook: Json, namespace: str) -> bool:
    service = _service(webhook)
    return (
        (service.get("namespace"), service.get("name")) == (namespace, model.CONTROLLER)
        and webhook.get("failurePolicy") != "Ignore"
        and any(_RUNTIMES & set(rule.get("resources") or ()) for rule in webhook.get("rules") or ())
    )


def _snapshots(observed: Observed) -> tuple[list[Put], list[Check]]:
    """For jobs that started with Trainyard: their runtime, in the ConfigMap that Trainer reads.

    A job whose runtime cannot be kept is only a note: otherwise its owner could block the way back. The same
    is true if the API server refuses the ConfigMap, such as in a namespace that is at its quota.
    """
    puts: list[Put] = []
    notes = [without_snapshot(job, "it cannot be read") for job in observed.unreadable]
    for job in observed.jobs:
        trainjob, runtime = job.trainjob, job.runtime
        if (
            job.snapshot
            or job.jobset is None
            or not reconcile.is_managed(trainjob)
            or conditions.finished(conditions.of(trainjob.status))
        ):
            continue
        name = f"{trainjob.namespace}/{trainjob.name}"
        config_map = f"ConfigMap {name}{revisions.SNAPSHOT_SUFFIX}"
        if job.occupied:
            why = f"{config_map} exists, and is no snapshot of its runtime; to keep one, delete that first"
        elif not isinstance(runtime, Runtime):
            why = f"the runtime that it started with is not known: {runtime}"
        else:
            put = _snapshot(trainjob, runtime)
            if len(put.manifest["data"]["runtime"]) <= revisions.MAX_SNAPSHOT:
                puts.append(put)
                continue
            why = f"its runtime is too large for {config_map}"
        notes.append(without_snapshot(name, why))
    return puts, notes


def without_snapshot(job: str, why: str) -> Check:
    """The note on a TrainJob (`namespace/name`) whose runtime cannot be kept for Trainer."""
    message = (
        f"TrainJob {job} gets no snapshot of its runtime, so Trainer uses the runtime as it then is: {why}"
    )
    return Check(Level.NOTE, "TrainJobs", message)


def _snapshot(trainjob: TrainJob, runtime: Runtime) -> Put:
    place = {} if runtime.namespace is None else {"namespace": runtime.namespace}
    manifest: Mapping[str, Any] = {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": runtime.kind,
        "metadata": {"name": runtime.name, **place},
        "spec": dict(runtime.spec),
    }
    owner = {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": names.TRAINJOB,
        "name": trainjob.name,
        "uid": trainjob.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {
        "name": trainjob.name + revisions.SNAPSHOT_SUFFIX,
        "namespace": trainjob.namespace,
        "ownerReferences": [owner],
    }
    # JSON is YAML, and smaller: indentation alone may bring a runtime above what is read again.
    data = {"runtime": json.dumps(manifest)}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return Put(config_map, why="for Trainer", trainjob=f"{trainjob.namespace}/{trainjob.name}")
