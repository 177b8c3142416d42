"""A PUT over a JobSet changes what is wanted and nothing else."""

from typing import Any

from trainyard_operator.core.replacement import spec_over


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


def test_what_is_wanted_otherwise_is_sent_for_jobset_to_judge() -> None:
    live = spec({"containers": [{"name": "node", "image": "old", "args": ["a", "b"]}]})
    wanted = spec({"containers": [{"name": "node", "image": "new", "args": ["c", "b"]}]})
    assert spec_over(live, wanted) == wanted
