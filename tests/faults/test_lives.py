"""The invariants themselves: what breaks one is named, and what breaks none is not."""

from types import SimpleNamespace
from typing import Any

from . import lives, rights
from .proxy import Passed, Request
from .scene import Case, Event


def _write(verb, resource, namespace, body=None):
    return Passed(Request(verb, resource, namespace, "job", f"/{namespace}/{resource}/job", body), 200)


def _case(*trace):
    """A TrainJob in `team`, and another in `other`, for which these requests have passed."""

    class Seen(SimpleNamespace):
        def of(self, namespace):
            return [e for e in self.events if e.object["metadata"]["namespace"] == namespace]

    jobs = [
        Event(1, "ADDED", {"metadata": {"uid": name, "namespace": name}, "status": {}})
        for name in ("team", "other")
    ]
    writes = [passed for passed in trace if passed.request.about == "team"]
    proxy = SimpleNamespace(trace=list(trace), writes=lambda _: writes)
    scene: Any = SimpleNamespace(trainjobs=Seen(events=jobs), jobsets=Seen(events=[]), proxy=proxy)
    return Case(scene, "team")


def test_what_is_written_beside_every_trainjob_breaks_an_invariant():
    revision = {"data": {"namespace": "team"}}
    case = _case(
        _write("create", "jobsets", "team"),
        _write("create", "jobsets", "other"),
        _write("create", "controllerrevisions", rights.NAMESPACE, revision),
        _write("update", "leases", "kubeflow-system"),
        _write("create", "events", "default"),
        _write("create", "tokenreviews", ""),
        _write("patch", "mutatingwebhookconfigurations", ""),
        _write("get", "configmaps", "kube-system"),
    )
    assert lives.violations(case) == []
    case = _case(_write("create", "configmaps", "kube-system"), _write("patch", "clusterroles", ""))
    assert lives.violations(case) == [
        "I-5 create /kube-system/configmaps/job",
        "I-5 patch //clusterroles/job",
    ]


def test_what_is_deleted_by_name_alone_breaks_an_invariant():
    by_uid = {"preconditions": {"uid": "1"}}
    assert lives.violations(_case(_write("delete", "jobsets", "team", by_uid))) == []
    assert lives.violations(_case(_write("delete", "jobsets", "team"))) == [
        "I-7 /team/jobsets/job deleted by name alone"
    ]
