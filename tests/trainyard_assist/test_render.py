"""What `render` makes of documents where a cluster is missing: defaults, placeholders, places in messages."""

import pytest

from tests.support.rendered import JOB, RUNTIME
from trainyard_api import documents
from trainyard_assist.offline import with_runtime_defaults, with_trainjob_defaults
from trainyard_assist.render import NothingToRenderError, RenderError, render


def parsed(*texts, source="file.yaml"):
    return documents.parse("---".join(texts), source)


def image(child):
    return child["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0][
        "image"
    ]


def test_the_jobset_has_placeholders_for_what_only_a_cluster_knows_and_no_annotation_of_ours():
    (child,) = render(parsed(RUNTIME % "i", JOB % "tj"))
    assert child["metadata"] == {
        "name": "tj",
        "namespace": "ns",
        "ownerReferences": [
            {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "name": "tj",
                "uid": "11111111-2222-3333-4444-555555555555",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_children_are_sorted_by_kind_and_name():
    children = render(parsed(RUNTIME % "i", JOB % "b", JOB % "a"))
    assert [child["metadata"]["name"] for child in children] == ["a", "b"]


def test_a_runtime_in_the_files_wins_over_the_catalog():
    catalog = parsed(RUNTIME % "catalog", source="catalog.yaml")
    assert image(render(parsed(JOB % "tj"), catalog)[0]) == "catalog"
    assert image(render(parsed(RUNTIME % "mine", JOB % "tj"), catalog)[0]) == "mine"


def test_a_namespaced_runtime_is_looked_up_in_the_namespace_of_the_job():
    runtime = (RUNTIME % "i").replace("ClusterTraining", "Training")
    job = (JOB % "tj").replace("{name: rt}", "{name: rt, kind: TrainingRuntime}")
    assert image(render(parsed(runtime, job))[0]) == "i"
    elsewhere = runtime.replace("{name: rt}", "{name: rt, namespace: other}")
    with pytest.raises(RenderError, match='"rt" is neither in the files nor in the catalog'):
        render(parsed(elsewhere, job))


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        pytest.param(
            (JOB % "tj",),
            'file.yaml:2: ClusterTrainingRuntime "rt" is neither in the files nor in the catalog',
            id="a runtime that is missing",
        ),
        pytest.param(
            ((JOB % "tj").replace("{name: rt}", "{name: rt, kind: Foo}"),),
            "file.yaml:2: unsupported runtime: Foo.trainer.kubeflow.org",
            id="a kind that is no runtime",
        ),
        pytest.param(
            ((JOB % "tj").replace("{name: rt}", "{}"),),
            "file.yaml:2: spec.runtimeRef.name: Required value",
            id="a runtimeRef without a name",
        ),
        pytest.param(
            ((RUNTIME % "i").replace("name: node", "title: node"), JOB % "tj"),
            "file.yaml:12: with the runtime of file.yaml:2: "
            "spec.template.spec.replicatedJobs[0].name: Required value",
            id="a runtime that is malformed",
        ),
        pytest.param(
            (RUNTIME.replace("spec:\n", "spec:\n  mlPolicy: {flux: {}}\n", 1) % "i", JOB % "tj"),
            "file.yaml:13: with the runtime of file.yaml:2: spec.mlPolicy.flux is not supported",
            id="a policy that is not supported",
        ),
        pytest.param(
            ((RUNTIME % "i").replace("{name: rt}", "{}"), JOB % "tj"),
            "file.yaml:2: metadata.name: Required value",
            id="a runtime without a name",
        ),
    ],
)
def test_what_cannot_be_rendered_is_said_with_its_place(texts, message):
    with pytest.raises(RenderError) as raised:
        render(parsed(*texts))
    assert str(raised.value) == message


def test_files_without_a_trainjob_are_nothing_to_render():
    with pytest.raises(NothingToRenderError, match="no TrainJob in the files"):
        render(parsed(RUNTIME % "i"))


def test_a_trainjob_gets_the_defaults_of_its_schema_and_loses_nulls():
    assert with_trainjob_defaults({"spec": {"runtimeRef": {"name": "rt"}, "trainer": None}}) == {
        "spec": {
            "runtimeRef": {
                "name": "rt",
                "apiGroup": "trainer.kubeflow.org",
                "kind": "ClusterTrainingRuntime",
            },
            "suspend": False,
            "managedBy": "trainer.kubeflow.org/trainjob-controller",
        }
    }


def test_a_runtime_gets_the_defaults_of_its_schema_where_it_has_the_objects():
    given = {
        "mlPolicy": {"mpi": {"numProcPerNode": 2}},
        "podGroupPolicy": {"coscheduling": {}, "volcano": {"networkTopology": {"mode": "soft"}}},
        "template": {
            "spec": {
                "replicatedJobs": [{"name": "node"}],
                "failurePolicy": {},
                "volumeClaimPolicies": [{}, {"retentionPolicy": {}}],
            }
        },
    }
    assert with_runtime_defaults({"spec": given})["spec"] == {
        "mlPolicy": {
            "mpi": {
                "numProcPerNode": 2,
                "mpiImplementation": "OpenMPI",
                "sshAuthMountPath": "/root/.ssh",
                "runLauncherAsNode": False,
            }
        },
        "podGroupPolicy": {
            "coscheduling": {"scheduleTimeoutSeconds": 60},
            "volcano": {"networkTopology": {"mode": "soft", "highestTierAllowed": 1}},
        },
        "template": {
            "spec": {
                "replicatedJobs": [{"name": "node", "groupName": "default", "replicas": 1}],
                "failurePolicy": {"restartStrategy": "Recreate"},
                "volumeClaimPolicies": [{}, {"retentionPolicy": {"whenDeleted": "Delete"}}],
            }
        },
    }
