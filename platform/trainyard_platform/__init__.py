"""What Trainyard installs into a cluster, as a Pulumi program.

`platform/__main__.py` composes it: `settings` says what a stack wants,
`artifacts` and `catalog` read what is to be installed, and `components` hold
one Pulumi component each. The operator's own code lives elsewhere.
"""
