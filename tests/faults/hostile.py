"""What a hostile tenant is told."""

from tests.support.live import TRAINER


def told(api, namespace, name):
    """What has become of a TrainJob: a JobSet, or a condition that says why there is none."""
    if api.get("jobset.x-k8s.io/v1alpha2", "JobSet", name, namespace) is not None:
        return "JobSet"
    job = api.get(TRAINER, "TrainJob", name, namespace)
    conditions = (job.get("status") or {}).get("conditions") or []
    return next((c["reason"] for c in conditions if c["type"] in ("Blocked", "Failed")), None)
