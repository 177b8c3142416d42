"""PU-14: the operator of the version before and ours take turns under live TrainJobs."""

import subprocess
import tarfile
from io import BytesIO

import pytest

from tests.support.patience import eventually, nothing_comes
from trainyard_sandbox.paths import PROJECT

from .gaps import complete, is_complete, run, running
from .lives import GANG, PLAIN, becomes_suspended, run_to_its_end
from .scene import QUIET

PREVIOUS = "d11be1bdc970"
"""What stands for the version before until there is one: where the operator's configuration, webhooks,
status server and plugins were first together. A release puts its predecessor's tag here."""


@pytest.fixture(scope="module")
def previous(tmp_path_factory):
    """A folder with the operator's modules of the version before."""
    folder = tmp_path_factory.mktemp("previous")
    archive = ("git", "archive", PREVIOUS, "api", "operator")
    packed = subprocess.run(archive, cwd=PROJECT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as tar:
        tar.extractall(folder, filter="data")
    return folder / "api", folder / "operator"


def a_running_gang(case):
    case.create(GANG)
    run(case)


def suspended(case):
    case.create(PLAIN, suspend=True)
    becomes_suspended(case, True)


def resumed(case):
    suspended(case)
    case.patch(suspend=False)
    becomes_suspended(case, False)


STATES = (running, a_running_gang, suspended, resumed, run_to_its_end)


def begin(scene):
    """A TrainJob in each state, made by who leads."""
    cases = [(scene.case(), state) for state in STATES]
    for case, state in cases:
        state(case)
    nothing_comes(QUIET)
    return cases


def what_is_there(cases):
    """Objects and all that was written for them."""
    return {
        state.__name__: (case.trainjob, case.jobset, len(case.scene.proxy.writes(case.namespace)))
        for case, state in cases
    }


def finish(cases):
    """Whatever they do, who leads now goes on with them."""
    for case, state in cases:
        if state is suspended:
            case.patch(suspend=False)
            becomes_suspended(case, False)
        if state is not run_to_its_end:
            complete(case)
        case.until("it is complete", lambda case=case: is_complete(case))


@pytest.mark.soak
def test_ours_and_the_version_before_take_turns_and_no_object_changes(unhurt, previous, tried):
    scene, ours = unhurt, unhurt.replica
    with scene.another("before", modules=previous, retention={}) as (_, before):
        ours.stop()
        try:
            eventually("the version before leads", lambda: before.leads)
            old = begin(scene)
            seen = what_is_there(old)

            ours.start()
            before.stop()
            eventually("ours leads", lambda: ours.leads)
            nothing_comes(2 * QUIET)
            assert what_is_there(old) == seen
            new = begin(scene)
            seen |= {f"new {name}": found for name, found in what_is_there(new).items()}

            before.start()
            ours.stop()
            eventually("the version before leads again", lambda: before.leads)
            nothing_comes(2 * QUIET)
            both = what_is_there(old) | {f"new {n}": found for n, found in what_is_there(new).items()}
            assert both == seen
            finish(old + new)
        finally:
            ours.start()
    tried("PU-14 the version before, ours, the version before", len(STATES), len(STATES))
