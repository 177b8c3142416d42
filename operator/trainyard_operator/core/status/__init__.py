"""The status of a TrainJob: its conditions, its state, its attempts and its progress."""
