"""Shapes: made from CRDs and Kubernetes' own types, and what a manifest is told by them."""

from pathlib import Path
from typing import Any

from tests.support.rule_examples import changed
from trainyard_api import names
from trainyard_policies.rule import MOST
from trainyard_policies.shapes import check, generate

CORE = "io.k8s.api.core.v1"
JOBS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "Who it is.", "maxLength": 63},
            "template": {
                "type": "object",
                "properties": {
                    "spec": {
                        "type": "object",
                        "properties": {
                            "backoffLimit": {"type": "integer", "format": "int32"},
                            "completionMode": {"type": "string"},
                            "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            },
        },
    },
}
AMOUNT = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": generate._QUANTITY + "...",
    "x-kubernetes-int-or-string": True,
}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "jobs": {"type": "object", "additionalProperties": AMOUNT},
        "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
        "template": {
            "type": "object",
            "properties": {"spec": {"type": "object", "properties": {"replicatedJobs": JOBS}}},
        },
    },
}
BATCH = {
    "components": {
        "schemas": {
            "io.k8s.api.batch.v1.JobTemplateSpec": {
                "properties": {
                    "spec": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.batch.v1.JobSpec"}]}
                }
            },
            "io.k8s.api.batch.v1.JobSpec": {
                "properties": {
                    "backoffLimit": {"type": "integer"},
                    "completionMode": {"type": "string", "enum": ["Indexed", "NonIndexed"]},
                }
            },
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
                "type": "object",
                "properties": {
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "name": {"type": "string"},
                },
            },
        }
    }
}


def crd(kind: str) -> dict[str, Any]:
    root = {"type": "object", "properties": {"metadata": {"type": "object"}, "spec": SPEC}}
    version = {"name": "v1alpha1", "schema": {"openAPIV3Schema": root}}
    return {"spec": {"group": names.TRAINER_GROUP, "names": {"kind": kind}, "versions": [version]}}


def test_a_shape_has_the_fields_of_the_crd_the_values_of_kubernetes_and_the_bounds_of_its_validation():
    root = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "metadata": {"$ref": "metadata"},
            "spec": {"$ref": "spec3"},
            "status": {},
        },
    }
    assert generate.document([crd(kind) for kind in (*names.RUNTIME_KINDS, names.TRAINJOB)], BATCH) == {
        "ClusterTrainingRuntime": {"$ref": "ClusterTrainingRuntime"},
        "TrainingRuntime": {"$ref": "ClusterTrainingRuntime"},
        "TrainJob": {"$ref": "ClusterTrainingRuntime"},
        "$defs": {
            "ClusterTrainingRuntime": root,
            "metadata": {
                "type": "object",
                "properties": {
                    "labels": {"type": "object", "values": {"type": "string"}},
                    "name": {"type": "string"},
                },
            },
            "replicatedJobs": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "maxLength": 63},
                    "template": {"$ref": "template"},
                },
            },
            "spec": {
                "type": "object",
                "properties": {
                    "backoffLimit": {"type": "integer", "minimum": 0},
                    "completionMode": {"type": "string", "enum": ["Indexed", "NonIndexed"]},
                    "template": {"type": "object"},
                },
            },
            "spec3": {
                "type": "object",
                "properties": {
                    "jobs": {"type": "object", "values": {"form": "quantity"}},
                    "port": {"type": "int-or-string"},
                    "template": {"$ref": "template2"},
                },
            },
            "spec2": {
                "type": "object",
                "properties": {
                    "replicatedJobs": {
                        "type": "array",
                        "items": {"$ref": "replicatedJobs"},
                        "unique": {"name": None},
                    }
                },
            },
            "template": {"type": "object", "properties": {"spec": {"$ref": "spec"}}},
            "template2": {"type": "object", "properties": {"spec": {"$ref": "spec2"}}},
        },
    }


def test_the_shapes_that_are_checked_in_are_written_a_definition_a_line():
    file = Path(check.__file__).with_name("shapes.json")
    assert file.read_text().startswith('{\n "ClusterTrainingRuntime": ')
    assert max(len(line) for line in file.read_text().splitlines()) < 5000


def test_what_is_said_of_one_manifest_has_an_end():
    wrong = changed("runtime", {f"spec.field{number}": 1 for number in range(1000)})
    assert len(check.check(wrong)) == MOST + 1


def test_nothing_is_said_of_other_kinds():
    assert check.check({"apiVersion": "v1", "kind": "Pod", "spec": 7}) == ()


def test_what_the_api_server_adds_to_an_object_is_part_of_its_shape():
    added = {
        "metadata.uid": "6c1a2f0e",
        "metadata.generation": 1,
        "metadata.managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
        "metadata.ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u"}],
        "status": {"trainyard": {"state": "Running"}},
    }
    assert check.check(changed("trainjob", added)) == ()
