"""A real Kubernetes on this machine, without Docker.

`cluster` brings it up and down; `toolchain` and `images` make what it is made
of, once; `supervisor` keeps it running. Nothing here knows what is installed
into the cluster: that is the platform's.
"""
