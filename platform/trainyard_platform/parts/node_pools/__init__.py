"""Pools of nodes; a module for each way to provide them. Nodes that exist need none."""
