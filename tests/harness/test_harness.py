"""The gate itself: tests that fail, are unsteady or hang on purpose, and what is said of them at the end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.patience import eventually

from .__main__ import main, run
from .phases import AREAS, CORE_FOLDERS, PROJECT, Step, steps
from .phases import pytest as run_of_pytest
from .results import Failure, Results, read
from .verdict import LINES, Phase, judged, junit, told

FAILS = """
def test_that_fails():
    raise AssertionError("not within 120 s: the moon is blue\\nat last: it is grey")
"""
PASSES_THEN = """
from pathlib import Path

def test_that_is_unsteady{number}():
    seen = Path("seen{number}")
    if not seen.exists():
        seen.touch()
        raise AssertionError("not yet")
"""
HANGS = """
import time

def test_that_hangs():
    time.sleep(600)
"""
PASSES = """
def test_that_passes(): ...
"""


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """A shell has what it starts in the background ignore SIGINT, and its children with it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def looked_at(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    *texts: str,
    patience: int = 60,
    limit: float = 120,
    after: tuple[Step, ...] = (),
) -> tuple[int, str]:
    """The exit code of a run of these tests and of what comes after, and what it says at its end."""
    (folder / "conftest.py").write_text((PROJECT / "tests" / "conftest.py").read_text())
    for number, text in enumerate(texts):
        (folder / f"test_{number}.py").write_text(text)
    command = run_of_pytest(f"--rootdir={folder}", "-p", "no:cacheprovider", patience=patience)
    code = run([Step("core", command, limit, "--report-log={}", again=command), *after], folder)
    said = capsys.readouterr().out
    return code, said[said.index("== where the time went") :]


def case(folder: Path, name: str) -> ElementTree.Element:
    found = ElementTree.parse(folder / ".reports" / "junit.xml").find(f"testcase[@name='{name}']")
    assert found is not None
    return found


def test_all_is_well_is_said_in_a_few_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = looked_at(tmp_path, capsys, PASSES)
    assert code == 0
    assert re.fullmatch(
        r"== where the time went\n"
        r"   core +\d+ s   1 passed, 0 failed\n"
        r"   load now: \S+ on \d+ processors\n"
        r"\n"
        r"PASSED in \d+ s: 0 failed, 0 unsteady.\n",
        said,
    ), said
    assert [*case(tmp_path, "test_that_passes")] == []


def test_a_test_that_fails_twice_is_told_with_its_place_its_reason_what_was_last_and_the_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = looked_at(tmp_path, capsys, PASSES, FAILS)
    assert code == 1
    assert re.search(
        r"   core +\d+ s   1 passed, 1 failed\n"
        r"   second look +\d+ s   0 passed, 1 failed\n"
        r"(.*\n)+"
        r"== failed\n"
        r"test_1.py::test_that_fails\n"
        r"   in call, \S+test_1.py:3 at \d\d:\d\d:\d\d, load \S+\n"
        r"   AssertionError: not within 120 s: the moon is blue\n"
        r" *at last: it is grey\n"
        r"   and again for the same reason\n"
        r"\n"
        r"FAILED in (\d+ min )?\d+ s: 1 failed, 0 unsteady.\n$",
        said,
    ), said
    assert [child.tag for child in case(tmp_path, "test_that_fails")] == ["failure", "failure"]


def test_a_test_that_passes_when_it_is_run_again_is_unsteady_and_named_with_both_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = looked_at(tmp_path, capsys, PASSES_THEN.format(number=""))
    assert code == 0
    assert re.search(
        r"== unsteady: failed, and passed when run again, alone \(more than 2 fail the run\)\n"
        r"test_0.py::test_that_is_unsteady\n"
        r"   in call, \S+: failed after \d+ s at \S+, load \S+, then passed in \d+ s\n"
        r"   AssertionError: not yet\n"
        r"\n"
        r"PASSED in \d+ s: 0 failed, 1 unsteady.\n$",
        said,
    ), said
    [flaky] = case(tmp_path, "test_that_is_unsteady")
    assert (flaky.tag, flaky.get("message")) == ("flakyFailure", "AssertionError: not yet")


@pytest.mark.parametrize(("text", "goes_on"), [(PASSES_THEN.format(number=""), True), (FAILS, False)])
def test_a_run_goes_on_behind_what_passes_when_it_is_run_again_and_behind_nothing_else(
    text: str, goes_on: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    after = Step("after", [sys.executable, "-c", "open('ran', 'w')"], 60)
    code, said = looked_at(tmp_path, capsys, text, after=(after,))
    assert (code == 0, (tmp_path / "ran").exists()) == (goes_on, goes_on)
    assert (re.search(r"\n   second look .*\n   after +\d+ s\n", said) is not None) is goes_on, said


def test_more_than_two_unsteady_tests_fail_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = looked_at(tmp_path, capsys, *(PASSES_THEN.format(number=number) for number in range(3)))
    assert code == 1
    assert said.endswith("0 failed, 3 unsteady.\n")


def test_a_fixture_that_fails_is_one_failure_for_all_its_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixture = PASSES_THEN.format(number="").replace("def test_that_is_unsteady", "@pytest.fixture\ndef flaky")
    fixture = fixture.replace("@pytest.fixture", "@pytest.fixture(scope='module')")
    tests = "".join(f"\ndef test_{number}(flaky): ...\n" for number in range(5))
    code, said = looked_at(tmp_path, capsys, f"import pytest\n{fixture}{tests}")
    assert (code, said.splitlines()[-1].partition(": ")[2]) == (0, "0 failed, 5 unsteady.")
    assert "test_0.py::test_0 and 4 more tests with the same fixture\n" in said
    assert said.count("not yet") == 1


@pytest.mark.long
def test_a_test_that_hangs_is_ended_and_told_as_one_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = looked_at(tmp_path, capsys, HANGS, PASSES, patience=2)
    assert code == 1
    assert "test_0.py::test_that_hangs\n" in said
    assert "Timeout (>2" in said
    assert "1 passed, 1 failed" in said


@pytest.mark.long
def test_a_run_that_comes_to_no_end_is_ended_and_says_what_was_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = looked_at(tmp_path, capsys, PASSES, HANGS, patience=0, limit=8)
    assert code == 1
    assert "core was ended after 8 s, its limit\n   was running: test_1.py::test_that_hangs\n" in said
    assert re.search(
        r"FAILED in (\d+ min )?\d+ s: 0 failed, 0 unsteady, core did not come to an end.\n$", said
    ), said


def test_a_step_that_runs_no_tests_is_told_by_its_last_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = "import sys; print('a'); print('no such wheel'); sys.exit(3)"
    after = Step("never", ["false"], 10)
    code = run([Step("tools", [sys.executable, "-c", script], 60), after], tmp_path)
    said = capsys.readouterr().out
    assert code == 1
    assert "tools ended with exit code 3\n   a\n   no such wheel\n" in said
    assert "never" not in said


def test_what_a_step_leaves_running_ends_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import subprocess; print('left', subprocess.Popen(['sleep', '600']).pid)"
    assert run([Step("tools", [sys.executable, "-c", script], 60)], tmp_path) == 0
    left = re.search(r"^left (\d+)$", capsys.readouterr().out, re.MULTILINE)
    assert left
    environment = Path("/proc", left[1], "environ")  # of a process that has ended and was not asked, empty
    eventually("it has ended", lambda: not environment.exists() or not environment.read_bytes())


def test_junit_has_an_error_for_what_came_to_no_end_and_tells_the_skipped_from_those_that_passed() -> None:
    lines = [
        {"nodeid": "a.py::passes", "when": "teardown", "outcome": "passed", "duration": 1.0},
        {"nodeid": "a.py::hangs", "when": "setup", "outcome": "passed", "duration": 2.0},
        {
            "nodeid": "a.py::is_skipped",
            "when": "setup",
            "outcome": "skipped",
            "duration": 0.0,
            "longrepr": ["a.py", 3, "Skipped: no GPU"],
        },
        {"nodeid": "a.py::is_skipped", "when": "teardown", "outcome": "passed", "duration": 0.0},
    ]
    found = read(json.dumps({"$report_type": "TestReport", **line}) for line in lines)
    phases = [Phase("core", 8.0, -9, found, last=["killed\x00"], limit=8.0)]
    verdict = judged(phases)
    assert "1 passed, 0 failed, 1 skipped\n" in told(phases, verdict, "", "")
    suite = ElementTree.fromstring(junit(phases, verdict))
    counted = {"tests": "4", "failures": "0", "errors": "2", "skipped": "1"}
    assert suite.attrib == {"name": "trainyard", **counted}
    assert {
        (case.get("classname"), case.get("name")): [(e.tag, e.get("message"), e.text) for e in case]
        for case in suite
    } == {
        ("a.py", "passes"): [],
        ("a.py", "hangs"): [("error", "was running when core ended", None)],
        ("a.py", "is_skipped"): [("skipped", "Skipped: no GPU", None)],
        ("phase", "core"): [
            (
                "error",
                "core was ended after 8 s, its limit",
                "   was running: a.py::hangs\n   killed?",
            )
        ],
    }


def test_types_that_are_wrong_are_told_beside_a_test_that_fails() -> None:
    failure = Failure("a.py::fails", "call", "a.py:1", "AssertionError: no")
    last = ["a.py:3: error: Incompatible types", "Found 1 error in 1 file (checked 9 source files)"]
    phases = [Phase("check", 8.0, 2, Results({"a.py::fails": 1.0}, {"a.py::fails": failure}), last)]
    said = told(phases, judged(phases), "", "")
    assert said[said.index("== may") :] == (
        "== may have failed by more than tests: the last lines\n"
        "check ended with exit code 2\n"
        "   a.py:3: error: Incompatible types\n"
        "   Found 1 error in 1 file (checked 9 source files)\n"
        "\n"
        "== failed\n"
        "a.py::fails\n"
        "   in call, a.py:1\n"
        "   AssertionError: no\n"
        "\n"
        "FAILED in 8 s: 1 failed, 0 unsteady."
    )


def test_however_much_fails_the_end_fits_and_each_test_is_named_while_there_is_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "\n".join(
        f"def test_{n}():\n    raise AssertionError('{n} ' + 'long\\n' * 500)" for n in range(18)
    )
    code, said = looked_at(tmp_path, capsys, long)
    assert code == 1
    assert len(said.splitlines()) <= LINES
    assert re.findall(r"^test_0.py::test_(\d+)$", said, re.MULTILINE) == [str(n) for n in range(18)]


def test_ctrl_c_ends_the_tests_and_all_that_they_have_started(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        """
import os, subprocess, time
from pathlib import Path

def test_that_waits():
    started = subprocess.Popen(["sleep", "600"])
    try:
        Path("pid").write_text(str(started.pid))
        time.sleep(600)
    finally:
        started.kill()
        started.wait()
"""
    )
    script = (
        "import signal, sys; from pathlib import Path; from tests.harness import __main__ as m, phases;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"
        "signal.signal(signal.SIGTERM, signal.default_int_handler);"
        "step = m.Step('core', phases.pytest('--rootdir=.', '-p', 'no:cacheprovider', patience=0), 600);"
        "m.run([step], Path.cwd())"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env=environment)
    deadline = time.monotonic() + 120
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) != 0
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_an_area_that_there_is_not_is_refused_with_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["e2e", "--area", "tenant"])
    said = capsys.readouterr().err
    assert "invalid choice: 'tenant'" in said
    assert all(area in said for area in AREAS)


@pytest.mark.long
def test_each_cluster_test_has_one_area_and_is_run_by_make_e2e_and_each_area_has_one_of_the_core(
    tmp_path: Path,
) -> None:
    """Asked of pytest itself, which does not run them."""
    (tmp_path / "listing.py").write_text(
        """
import json, pathlib

MARKS = {"core", "examples", "long", "sandbox", "soak"}

def pytest_collection_finish(session):
    found = [
        {
            "test": item.nodeid,
            "marks": sorted({mark.name for mark in item.iter_markers()} & MARKS),
            "areas": [m.kwargs["area"] for m in item.iter_markers("sandbox") if "area" in m.kwargs],
        }
        for item in session.items
    ]
    pathlib.Path(__file__).with_name("found.json").write_text(json.dumps(found))
"""
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-qq",
        "-p",
        "listing",
        "-p",
        "no:cacheprovider",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    e2e = list(steps()["e2e"].command)
    chosen = e2e[e2e.index("-m", e2e.index("pytest")) + 1]
    subprocess.run(
        [*command, "-m", f"({chosen}) or core"], cwd=PROJECT, env=environment, check=True, capture_output=True
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert [one for one in found if "soak" in one["marks"]] == [], "an hour is nothing for `make e2e`"
    assert [one for one in found if {"core", "sandbox"} & {*one["marks"]} == {"core"}] == []
    found = [one for one in found if "sandbox" in one["marks"]]  # the others are long, or made up
    assert [one for one in found if len(one["areas"]) != 1 or one["areas"][0] not in AREAS] == []
    core = [one["test"] for one in found if "core" in one["marks"]]
    assert [test for test in core if not test.startswith(CORE_FOLDERS)] == []
    of_the_core = {one["areas"][0] for one in found if "core" in one["marks"]}
    assert of_the_core == AREAS.keys() - {"api"}, "kubectl itself is all that tests of `api` are about"
    assert len(found) >= 661


def test_contributing_names_each_area() -> None:
    said = (PROJECT / "CONTRIBUTING.md").read_text()
    named = re.search(r"Tests in (.*)\. A test holds", said)
    assert named
    words = re.findall(r"`(?:tests/)?([a-z]+)`", named[1])
    assert sorted(words) == sorted(AREAS)
