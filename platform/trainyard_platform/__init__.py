"""What Trainyard installs into a cluster, as a Pulumi program.

`settings` says what a stack wants, `artifacts` and `catalog` read what to
install, and `parts` has a folder for each part of a platform, which
`platform/__main__.py` puts in order. `drift`, `impact` and `rollout` say what a
change does. The operator's own code lives elsewhere.
"""
