"""Whether the API server takes an object, and objects that it does not check."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.cluster import Cluster, Object
from tests.support.patience import eventually


def taken(platform: Cluster, manifest: Object) -> bool:
    """Create the object, or change it; raises if the API server refuses."""
    platform.apply(manifest)
    return True


def accepted(platform: Cluster, manifest: Object) -> bool:
    """Whether the API server would take the object, admission included."""
    create = ("kubectl", "create", "--dry-run=server", "-f", "-")
    return platform.run(*create, stdin=json.dumps(manifest), check=False).returncode == 0


@contextmanager
def unchecked(platform: Cluster, manifest: Object) -> Iterator[None]:
    """TrainJobs are stored as they are, as before a platform had admission."""
    webhooks = ("validatingwebhookconfiguration", "validator.trainer.kubeflow.org")
    found = platform.get(*webhooks)
    assert found is not None
    position = [w["name"].split(".")[1] for w in found["webhooks"]].index("trainjob")

    def select(selector: Object) -> None:
        operation = {"op": "replace", "path": f"/webhooks/{position}/objectSelector", "value": selector}
        platform.kubectl("patch", *webhooks, "--type=json", "-p", json.dumps([operation]))

    select({"matchLabels": {"nobody": "has-this"}})
    try:
        eventually("it is not asked any more", lambda: accepted(platform, manifest))
        yield
    finally:
        select({})
    eventually("it is asked again", lambda: not accepted(platform, manifest))
