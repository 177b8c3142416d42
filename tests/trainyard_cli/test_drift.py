"""`trainyard drift`: what it asks of the API server for each object, what it prints, and its exit codes."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.support import fake_api
from tests.support.answers import answered
from tests.support.fake_api import FakeApi, run, status
from trainyard_cli.cluster import drift_judge, drift_unmanaged, moves
from trainyard_cli.cluster.drift_unmanaged import Beside
from trainyard_cli.commands import drift as command
from trainyard_cli.files import rendering
from trainyard_cli.output import Output
from trainyard_delivery.drift import writers
from trainyard_delivery.drift.comparison import Row
from trainyard_delivery.drift.differences import ABSENT
from trainyard_delivery.drift.ownership import Writer
from trainyard_delivery.drift.unmanaged import RBAC, Unmanaged
from trainyard_delivery.drift.verdicts import Ref, State, Verdict, exit_code
from trainyard_delivery.pulumi_state import Identity
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.drift import Drift

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
        pytest.param(edited(), Verdict(REF, State.DIFFERENT, (ADDED,)), id="something added"),
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


@pytest.mark.parametrize(("times", "state"), [(4, State.DIFFERENT), (5, State.UNJUDGED)])
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
    said = "it was changed during each of 5 tries; try again"
    assert verdict.why == (said if state is State.UNJUDGED else "")


STATEFUL = "updates to statefulset spec for fields other than 'replicas' and 'template' are forbidden"


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
            status(422, "Invalid", "roleRef: Invalid value: {}: cannot change roleRef"),
            Verdict(REF, State.REPLACED, why="roleRef: Invalid value: (not shown): cannot change roleRef"),
            id="the role of a binding",
        ),
        pytest.param(
            "PUT",
            status(422, "Invalid", f"spec: Forbidden: {STATEFUL}"),
            Verdict(REF, State.REPLACED, why=f"spec: Forbidden: {STATEFUL}"),
            id="what a StatefulSet keeps",
        ),
        pytest.param(
            "PUT",
            status(422, "Invalid", "parameters: Forbidden: updates to parameters are forbidden."),
            Verdict(REF, State.REPLACED, why="parameters: Forbidden: updates to parameters are forbidden."),
            id="what a StorageClass keeps",
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


def repaired(api: FakeApi, *verdicts: Verdict) -> list[Verdict]:
    found: list[Verdict] = []

    async def test() -> None:
        async with api.client() as client:
            answers = drift_judge.put_right(client, [config_map()], verdicts, writers.table())
            found.extend([verdict async for verdict in answers])

    run(test)
    return found


def test_what_differs_is_put_right_with_one_write() -> None:
    api = FakeApi()
    api.put(PATH, edited(uid="u"))
    assert repaired(api, Verdict(REF, State.DIFFERENT, (ADDED,))) == [Verdict(REF, State.REPAIRED, (ADDED,))]
    live = api.objects[PATH]
    assert (live["data"], live["metadata"]["uid"]) == ({"a": "1"}, "u")
    assert judged(api) == [Verdict(REF, State.SAME)]


def test_what_has_changed_since_it_was_told_is_left_as_it_is() -> None:
    api = FakeApi()
    live = api.put(PATH, edited())
    told = Row("data.b", ABSENT, "another", HAND)
    [verdict] = repaired(api, Verdict(REF, State.DIFFERENT, (told,)))
    assert (verdict.state, verdict.why) == (State.UNJUDGED, "somebody has changed it since; try again")
    assert api.objects[PATH] == live


@pytest.mark.parametrize("state", [one for one in State if one is not State.DIFFERENT])
def test_only_what_differs_is_written_to(state: State) -> None:
    api = FakeApi()
    live = api.put(PATH, edited())
    verdict = Verdict(REF, state, (ADDED,))
    assert repaired(api, verdict) == [verdict]
    assert (api.objects[PATH], api.requests) == (live, [])


def test_what_a_controller_owns_is_left_to_it() -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "u", "controller": True}
    api = FakeApi()
    live = api.put(PATH, config_map(ownerReferences=[owner]))
    rows = (Row("metadata.ownerReferences", ABSENT, [owner], None),)
    verdict = Verdict(REF, State.OWNED, rows, "ConfigMap theirs controls it")
    assert judged(api) == [verdict]
    assert repaired(api, Verdict(REF, State.DIFFERENT, rows)) == [verdict]
    assert api.objects[PATH] == live


class Mutating(FakeApi):
    """With a webhook that writes into each ConfigMap."""

    async def _put(self, request: web.Request, body: Any) -> web.Response:
        return await super()._put(request, {**body, "data": {**body["data"], "a": "evil"}})


MUTATED = Verdict(
    REF,
    State.MUTATED,
    (Row("data.a", "1", "evil", None),),
    "by a webhook or policy of the cluster at each write; find it among those that are unmanaged",
)


def test_what_a_webhook_puts_in_is_drift_that_no_repair_touches() -> None:
    api = Mutating()
    live = api.put(PATH, {**config_map(), "data": {"a": "evil"}})
    assert judged(api) == [MUTATED]
    assert repaired(api, MUTATED) == [MUTATED]
    assert api.objects[PATH] == live
    assert exit_code([MUTATED]) == 1


def test_what_else_differs_is_put_right_and_what_the_webhook_puts_in_stays_told() -> None:
    api = Mutating()
    api.put(PATH, {**edited(), "data": {"a": "evil", "b": "2"}})
    different = Verdict(REF, State.DIFFERENT, (ADDED, *MUTATED.rows))
    assert judged(api) == [different]
    assert repaired(api, different) == [MUTATED]
    assert api.objects[PATH]["data"] == {"a": "evil"}


NOTHING = Beside()
BESIDE = Beside(
    (Unmanaged(Ref("v1", "RoleBinding", "team-a", "more"), "gives all"),),
    {"ClusterRole": "403 Forbidden: no"},
)
VERDICTS = (
    Verdict(Ref("v1", "Secret", "b", "same"), State.SAME),
    Verdict(Ref("v1", "Secret", "b", "unknown"), State.UNJUDGED, why="403 Forbidden: no"),
    Verdict(
        REF,
        State.DIFFERENT,
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
    assert command.as_text(command.document("prod", VERDICTS, NOTHING)) == (
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
        "+ only in the cluster, - only in git, ~ differs; by: the client that wrote it, as it names itself\n"
        "prod, of 5 objects: 1 being deleted, 1 different, 1 missing, 1 not judged, 1 same\n"
    )


def test_where_all_is_as_git_says_one_line_says_so() -> None:
    same = Verdict(REF, State.SAME)
    assert command.as_text(command.document("prod", [same, same], NOTHING)) == (
        "prod: all 2 objects match git\n"
    )


def test_where_nothing_may_be_asked_a_few_are_named_and_the_rest_is_counted() -> None:
    refused = [Verdict(Ref("v1", "ConfigMap", "", f"{n:02}"), State.UNJUDGED, why="no") for n in range(12)]
    assert command.as_text(command.document("prod", refused, NOTHING)).splitlines() == [
        *(f"ConfigMap {n:02}: not judged, no" for n in range(10)),
        "and 2 more that are not judged: --output json has them all",
        "",
        "prod, of 12 objects: 12 not judged",
    ]


def test_the_json_is_the_whole_answer() -> None:
    found = command.document("prod", VERDICTS[:3], BESIDE)
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
        "unmanaged": [
            {
                "apiVersion": "v1",
                "kind": "RoleBinding",
                "namespace": "team-a",
                "name": "more",
                "why": "gives all",
            }
        ],
        "unseen": [{"what": "ClusterRole", "why": "403 Forbidden: no"}],
    }


def test_what_git_does_not_have_and_reaches_into_the_stack_comes_first() -> None:
    same = Verdict(REF, State.SAME)
    assert command.as_text(command.document("prod", [same], BESIDE)) == (
        "RoleBinding team-a/more: unmanaged, gives all\n"
        "Git has none of these. Delete those that should not exist; "
        "list the others in drift.known of the stack\n"
        "\n"
        "Could not see whether any ClusterRole affects the stack: 403 Forbidden: no\n"
        "\n"
        "prod: all 1 objects match git\n"
    )


Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answer:
    """Runs the command for a stack that is one ConfigMap, at this address."""
    inputs = {"__initialApiVersion": "v1", **config_map()}
    resource = {"urn": "urn:one", "type": "kubernetes:core/v1:ConfigMap", "custom": True, "inputs": inputs}
    state = {"deployment": {"resources": [resource]}}
    monkeypatch.setattr(rendering, "state", lambda *_: state)
    monkeypatch.setattr(rendering, "rolled_out", lambda *_: state)

    def run_it(server: str, stack: str = "sandbox", **options: Any) -> tuple[int, str, str]:
        kubeconfig = tmp_path / "kubeconfig"
        parts: dict[str, Sequence[Any]] = {
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        }
        kubeconfig.write_text(json.dumps({"current-context": "x", **parts}))
        return answered(command.run, stack, kubeconfig=str(kubeconfig), **options)

    return run_it


SAID = "Rendering the stack sandbox ...\n"


@pytest.mark.parametrize(("live", "code"), [(config_map(), 0), (edited(), 1)])
def test_the_exit_code_says_whether_the_cluster_is_what_git_says(
    ask: Answer, live: dict[str, Any], code: int
) -> None:
    api = FakeApi()
    api.put(PATH, live)

    answered, out, err = asked(ask, api, output=Output.JSON)
    assert (answered, err) == (code, f"{SAID}Comparing 1 objects with the cluster ...\n")
    assert [one["name"] for one in json.loads(out)["findings"]] == ["one"] * code


def asked(ask: Answer, api: FakeApi, **options: Any) -> tuple[int, str, str]:
    async def test() -> tuple[int, str, str]:
        async with api.serving() as url:
            return await asyncio.to_thread(ask, url, **options)

    return run(test)


@pytest.fixture
def binds(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A cluster with the ConfigMap, and a Role somewhere that git does not have."""
    monkeypatch.setitem(fake_api.SERVED, RBAC, {"clusterrolebindings": "ClusterRoleBinding"})
    everybody = {"kind": "Group", "name": "system:authenticated"}
    bound = {"roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}, "subjects": [everybody]}
    api = FakeApi()
    api.put(PATH, config_map())
    api.put(f"/apis/{RBAC}/clusterrolebindings/more", bound)
    return api


def test_what_git_does_not_have_is_listed_and_told(ask: Answer, binds: FakeApi) -> None:
    code, out, _ = asked(ask, binds, output=Output.JSON)
    assert (code, json.loads(out)["unmanaged"]) == (
        1,
        [
            {
                "apiVersion": RBAC,
                "kind": "ClusterRoleBinding",
                "namespace": "",
                "name": "more",
                "why": "gives ClusterRole cluster-admin to Group system:authenticated",
            }
        ],
    )


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_policy_that_changes_objects_is_listed_in_the_version_that_the_cluster_has(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    group = f"admissionregistration.k8s.io/{version}"
    plural, kind = "mutatingadmissionpolicies", "MutatingAdmissionPolicy"
    monkeypatch.setitem(fake_api.SERVED, group, {plural: kind})
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    api = FakeApi()
    api.put(f"/apis/{group}/{plural}/mesh", {"spec": {"matchConstraints": {"resourceRules": [rule]}}})
    git = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}]

    async def test() -> Beside:
        async with api.client() as client:
            return await drift_unmanaged.look(client, git, Drift())

    mesh = Unmanaged(Ref(group, kind, "", "mesh"), "may change objects in team-a")
    assert run(test) == Beside([mesh], {})


def test_what_may_not_be_listed_is_told_and_is_not_called_fine(ask: Answer, binds: FakeApi) -> None:
    binds.refuse_next("GET", "/clusterrolebindings", status(403, "Forbidden", "you may not list them"))
    code, out, _ = asked(ask, binds, output=Output.JSON)
    told = {"what": "ClusterRoleBinding", "why": "403 Forbidden: you may not list them"}
    assert (code, json.loads(out)["unseen"]) == (2, [told])


def test_a_repair_tells_what_git_does_not_have_and_does_not_fail_for_it(ask: Answer, binds: FakeApi) -> None:
    code, out, _ = asked(ask, binds, repair=True)
    assert code == 0
    assert out.startswith("ClusterRoleBinding more: unmanaged, gives ClusterRole cluster-admin")


def test_what_is_put_right_is_said_before_and_after(ask: Answer) -> None:
    api = FakeApi()
    api.put(PATH, edited())
    code, out, err = asked(ask, api, repair=True)
    assert (code, out) == (
        0,
        "ConfigMap team-a/one: different\n"
        "  + data.b: 2 (by kubectl-edit, 2026-02-01T00:00:00Z)\n"
        "\n"
        "+ only in the cluster, - only in git, ~ differs; by: the client that wrote it, as it names itself\n"
        "sandbox, of 1 objects: 1 different\n"
        "\n"
        "ConfigMap team-a/one: put right\n"
        "sandbox, of 1 objects: 1 put right\n",
    )
    assert err.endswith("Repairing 1 of them ...\n")
    assert api.objects[PATH]["data"] == {"a": "1"}


def test_what_another_roll_out_has_written_since_is_not_put_right(ask: Answer) -> None:
    api = FakeApi()
    api.put(PATH, edited())
    resource = {"urn": "urn:one", "type": "kubernetes:core/v1:ConfigMap", "custom": True}
    first = {"deployment": {"resources": [{**resource, "inputs": config_map()}]}}
    second = {"deployment": {"resources": [{**resource, "inputs": edited()}]}}
    code, out, err = asked(ask, api, repair=True, state=iter([first, second]).__next__)
    assert (code, out.splitlines()[-1]) == (2, "sandbox, of 1 objects: 1 different")
    assert err.endswith(
        "Nothing has been repaired: Pulumi's state of sandbox has changed since this roll-out, by one of "
        "somebody else, whose changes would be undone. To see what differs then: trainyard drift --stack "
        "sandbox\n"
    )
    assert api.objects[PATH]["data"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize("of_a_roll_out", [False, True])
def test_another_cluster_than_that_of_the_last_roll_out_is_not_put_right(
    ask: Answer, monkeypatch: pytest.MonkeyPatch, of_a_roll_out: bool
) -> None:
    api = FakeApi()
    api.put(PATH, edited())
    root = {
        "type": "pulumi:pulumi:Stack",
        "urn": "urn:root",
        "outputs": {"clusterIdentity": {"uid": "uid-a", "server": "https://a"}},
    }
    state = {"deployment": {"resources": [root]}}
    monkeypatch.setattr(rendering, "rolled_out", lambda *_: state)
    monkeypatch.setattr(moves, "identity", lambda *_: Identity("uid-b", "https://b"))
    options = {"state": lambda: state} if of_a_roll_out else {}
    code, out, err = asked(ask, api, repair=True, **options)
    assert (code, out) == (2, "")
    assert "the last roll-out went to https://a, but the cluster that would be repaired is https://b (" in err
    assert api.requests == []
    assert asked(ask, api)[0] == 1, "without a repair, it is only compared"


def test_a_stack_whose_state_nobody_can_read_is_compared_and_not_put_right(
    ask: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: Any) -> Any:
        raise PlatformError("pulumi cannot be run: no such file")

    monkeypatch.setattr(rendering, "rolled_out", unreadable)
    api = FakeApi()
    api.put(PATH, edited())
    assert asked(ask, api)[0] == 1
    before = dict(api.objects)
    assert asked(ask, api, repair=True) == (2, "", f"{SAID}pulumi cannot be run: no such file\n")
    assert api.objects == before


def test_what_is_put_right_is_in_the_json(ask: Answer) -> None:
    api = FakeApi()
    api.put(PATH, edited())
    code, out, _ = asked(ask, api, repair=True, output=Output.JSON)
    [finding] = json.loads(out)["findings"]
    assert (code, finding["state"], finding["fields"][0]["path"]) == (0, "put right", "data.b")


def test_where_nothing_is_to_be_put_right_one_line_says_so(ask: Answer) -> None:
    api = FakeApi()
    api.put(PATH, config_map())
    code, out, _ = asked(ask, api, repair=True)
    assert (code, out) == (0, "sandbox: all 1 objects match git\n")
    assert api.writes() == [("PUT", PATH)], "the dry run alone"


@pytest.mark.parametrize("keep", [["ConfigMap/team-a/one"], ["", " ConfigMap/team-a/one "]])
def test_what_is_to_be_kept_is_named_and_stays(ask: Answer, keep: list[str]) -> None:
    api = FakeApi()
    live = api.put(PATH, edited())
    code, out, _ = asked(ask, api, repair=True, keep=keep)
    assert code == 0
    assert out.endswith("ConfigMap team-a/one: kept\nsandbox, of 1 objects: 1 kept\n")
    assert api.objects[PATH] == live


def test_what_is_missing_and_to_be_kept_so_is_named_and_no_failure(ask: Answer) -> None:
    api = FakeApi()
    code, out, _ = asked(ask, api, repair=True, keep=["ConfigMap/team-a/one"])
    assert code == 0
    assert out.endswith("ConfigMap team-a/one: kept, missing\nsandbox, of 1 objects: 1 kept\n")
    assert PATH not in api.objects


def test_what_is_to_be_kept_and_is_not_there_is_a_mistake(ask: Answer) -> None:
    code, out, err = ask("http://127.0.0.1:1", repair=True, keep=["ConfigMap/one ConfigMap/team-a/one"])
    assert (code, out) == (2, "")
    assert err == (
        f"{SAID}--keep ConfigMap/one: the stack has no such object; use Kind/name or Kind/namespace/name\n"
    )


def test_how_many_objects_differ_is_also_written_for_a_prometheus(ask: Answer, tmp_path: Path) -> None:
    api = FakeApi()
    api.put(PATH, edited())
    file = tmp_path / "metrics" / "drift.prom"
    code, _, _ = asked(ask, api, metrics=file, now=lambda: 1_795_915_522.4)
    assert (code, [path.name for path in file.parent.iterdir()]) == (1, ["drift.prom"])
    assert file.read_text() == (
        "# HELP trainyard_drift_objects Objects of a stack that are not what git says, or cannot be judged\n"
        "# TYPE trainyard_drift_objects gauge\n"
        'trainyard_drift_objects{stack="sandbox"} 1\n'
        "# HELP trainyard_drift_checked_timestamp_seconds When that was seen, in seconds since 1970\n"
        "# TYPE trainyard_drift_checked_timestamp_seconds gauge\n"
        'trainyard_drift_checked_timestamp_seconds{stack="sandbox"} 1795915522\n'
    )


def test_metrics_that_cannot_be_written_are_said_so(ask: Answer, tmp_path: Path) -> None:
    api = FakeApi()
    api.put(PATH, config_map())
    code, _, err = asked(ask, api, metrics=tmp_path)
    assert (code, err.splitlines()[-1]) == (
        2,
        f"{tmp_path}: cannot be written: Is a directory. Name another file",
    )


def test_where_nobody_answers_that_is_said_once(ask: Answer) -> None:
    code, out, err = ask("http://127.0.0.1:1")
    assert (code, out) == (2, "")
    assert err.startswith(f"{SAID}Comparing 1 objects with the cluster ...\n")
    assert "127.0.0.1:1" in err


def test_a_stack_that_is_not_there_is_named(ask: Answer) -> None:
    code, out, err = ask("http://127.0.0.1:1", "nowhere")
    assert (code, out) == (2, "")
    assert "Pulumi.nowhere.yaml:1: No such file or directory" in err
