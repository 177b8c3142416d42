"""The rules that the cluster itself enforces."""
