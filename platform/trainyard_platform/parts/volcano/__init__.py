"""Volcano, a scheduler for gangs."""
