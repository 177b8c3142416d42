"""What to do about a TrainJob, and the slim views of objects that it is decided on."""
