"""Runs a TrainJob on this machine: `run --local`.

Kubeflow's SDK has backends for that, and neither does it. `LocalProcessBackend`
runs one Python function on one node in an empty environment that it creates
each time, knows no command and only the runtime `torch-distributed`.
`ContainerBackend` needs a Docker or Podman daemon, runs a function too, and
sets the rendezvous itself. What runs here has the command and the environment
that the operator would give it.
"""
