"""Decisions: values in, values out, without I/O and without a clock."""
