"""What is done: the queue, the reconciliation of a TrainJob, and its guarded writes."""
