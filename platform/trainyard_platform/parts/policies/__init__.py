"""The rules that the cluster itself holds to."""
