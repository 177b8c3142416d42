"""Quota, and who gets it."""
