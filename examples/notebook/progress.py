"""Follow a TrainJob below the cell of a notebook: its state, its nodes and its progress.

    from progress import follow

    job = follow(client, name)

All of it is in the TrainJob, so this needs the same rights as `client.get_job`. The bar moves where
the training reports its progress, as transformers does on Trainyard, and is full at the end.
"""

import html
import time

from IPython.display import display
from ipywidgets import HTML, FloatProgress, VBox
from kubeflow.trainer import TrainerClient
from kubeflow.trainer.types.types import TrainJob

STYLES = {"Complete": "success", "Failed": "danger", "Blocked": "warning"}
"""How the bar looks in a state."""


def follow(client: TrainerClient, name: str, seconds: float = 2) -> TrainJob:
    """Show a TrainJob until it has ended, and return it. Interrupting the cell leaves the job running.

    Args:
        client: The client that has sent it, or another of the same namespace.
        name: Of the TrainJob.
        seconds: How long to wait between two looks.
    """
    bar, words = FloatProgress(max=100, description=name), HTML()
    display(VBox([bar, words]))
    api, namespace = client.backend.custom_api, client.backend.namespace
    place = ("trainer.kubeflow.org", "v1alpha1", namespace, "trainjobs", name)
    try:
        while True:
            state, progress, sentence = shown(api.get_namespaced_custom_object(*place))
            bar.value, bar.bar_style, words.value = progress, STYLES.get(state, ""), html.escape(sentence)
            if state in ("Complete", "Failed"):
                break
            time.sleep(seconds)
    except KeyboardInterrupt:
        words.value += "<br>It continues. To follow it again, run this cell again."
    return client.get_job(name)


def shown(trainjob: dict) -> tuple[str, float, str]:
    """The state of a TrainJob, its progress in percent, and what to say of both."""
    status = trainjob.get("status", {})
    reached = {each["type"]: each.get("message", "") for each in status.get("conditions", []) if _is(each)}
    ours, reported = status.get("trainyard", {}), status.get("trainerStatus", {})
    state = ours.get("state") or next((each for each in STYLES if each in reached), "Created")
    progress = 100 if state == "Complete" else reported.get("progressPercentage", 0)
    parts = [state]
    if nodes := ours.get("nodes"):
        parts.append(f"{nodes} nodes")
    if (queue := ours.get("queue")) and state == "Queued":
        parts.append(f"queue {queue}")
    if (left := reported.get("estimatedRemainingSeconds")) and state == "Running":
        parts.append(f"{left} s left")
    sentence = ", ".join(parts)
    return state, float(progress), f"{sentence}: {reached[state]}" if reached.get(state) else sentence


def _is(condition: dict) -> bool:
    return condition.get("status") == "True"
