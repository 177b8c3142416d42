"""Code that runs outside the cluster and never in the operator's image.

`render` and `validate` say offline what the operator would create and answer,
`explain` says why a TrainJob does not run, `migrate` rewrites the jobs of other
operators, and `adopt` plans the move from Kubeflow Trainer's controller.
Of the operator they import only `core`.
"""
