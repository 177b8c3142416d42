"""Builds the JobSet of a TrainJob, and its companions."""
