"""One way to provide the nodes of a pool a module; nodes that exist need none."""
