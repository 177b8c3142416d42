"""Rules for every test: none is skipped quietly."""

from collections.abc import Generator

import pytest


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
