"""What the platform changes in upstream's CRDs."""

from typing import Any

import pytest

from trainyard_platform.parts.crds.runtimes import changeable

KEPT_AS_MADE = {"message": "Value is immutable", "rule": "self == oldSelf"}
UNIQUE = {"message": "once each", "rule": "self.all(x, self.exists_one(y, x == y))"}


def crd(name: str, *, network: dict[str, Any], jobs: dict[str, Any]) -> dict[str, Any]:
    schema = {"properties": {"network": network, "jobs": {"type": "array", "items": jobs}}}
    return {"metadata": {"name": name}, "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}


@pytest.mark.parametrize("kind", ["trainingruntimes", "clustertrainingruntimes"])
def test_nothing_of_a_runtime_has_to_stay_as_it_was_made_and_other_rules_hold(kind: str) -> None:
    name = f"{kind}.trainer.kubeflow.org"
    given = crd(
        name,
        network={"type": "object", "x-kubernetes-validations": [KEPT_AS_MADE]},
        jobs={"type": "object", "x-kubernetes-validations": [UNIQUE, KEPT_AS_MADE]},
    )
    assert changeable(given) == crd(
        name,
        network={"type": "object"},
        jobs={"type": "object", "x-kubernetes-validations": [UNIQUE]},
    )


@pytest.mark.parametrize("name", ["trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"])
def test_other_crds_are_upstreams(name: str) -> None:
    given = crd(name, network={"x-kubernetes-validations": [KEPT_AS_MADE]}, jobs={})
    assert changeable(given) is given
