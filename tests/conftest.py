"""Rules for every test: none is skipped quietly, a failed one says how busy the machine was,
cluster tests have an area; and which go together when several run at once.
"""

import functools
import gc
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from xdist.scheduler import LoadScopeScheduling

from trainyard_policies import site
from trainyard_policies.site import parameters

# Tests are of Trainyard's own rules, whatever rules of its own a site has; before anything reads them.
site.__path__ = []
# A shell has what runs in the background ignore Ctrl-C, and then the tests that send it wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
parameters.PARAMETERS = {}

END_TO_END = "tests/e2e/"
PLATFORM, ROLLOUT = "platform", "rollout"
"""What tests of e2e hold (tests/support/together.py)."""
AREAS_OF_THEIR_OWN = ("conformance", "faults")
"""Folders: what is in them is of the area of that name."""
BUDGETS = Path(__file__).with_name("harness") / "budgets.json"
"""The seconds that each file of a phase takes (tests/harness/budget.py)."""
SANDBOX_STACK = Path(__file__).parents[1] / "stacks" / "Pulumi.sandbox.yaml"
"""What the sandbox's queues hold is a setting of this file."""

hypothesis.settings.register_profile(
    "same",
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
_SAME = hypothesis.settings.get_profile("same")
hypothesis.settings.register_profile("more", _SAME, max_examples=300)
hypothesis.settings.register_profile("night", _SAME, max_examples=300, derandomize=False)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


class ByWhatIsShared(LoadScopeScheduling):
    """Tests run one after the other where they share a sandbox of their package; the others, file by file.

    Those of tests/e2e share a file's at most: each process that runs some has a
    sandbox of its own. Where the processes have one together, those who roll out
    are in one of them: side by side they would wait for each other.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope = _scope(nodeid)
        together = self.config.getoption("together") and scope.startswith(END_TO_END)
        return "rollouts" if together and _rolls_out(self.config.rootpath / scope) else scope


def _scope(nodeid: str) -> str:
    """The file of a test; its folder, if that has a sandbox for all its files."""
    file = nodeid.partition("::")[0]
    folder = file.rpartition("/")[0]
    return folder if folder.rpartition("/")[2] in AREAS_OF_THEIR_OWN else file


@functools.cache
def _rolls_out(file: Path) -> bool:
    return f'holds("{ROLLOUT}"' in file.read_text(encoding="utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting imports and makes stays: no collector of garbage looks through it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--together`: the processes of a run have one sandbox (tests/support/together.py).

    `--longest-first`: what takes longest begins first, so that no process is left
    with it at the end.
    """
    parser.addoption("--together", action="store_true", help="one sandbox for all processes")
    parser.addoption("--longest-first", metavar="PHASE", help="by the seconds of this phase's budget")


@pytest.hookimpl(tryfirst=True)  # before -m looks at what they are marked with
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Areas that are folders are said, what is about another system or another kind of queues than there is
    here is left out; and whole folders come first, the files of e2e after them.

    So processes end at about the same time. Of the files of e2e those come first
    with tests that run alone: whole folders have sandboxes of their own, and go on beside them. Then those
    that roll out, which take longest. With `--longest-first`, seconds alone decide.
    """
    for item in items:
        if (folder := item.path.parent.name) in AREAS_OF_THEIR_OWN and item.get_closest_marker("sandbox"):
            item.add_marker(pytest.mark.sandbox(area=folder))
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.examples)
    elsewhere = [item for item in items if _is_of_elsewhere(item)]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]
    phase = config.getoption("longest_first")
    items.sort(key=_longest_first(phase) if phase else _place)


def _is_of_elsewhere(item: pytest.Item) -> bool:
    if item.get_closest_marker("linux") and sys.platform != "linux":
        return True
    return (
        bool(item.get_closest_marker("jobset_queues")) and "trainer.kubeflow.org/trainjob" in _integrations()
    )


@functools.cache
def _integrations() -> list[str]:
    """The kinds of jobs that Kueue holds in the sandbox, if its stack file names them."""
    stack = yaml.load(SANDBOX_STACK.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    kinds: list[str] = stack["config"]["trainyard:platform"]["kueue"].get("integrations", [])
    return kinds


def _longest_first(phase: str) -> Callable[[pytest.Item], float]:
    """The place of a test: before those of which less is done in one process; new files come last."""
    seconds = Counter[str]()
    for file, taken in json.loads(BUDGETS.read_text(encoding="utf-8"))[phase]["files"].items():
        seconds[_scope(file)] += taken
    return lambda item: -seconds[_scope(item.nodeid)]


def _place(item: pytest.Item) -> int:
    if not item.nodeid.startswith(END_TO_END):
        return 0
    held = {name for mark in item.iter_markers("holds") for name in mark.args}
    return 1 if PLATFORM in held else 2 if ROLLOUT in held else 3


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """What `--numprocesses` hands to which process, in the order of collection."""
    config.option.loadscopereorder = False
    return ByWhatIsShared(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file whose tests do not run has failed too."""
    report = yield
    if _is_skipped_quietly(report):
        report.outcome = "failed"
        report.longrepr = _why_failed(collector.nodeid, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that does not run has failed, unless what it lacks is a GPU; a failed one says the load."""
    report = yield
    if _is_skipped_quietly(report):
        report.outcome = "failed"
        report.longrepr = _why_failed(item.nodeid, report)
    if report.failed:
        report.user_properties.append(("load", f"{os.getloadavg()[0]:.1f}"))
    return report


def _is_skipped_quietly(report: pytest.CollectReport | pytest.TestReport) -> bool:
    return report.skipped and "GPU" not in _reason(report)


def _reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    """Of a skip, without the place, which may have any name; nothing of a test that may fail."""
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else ""


def _why_failed(name: str, report: pytest.CollectReport | pytest.TestReport) -> str:
    return f"{name} was skipped, which is a failure: {report.longrepr}"
