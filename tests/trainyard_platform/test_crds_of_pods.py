"""CRDs say what their own fields are, and leave those of a pod to `kubectl explain pod`."""

from typing import Any

from trainyard_platform.parts.crds.pods import brief


def crd(schema: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}}


def pod(**descriptions: str) -> dict[str, Any]:
    """The schema of a PodSpec; a container has a field of the name `description`."""
    container = {"properties": {"description": {"type": "string", **descriptions}}, **descriptions}
    containers = {"type": "array", "items": container, **descriptions}
    return {"properties": {"containers": containers, "restartPolicy": {"type": "string", **descriptions}}}


def test_the_fields_of_a_pod_go_without_their_descriptions_and_those_around_it_keep_theirs() -> None:
    def around(spec: dict[str, Any]) -> dict[str, Any]:
        return crd(
            {
                "description": "A job.",
                "properties": {
                    "containers": {"description": "Not a pod's.", "type": "integer"},
                    "template": {"description": "Of its pods.", "properties": {"spec": spec}},
                },
            }
        )

    given = around({"description": "The pod.", **pod(description="Of Kubernetes.")})
    assert brief(given) == around({"description": "The pod.", **pod()})
