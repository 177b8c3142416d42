"""Measured comparisons with Kubeflow Trainer's controller: `python -m benchmarks`, or `make bench`."""
