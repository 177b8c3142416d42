"""Secrets that a store outside the cluster holds."""
