"""Reads and writes of the commands in clusters, with the user's rights."""
