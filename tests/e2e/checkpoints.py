"""The checkpoint example as the tests use it: disturbed at a known point, and what it came to."""

import re
from pathlib import Path

import yaml

from tests.support.cluster import Cluster, Object
from tests.support.patience import LEARNED, STARTED, eventually
from trainyard_sandbox.paths import PROJECT

EPOCHS = 80
"""Enough to be caught in the middle of it, on a fast machine too."""

STEPS = 28
"""Steps of an epoch."""


def checkpoint_job(name: str) -> Object:
    """The TrainJob of examples/checkpoint under another name."""
    job: Object = yaml.safe_load((PROJECT / "examples" / "checkpoint" / "trainjob.yaml").read_text())
    job["metadata"] = {"name": name, "namespace": "default"}
    job["spec"]["trainer"]["env"] = [{"name": "EPOCHS", "value": str(EPOCHS)}]
    return job


def run_undisturbed(cluster: Cluster) -> float:
    """The loss of a run that nothing happens to."""
    cluster.apply(checkpoint_job("undisturbed"))
    cluster.wait_for_condition("undisturbed", "Complete", within=LEARNED)
    assert starts(cluster, "undisturbed") == [0, 0]
    return final_loss(cluster, "undisturbed")


def wait_for_checkpoint(cluster: Cluster, job: str) -> None:
    """Until the job has written one; it has all but an epoch or two before it then."""
    volumes = Path(cluster.sandbox.instance.dir, "volumes")
    written = f"*_default_checkpoints-{job}/latest.pt"
    eventually(f"{job} has a checkpoint", lambda: list(volumes.glob(written)), within=STARTED)


def starts(cluster: Cluster, job: str) -> list[int]:
    """The step that each rank of the last attempt began with."""
    logs = cluster.logs(job).values()
    assert [len(re.findall(r"rank \d of 2: (?:starts|resumes)", text)) for text in logs] == [1, 1]
    found = [re.search(r"resumes at step (\d+)", text) for text in logs]
    return [int(one[1]) if one else 0 for one in found]


def final_loss(cluster: Cluster, job: str) -> float:
    """The loss of the last epoch, as rank 0 printed it."""
    text = "".join(cluster.logs(job).values())
    [loss] = re.findall(rf"epoch {EPOCHS} of {EPOCHS}: loss ([\d.]+)", text)
    return float(loss)
