"""What admission answers about TrainJobs and runtimes; the golden corpus has upstream's own answers."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.core_values import PLAIN, counts, jobset, replicated_job, runtime, trainjob
from trainyard_operator.core.admit.limits import Limits
from trainyard_operator.core.admit.validation import Answer, validate, validate_runtime
from trainyard_operator.core.build.framework import Framework
from trainyard_operator.core.build.info import DEFAULT_SETTINGS
from trainyard_operator.core.build.plugins.jobset import JobSetPlugin
from trainyard_operator.core.model import Runtime

REFERENCE = '{"name":"rt","apiGroup":"trainer.kubeflow.org","kind":"ClusterTrainingRuntime"}'
DEPRECATED = replace(PLAIN, labels={"trainer.kubeflow.org/support": "deprecated"})
POLICY = "https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy"


def said(answer):
    return [str(error) for error in answer.errors]


def asked(spec=None, rt=PLAIN, old=None, js=None, **options):
    """The errors for a TrainJob of this spec that is created, or updated from one with the spec `old`."""
    before = None if old is None else trainjob(old)
    return said(validate(trainjob(spec), before, rt, js, **options))


def patches(*items):
    return {"runtimePatches": [{"manager": "a.io/x", **item} for item in items]}


# --- runtimes that are not there -------------------------------------------

MISSING = (
    f"spec.RuntimeRef: Invalid value: {REFERENCE}: clustertrainingruntimes.trainer.kubeflow.org "
    '"rt" not found: specified clusterTrainingRuntime must be created before the TrainJob is created'
)


@pytest.mark.parametrize(
    ("spec", "old", "errors"),
    [
        pytest.param({}, None, [MISSING], id="no creation"),
        pytest.param({"suspend": False}, {"suspend": True}, [MISSING], id="no resumption"),
        pytest.param({"suspend": True}, {"suspend": False}, [], id="but suspension"),
        pytest.param(
            {"suspend": True}, {"suspend": False, **patches({})}, [], id="suspension that withdraws patches"
        ),
        pytest.param(
            {"suspend": True}, {"suspend": True, **patches({})}, [MISSING], id="not the withdrawal alone"
        ),
        pytest.param(
            {"suspend": True, **patches({})}, {"suspend": True, **patches({})}, [], id="and metadata"
        ),
    ],
)
def test_a_runtime_that_is_gone_allows(spec, old, errors):
    assert asked(spec, None, old) == errors


def test_a_runtime_of_the_other_kind_and_of_the_name_is_the_way_out():
    [error] = validate(trainjob({}), None, None, of_the_other_kind=True).errors
    way_out = ". There is a TrainingRuntime of that name: say runtimeRef.kind: TrainingRuntime"
    assert str(error) == MISSING + way_out


def test_a_suspension_is_not_refused_because_of_what_the_runtime_has_become():
    flux = runtime({"flux": {}})
    assert asked({"suspend": True}, flux, {"suspend": False}) == []
    assert asked({"suspend": False}, flux, {"suspend": True}) == [
        f"spec.runtimeRef: Invalid value: {REFERENCE}: spec.mlPolicy.flux is not supported"
    ]


def test_a_suspension_is_refused_for_what_its_patches_are():
    assert asked({"suspend": True, **patches({"manager": "x"})}, None, {"suspend": False}) == [
        'spec.runtimePatches.manager: Invalid value: "x": '
        'must be a domain-prefixed path (such as "acme.io/foo")'
    ]


def test_what_no_plugin_carries_out_is_refused():
    assert asked({}, runtime({"mpi": {}}), using=Framework([JobSetPlugin()])) == [
        f"spec.runtimeRef: Invalid value: {REFERENCE}: spec.mlPolicy.mpi is not supported"
    ]


@pytest.mark.parametrize("kind", ["ClusterTrainingRuntime", "TrainingRuntime"])
def test_a_deprecated_runtime_of_either_kind_is_a_warning(kind):
    rt = replace(DEPRECATED, kind=kind)
    job = trainjob({"runtimeRef": {"name": "rt", "kind": kind}})
    words = "is deprecated and will be removed in a future release of Kubeflow Trainer."
    assert validate(job, None, rt).warnings == (
        f'Referenced {kind} "rt" {words} See runtime deprecation policy: {POLICY}',
    )
    assert validate_runtime(rt) == Answer(
        (f'{kind} "rt" {words} See runtime deprecation policy: {POLICY}',), ()
    )
    assert validate_runtime(rt, rt) == Answer()


def told(retention):
    return trainjob(annotations={"trainyard.dev/retention": retention})


@pytest.mark.parametrize(("job", "old"), [(told("forever"), None), (told("forever"), told("keep"))])
def test_a_retention_that_cannot_be_read_is_a_warning(job, old):
    assert validate(job, old, runtime({})).warnings == (
        "metadata.annotations[trainyard.dev/retention]: 'forever' is neither \"keep\" nor a duration such as "
        "24h or 7d: the TrainJob is kept",
    )


@pytest.mark.parametrize(
    ("job", "old"),
    [(told("keep"), None), (told("7d"), None), (told("forever"), told("forever")), (trainjob(), None)],
)
def test_a_retention_that_can_be_read_or_was_there_before_is_none(job, old):
    assert validate(job, old, runtime({})).warnings == ()


ELASTIC = trainjob(annotations={"kueue.x-k8s.io/elastic-job": "true"})


def test_quota_that_would_grow_and_shrink_with_a_job_is_a_warning_when_it_is_sent():
    rt = runtime({})
    assert validate(ELASTIC, None, rt).warnings == (
        "metadata.annotations[kueue.x-k8s.io/elastic-job]: Kueue does not support elastic TrainJobs: the job "
        "starts when there is quota for all of its nodes, and keeps this quota until it ends",
    )
    rigid = trainjob(annotations={"kueue.x-k8s.io/elastic-job": "false"})
    assert validate(ELASTIC, ELASTIC, rt).warnings == validate(rigid, None, rt).warnings == ()


QUEUED = {"kueue.x-k8s.io/queue-name": "research"}
HELD = {"kueue.x-k8s.io/admission-gated-by": "trainyard.dev/sent-suspended"}
SUSPENDED = trainjob({"suspend": True}, labels=QUEUED)
OF_JOBSETS, OF_TRAINJOBS = (replace(DEFAULT_SETTINGS, queue_holds_jobset=holds) for holds in (True, False))
WAITS = (
    "spec.suspend: is true, so this job waits, even if queue research has room, until kubectl patch trainjob "
    """tj --type=merge -p '{"spec":{"suspend":false}}'; a queue needs no suspend: true""",
)


@pytest.mark.parametrize(
    ("job", "old", "settings", "warnings"),
    [
        pytest.param(SUSPENDED, None, OF_JOBSETS, WAITS, id="sent suspended"),
        pytest.param(SUSPENDED, None, OF_TRAINJOBS, (), id="suspended by Kueue's webhook"),
        pytest.param(replace(SUSPENDED, annotations=HELD), None, OF_TRAINJOBS, WAITS, id="held by ours"),
        pytest.param(trainjob(labels=QUEUED), None, OF_JOBSETS, (), id="not suspended"),
        pytest.param(trainjob({"suspend": True}), None, OF_JOBSETS, (), id="in no queue"),
        pytest.param(SUSPENDED, trainjob(labels=QUEUED), OF_JOBSETS, (), id="suspended later"),
    ],
)
def test_a_job_that_is_sent_suspended_to_a_queue_is_told_that_it_waits(job, old, settings, warnings):
    assert validate(job, old, runtime({}), settings=settings) == Answer(warnings)


OF_KUEUE = replace(trainjob(labels=QUEUED), held_by_kueue=True)
STANDS = replace(OF_KUEUE, spec={**OF_KUEUE.spec, "suspend": True, **patches({}, {})})
HAS_GPUS = [{"name": "node", "image": "img", "resources": {"limits": {"nvidia.com/gpu": 2}}}]
WITH_GPUS = runtime({"numNodes": 1}, [replicated_job(containers=HAS_GPUS)])
WITHOUT_POLICY = runtime(None, [replicated_job(containers=HAS_GPUS)])
MPI = runtime(
    {"mpi": {"runLauncherAsNode": True}},
    [replicated_job("launcher"), replicated_job("node", None, containers=HAS_GPUS)],
)
UNCOUNTED = (
    "spec.trainer.resourcesPerNode: Forbidden: add nvidia.com/gpu: 2: the pods get this from runtime rt, but "
    "queue research holds TrainJobs, and counts only what resourcesPerNode names"
)


@pytest.mark.parametrize(
    ("requests", "rt", "settings", "errors"),
    [
        pytest.param({"cpu": 4}, WITH_GPUS, OF_TRAINJOBS, [UNCOUNTED], id="GPUs of the runtime"),
        pytest.param({"cpu": 4}, WITHOUT_POLICY, OF_TRAINJOBS, [UNCOUNTED], id="without a policy"),
        pytest.param({"nvidia.com/gpu": 1}, WITHOUT_POLICY, OF_TRAINJOBS, [UNCOUNTED], id="fewer"),
        pytest.param({"cpu": 4}, MPI, OF_TRAINJOBS, [UNCOUNTED], id="of workers that train"),
        pytest.param({"cpu": 4}, WITH_GPUS, OF_JOBSETS, [], id="the queue holds the JobSet"),
        pytest.param({"cpu": 4, "nvidia.com/gpu": 2}, WITH_GPUS, OF_TRAINJOBS, [], id="all are named"),
        pytest.param({}, WITH_GPUS, OF_TRAINJOBS, [UNCOUNTED], id="none are named"),
        pytest.param(None, WITH_GPUS, OF_TRAINJOBS, [], id="those of the runtime"),
    ],
)
def test_pods_have_only_resources_that_kueue_counts_where_it_holds_trainjobs(requests, rt, settings, errors):
    given = {} if requests is None else {"resourcesPerNode": {"requests": requests}}
    job = replace(OF_KUEUE, spec={**OF_KUEUE.spec, "trainer": given})
    assert said(validate(job, None, rt, settings=settings)) == errors


LONG_GRACE = patches(
    {},
    {
        "trainingRuntimeSpec": {
            "template": {
                "spec": {
                    "replicatedJobs": [
                        {
                            "name": "node",
                            "template": {
                                "spec": {"template": {"spec": {"terminationGracePeriodSeconds": 600}}}
                            },
                        }
                    ]
                }
            }
        }
    },
)
PATIENT = replace(OF_KUEUE, spec={**OF_KUEUE.spec, "suspend": True, **LONG_GRACE})
DROPPED = (
    "spec.runtimePatches[1].trainingRuntimeSpec.template.spec.replicatedJobs[0].template.spec.template.spec."
    "terminationGracePeriodSeconds: Kueue removes this field when it starts the job: set it in the runtime "
    "instead",
)


@pytest.mark.parametrize(
    ("job", "old", "settings", "warnings"),
    [
        pytest.param(PATIENT, None, OF_TRAINJOBS, DROPPED, id="the queue holds the TrainJob"),
        pytest.param(PATIENT, None, OF_JOBSETS, WAITS, id="the queue holds the JobSet"),
        pytest.param(replace(PATIENT, held_by_kueue=False), None, OF_TRAINJOBS, (), id="not taken by Kueue"),
        pytest.param(PATIENT, STANDS, OF_TRAINJOBS, (), id="an update"),
    ],
)
def test_what_kueue_drops_of_a_job_that_it_holds_is_told_when_it_is_sent(job, old, settings, warnings):
    assert validate(job, old, PLAIN, settings=settings) == Answer(warnings)


UNDONE = (
    "spec.suspend: queue research holds TrainJobs, and Kueue resumes this job at once: if it runs, its pods "
    "are deleted and start again; to stop it: kubectl delete trainjob tj -n team",
)
RUNS_ON = replace(OF_KUEUE, spec={**OF_KUEUE.spec, "suspend": False})
STOPPED = replace(OF_KUEUE, spec={**OF_KUEUE.spec, "suspend": True})
CHANGED_TOO = replace(STOPPED, spec={**STOPPED.spec, **patches({})})


@pytest.mark.parametrize(
    ("job", "old", "options", "warnings"),
    [
        pytest.param(STOPPED, RUNS_ON, {}, UNDONE, id="by a user"),
        pytest.param(CHANGED_TOO, RUNS_ON, {}, UNDONE, id="with a change"),
        pytest.param(STOPPED, RUNS_ON, {"by_kueue": True}, (), id="by Kueue"),
        pytest.param(STOPPED, RUNS_ON, {"settings": OF_JOBSETS}, (), id="the queue holds the JobSet"),
        pytest.param(SUSPENDED, trainjob(labels=QUEUED), {}, (), id="Kueue has not taken it"),
        pytest.param(STOPPED, STOPPED, {}, (), id="it is suspended already"),
        pytest.param(STOPPED, None, {}, (), id="it is sent"),
    ],
)
def test_who_suspends_a_job_that_kueue_resumes_at_once_is_told(job, old, options, warnings):
    assert validate(job, old, PLAIN, **options) == Answer(warnings)


def test_kueue_resumes_a_job_that_was_let_in_before_its_resources_were_looked_at():
    spec = {**OF_KUEUE.spec, "trainer": {"resourcesPerNode": {"requests": {"cpu": 4}}}}
    waiting, resumed = (replace(OF_KUEUE, spec={**spec, "suspend": is_held}) for is_held in (True, False))
    assert said(validate(resumed, waiting, WITH_GPUS, settings=OF_TRAINJOBS)) == []


# --- initializers -----------------------------------------------------------


def with_initializer(**container):
    container = {"name": "dataset-initializer", **container}
    jobs = [replicated_job("dataset-initializer", "dataset-initializer", [container]), replicated_job()]
    return runtime({}, jobs)


@pytest.mark.parametrize(
    ("rt", "uri", "problem"),
    [
        pytest.param(
            PLAIN,
            "hf://a",
            "must have dataset-initializer job when trainJob is configured with input datasetConfig",
            id="no job",
        ),
        pytest.param(
            with_initializer(name="other"),
            "hf://a",
            "must have container with name - dataset-initializer in the dataset-initializer job",
            id="no container",
        ),
        pytest.param(
            with_initializer(),
            "hf://a",
            "must have volumeMount with name - initializer in container dataset-initializer "
            "of the dataset-initializer job",
            id="no volume",
        ),
        pytest.param(
            with_initializer(volumeMounts=[{"name": "initializer", "mountPath": "/workspace"}]),
            "hf://a",
            None,
            id="nothing is amiss",
        ),
        pytest.param(with_initializer(), "cache://a/b", None, id="no volume for data that goes to a cache"),
        pytest.param(
            with_initializer(env=[{"name": "STORAGE_URI", "value": "cache://a/b"}]),
            None,
            None,
            id="no volume for a runtime whose data goes to a cache",
        ),
    ],
)
def test_an_initializer_needs_its_place_in_the_runtime(rt, uri, problem):
    dataset = {} if uri is None else {"storageUri": uri}
    expected = [f"spec.runtimeRef: Invalid value: {REFERENCE}: {problem}"] if problem else []
    assert asked({"initializer": {"dataset": dataset}}, rt) == expected


# --- patches ----------------------------------------------------------------

CHANGED = patches({"trainingRuntimeSpec": {}})


@pytest.mark.parametrize(
    ("before", "after", "errors"),
    [
        pytest.param(
            False,
            False,
            [
                "spec.runtimePatches: Forbidden: RuntimePatches can only be modified "
                "when the TrainJob is suspended before or after the update"
            ],
            id="not while it runs",
        ),
        pytest.param(False, True, [], id="with its suspension"),
        pytest.param(True, False, [], id="with its resumption"),
        pytest.param(True, True, [], id="while it is suspended"),
    ],
)
def test_patches_change(before, after, errors):
    assert asked({"suspend": after, **CHANGED}, old={"suspend": before}) == errors


def test_patches_do_not_change_while_pods_are_active():
    js = jobset(
        replicated_jobs_status=(counts("a", active=1), counts("b", succeeded=1), counts("c", active=1))
    )
    assert asked({"suspend": True, **CHANGED}, old={"suspend": True}, js=js) == [
        "spec.runtimePatches: Forbidden: RuntimePatches cannot be modified "
        f"when the JobSet's ReplicatedJob {name} is still active"
        for name in ("a", "c")
    ]


def test_the_time_of_a_patch_is_no_change():
    assert (
        asked(patches({"time": "2026-01-01T00:00:00Z"}), old=patches({"time": "2026-01-02T00:00:00Z"})) == []
    )


@pytest.mark.parametrize(
    ("manager", "problem"),
    [
        pytest.param("", "Required value", id="none"),
        pytest.param(
            "a.io/",
            'Invalid value: "a.io/": must be a domain-prefixed path (such as "acme.io/foo")',
            id="no path",
        ),
        pytest.param(
            "/x",
            'Invalid value: "/x": must be a domain-prefixed path (such as "acme.io/foo")',
            id="no domain",
        ),
        pytest.param("a" * 253 + "/x", None, id="the longest domain"),
        pytest.param(
            "a" * 254 + "/x",
            f'Invalid value: "{"a" * 254}": must be no more than 253 characters',
            id="a long domain",
        ),
        pytest.param(
            "A.io/x",
            'Invalid value: "A.io": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
            "'example.com', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            id="a domain in upper case",
        ),
        pytest.param("a.io/x/Y-z", None, id="a path of several parts"),
        pytest.param(
            "a.io/x y",
            'Invalid value: "x y": Invalid path '
            "(regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')",
            id="a path with a space",
        ),
    ],
)
def test_a_patch_names_its_manager(manager, problem):
    expected = [f"spec.runtimePatches.manager: {problem}"] if problem else []
    assert asked(patches({"manager": manager})) == expected


# --- gang schedulers --------------------------------------------------------


def queued(annotations):
    rt = runtime({}, metadata={"annotations": annotations})
    return replace(rt, spec={**rt.spec, "podGroupPolicy": {"volcano": {}}})


QUEUE = "scheduling.volcano.sh/queue-name"


def test_volcanos_queue_has_a_name():
    detail = "Volcano queue name must not be empty"
    assert asked({}, queued({QUEUE: "q"})) == []
    assert asked({}, queued({QUEUE: ""})) == [f"spec.runtimeRef: Invalid value: {REFERENCE}: {detail}"]
    patch = {"trainingRuntimeSpec": {"template": {"metadata": {"annotations": {QUEUE: ""}}}}}
    assert asked(patches(patch), queued({QUEUE: "q"})) == [
        f"spec.runtimePatches[0].trainingRuntimeSpec.template.metadata.annotations[{QUEUE}]: "
        f'Invalid value: "": {detail}'
    ]


# --- what cannot be built, and limits ---------------------------------------


def test_what_cannot_be_built_is_refused_at_once():
    assert asked({"trainer": {}}, runtime({}, [replicated_job(ancestor=None)])) == [
        "spec.template.spec.replicatedJobs: Required value: one job template must have the label "
        "trainer.kubeflow.org/trainjob-ancestor-step: trainer, because the TrainJob sets spec.trainer"
    ]
    assert asked({"trainer": {"env": "x"}}) == [
        'spec.trainer.env: Invalid value: "x": must be a list of objects'
    ]


@pytest.mark.parametrize(
    ("nodes", "allowed", "problem"),
    [
        pytest.param(-1, Limits(), "must be greater than or equal to 0", id="less than none"),
        pytest.param(0, Limits(), None, id="none"),
        pytest.param(10_000, Limits(), None, id="as many as allowed"),
        pytest.param(10_001, Limits(), "must be less than or equal to 10000", id="more than allowed"),
        pytest.param(2**31, Limits(10**9), "must be less than or equal to 100000", id="more than possible"),
    ],
)
def test_the_number_of_nodes_has_a_limit(nodes, allowed, problem):
    expected = [f"spec.trainer.numNodes: Invalid value: {nodes}: {problem}"] if problem else []
    assert asked({"trainer": {"numNodes": nodes}}, allowed=allowed) == expected


TOO_MANY = ["spec.trainer.numNodes: Invalid value: 20000: must be less than or equal to 10000"]
MANY = {"trainer": {"numNodes": 20_000}}
IN_PATCHES = "spec.runtimePatches[0].trainingRuntimeSpec.template"


def patched_jobs(**spec):
    jobs = [{"name": "node", "template": {"spec": spec}}]
    return {"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


@pytest.mark.parametrize(
    ("old", "new", "errors"),
    [
        pytest.param(
            {"suspend": False}, {"suspend": True, **MANY}, TOO_MANY, id="an update that suspends too"
        ),
        pytest.param(
            {"suspend": True}, {"suspend": False, **MANY}, TOO_MANY, id="an update that resumes too"
        ),
        pytest.param({"suspend": True}, {"suspend": True, **MANY}, TOO_MANY, id="an update while suspended"),
        pytest.param({"suspend": False, **MANY}, {"suspend": True, **MANY}, [], id="but no mere suspension"),
        pytest.param(
            {"suspend": False, **MANY, **patches({}, {})},
            {"suspend": True, **MANY, **patches({})},
            [],
            id="nor one that takes patches back",
        ),
    ],
)
def test_every_spec_that_was_changed_is_held_to_the_limits(old, new, errors):
    assert asked(new, old=old) == errors


def test_a_change_that_suspends_too_is_held_to_the_rules_of_the_runtime():
    reserved = {"suspend": True, "trainer": {"env": [{"name": "PET_NNODES", "value": "9"}]}}
    assert asked(reserved, runtime({"torch": {}}), old={"suspend": False}) == [
        'spec.trainer.env: Invalid value: [{"name":"PET_NNODES","value":"9"}]: '
        "must not have reserved envs, invalid envs configured: [PET_NNODES]"
    ]


def test_numbers_of_pods_in_patches_are_held_to_the_limit_though_a_later_patch_says_another():
    both = patches(patched_jobs(parallelism=20_000), patched_jobs(parallelism=1))
    assert asked(both) == [
        f"{IN_PATCHES}.spec.replicatedJobs[0].template.spec.parallelism: Invalid value: 20000: "
        "must be less than or equal to 10000"
    ]


def test_the_runtimes_number_of_nodes_has_the_same_limit():
    assert asked({}, runtime({"numNodes": 3}), allowed=Limits(max_nodes=2)) == [
        f"spec.runtimeRef: Invalid value: {REFERENCE}: "
        "gives ReplicatedJob node 3 pods, but at most 2 are allowed"
    ]


def helpers(name: str, replicas: int | None, **spec: int) -> dict[str, object]:
    """A ReplicatedJob that is no step of training."""
    job = {**replicated_job(name, None, None, **spec), "replicas": replicas}
    return {key: value for key, value in job.items() if value is not None}


def test_what_a_runtime_makes_of_a_trainjob_has_no_more_jobs_and_pods_than_allowed() -> None:
    refused = f"spec.runtimeRef: Invalid value: {REFERENCE}: "
    many = runtime({}, [helpers("a", 1_000_000), helpers("b", -1_000_000), replicated_job()])
    assert asked({}, many) == [
        f"{refused}gives ReplicatedJob a 1000000 pods, but at most 10000 are allowed",
        f"{refused}makes 1000001 Jobs, but at most 1000 are allowed: lower the replicas in the runtime",
    ]
    large = runtime({}, [helpers("a", 11, parallelism=1_000), replicated_job()])
    assert asked({}, large) == [f"{refused}gives ReplicatedJob a 11000 pods, but at most 10000 are allowed"]
    assert asked({}, runtime({}, [helpers("a", 998), helpers("b", None), replicated_job()])) == []


def large_helpers(name: str, replicas: int, length: int) -> dict[str, object]:
    """A ReplicatedJob whose template has so many bytes as JSON, as it is in the runtime."""
    job = replicated_job(name, None)
    empty = {**job["template"], "metadata": {"annotations": {"a": ""}}}
    text = "x" * (length - len(json.dumps(empty, separators=(",", ":"))))
    return {**job, "replicas": replicas, "template": {**empty, "metadata": {"annotations": {"a": text}}}}


LARGE = runtime({}, [large_helpers("small", 500, 2_000), large_helpers("a", 80, 200_000), replicated_job()])


def test_what_a_runtime_makes_of_a_trainjob_has_no_more_bytes_in_all_jobs_than_allowed() -> None:
    assert asked({}, LARGE) == [
        f"spec.runtimeRef: Invalid value: {REFERENCE}: makes Jobs of 17035598 bytes as JSON, but at most "
        "16777216 are allowed (ReplicatedJob a has 80 replicas of 200061 bytes): lower the replicas in the "
        "runtime, or make their template smaller",
    ]
    assert asked({}, runtime({}, [large_helpers("a", 80, 200_000), replicated_job()])) == []
    assert asked({"suspend": False}, LARGE, {"suspend": True}) == []


@pytest.mark.parametrize(
    ("runtimes", "own", "warned"),
    [
        ({"requests": {"nvidia.com/gpu": 8}}, {"limits": {"nvidia.com/gpu": 4}}, "8 of nvidia.com/gpu, 4"),
        ({"requests": {"nvidia.com/gpu": 4}}, {"limits": {"nvidia.com/gpu": 8}}, "4 of nvidia.com/gpu, 8"),
        ({"limits": {"memory": "1Gi"}}, {"requests": {"memory": "2Gi"}}, "2Gi of memory, 1Gi"),
        ({"requests": {"cpu": 2}}, {"limits": {"cpu": 4}}, ""),
        ({"limits": {"nvidia.com/gpu": 8}}, {"limits": {"nvidia.com/gpu": 4}}, ""),
        ({"requests": {"cpu": 2}, "limits": {"cpu": 1}}, None, ""),
    ],
)
def test_of_a_request_and_a_limit_that_kubernetes_refuses_together_is_warned(
    runtimes: dict[str, Any], own: dict[str, Any] | None, warned: str
) -> None:
    container = {"name": "node", "resources": runtimes}
    rt = runtime({"numNodes": 1}, [replicated_job(containers=[container])])
    request, _, limit = warned.partition(", ")
    text = (
        f"spec.trainer.resourcesPerNode: with what the runtime sets, a node requests {request}, and its "
        f"limit is {limit}: set both here, or Kubernetes refuses the pods"
    )
    job = trainjob({"trainer": {"resourcesPerNode": own}} if own else {})
    assert validate(job, None, rt) == Answer((text,) if warned else ())


@pytest.mark.parametrize(
    ("nodes", "room", "last"),
    [(0, 48, "node-0-0"), (1, 48, "node-0-0"), (10, 48, "node-0-9"), (11, 47, "node-0-10")],
)
def test_a_name_leaves_room_for_those_of_the_pods(nodes: int, room: int, last: str) -> None:
    job = trainjob({"trainer": {"numNodes": nodes}}, name="t" * room)
    assert said(validate(job, None, PLAIN)) == []
    assert said(validate(replace(job, name="t" * (room + 1)), None, PLAIN)) == [
        f'metadata.name: Invalid value: "{"t" * (room + 1)}": must be no more than {room} characters '
        f"with this runtime, whose pods are named <name>-{last}-abcde in at most 63"
    ]


@pytest.mark.parametrize(("replicas", "room", "last"), [(1, 46, "helper-0-0"), (11, 45, "helper-10-0")])
def test_a_name_leaves_room_for_the_pods_of_the_last_replica(replicas: int, room: int, last: str) -> None:
    rt = runtime({}, [{**replicated_job("helper", None), "replicas": replicas}, replicated_job()])
    assert said(validate(trainjob(name="t" * room), None, rt)) == []
    assert said(validate(trainjob(name="t" * (room + 1)), None, rt)) == [
        f'metadata.name: Invalid value: "{"t" * (room + 1)}": must be no more than {room} characters '
        f"with this runtime, whose pods are named <name>-{last}-abcde in at most 63"
    ]


def test_a_name_leaves_room_for_the_longest_of_the_pods() -> None:
    rt = runtime({}, [replicated_job("a", None), replicated_job("x" * 60, None), replicated_job()])
    (error,) = said(validate(trainjob(), None, rt))
    assert error == (
        'metadata.name: Invalid value: "tj": must be no more than 0 characters with this runtime, '
        f"whose pods are named <name>-{'x' * 60}-0-0-abcde in at most 63"
    )


def test_sizes_have_limits():
    long = {"trainer": {"args": ["x" * 300_000]}}
    assert asked(long) == ["spec: Too long: may not be more than 262144 bytes as JSON, but has 300052"]
    assert asked({}, allowed=Limits(max_jobset_bytes=100)) == [
        "spec: Too long: may not make a JobSet of more than 100 bytes as JSON, but makes one of 583"
    ]
    assert asked(long, allowed=Limits(max_trainjob_bytes=300_052)) == []
    assert asked({}, allowed=Limits(max_jobset_bytes=583)) == []
    assert asked({"trainer": {"args": ["ä" * 100_000, "\ud800"]}}) == []


def test_replicated_jobs_have_a_limit_in_a_runtime_and_in_a_patch() -> None:
    def jobs(number: int) -> list[dict[str, object]]:
        return [replicated_job(f"n{n}", None) for n in range(number)]

    def patch(number: int) -> dict[str, object]:
        return patches({"trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs(number)}}}})

    assert said(validate_runtime(runtime({}, jobs(32)))) == []
    assert asked(patch(32)) == []
    problem = "Too long: may not have more than 32 items, but has 33"
    assert said(validate_runtime(runtime({"numNodes": 20_000}, jobs(33)))) == [
        f"spec.template.spec.replicatedJobs: {problem}"
    ]
    assert asked(patch(33)) == [f"{IN_PATCHES}.spec.replicatedJobs: {problem}"]


@pytest.mark.parametrize("fields", [("limits",), ("requests",), ("limits", "requests")])
def test_limits_and_requests_of_resources_have_a_limit_together(fields: tuple[str, ...]) -> None:
    def amounts(number: int) -> dict[str, object]:
        shares = {field: {f"a.io/{n}": 1 for n in range(number // len(fields))} for field in fields}
        return {"trainer": {"resourcesPerNode": shares}}

    assert asked(amounts(2_000)) == []
    most, more = 2_000, 2_000 + len(fields)
    assert asked(amounts(more)) == [
        f"spec: Too long: may not have more than {most} limits and requests of resources, but has {more}"
    ]


def test_the_limits_are_for_what_is_new():
    tight = Limits(max_nodes=1, max_trainjob_bytes=1, max_jobset_bytes=1)
    big = {"trainer": {"numNodes": 5}}
    assert asked({**big, "suspend": False}, old={**big, "suspend": True}, allowed=tight) == []


# --- runtimes ---------------------------------------------------------------

JOBS = "spec.template.spec.replicatedJobs"


@pytest.mark.parametrize(
    ("rt", "errors"),
    [
        pytest.param(PLAIN, [], id="a good one"),
        pytest.param(
            runtime({}, [{**replicated_job(), "replicas": 2}]),
            [f"{JOBS}[0].replicas: Invalid value: 2: always must be 1"],
            id="more than one replica",
        ),
        pytest.param(
            runtime({}, [replicated_job("a", None), replicated_job(containers=[{"name": "x"}])]),
            [
                f"{JOBS}[1].template.spec.template.spec.containers: Invalid value: "
                '[{"name":"x","resources":{}}]: '
                "must contain the required container for the ancestor: trainer"
            ],
            id="a trainer without its container",
        ),
        pytest.param(
            runtime({}, [{**replicated_job("a", "unknown"), "replicas": 2}]),
            [],
            id="an ancestor nobody knows",
        ),
        pytest.param(
            runtime({"flux": {}}),
            ['spec.mlPolicy: Unsupported value: "flux": supported values: "jax", "mpi", "torch", "xgboost"'],
            id="a policy that is not supported",
        ),
        pytest.param(
            replace(PLAIN, spec={"template": {"spec": {}}}),
            [f"{JOBS}: Required value: a runtime needs at least one ReplicatedJob"],
            id="nothing to build from",
        ),
        pytest.param(
            runtime({}, [replicated_job("a", None), replicated_job(), replicated_job("a", None)]),
            [f'{JOBS}[2].name: Duplicate value: "a"'],
            id="two ReplicatedJobs of one name",
        ),
        pytest.param(
            runtime({"numNodes": 10_001}, [replicated_job(parallelism=10_001)]),
            [
                "spec.mlPolicy.numNodes: Invalid value: 10001: must be less than or equal to 10000",
                f"{JOBS}[0].template.spec.parallelism: Invalid value: 10001: "
                "must be less than or equal to 10000",
            ],
            id="more pods than allowed",
        ),
        pytest.param(
            runtime({}, [helpers("a", 1_000_000), helpers("b", -1_000_000), replicated_job()]),
            [
                f"{JOBS}[0].replicas: Invalid value: 1000000: "
                "times parallelism must be less than or equal to 10000, but is 1000000",
                f"{JOBS}: Too long: may not have more than 1000 replicas together, but has 1000001",
            ],
            id="a million Jobs",
        ),
        pytest.param(
            runtime({}, [helpers("a", 11, parallelism=1_000), replicated_job()]),
            [
                f"{JOBS}[0].replicas: Invalid value: 11: "
                "times parallelism must be less than or equal to 10000, but is 11000",
            ],
            id="more pods than allowed in all Jobs",
        ),
        pytest.param(
            runtime({}, [helpers("a", 998, parallelism=10), helpers("b", None), replicated_job()]),
            [],
            id="as many Jobs as allowed",
        ),
        pytest.param(
            LARGE,
            [
                f"{JOBS}: Too long: may not make Jobs of 17000157 bytes as JSON, but at most 16777216 are "
                "allowed (ReplicatedJob a has 80 replicas of 200000 bytes): lower the replicas in the "
                "runtime, or make their template smaller",
            ],
            id="more bytes in all Jobs than allowed",
        ),
        pytest.param(
            runtime({}, [large_helpers("a", 80, 200_000), replicated_job()]),
            [],
            id="as many bytes in all Jobs as allowed",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["ClusterTrainingRuntime", "TrainingRuntime"])
@pytest.mark.parametrize("old", [None, PLAIN], ids=["created", "updated"])
def test_a_runtime_is_checked(rt, errors, kind, old):
    assert said(validate_runtime(replace(rt, kind=kind), old)) == errors


def with_pod(**pod: object) -> Runtime:
    job = replicated_job()
    job["template"]["spec"]["template"]["spec"] |= pod
    return runtime({}, [job])


def with_container(**container: object) -> Runtime:
    return with_pod(containers=[{"name": "node", **container}])


def with_variable(source: object) -> Runtime:
    return with_container(env=[{"name": "A", "valueFrom": source}])


def with_template(**template: object) -> Runtime:
    job = replicated_job()
    return runtime({}, [{**job, "template": {**job["template"], **template}}])


def with_jobset(**spec: object) -> Runtime:
    return replace(PLAIN, spec={"template": {"spec": {"replicatedJobs": [replicated_job()], **spec}}})


def with_claim(**claim: object) -> Runtime:
    return with_jobset(volumeClaimPolicies=[{"templates": [claim]}])


NO_CLAIM = {"spec": {"resources": {"requests": {"storage": "many"}}}}
CLAIM_POLICIES = "spec.template.spec.volumeClaimPolicies"
TEMPLATE = f"{JOBS}[0].template"
POD = f"{TEMPLATE}.spec.template.spec"
NODE = f"{POD}.containers[0]"
NO_OBJECT, NO_OBJECTS = "must be an object", "must be a list of objects"
NO_TEXT, NO_TEXTS = "must be a string", "must be a list of strings"
QUANTITY = "must be a quantity, such as 500m or 4Gi"
NO_QUANTITY = f'Invalid value: "many": {QUANTITY}'


@pytest.mark.parametrize(
    ("rt", "where", "problem"),
    [
        (with_jobset(network="n"), "spec.template.spec.network", f'Invalid value: "n": {NO_OBJECT}'),
        (
            with_jobset(network={"subdomain": 7}),
            "spec.template.spec.network.subdomain",
            f"Invalid value: 7: {NO_TEXT}",
        ),
        (with_jobset(volumeClaimPolicies="p"), CLAIM_POLICIES, f'Invalid value: "p": {NO_OBJECTS}'),
        (
            with_jobset(volumeClaimPolicies=[{"templates": "t"}]),
            f"{CLAIM_POLICIES}[0].templates",
            f'Invalid value: "t": {NO_OBJECTS}',
        ),
        (
            with_claim(metadata={"labels": {"a": 1}}),
            f"{CLAIM_POLICIES}[0].templates[0].metadata.labels[a]",
            f"Invalid value: 1: {NO_TEXT}",
        ),
        (
            with_claim(**NO_CLAIM),
            f"{CLAIM_POLICIES}[0].templates[0].spec.resources.requests[storage]",
            NO_QUANTITY,
        ),
        (
            with_template(metadata={"labels": {"a": 1}}),
            f"{TEMPLATE}.metadata.labels[a]",
            f"Invalid value: 1: {NO_TEXT}",
        ),
        (with_template(spec="s"), f"{TEMPLATE}.spec", f'Invalid value: "s": {NO_OBJECT}'),
        (
            with_template(spec={"template": {"metadata": {"annotations": {"a": 1}}}}),
            f"{TEMPLATE}.spec.template.metadata.annotations[a]",
            f"Invalid value: 1: {NO_TEXT}",
        ),
        (with_pod(containers="c"), f"{POD}.containers", f'Invalid value: "c": {NO_OBJECTS}'),
        (with_pod(initContainers=[{"image": "i"}]), f"{POD}.initContainers[0].name", "Required value"),
        (with_pod(volumes=[{"emptyDir": {}}]), f"{POD}.volumes[0].name", "Required value"),
        (
            with_pod(volumes=[{"name": "v", "emptyDir": {"sizeLimit": "many"}}]),
            f"{POD}.volumes[0].emptyDir.sizeLimit",
            NO_QUANTITY,
        ),
        (
            with_pod(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": NO_CLAIM}}]),
            f"{POD}.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]",
            NO_QUANTITY,
        ),
        (with_pod(overhead={"cpu": "many"}), f"{POD}.overhead[cpu]", NO_QUANTITY),
        (
            with_pod(overhead={"cpu": "x" * 5000}),
            f"{POD}.overhead[cpu]",
            f'Invalid value: "{"x" * 100}": {QUANTITY}',
        ),
        (with_pod(overhead={"cpu": {}}), f"{POD}.overhead[cpu]", f'Invalid value: "object": {QUANTITY}'),
        (with_pod(resources={"limits": {"cpu": "many"}}), f"{POD}.resources.limits[cpu]", NO_QUANTITY),
        (
            with_container(resources={"requests": {"cpu": "many"}}),
            f"{NODE}.resources.requests[cpu]",
            NO_QUANTITY,
        ),
        (with_container(env=[{"value": "1"}]), f"{NODE}.env[0].name", "Required value"),
        (with_variable("v"), f"{NODE}.env[0].valueFrom", f'Invalid value: "v": {NO_OBJECT}'),
        (
            with_variable({"resourceFieldRef": {"divisor": "many"}}),
            f"{NODE}.env[0].valueFrom.resourceFieldRef.divisor",
            NO_QUANTITY,
        ),
        (with_container(envFrom="e"), f"{NODE}.envFrom", f'Invalid value: "e": {NO_OBJECTS}'),
        (with_container(ports=[80]), f"{NODE}.ports[0]", f"Invalid value: 80: {NO_OBJECT}"),
        (with_container(volumeMounts=[{"name": "v"}]), f"{NODE}.volumeMounts[0].mountPath", "Required value"),
        (with_container(command="c"), f"{NODE}.command", f'Invalid value: "c": {NO_TEXTS}'),
        (with_container(args=[1]), f"{NODE}.args[0]", f"Invalid value: 1: {NO_TEXT}"),
    ],
)
def test_what_is_malformed_in_a_runtime_is_named(rt: Runtime, where: str, problem: str) -> None:
    assert said(validate_runtime(rt)) == [f"{where}: {problem}"]


@pytest.mark.parametrize("kind", ["ClusterTrainingRuntime", "TrainingRuntime"])
def test_a_runtime_has_a_size_limit_for_what_is_new(kind):
    env = [{"name": "X", "value": "x" * 300_000}]
    large = replace(runtime({}, [replicated_job(containers=[{"name": "node", "env": env}])]), kind=kind)
    refusal = ["spec: Too long: may not be more than 262144 bytes as JSON, but has 300294"]
    assert said(validate_runtime(large)) == refusal
    assert said(validate_runtime(large, PLAIN)) == refusal
    assert said(validate_runtime(large, large)) == []
    assert said(validate_runtime(large, allowed=Limits(max_runtime_bytes=300_294))) == []


def test_annotations_of_the_operator_are_not_for_users_to_set():
    metadata = {"annotations": {"trainyard.dev/feature-gates": "TrainJobStatus", "a.io/b": "c"}}
    assert asked(patches({"trainingRuntimeSpec": {"template": {"metadata": metadata}}})) == [
        f"{IN_PATCHES}.metadata.annotations[trainyard.dev/feature-gates]: Forbidden: "
        "annotations that begin with trainyard.dev/ are the operator's own"
    ]
