"""The golden corpus: what Kubeflow Trainer v2.3.0 itself builds, recorded, and what `render` builds.

A case whose plugins are all registered is compared as a whole. The others
stand in one table with the plugin that they wait for.
"""

import io
from pathlib import Path

import pytest

from trainyard_api import documents
from trainyard_cli.render import run
from trainyard_operator import framework, plugins

GOLDEN = Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in (GOLDEN / "expected").glob("*.yaml"))
RUNTIMES = sorted((GOLDEN / "runtimes").glob("*.yaml"))

WAITING = {
    "04-torch-ports-envinjection": "coscheduling",
    "05-deepspeed-1node": "mpi",
    "06-deepspeed-3node-gpu": "mpi",
    "14-volcano": "volcano",
    "17-mpi-three": "mpi",
}
"""Cases of `expected` that are not compared yet, and the plugin that each waits for."""

WAITING_GATES = {"TrainJobStatus": "trainjobstatus"}
"""Feature gates whose folder of expectations is not compared yet, and the plugin that each waits for."""

REGISTERED = {plugin.name for plugin in plugins.ALL}


def load(path):
    return [document.value for document in documents.parse(path.read_text(), path.name)]


def render(case):
    out, err = io.StringIO(), io.StringIO()
    code = run([GOLDEN / "trainjobs" / f"{case}.yaml", *RUNTIMES], out=out, err=err)
    return code, [document.value for document in documents.parse(out.getvalue(), "out")], err.getvalue()


def by_kind_and_name(objects):
    return sorted(objects, key=lambda item: (item["kind"], item["metadata"]["name"]))


def needed(case):
    """The plugins that a case needs, by what its runtime and its TrainJob ask for."""
    (job,) = load(GOLDEN / "trainjobs" / f"{case}.yaml")
    (runtime,) = load(GOLDEN / "runtimes" / f"{job['spec']['runtimeRef']['name']}.yaml")
    sources = set(runtime["spec"].get("mlPolicy", {})) | set(runtime["spec"].get("podGroupPolicy", {}))
    if job["spec"].get("trainer", {}).get("command") == ["tune", "run"]:
        sources.add("torchtune")
    return sources - {"numNodes"}


@pytest.mark.parametrize("case", [case for case in CASES if case not in WAITING])
def test_render_builds_what_trainer_builds(case):
    code, built, errors = render(case)
    assert (code, errors) == (0, "")
    assert built == by_kind_and_name(load(GOLDEN / "expected" / f"{case}.yaml"))


def test_every_case_that_waits_needs_a_plugin_that_is_not_registered_and_no_other_case_does():
    missing = {case: needed(case) - REGISTERED for case in CASES}
    assert {case: names for case, names in missing.items() if names} == {
        case: {name} for case, name in WAITING.items()
    }


def test_every_gate_that_waits_needs_a_plugin_that_is_not_registered():
    assert set(WAITING_GATES.values()).isdisjoint(REGISTERED)
    assert framework.implemented("featureGates", plugins.ALL).isdisjoint(WAITING_GATES)


@pytest.mark.parametrize("case", WAITING)
def test_a_policy_without_a_plugin_is_refused_and_never_ignored(case):
    code, built, errors = render(case)
    assert (code, built) == (1, [])
    assert WAITING[case] in errors
