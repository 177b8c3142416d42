"""What the cluster says: watches that bring it, and the slim cache that keeps it."""
