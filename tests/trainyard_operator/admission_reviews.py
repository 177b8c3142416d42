"""AdmissionReviews as the API server sends them."""

from __future__ import annotations

import json
from typing import Any


def request(
    manifest: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "TrainJob"
) -> dict[str, Any]:
    """The request of a review: a create, or with `old` an update."""
    asked = {
        "uid": "review-uid",
        "kind": {"group": "trainer.kubeflow.org", "version": "v1alpha1", "kind": kind},
        "operation": "CREATE" if old is None else "UPDATE",
        "namespace": "team",
        "name": "tj",
        "object": manifest,
        "oldObject": old,
    }
    return asked


def body(manifest: dict[str, Any], old: dict[str, Any] | None = None, kind: str = "TrainJob") -> bytes:
    """A whole review, as sent."""
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**review, "request": request(manifest, old, kind)}).encode()
