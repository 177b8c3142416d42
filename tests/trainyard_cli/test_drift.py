"""`trainyard drift`: what it asks of the API server for each object, what it prints, and its exit codes."""

import asyncio
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.trainyard_operator.fake_api import FakeApi, run, status
from trainyard_cli import drift as command
from trainyard_cli import drift_judge
from trainyard_cli.explain import Output
from trainyard_platform.drift import writers
from trainyard_platform.drift.comparison import Row
from trainyard_platform.drift.differences import ABSENT
from trainyard_platform.drift.ownership import Writer
from trainyard_platform.drift.verdicts import Ref, State, Verdict

MAPS = "/api/v1/namespaces/team-a/configmaps"
PATH = f"{MAPS}/one"
REF = Ref("v1", "ConfigMap", "team-a", "one")
AT = "2026-02-01T00:00:00Z"
HAND = Writer("kubectl-edit", "Update", AT)
ADDED = Row("data.b", ABSENT, "2", HAND)


def config_map(name: str = "one", **metadata: Any) -> dict[str, Any]:
    named = {"name": name, "namespace": "team-a", **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"a": "1"}}


def edited(**metadata: Any) -> dict[str, Any]:
    """As git says, with a key that somebody has added."""
    fields = {"f:data": {"f:b": {}}}
    entry = {"manager": HAND.manager, "operation": HAND.operation, "time": AT, "fieldsV1": fields}
    return {**config_map(managedFields=[entry], **metadata), "data": {"a": "1", "b": "2"}}


def judged(api: FakeApi, *manifests: dict[str, Any]) -> list[Verdict]:
    found: list[Verdict] = []

    async def test() -> None:
        async with api.client() as client:
            found.extend(await drift_judge.judge(client, manifests or [config_map()], writers.table()))

    run(test)
    return found


@pytest.mark.parametrize(
    ("live", "verdict"),
    [
        pytest.param(config_map(), Verdict(REF, State.SAME), id="same"),
        pytest.param(edited(), Verdict(REF, State.DIFFERS, (ADDED,)), id="something added"),
        pytest.param(None, Verdict(REF, State.MISSING), id="missing"),
        pytest.param(
            edited(deletionTimestamp=AT, finalizers=["a.io/keep", "b.io/keep"]),
            Verdict(REF, State.GOING, why=f"since {AT}, held by a.io/keep, b.io/keep"),
            id="being deleted and held",
        ),
        pytest.param(
            config_map(deletionTimestamp=AT), Verdict(REF, State.GOING, why=f"since {AT}"), id="being deleted"
        ),
    ],
)
def test_an_object_is_compared_with_what_git_says(live: dict[str, Any] | None, verdict: Verdict) -> None:
    api = FakeApi()
    if live is not None:
        api.put(PATH, live)
    before = dict(api.objects)
    assert judged(api) == [verdict]
    assert api.objects == before, "it is a dry run"


def test_a_kind_that_the_cluster_does_not_know_is_missing() -> None:
    manifest = {**config_map(), "apiVersion": "queue.example/v1", "kind": "Queue"}
    [verdict] = judged(FakeApi(), manifest)
    assert (verdict.state, verdict.why) == (State.MISSING, "the cluster has no Queue of queue.example/v1")


def test_where_the_api_server_has_the_objects_of_a_version_is_asked_once() -> None:
    api = FakeApi()
    names = ["one", "two", "three"]
    for name in names:
        api.put(f"{MAPS}/{name}", config_map(name))
    verdicts = judged(api, *(config_map(name) for name in names))
    assert [verdict.ref.name for verdict in verdicts] == names
    assert api.requests.count(("GET", "/api/v1")) == 1


@pytest.mark.parametrize(("times", "state"), [(4, State.DIFFERS), (5, State.UNJUDGED)])
def test_an_object_that_somebody_writes_to_meanwhile_is_read_again_five_times(
    times: int, state: State
) -> None:
    api = FakeApi()
    api.put(PATH, edited())
    for _ in range(times):
        api.refuse_next("PUT", PATH, status(409, "Conflict", "the object has been modified"))
    [verdict] = judged(api)
    assert verdict.state is state
    assert api.requests.count(("GET", PATH)) == 5
    said = "somebody wrote to it each time, 5 times; try again"
    assert verdict.why == (said if state is State.UNJUDGED else "")


@pytest.mark.parametrize(
    ("method", "answer", "verdict"),
    [
        pytest.param(
            "GET",
            status(403, "Forbidden", "you may not get it"),
            Verdict(REF, State.UNJUDGED, why="403 Forbidden: you may not get it"),
            id="who may not read",
        ),
        pytest.param(
            "PUT",
            status(403, "Forbidden", "you may not update it"),
            Verdict(REF, State.UNJUDGED, why="403 Forbidden: you may not update it"),
            id="who may read alone",
        ),
        pytest.param(
            "PUT",
            status(500, "InternalError", "failed calling webhook"),
            Verdict(REF, State.UNJUDGED, why="500 InternalError: failed calling webhook"),
            id="a webhook that is down",
        ),
        pytest.param(
            "PUT",
            status(422, "Invalid", "spec.selector: field is immutable"),
            Verdict(REF, State.REPLACED, why="spec.selector: field is immutable"),
            id="what cannot be changed",
        ),
        pytest.param(
            "PUT",
            status(422, "Invalid", "data: too long"),
            Verdict(REF, State.UNJUDGED, why="422 Invalid: data: too long"),
            id="what the API server finds wrong",
        ),
        pytest.param("PUT", status(404, "NotFound"), Verdict(REF, State.MISSING), id="gone meanwhile"),
    ],
)
def test_what_the_api_server_refuses_is_never_called_the_same(
    method: str, answer: dict[str, Any], verdict: Verdict
) -> None:
    api = FakeApi()
    api.put(PATH, edited())
    api.refuse_next(method, PATH, answer)
    assert judged(api) == [verdict]


VERDICTS = (
    Verdict(Ref("v1", "Secret", "b", "same"), State.SAME),
    Verdict(Ref("v1", "Secret", "b", "unknown"), State.UNJUDGED, why="403 Forbidden: no"),
    Verdict(
        REF,
        State.DIFFERS,
        (
            ADDED,
            Row("data.c", {"a": "x" * 200}, ABSENT, None),
            Row("metadata.labels.d", "1", "2\n\x1b[1m", Writer("", "Update", "")),
        ),
    ),
    Verdict(Ref("v1", "ConfigMap", "", "gone"), State.MISSING),
    Verdict(Ref("v1", "ConfigMap", "", "goes"), State.GOING, why=f"since {AT}"),
)


def test_the_text_names_each_object_what_is_where_and_by_whom() -> None:
    assert command.as_text(command.document("prod", VERDICTS)) == (
        "ConfigMap goes: being deleted, since 2026-02-01T00:00:00Z\n"
        "\n"
        "ConfigMap gone: missing\n"
        "\n"
        "ConfigMap team-a/one: different\n"
        "  + data.b: 2 (by kubectl-edit, 2026-02-01T00:00:00Z)\n"
        f'  - data.c: {{"a": "{"x" * 110}...\n'
        "  ~ metadata.labels.d: 1 in git, 2  in the cluster (by a client without a name)\n"
        "\n"
        "Secret b/unknown: not judged, 403 Forbidden: no\n"
        "\n"
        "+ only in the cluster, - only in git, ~ differs; by: what the client that wrote it calls itself\n"
        "prod, of 5 objects: 1 being deleted, 1 different, 1 missing, 1 not judged, 1 same\n"
    )


def test_where_all_is_as_git_says_one_line_says_so() -> None:
    same = Verdict(REF, State.SAME)
    assert command.as_text(command.document("prod", [same, same])) == (
        "prod: all 2 objects are what git says\n"
    )


def test_where_nothing_may_be_asked_a_few_are_named_and_the_rest_is_counted() -> None:
    refused = [Verdict(Ref("v1", "ConfigMap", "", f"{n:02}"), State.UNJUDGED, why="no") for n in range(12)]
    assert command.as_text(command.document("prod", refused)).splitlines() == [
        *(f"ConfigMap {n:02}: not judged, no" for n in range(10)),
        "and 2 more that are not judged: --output json has them all",
        "",
        "prod, of 12 objects: 12 not judged",
    ]


def test_the_json_is_the_whole_answer() -> None:
    found = command.document("prod", VERDICTS[:3])
    assert found == {
        "apiVersion": "drift.trainyard.dev/v1alpha1",
        "kind": "Drift",
        "stack": "prod",
        "objects": {"different": 1, "not judged": 1, "same": 1},
        "findings": [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "namespace": "team-a",
                "name": "one",
                "state": "different",
                "why": "",
                "fields": [
                    {
                        "path": "data.b",
                        "there": "2",
                        "writer": {"manager": "kubectl-edit", "operation": "Update", "at": AT},
                    },
                    {"path": "data.c", "git": {"a": "x" * 200}, "writer": None},
                    {
                        "path": "metadata.labels.d",
                        "git": "1",
                        "there": "2\n\x1b[1m",
                        "writer": {"manager": "", "operation": "Update", "at": ""},
                    },
                ],
            },
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "namespace": "b",
                "name": "unknown",
                "state": "not judged",
                "why": "403 Forbidden: no",
                "fields": [],
            },
        ],
    }


Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answer:
    """Runs the command for a stack that is one ConfigMap, at this address."""
    inputs = {"__initialApiVersion": "v1", **config_map()}
    resource = {"urn": "urn:one", "type": "kubernetes:core/v1:ConfigMap", "custom": True, "inputs": inputs}
    state = {"deployment": {"resources": [resource]}}
    monkeypatch.setattr(command.rendering, "state", lambda *_: state)

    def run_it(server: str, stack: str = "sandbox", output: Output = Output.TEXT) -> tuple[int, str, str]:
        kubeconfig = tmp_path / "kubeconfig"
        parts: dict[str, Sequence[Any]] = {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }
        kubeconfig.write_text(json.dumps({"current-context": "x", **parts}))
        out, err = io.StringIO(), io.StringIO()
        code = command.run(stack, kubeconfig=str(kubeconfig), output=output, out=out, err=err)
        return code, out.getvalue(), err.getvalue()

    return run_it


SAID = "Rendering the stack sandbox ...\n"


@pytest.mark.parametrize(("live", "code"), [(config_map(), 0), (edited(), 1)])
def test_the_exit_code_says_whether_the_cluster_is_what_git_says(
    ask: Answer, live: dict[str, Any], code: int
) -> None:
    api = FakeApi()
    api.put(PATH, live)

    async def test() -> tuple[int, str, str]:
        async with api.serving() as url:
            return await asyncio.to_thread(ask, url, output=Output.JSON)

    answered, out, err = run(test)
    assert (answered, err) == (code, f"{SAID}Comparing 1 objects with the cluster ...\n")
    assert [one["name"] for one in json.loads(out)["findings"]] == ["one"] * code


def test_where_nobody_answers_that_is_said_once(ask: Answer) -> None:
    code, out, err = ask("http://127.0.0.1:1")
    assert (code, out) == (2, "")
    assert err.startswith(f"{SAID}Comparing 1 objects with the cluster ...\n")
    assert "127.0.0.1:1" in err


def test_a_stack_that_is_not_there_is_named(ask: Answer) -> None:
    code, out, err = ask("http://127.0.0.1:1", "nowhere")
    assert (code, out) == (2, "")
    assert "Pulumi.nowhere.yaml:1: No such file or directory" in err
