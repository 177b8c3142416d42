"""The audit log becomes calls, and calls become latencies."""

import json
from datetime import UTC, datetime

from benchmarks.audit import Call, Tail

from benchmarks import audit

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


def event(verb="create", resource="jobsets", *, code=201, stage="ResponseComplete", **fields):
    return {
        "kind": "Event",
        "level": "Metadata",
        "stage": stage,
        "verb": verb,
        "user": {"username": "kubernetes-admin", "groups": ["system:masters"]},
        "userAgent": "trainyard-operator",
        "objectRef": {"resource": resource, "namespace": "default", "name": "a"},
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": "2026-01-02T03:04:05.000000Z",
        "stageTimestamp": "2026-01-02T03:04:05.250000Z",
        **fields,
    }


def parsed(*events):
    return list(audit.parse(json.dumps(event).encode() for event in events))


def call(verb="create", resource="jobsets", *, name="a", agent="ours", code=201, answered=0.0):
    return Call(verb, resource, "default", name, agent, code, answered, answered)


def test_a_call_is_what_was_asked_with_its_answer_and_both_times():
    (found,) = parsed(event())
    assert found == Call(
        verb="create",
        resource="jobsets",
        namespace="default",
        name="a",
        agent="trainyard-operator",
        code=201,
        received=AT,
        answered=AT + 0.25,
    )


def test_a_subresource_is_told_from_its_resource():
    target = {"resource": "trainjobs", "subresource": "status", "namespace": "default", "name": "a"}
    (found,) = parsed(event("patch", objectRef=target, code=200))
    assert (found.resource, found.is_write, found.done) == ("trainjobs/status", True, True)


def test_what_the_control_plane_asks_itself_is_left_out():
    assert parsed(event(user={"username": "system:kube-scheduler"})) == []


def test_an_event_without_an_object_or_a_user_breaks_nothing():
    bare = {k: v for k, v in event("get").items() if k not in ("objectRef", "userAgent", "responseStatus")}
    (found,) = parsed(bare)
    assert (found.resource, found.agent, found.code, found.done) == ("", "", 0, False)


def test_a_watch_counts_once_when_it_begins():
    began, ended = event("watch", stage="ResponseStarted"), event("watch", stage="ResponseComplete")
    assert [found.verb for found in parsed(began, ended)] == ["watch"]
    assert parsed(event("list", stage="ResponseStarted")) == []


def test_an_object_is_there_after_a_post_or_an_apply_that_made_it():
    calls = [
        call(answered=1.0),
        call(answered=2.0),
        call("patch", name="b", answered=3.0),
        call("patch", name="c", code=200, answered=4.0),
        call(name="d", code=409, answered=5.0),
    ]
    assert audit.creation_times(calls, "jobsets") == {"default/a": 1.0, "default/b": 3.0}


def test_writes_are_those_that_were_done_by_the_agent():
    calls = [
        call("patch", "trainjobs/status", code=200, answered=1.0),
        call("patch", "trainjobs/status", code=409, answered=2.0),
        call("patch", "trainjobs/status", code=200, agent="driver", answered=3.0),
        call("get", "trainjobs/status", code=200, answered=4.0),
        call("update", "trainjobs/status", code=200, agent="ours/v1", answered=5.0),
    ]
    assert audit.write_times(calls, "trainjobs/status", "ours") == {"default/a": [1.0, 5.0]}


def test_an_answer_is_the_first_one_after_the_question():
    starts = {"a": 10.0, "b": 10.0, "c": 10.0}
    answers = {"a": [9.0, 12.0, 11.0], "b": [9.0]}
    assert audit.latencies(starts, answers) == {"a": 1.0}


def test_calls_of_an_agent_are_counted_by_verb_and_resource_without_leases():
    calls = [
        call("list"),
        call("list"),
        call("update", "leases"),
        call("get", ""),
        call("create", agent="driver"),
    ]
    assert audit.request_counts(calls, "ours") == {"list jobsets": 2}


def test_a_log_that_grows_is_read_line_by_line_once(tmp_path):
    log = tmp_path / "audit.log"
    line = json.dumps(event()) + "\n"
    log.write_text(line + line[:40])
    tail = Tail(log)
    heard = []
    tail.heard = heard.append
    tail.read()
    assert len(tail.calls) == 1
    log.write_text(line * 3)
    tail.read()
    assert len(tail.calls) == 3
    assert heard == tail.calls
    tail.reset()
    assert tail.calls == []
