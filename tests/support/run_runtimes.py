"""Runtimes as they are in a cluster, by what a run looks at."""

from typing import Any

from trainyard_assist.run.runtime import Runtime


def runtime(
    policy: str = "torch", name: str = "rt", kind: str = "ClusterTrainingRuntime", **container: Any
) -> Runtime:
    """One node, whose container is called `node` and has this besides."""
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": {"spec": {"containers": [{"name": "side"}, {"name": "node", **container}]}}},
        },
    }
    policies: dict[str, Any] = {policy: {}} if policy else {}
    return Runtime(
        {
            "kind": kind,
            "metadata": {"name": name},
            "spec": {
                "mlPolicy": {"numNodes": 1, **policies},
                "template": {"spec": {"replicatedJobs": [job]}},
            },
        }
    )
