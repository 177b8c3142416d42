"""Trainyard's own namespace."""
