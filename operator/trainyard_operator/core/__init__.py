"""Decisions: values in, values out, without I/O and without a clock.

`build` makes the objects of a TrainJob, `status` tells where it stands, `decide`
says what to do next, and `admit` what the webhook lets in. Imports go downwards:
`admit`, `decide`, `build` and `status`, `model`.
"""
