"""Kueue's controller."""
