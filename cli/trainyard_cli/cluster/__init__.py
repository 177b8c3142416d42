"""What the commands read from clusters, and write to them, with the rights of who runs them."""
