"""Admission: the checks of the webhook and their messages."""
