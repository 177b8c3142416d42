"""A cache in the cluster: holds a table in memory, and streams rows of it to the ranks of a training."""
