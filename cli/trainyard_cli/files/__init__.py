"""What the commands read from the clone: manifests, the catalog and stack files."""
