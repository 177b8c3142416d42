"""Trainyard's operator, its rights and its certificate."""
