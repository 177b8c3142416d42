"""What a TrainJob and its runtime make: the JobSet and what comes beside it."""
