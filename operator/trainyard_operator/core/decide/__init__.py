"""Decides what to do about a TrainJob, on slim views of objects."""
