"""Coscheduling, a scheduler for gangs."""
