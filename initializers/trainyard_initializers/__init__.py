"""Fetch a dataset or a model into the volume of a training job, before the trainers start."""
