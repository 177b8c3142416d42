"""The catalog's runtimes in the cluster."""
