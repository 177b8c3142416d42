"""What the pods of a job that starts say, and when they are looked at."""

from __future__ import annotations

import pytest

from tests.support.core_values import at
from trainyard_api.reasons import Reason
from trainyard_operator.core.model import Cause, EventNote
from trainyard_operator.core.status import pod_readiness
from trainyard_operator.core.status.pod_readiness import Nodes, Pod

FULL = "0/3 nodes are available: 3 Insufficient cpu."


def waiting(name: str, since: float, said: str = FULL) -> Pod:
    return Pod(name, "node", unschedulable=said, since=at(since))


def test_the_ready_pods_are_counted_and_those_of_initializers_are_none() -> None:
    found = (Pod("a", "node", ready=True), Pod("b", "node"), Pod("c", "dataset-initializer", ready=True))
    assert pod_readiness.seen(found, at(0)) == Nodes(ready=1)
    assert pod_readiness.seen((), at(0)) == Nodes(ready=0)


def test_a_pod_that_fits_no_node_is_told_after_a_while_and_the_first_of_several_by_name() -> None:
    assert pod_readiness.seen((waiting("b", 0),), at(19)) == Nodes(0)
    assert pod_readiness.seen((waiting("b", 0),), at(20)) == Nodes(0, f"pod b fits no node: {FULL}")
    several = (waiting("c", 0, "other"), Pod("a", "node", ready=True), waiting("b", 1), waiting("d", 90))
    assert pod_readiness.seen(several, at(100)) == Nodes(1, "pod c (and 1 more) fits no node: other")


BACK_OFF = 'Back-off pulling image "i:1"'


@pytest.mark.parametrize(
    ("reason", "message", "cause"),
    [
        ("ImagePullBackOff", BACK_OFF, (Reason.IMAGE_NOT_PULLED, f"ImagePullBackOff: {BACK_OFF}")),
        ("InvalidImageName", "", (Reason.IMAGE_NOT_PULLED, "InvalidImageName")),
        (
            "CreateContainerConfigError",
            'secret "hub" not found',
            (Reason.SECRET_MISSING, 'CreateContainerConfigError: secret "hub" not found'),
        ),
        (
            "CreateContainerConfigError",
            "couldn't find key X in Secret team/hub",
            (Reason.CONFIG_MISSING, "CreateContainerConfigError: couldn't find key X in Secret team/hub"),
        ),
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "v" : secret "hub" not found',
            (
                Reason.SECRET_MISSING,
                'FailedMount: MountVolume.SetUp failed for volume "v" : secret "hub" not found',
            ),
        ),
        (
            "FailedAttachVolume",
            "it is elsewhere",
            (Reason.VOLUME_NOT_MOUNTED, "FailedAttachVolume: it is elsewhere"),
        ),
        ("RunContainerError", "no such file", (Reason.CANNOT_START, "RunContainerError: no such file")),
        ("ContainerCreating", "", None),
        ("CrashLoopBackOff", "back-off 10s", None),
        ("Pulling", "Pulling image", None),
    ],
)
def test_what_the_kubelet_says_of_a_container_or_a_volume_has_a_reason_of_ours(
    reason: str, message: str, cause: tuple[Reason, str] | None
) -> None:
    assert pod_readiness.why(reason, message) == cause


def test_of_several_pods_that_wait_on_their_nodes_the_first_is_told_with_the_next_step() -> None:
    held = (Reason.IMAGE_NOT_PULLED, f"ImagePullBackOff: {BACK_OFF}")
    found = (Pod("b", "node", held=held), Pod("a", "node", held=held), Pod("c", "node", ready=True))
    assert pod_readiness.seen(found, at(0)) == Nodes(
        1,
        held=Cause(
            Reason.IMAGE_NOT_PULLED,
            f"pod a: ImagePullBackOff: {BACK_OFF}; "
            "correct the image, or give the pods a pull secret for its registry",
        ),
    )


def test_its_event_is_the_sentence() -> None:
    told = pod_readiness.note(Nodes(0, f"pod b fits no node: {FULL}"))
    assert told == EventNote("Warning", "Unschedulable", f"Pod b fits no node: {FULL}")


@pytest.mark.parametrize(
    ("looks", "seconds"), [(0, 15), (1, 15), (2, 30), (3, 60), (4, 120), (5, 120), (10**6, 120)]
)
def test_the_longer_a_job_starts_the_rarer_are_the_looks(looks: int, seconds: float) -> None:
    assert pod_readiness.after(looks) == seconds
