"""Objects of a cluster that Kubeflow Trainer's controller runs in."""

NAMESPACE = "kubeflow-system"


PLACE = {"namespace": NAMESPACE, "uid": "u", "resourceVersion": "5"}


def entry(manager, operation="Update", time="2026-01-01T00:00:00Z", fields=None, **others):
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields or {"f:data": {}},
        **others,
    }


def deployment(replicas=1, **metadata):
    containers = [{"name": "manager", "image": "ghcr.io/kubeflow/trainer/trainer-controller-manager:v2.3.0"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "kubeflow-trainer-controller-manager", **PLACE, **metadata},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
        "status": {"replicas": replicas},
    }


def crd(plural, **version):
    version = {"name": "v1alpha1", "served": True, "storage": True, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.trainer.kubeflow.org", "uid": "u", "resourceVersion": "5"},
        "spec": {"versions": [version]},
    }


def public(version="v2.3.0", **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kubeflow-trainer-public", **PLACE, **metadata},
        "data": {"kubeflow_trainer_version": version},
    }


def webhooks(service="kubeflow-trainer-controller-manager", **metadata):
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": "validator.trainer.kubeflow.org",
            "uid": "w",
            "resourceVersion": "6",
            **metadata,
        },
        "webhooks": [{"name": "v", "clientConfig": {"service": {"name": service, "namespace": NAMESPACE}}}],
    }


CRDS = [crd("trainjobs"), crd("trainingruntimes"), crd("clustertrainingruntimes")]


def binding(name):
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "uid": "b"},
    }
