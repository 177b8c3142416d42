"""The paths of the webhooks: Trainer's, and two of our own in its form.

The operator serves them; the webhook configurations name them. A path
that ends with a hyphen is followed by the kind in lower case.
"""

from __future__ import annotations

from typing import Final

MUTATE_TRAINJOB: Final = "/mutate-trainer-kubeflow-org-v1alpha1-trainjob"
HOLD_TRAINJOB: Final = "/hold-trainer-kubeflow-org-v1alpha1-trainjob"
VALIDATE: Final = "/validate-trainer-kubeflow-org-v1alpha1-"
POLICIES: Final = "/policies-trainer-kubeflow-org-v1alpha1-"
