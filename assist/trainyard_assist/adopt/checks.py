"""Checks before a cluster is taken over, and the effect on each TrainJob."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard_api import documents, names
from trainyard_operator.core.decide import reconcile, revisions
from trainyard_operator.core.model import Delete, Observed, TrainJob, Update
from trainyard_operator.core.status import conditions

from . import model
from .model import Check, Fate, ForeignJob, Level, State, as_mapping

_CRDS = tuple(f"{plural}.{names.TRAINER_GROUP}" for plural in (names.TRAINJOBS, names.TRAINING_RUNTIMES))
_GITOPS = {
    "argocd.argoproj.io/tracking-id": "Argo CD",
    "argocd.argoproj.io/instance": "Argo CD",
    "kustomize.toolkit.fluxcd.io/name": "Flux",
    "helm.toolkit.fluxcd.io/name": "Flux",
}
"""Label or annotation, and the tool that sets it: such a tool reverts what others change."""


def of(observed: model.Observed) -> Iterator[Check]:
    """The checks, in the order in which they matter."""
    controller = observed.controller
    if controller is None:
        where = f"{observed.namespace}/{model.CONTROLLER}"
        yield Check(
            Level.STOP,
            "controller",
            f"there is no Deployment {where}: name the controller's namespace with --trainer-namespace, "
            "or continue with `pulumi up` if Trainer is not installed",
        )
        return
    yield _crds(observed)
    yield _version(observed)
    yield from _installer(observed)
    yield from _gates(observed)
    yield from _jobset(observed)
    for name in observed.unreadable:
        yield Check(Level.STOP, "TrainJobs", f"TrainJob {name} cannot be read; look at it with kubectl")


def fate(job: ForeignJob, observed: model.Observed) -> Fate:
    """The effect on a TrainJob, computed by the operator's own reconciliation."""
    trainjob, jobset = job.trainjob, job.jobset

    def becomes(state: State, message: str, level: Level = Level.FINE) -> Fate:
        return Fate(trainjob.namespace, trainjob.name, state, message, level)

    if not reconcile.is_managed(trainjob):
        return becomes(State.ELSEWHERE, f"stays with {trainjob.spec['managedBy']}")
    if conditions.finished(conditions.of(trainjob.status)):
        return becomes(State.FINISHED, "stays as it is, and never restarts")
    state = _state(job)
    plan = reconcile.reconcile(
        Observed(
            trainjob=trainjob,
            runtime=job.runtime,
            jobset=jobset,
            companions=(),
            runtime_revision_lost=job.lost,
        ),
        observed.now,
        observed.settings,
    )
    blocked = conditions.find(conditions.of(plan.status or {}), names.BLOCKED)
    if blocked is not None:
        return becomes(state, f"would be blocked: {blocked['message']}", Level.NOTE)
    if state is State.RUNNING:
        if any(isinstance(write, (Delete, Update)) for write in plan.writes):
            return becomes(state, "would be changed while it runs; wait until it ends", Level.STOP)
        return becomes(state, f"continues: JobSet {_uid(job)} and its pods are not touched")
    if jobset is None:
        return becomes(state, "gets its JobSet from Trainyard")
    origin = f"the runtime that {_snapshot(trainjob)} keeps" if job.snapshot else "its runtime as it is now"
    level = Level.NOTE if job.lost else Level.FINE
    return becomes(state, f"keeps JobSet {_uid(job)}, and starts when resumed, from {origin}", level)


def _state(job: ForeignJob) -> State:
    if job.trainjob.suspended:
        return State.SUSPENDED
    return State.WAITING if job.jobset is None else State.RUNNING


def _uid(job: ForeignJob) -> str:
    return "" if job.jobset is None else job.jobset.uid


def _snapshot(trainjob: TrainJob) -> str:
    return f"ConfigMap {trainjob.name}{revisions.SNAPSHOT_SUFFIX}"


def _crds(observed: model.Observed) -> Check:
    served = {
        manifest["metadata"]["name"]
        for manifest in observed.objects
        if manifest["kind"] == "CustomResourceDefinition"
        and any(
            v.get("name") == names.TRAINER_VERSION and v.get("storage") for v in manifest["spec"]["versions"]
        )
    }
    missing = [name for name in _CRDS if name not in served]
    if missing:
        message = f"{', '.join(missing)}: missing, or not stored as v1alpha1; this is another Trainer"
        return Check(Level.STOP, "CRDs", message)
    return Check(Level.FINE, "CRDs", "TrainJobs and runtimes are stored as v1alpha1, which Trainyard uses")


def _version(observed: model.Observed) -> Check:
    version = _trainer_version(observed)
    if version is None:
        message = f"the version is unknown; Trainyard replaces {model.VERSION}"
        return Check(Level.NOTE, "version", message)
    if version != model.VERSION and not version.startswith(f"{model.VERSION}."):
        message = f"it is Trainer {version}; move it to {model.VERSION} first, whose API Trainyard uses"
        return Check(Level.STOP, "version", message)
    return Check(Level.FINE, "version", f"it is Trainer {version}")


def _trainer_version(observed: model.Observed) -> str | None:
    """The version in the public ConfigMap, as the image may have only a digest; otherwise in its tag."""
    for manifest in observed.objects:
        if manifest["kind"] == "ConfigMap" and manifest["metadata"]["name"] == model.PUBLIC:
            version = as_mapping(manifest.get("data")).get(model.PUBLIC_KEY)
            if isinstance(version, str) and version.startswith("v"):
                return version
    controller = observed.controller or {}
    containers = controller["spec"]["template"]["spec"]["containers"]
    image = str(containers[0].get("image", "")).partition("@")[0]
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag if tag.startswith("v") else None


def _installer(observed: model.Observed) -> Iterator[Check]:
    metadata = (observed.controller or {})["metadata"]
    marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    for by in sorted({_GITOPS[key] for key in marks if key in _GITOPS}):
        message = (
            f"{by} installs it, and would scale it up again: first stop {by} from managing it, without "
            "deleting what it has installed"
        )
        yield Check(Level.NOTE, "installed by", message)
    if release := marks.get("meta.helm.sh/release-name"):
        where = marks.get("meta.helm.sh/release-namespace") or observed.namespace
        message = (
            f"it belongs to the Helm release {release}: neither upgrade nor uninstall that, because Helm can "
            "delete the CRDs with all TrainJobs, and JobSet's controller. When Trainyard works, have Helm "
            f"forget the release: kubectl delete secrets -n {where} -l owner=helm,name={release}"
        )
        yield Check(Level.NOTE, "installed by", message)


def _gates(observed: model.Observed) -> Iterator[Check]:
    text = as_mapping((observed.configuration or {}).get("data")).get(model.CONFIGURATION_KEY)
    try:
        parsed = documents.parse(str(text or "{}"), model.CONFIGURATION_KEY)
    except documents.DocumentError:
        return
    gates = as_mapping(parsed[0].value.get("featureGates")) if parsed else {}
    for name, on in gates.items():
        if on is True:
            message = f"{name} is on: set it in the stack file too, operator.featureGates"
            yield Check(Level.NOTE, "feature gates", message)


def _jobset(observed: model.Observed) -> Iterator[Check]:
    if observed.jobset_webhooks is None:
        return
    webhook = (observed.jobset_webhooks.get("webhooks") or [{}])[0]
    service = as_mapping(as_mapping(webhook.get("clientConfig")).get("service"))
    message = (
        f"its controller exists already, in namespace {service.get('namespace')}: set "
        "`jobset.enabled: false` in the stack file, so that there are not two"
    )
    yield Check(Level.NOTE, "JobSet", message)
