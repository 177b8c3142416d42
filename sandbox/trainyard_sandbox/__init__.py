"""A real Kubernetes on this machine, without Docker.

`cluster` brings it up and down; `toolchain` and `images` build its parts once;
`supervisor` keeps it running. Nothing here knows what is installed into the
cluster: the platform does that.
"""
