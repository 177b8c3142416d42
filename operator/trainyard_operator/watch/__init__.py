"""The state of the cluster: watches that read it, and the slim cache that keeps it."""
