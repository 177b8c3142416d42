"""What is told of a TrainJob: its conditions, its state, its attempts and its progress."""
