"""What the platform adds to upstream's CRD of TrainJobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainyard_platform.parts.crds.trainjob import COLUMNS, FIELD, with_state


def crd(name: str, *, columns: Sequence[Mapping[str, Any]], status: dict[str, Any]) -> dict[str, Any]:
    schema = {"properties": {"spec": {"type": "object"}, "status": {"type": "object", "properties": status}}}
    version = {
        "name": "v1alpha1",
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
    }
    return {"metadata": {"name": name}, "spec": {"scope": "Namespaced", "versions": [version]}}


LAST = {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"}


def test_trainjobs_have_a_field_for_where_they_stand_and_columns_that_show_it() -> None:
    name = "trainjobs.trainer.kubeflow.org"
    given = crd(name, columns=[LAST], status={"conditions": {"type": "array"}})
    wanted = crd(name, columns=[*COLUMNS], status={"conditions": {"type": "array"}, "trainyard": FIELD})
    assert with_state(given) == wanted
    assert COLUMNS[:2] == (
        {"name": "State", "type": "string", "jsonPath": ".status.trainyard.state"},
        {"name": "Nodes", "type": "string", "jsonPath": ".status.trainyard.nodes"},
    )


def test_the_crds_of_other_kinds_are_upstreams() -> None:
    given = crd("jobsets.jobset.x-k8s.io", columns=[LAST], status={})
    assert with_state(given) is given
