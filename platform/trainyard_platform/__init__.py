"""What Trainyard installs into a cluster, as a Pulumi program.

From the bottom: `stack` is what a stack file may say, `artifacts` and `catalog`
read what to install, `objects` and `charts` make and declare it, and `parts` has
a folder for each part of a platform, which `program` puts in order.
Imports go downwards only (docs/adr/0040). The effects of a change, and whether a cluster matches git, are in
`trainyard_delivery`.
"""
