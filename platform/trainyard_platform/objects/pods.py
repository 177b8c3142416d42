"""What a stack says of the platform's pods, for those that no chart renders."""

from typing import Any

from pulumi_kubernetes.core.v1 import LocalObjectReferenceArgs, TolerationArgs

from ..controllers import Controllers


def spec(controllers: Controllers) -> dict[str, Any]:
    """Arguments of a PodSpecArgs; those that say nothing are left out."""
    fields = {
        "node_selector": dict(controllers.node_selector),
        "tolerations": [
            TolerationArgs(**one.model_dump(mode="json", exclude_none=True))
            for one in controllers.tolerations
        ],
        "priority_class_name": controllers.priority_class,
        "image_pull_secrets": [LocalObjectReferenceArgs(name=one) for one in controllers.pull_secrets],
    }
    return {name: value for name, value in fields.items() if value}
