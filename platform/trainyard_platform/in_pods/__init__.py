"""What Trainyard puts into the pods of runtimes."""
