"""Which runtime a TrainJob names."""

import pytest

from trainyard_api import runtime_ref
from trainyard_api.runtime_ref import RuntimeRef

GROUP = "trainer.kubeflow.org"


@pytest.mark.parametrize(
    ("spec", "named", "namespace"),
    [
        ({"runtimeRef": {"name": "a"}}, RuntimeRef(GROUP, "ClusterTrainingRuntime", "a"), None),
        (
            {"runtimeRef": {"name": "a", "kind": "TrainingRuntime"}},
            RuntimeRef(GROUP, "TrainingRuntime", "a"),
            "team",
        ),
        (
            {"runtimeRef": {"name": "a", "kind": "Other", "apiGroup": "example.com"}},
            RuntimeRef("example.com", "Other", "a"),
            None,
        ),
        ({}, RuntimeRef(GROUP, "ClusterTrainingRuntime", ""), None),
        ({"runtimeRef": ["a"]}, RuntimeRef(GROUP, "ClusterTrainingRuntime", ""), None),
        (
            {"runtimeRef": {"name": {"a": 1}, "kind": 3, "apiGroup": None}},
            RuntimeRef(GROUP, "ClusterTrainingRuntime", ""),
            None,
        ),
    ],
)
def test_a_runtime_ref_has_the_defaults_of_its_schema(spec, named, namespace):
    assert runtime_ref.of(spec) == named
    assert named.namespace("team") == namespace
