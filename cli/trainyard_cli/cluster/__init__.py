"""What the commands read from clusters and write to them, with the user's rights."""
