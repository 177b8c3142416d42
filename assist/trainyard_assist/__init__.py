"""What runs beside a cluster and never in the operator's image.

`render` and `validate` say offline what the operator would make and answer,
`explain` why a TrainJob does not run, `migrate` rewrites the jobs of other
operators, and `takeover` plans the way from Kubeflow Trainer's controller.
They know the operator's `core`, and nothing else of it.
"""
