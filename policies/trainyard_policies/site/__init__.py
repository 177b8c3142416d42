"""Your own rules: each further file in this folder is one, and holds at every gate (docs/write-a-policy.md).

Trainyard comes with none, and its updates change nothing here.
"""
