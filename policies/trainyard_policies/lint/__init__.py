"""The gate for pull requests: rules over files, without a cluster.

`files` finds and reads, `report` applies the rules, `repair` fixes what a
machine can, `formats` prints. Called by `trainyard lint`.
"""
