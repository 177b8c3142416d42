"""How the parts declare objects: from manifests, to be kept, and protected."""
