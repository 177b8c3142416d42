"""The form in which every part makes its objects (docs/adr/0027), and the one that many parts make: pure."""

from collections.abc import Mapping

from trainyard_api.json_types import Manifest


def namespace(
    name: str,
    enforce: str = "restricted",
    *,
    labels: Mapping[str, str] = {},
    annotations: Mapping[str, str] = {},
) -> Manifest:
    """A namespace.

    Args:
        name: Its name.
        enforce: The Pod Security Standard that its pods must meet.
        labels: Further labels.
        annotations: Its annotations.
    """
    metadata: Manifest = {
        "name": name,
        "labels": {**labels, "pod-security.kubernetes.io/enforce": enforce},
        **({"annotations": dict(annotations)} if annotations else {}),
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
