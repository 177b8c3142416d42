"""A manifest from a pure function, as a resource of the provider."""

from collections.abc import Mapping
from typing import Any

import pulumi


def declare(
    manifest: Mapping[str, Any], opts: pulumi.ResourceOptions, resource_name: str = ""
) -> pulumi.CustomResource:
    """The object as a resource of the provider (docs/adr/0027).

    Args:
        manifest: What the API server is to have.
        opts: The resource's options.
        resource_name: The resource's name; if left out, made of the object's kind, namespace and name.
    """
    metadata = manifest["metadata"]
    scope = f"{metadata['namespace']}/" if "namespace" in metadata else ""
    version = manifest["apiVersion"]
    return pulumi.CustomResource(
        # Pulumi names the core group, a manifest does not.
        f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}",
        resource_name or f"{manifest['kind'].lower()}-{scope}{metadata['name']}",
        dict(manifest),
        opts,
    )


def annotated(manifest: Mapping[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    """The manifest with further annotations."""
    metadata = manifest["metadata"]
    merged = {**metadata.get("annotations", {}), **annotations}
    return {**manifest, "metadata": {**metadata, "annotations": merged}}
