"""The gate for pull requests: rules over files, before any cluster is near.

`files` finds and reads, `report` asks the rules, `repair` puts right what a
machine can, `formats` prints. Called by `trainyard lint`.
"""
