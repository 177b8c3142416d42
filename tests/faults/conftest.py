"""One control plane for all recipes, what comes of each life without a fault, and how much was tried."""

import pytest

from . import lives, scene

_TRIED = "tried"
"""The property of a report that says so."""


@pytest.fixture(scope="package")
def stage(tmp_path_factory):
    """The scene of all recipes."""
    with scene.opened("faults", tmp_path_factory.mktemp("faults")) as found:
        yield found


@pytest.fixture
def unhurt(stage):
    """The scene, from which a recipe's faults are gone afterwards, and whose operator is well again."""
    yield stage
    stage.proxy.heal()
    stage.replica.ready()
    assert stage.unexpected_ends() == [], f"the operator has ended by itself; see {stage.replica.log}"


class References(dict):
    """By life: what comes of it, and the writes that it takes, undisturbed. Lived when asked for."""

    def __init__(self, stage):
        super().__init__()
        self._stage = stage

    def __missing__(self, life):
        self.live(life)
        return self[life]

    def live(self, *wanted):
        """Live these, all at once."""
        cases = [(self._stage.case(), life) for life in wanted]
        for (case, life), outcome in zip(cases, lives.all_at_once(cases), strict=True):
            assert lives.violations(case) == []
            self[life] = outcome, self._stage.proxy.writes(case.namespace)


@pytest.fixture(scope="package")
def references(stage):
    """What comes of each life without a fault."""
    found = References(stage)
    found.live(*lives.LIVES)
    return found


@pytest.fixture
def tried(record_property):
    """Called with a recipe, and how many of how many cases it has tried: said at the end of the run."""
    return lambda recipe, ran, of: record_property(_TRIED, f"{recipe}: {ran} of {of} cases")


def pytest_terminal_summary(terminalreporter):
    """Say how much was tried."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    lines = [line for report in reports for name, line in report.user_properties if name == _TRIED]
    if lines:
        terminalreporter.section("faults")
        for line in lines:
            terminalreporter.line(line)
