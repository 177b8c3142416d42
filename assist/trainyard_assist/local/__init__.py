"""A TrainJob on one machine: a process for each of its pods, without Kubernetes. Pure."""
