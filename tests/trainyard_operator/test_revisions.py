"""Which runtime a TrainJob is built from, and how it is kept."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from tests.support.core_values import at, jobset, stamp, trainjob
from trainyard_operator.core.decide import revisions
from trainyard_operator.core.decide.revisions import Chosen
from trainyard_operator.core.model import JobSet, Runtime, RuntimeProblem, TrainJob

LIVE = Runtime(
    kind="ClusterTrainingRuntime",
    name="rt",
    namespace=None,
    uid="rt-uid",
    spec={"template": {"now": {}}},
    created=at(-100),
    changed=at(-50),
)
NAMED = {"trainyard.dev/runtime-revision": revisions.name_of(LIVE)}


def recorded(content, changed, **fields):
    value = replace(LIVE, spec={"template": {content: {}}}, changed=at(changed), created=None, **fields)
    return replace(value, revision=revisions.name_of(value))


JOB = trainjob()
OLD, NEW = recorded("old", -90), recorded("new", 10)
WITH_IT = recorded("with it", 0)
EDITED = replace(LIVE, changed=at(20))
SNAPSHOT = replace(LIVE, uid="", created=None, changed=None)
EARLIER = recorded("old", -90, uid="before")
OF_TEAM: dict[str, Any] = {"kind": "TrainingRuntime", "namespace": "team"}
OWN, EARLIER_OWN = replace(LIVE, **OF_TEAM), recorded("old", -90, uid="before", **OF_TEAM)


@dataclass(frozen=True)
class Case:
    """A job created at second 0, what is known of its runtime, and what is chosen."""

    id: str
    chosen: Chosen
    live: Runtime | None = LIVE
    recorded: tuple[Runtime, ...] = ()
    jobset: JobSet | None = None
    job: TrainJob = JOB
    snapshot: Runtime | None = None
    counts_live: bool = False


CASES = [
    Case("a runtime that has not changed since the job was created", Chosen(LIVE)),
    Case("also if an older revision of it is known", Chosen(LIVE), recorded=(OLD,)),
    Case("a runtime edited since: the revision in force by then", Chosen(OLD), EDITED, (NEW, OLD)),
    Case(
        "a runtime edited since and nothing kept: the live one, and that is said",
        Chosen(EDITED, lost=True),
        EDITED,
    ),
    Case("a revision that came into force later is not taken", Chosen(EDITED, lost=True), EDITED, (NEW,)),
    Case(
        "a runtime created after the job has lost nothing",
        Chosen(replace(LIVE, created=at(5), changed=at(5))),
        replace(LIVE, created=at(5), changed=at(5)),
    ),
    Case(
        "a runtime created in the same second as the job",
        Chosen(replace(LIVE, created=at(0), changed=at(0))),
        replace(LIVE, created=at(0), changed=at(0)),
    ),
    Case(
        "a runtime created in the same second as the job and edited since: the live one, and that is said",
        Chosen(replace(EDITED, created=at(0)), lost=True),
        replace(EDITED, created=at(0)),
    ),
    Case(
        "a revision that came into force in the same second as the job, before older ones",
        Chosen(WITH_IT),
        EDITED,
        (OLD, WITH_IT, NEW),
    ),
    Case(
        "a runtime that does not tell when it was edited: the live one, and nobody says what is not known",
        Chosen(replace(LIVE, changed=None)),
        replace(LIVE, changed=None),
    ),
    Case("a runtime that tells no times", Chosen(SNAPSHOT), SNAPSHOT),
    Case("no runtime", Chosen(RuntimeProblem.NOT_FOUND), None),
    Case("no runtime any more, but what was in force", Chosen(OLD), None, (OLD,)),
    Case(
        "a kind that is no runtime",
        Chosen(RuntimeProblem.NOT_SUPPORTED),
        None,
        job=trainjob({"runtimeRef": {"name": "rt", "kind": "Foo"}}),
    ),
    Case(
        "with a JobSet: the revision that it names",
        Chosen(OLD),
        recorded=(OLD, NEW),
        jobset=jobset(annotations={"trainyard.dev/runtime-revision": OLD.revision}),
    ),
    Case(
        "also if the runtime is gone",
        Chosen(OLD),
        None,
        (OLD,),
        jobset(annotations={"trainyard.dev/runtime-revision": OLD.revision}),
    ),
    Case("the live runtime if its content is what is named", Chosen(LIVE), jobset=jobset(annotations=NAMED)),
    Case(
        "the live runtime if what is named is gone, and that is said",
        Chosen(EDITED, lost=True),
        EDITED,
        jobset=jobset(annotations={"trainyard.dev/runtime-revision": "runtime-gone"}),
    ),
    Case(
        "the revision that it names, though its runtime was deleted and created again since",
        Chosen(EARLIER),
        recorded=(EARLIER,),
        jobset=jobset(annotations={"trainyard.dev/runtime-revision": EARLIER.revision}),
    ),
    Case(
        "not so of a runtime that the users of a namespace can create",
        Chosen(OWN, lost=True),
        OWN,
        (EARLIER_OWN,),
        jobset(annotations={"trainyard.dev/runtime-revision": EARLIER_OWN.revision}),
        trainjob({"runtimeRef": {"name": "rt", "kind": "TrainingRuntime"}}),
    ),
    Case(
        "a revision of another runtime's name is not honoured though there is no runtime",
        Chosen(RuntimeProblem.NOT_FOUND, lost=True),
        None,
        (recorded("old", -90, name="privileged"),),
        jobset(
            annotations={"trainyard.dev/runtime-revision": recorded("old", -90, name="privileged").revision}
        ),
    ),
    Case(
        "where Kueue counts by the live runtime, that one",
        Chosen(EDITED),
        EDITED,
        (OLD,),
        jobset(annotations={"trainyard.dev/runtime-revision": OLD.revision}),
        counts_live=True,
    ),
    Case("and so before there is a JobSet", Chosen(EDITED), EDITED, (OLD,), counts_live=True),
    Case(
        "a runtime that is gone is counted by nobody",
        Chosen(OLD),
        None,
        (OLD,),
        jobset(annotations={"trainyard.dev/runtime-revision": OLD.revision}),
        counts_live=True,
    ),
    Case(
        "a JobSet of another controller keeps its snapshot there",
        Chosen(SNAPSHOT),
        jobset=jobset(),
        snapshot=SNAPSHOT,
        counts_live=True,
    ),
    Case(
        "a JobSet of another controller: its snapshot", Chosen(SNAPSHOT), jobset=jobset(), snapshot=SNAPSHOT
    ),
    Case(
        "a snapshot counts for nothing where a revision is named",
        Chosen(LIVE),
        jobset=jobset(annotations=NAMED),
        snapshot=SNAPSHOT,
    ),
    Case(
        "the JobSet of an earlier job says nothing",
        Chosen(LIVE),
        recorded=(OLD,),
        jobset=jobset(owner_uid="older", annotations={"trainyard.dev/runtime-revision": OLD.revision}),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_runtime_of_a_job(case):
    chosen = revisions.choose(
        case.job, case.jobset, case.live, case.recorded, case.snapshot, counts_live=case.counts_live
    )
    assert chosen == case.chosen


def test_a_revision_is_kept_under_its_content_and_read_back():
    manifest = revisions.manifest_of(LIVE, "trainyard-system")
    assert manifest == {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": revisions.name_of(LIVE),
            "namespace": "trainyard-system",
            "labels": {"trainyard.dev/runtime-uid": "rt-uid"},
            "annotations": {"trainyard.dev/in-force-since": stamp(-50)},
        },
        "data": {
            "kind": "ClusterTrainingRuntime",
            "name": "rt",
            "uid": "rt-uid",
            "spec": {"template": {"now": {}}},
        },
        "revision": 1,
    }
    assert revisions.read(manifest) == replace(LIVE, created=None, revision=revisions.name_of(LIVE))


def test_a_namespaced_runtime_is_read_back_with_its_namespace():
    namespaced = replace(LIVE, kind="TrainingRuntime", namespace="team")
    read = revisions.read(revisions.manifest_of(namespaced, "trainyard-system"))
    assert read == replace(namespaced, created=None, revision=revisions.name_of(namespaced))
    assert revisions.name_of(namespaced) != revisions.name_of(replace(namespaced, namespace="other"))


def test_a_revision_without_a_time_of_its_own_counts_from_when_it_was_stored():
    manifest = revisions.manifest_of(replace(LIVE, changed=None), "ns")
    manifest = {**manifest, "metadata": {**manifest["metadata"], "creationTimestamp": stamp(3)}}
    assert revisions.read(manifest).changed == at(3)


def test_the_name_follows_the_content_alone():
    same = replace(LIVE, labels={"a": "b"}, changed=at(7), spec={"template": {"now": {}}})
    assert revisions.name_of(same) == revisions.name_of(LIVE)
    assert revisions.name_of(replace(LIVE, spec={})) != revisions.name_of(LIVE)
    assert revisions.name_of(replace(LIVE, uid="other")) != revisions.name_of(LIVE)


def tampered(**changes):
    manifest = revisions.manifest_of(LIVE, "ns")
    return {**manifest, **changes}


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(tampered(data={**tampered()["data"], "spec": {"evil": {}}}), id="other content"),
        pytest.param(
            tampered(metadata={**tampered()["metadata"], "labels": {"trainyard.dev/runtime-uid": "x"}}),
            id="another label",
        ),
        pytest.param(tampered(metadata={"name": revisions.name_of(LIVE)}), id="no label"),
        pytest.param(tampered(data=None), id="no content"),
        pytest.param({}, id="nothing"),
    ],
)
def test_a_revision_that_is_not_what_it_says_is_not_read(manifest):
    assert revisions.read(manifest) is None


def live_manifest(**metadata):
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "rt", "uid": "rt-uid", "creationTimestamp": stamp(-100), **metadata},
        "spec": {"template": {"now": {}}},
    }


WRITES = [
    {"manager": "a", "time": stamp(-80), "fieldsV1": {"f:spec": {}}},
    {"manager": "b", "time": stamp(-50), "fieldsV1": {"f:metadata": {}, "f:spec": {}}},
    {"manager": "c", "time": stamp(-10), "fieldsV1": {"f:metadata": {}}},
]


@pytest.mark.parametrize(
    ("manifest", "runtime"),
    [
        pytest.param(
            live_manifest(generation=1, managedFields=WRITES),
            replace(LIVE, changed=at(-100)),
            id="never edited",
        ),
        pytest.param(
            live_manifest(generation=2, managedFields=WRITES), LIVE, id="the last write to its spec"
        ),
        pytest.param(
            live_manifest(generation=2), replace(LIVE, changed=None), id="edited, nobody knows when"
        ),
    ],
)
def test_a_live_runtime_has_been_what_it_is_since(manifest, runtime):
    assert revisions.live(manifest) == runtime


def snapshot(owner="job-uid", **changes):
    return {
        "metadata": {"ownerReferences": [{"uid": owner, "controller": True}]},
        "data": {"runtime": yaml.safe_dump({**live_manifest(generation=1), **changes})},
    }


def test_a_snapshot_is_read_without_believing_its_identity():
    assert revisions.read_snapshot(snapshot(), trainjob()) == replace(SNAPSHOT, created=at(-100))


@pytest.mark.parametrize(
    "config_map",
    [
        pytest.param(snapshot(owner="other"), id="of another job"),
        pytest.param(snapshot(kind="TrainingRuntime"), id="of another runtime"),
        pytest.param(snapshot(spec="text"), id="without a spec"),
        pytest.param(snapshot(metadata=None), id="without metadata"),
        pytest.param({**snapshot(), "data": {"runtime": "{"}}, id="that is not YAML"),
        pytest.param({**snapshot(), "data": {}}, id="that is empty"),
        pytest.param({}, id="that is nothing"),
    ],
)
def test_a_snapshot_is_not_read(config_map):
    assert revisions.read_snapshot(config_map, trainjob()) is None


def test_a_snapshot_may_have_256_kib_and_no_more() -> None:
    text = snapshot()["data"]["runtime"]
    largest = text + "#" * (256 * 1024 - len(text))
    assert revisions.read_snapshot({**snapshot(), "data": {"runtime": largest}}, trainjob()) is not None
    assert revisions.read_snapshot({**snapshot(), "data": {"runtime": largest + "#"}}, trainjob()) is None
