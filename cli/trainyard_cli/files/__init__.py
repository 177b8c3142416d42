"""Reads the clone's files: manifests, the catalog and stack files."""
