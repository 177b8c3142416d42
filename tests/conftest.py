"""Rules for every test: none is skipped quietly; and which go together when several run at once."""

from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

END_TO_END = "tests/e2e/"


class ByWhatIsShared(LoadScopeScheduling):
    """Tests run one after the other where they share a fixture of their package.

    Those of tests/e2e share a file's at most: each process that runs some has a
    sandbox of its own.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if file.startswith(END_TO_END) else file.rpartition("/")[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole folders first, the files of e2e after them: so processes end at about the same time."""
    items.sort(key=lambda item: item.nodeid.startswith(END_TO_END))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """What `--numprocesses` hands to which process, in the order of collection."""
    config.option.loadscopereorder = False
    return ByWhatIsShared(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that does not run has failed, unless what it lacks is a GPU."""
    report = yield
    if report.skipped and "GPU" not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, which is a failure: {report.longrepr}"
    return report
