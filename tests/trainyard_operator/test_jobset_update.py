"""A PUT over a JobSet changes what is wanted and nothing else."""

from typing import Any

import pytest

from trainyard_operator.core.decide.jobset_update import spec_over


def spec(pod: dict[str, Any], metadata: dict[str, Any] | None = None, **job: Any) -> dict[str, Any]:
    template = {"metadata": metadata or {}, "spec": pod}
    return {"replicatedJobs": [{"name": "node", "template": {"spec": {**job, "template": template}}}]}


CONTAINER = {"name": "node", "image": "i", "ports": [{"containerPort": 29500}]}
FILLED_IN = {
    "name": "node",
    "image": "i",
    "ports": [{"containerPort": 29500, "protocol": "TCP"}],
    "resources": {},
}


def test_what_the_api_server_filled_in_stays() -> None:
    live = {
        "suspend": True,
        "successPolicy": {"operator": "All"},
        **spec({"containers": [FILLED_IN], "restartPolicy": "OnFailure"}, completionMode="Indexed"),
    }
    wanted = {"suspend": False, **spec({"containers": [CONTAINER]}, parallelism=2)}
    assert spec_over(live, wanted) == {
        "suspend": False,
        "successPolicy": {"operator": "All"},
        **spec(
            {"containers": [FILLED_IN], "restartPolicy": "OnFailure"}, completionMode="Indexed", parallelism=2
        ),
    }


def test_a_job_that_lost_its_place_keeps_nothing_of_it() -> None:
    placed = {
        "containers": [FILLED_IN],
        "nodeSelector": {"pool": "a100", "zone": "a"},
        "tolerations": [{"key": "gpu"}],
        "schedulingGates": [{"name": "topology"}],
    }
    live = spec(placed, {"labels": {"placed": "here"}, "annotations": {"topology": "rack-1"}})
    wanted = spec({"containers": [CONTAINER], "nodeSelector": {"zone": "a"}}, {"labels": {"own": "label"}})
    assert spec_over(live, wanted) == spec(
        {"containers": [FILLED_IN], "nodeSelector": {"zone": "a"}}, {"labels": {"own": "label"}}
    )


def test_a_list_that_is_not_the_same_list_is_as_wanted() -> None:
    live = spec({"containers": [{"name": "sidecar", "stdin": True}, FILLED_IN]})
    wanted = spec({"containers": [CONTAINER, {"name": "sidecar"}]})
    assert spec_over(live, wanted) == wanted


@pytest.mark.parametrize(
    ("live", "wanted", "written"),
    [
        pytest.param(
            [{"name": "a", "x": 1}, {"name": "b", "x": 2}],
            [{"name": "a"}, {"name": "c"}],
            [{"name": "a", "x": 1}, {"name": "c"}],
            id="by name",
        ),
        pytest.param(
            [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 2, "protocol": "TCP"}],
            [{"containerPort": 1}, {"containerPort": 3}],
            [{"containerPort": 1, "protocol": "TCP"}, {"containerPort": 3}],
            id="by port",
        ),
        pytest.param(
            [{"name": "v", "mountPath": "/a", "x": 1}],
            [{"mountPath": "/a"}],
            [{"name": "v", "mountPath": "/a", "x": 1}],
            id="by path",
        ),
        pytest.param([{"x": 1}], [{"y": 2}], [{"y": 2}], id="not without a key"),
        pytest.param(["name"], [{"name": "a"}], [{"name": "a"}], id="not a text and an object"),
        pytest.param([{"name": "a"}], ["name"], ["name"], id="not an object and a text"),
        pytest.param([{"name": "a", "x": 1}], [], [], id="not if there is none any more"),
    ],
)
def test_items_of_a_list_are_told_apart(live: object, wanted: object, written: object) -> None:
    assert spec_over({"items": live}, {"items": wanted}) == {"items": written}


@pytest.mark.parametrize("wanted", [{"name": "a"}, ["a", "b"], "ab", None], ids=str)
@pytest.mark.parametrize("live", [{"x": 1}, ["x", "y"], "xy", None], ids=str)
def test_what_is_of_another_kind_is_as_wanted(live: object, wanted: object) -> None:
    both = isinstance(live, dict) and isinstance(wanted, dict)
    assert spec_over({"a": live}, {"a": wanted}) == {"a": {"x": 1, "name": "a"} if both else wanted}
    assert spec_over({}, {"a": wanted}) == {"a": wanted}


def test_what_is_wanted_otherwise_is_sent_for_jobset_to_judge() -> None:
    live = spec({"containers": [{"name": "node", "image": "old", "args": ["a", "b"]}]})
    wanted = spec({"containers": [{"name": "node", "image": "new", "args": ["c", "b"]}]})
    assert spec_over(live, wanted) == wanted
