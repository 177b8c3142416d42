"""What a TrainJob asks for against what it uses: the figures of each rank, and advice where it is sure."""

from datetime import UTC, datetime
from typing import Any

import pytest

from trainyard_assist import seff
from trainyard_assist.logs import Place
from trainyard_assist.seff import Amount, Kind, Rank

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
GIB = 2**30


def pod(index: int = 0, job: str = "node", name: str = "", **fields: Any) -> dict[str, Any]:
    requests = fields.pop("requests", {"cpu": "16", "memory": "64Gi"})
    limits = fields.pop("limits", {"nvidia.com/gpu": "8"})
    started = fields.pop("started", "2026-01-01T11:00:00Z")
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": job,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    status = {"name": "node", "state": {"running": {"startedAt": started}}, **fields.pop("status", {})}
    return {
        "metadata": {
            "name": name or f"tj-{job}-0-{index}-x",
            "creationTimestamp": fields.pop("created", "2026-01-01T10:00:00Z"),
            "labels": labels,
        },
        "spec": {"containers": [{"name": "node", "resources": {"requests": requests, "limits": limits}}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }


def metrics(name: str, cpu: str = "3900m", memory: str = "2Gi") -> dict[str, Any]:
    usage = {"cpu": cpu, "memory": memory}
    return {"metadata": {"name": name}, "containers": [{"name": "node", "usage": usage}]}


def jobset(**jobs: int) -> dict[str, Any]:
    spec = {"containers": [{"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}
    return {
        "spec": {
            "replicatedJobs": [
                {"name": name, "template": {"spec": {"parallelism": count, "template": {"spec": spec}}}}
                for name, count in jobs.items()
            ]
        }
    }


def ranks(*pods: Any, measured: Any = (), js: Any = None) -> Any:
    return seff.ranks(pods, measured, js, NOW)


def test_a_rank_has_what_its_pod_asks_for_and_what_its_containers_use() -> None:
    assert ranks(pod(), measured=[metrics("tj-node-0-0-x")]) == [
        Rank(
            label="0",
            place=Place("node", 0),
            pod="tj-node-0-0-x",
            amounts={
                Kind.CPU: Amount(16, 3.9),
                Kind.MEMORY: Amount(64 * GIB, 2 * GIB),
                Kind.GPUS: Amount(8, None),
            },
            settled=True,
        )
    ]


def test_a_rank_that_nobody_measures_has_no_use_and_no_percentage() -> None:
    (rank,) = ranks(pod())
    assert not rank.is_measured
    assert rank.amounts[Kind.CPU] == Amount(16, None)
    assert rank.amounts[Kind.CPU].percent is None


@pytest.mark.parametrize(
    ("amount", "percent"),
    [
        (Amount(16, 4), 25),
        (Amount(2, 5), 250),
        (Amount(0, 5), None),
        (Amount(None, 5), None),
        (Amount(5), None),
    ],
)
def test_a_percentage_is_of_what_is_asked_for(amount: Amount, percent: int | None) -> None:
    assert amount.percent == percent


def test_the_newest_pod_of_a_place_counts_and_initializers_do_not() -> None:
    old = pod(name="old", created="2026-01-01T09:00:00Z")
    new = pod(name="new", created="2026-01-01T10:00:00Z")
    assert [rank.pod for rank in ranks(new, old, pod(job="model-initializer"))] == ["new"]


def test_a_rank_without_a_pod_has_what_the_jobset_says() -> None:
    listed = ranks(pod(1), js=jobset(node=3))
    assert [(rank.label, rank.pod, rank.amounts[Kind.CPU].requested) for rank in listed] == [
        ("0", "", 2),
        ("1", "tj-node-0-1-x", 16),
        ("2", "", 2),
    ]


def test_of_several_replicated_jobs_a_rank_has_the_name_of_its_place() -> None:
    assert [rank.label for rank in ranks(pod(), pod(job="launcher"))] == ["launcher-0", "node-0"]


def test_the_total_is_known_where_every_part_is() -> None:
    listed = ranks(
        pod(0), pod(1), measured=[metrics("tj-node-0-0-x"), metrics("tj-node-0-1-x", "100m", "1Gi")]
    )
    assert seff.total(listed) == {
        Kind.CPU: Amount(32, 4.0),
        Kind.MEMORY: Amount(128 * GIB, 3 * GIB),
        Kind.GPUS: Amount(16, None),
    }
    some = ranks(pod(0), pod(1), measured=[metrics("tj-node-0-0-x")])
    assert seff.total(some)[Kind.CPU] == Amount(32, None)
    assert seff.total([])[Kind.CPU] == Amount(None, None)


def test_ranks_without_gpus_add_none_to_those_of_the_others() -> None:
    chief, unknown = pod(job="chief", limits={}), pod(job="other", limits={}, requests={"cpu": "lots"})
    assert seff.total(ranks(chief, pod()))[Kind.GPUS] == Amount(8, None)
    assert seff.total(ranks(chief))[Kind.GPUS] == Amount(None, None)
    assert seff.total(ranks(chief, pod(), unknown))[Kind.GPUS] == Amount(None, None)


@pytest.mark.parametrize(
    "strange",
    [
        {"metadata": {"labels": {"jobset.sigs.k8s.io/replicatedjob-name": "node"}}, "spec": None},
        {
            "metadata": {"labels": {"jobset.sigs.k8s.io/replicatedjob-name": "node"}},
            "spec": {"containers": 7},
        },
        pod(requests={"cpu": "lots"}),
        pod(requests={"cpu": []}),
    ],
)
def test_what_is_no_pod_asks_for_nothing(strange: dict[str, Any]) -> None:
    (rank,) = ranks(strange)
    assert set(rank.amounts.values()) == {Amount(None, None)}


def test_a_jobset_of_billions_is_counted_as_far_as_it_makes_sense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seff, "MOST", 5)
    assert len(ranks(js=jobset(node=2**40))) == 5


# --- advice -------------------------------------------------------------------------


def advised(*pods: Any, memory: str = "2Gi") -> list[str]:
    measured = [metrics(each["metadata"]["name"], memory=memory) for each in pods]
    return seff.advice(ranks(*pods, measured=measured))


def test_who_asks_for_far_more_memory_than_any_rank_uses_is_told_so() -> None:
    assert advised(pod(0), pod(1)) == [
        "Each rank asks for 64Gi of memory, and none uses more than 2Gi now: "
        "a job that asks for less (resourcesPerNode) starts sooner."
    ]


def test_of_several_replicated_jobs_each_is_advised_for_itself() -> None:
    small = pod(job="launcher", requests={"cpu": "1", "memory": "2Gi"})
    (sentence,) = advised(pod(), small)
    assert sentence.startswith("Each rank of node asks for 64Gi")


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([pod(started="2026-01-01T11:55:00Z")], id="it may still load"),
        pytest.param([pod(requests={"memory": "4Gi"})], id="a half is no waste"),
        pytest.param([pod(requests={})], id="nothing is asked for"),
        pytest.param([pod(status={"state": {"terminated": {}}})], id="it has ended"),
    ],
)
def test_what_is_not_sure_is_not_said(pods: list[Any]) -> None:
    assert advised(*pods) == []


def test_little_memory_is_not_worth_a_word() -> None:
    assert advised(pod(requests={"memory": "512Mi"}), memory="10Mi") == []


def test_nothing_is_advised_while_a_rank_is_not_measured() -> None:
    assert seff.advice(ranks(pod(0), pod(1), measured=[metrics("tj-node-0-0-x")])) == []


def test_who_is_close_to_the_limit_of_its_memory_is_told_so() -> None:
    limited = pod(1, requests={"memory": "2Gi"}, limits={"memory": "2Gi"})
    assert advised(pod(0), limited, memory="2000Mi") == [
        "The memory of rank 1 (97 %) is close to its limit, and the kernel kills what uses more: "
        "ask for more (resourcesPerNode)."
    ]


@pytest.mark.parametrize("state", ["state", "lastState"])
def test_who_was_killed_for_its_memory_is_told_so_after_the_end_too(state: str) -> None:
    killed = [pod(index, status={state: {"terminated": {"reason": "OOMKilled"}}}) for index in (0, 1)]
    assert advised(*killed) == [
        "The kernel killed ranks 0, 1, which used more memory than the limit (OOMKilled): "
        "ask for more (resourcesPerNode)."
    ]


@pytest.mark.parametrize(
    ("kind", "amount", "words"),
    [
        (Kind.CPU, 0.049, "0.05"),
        (Kind.CPU, 3.94, "3.9"),
        (Kind.CPU, 16.0, "16"),
        (Kind.GPUS, 8.0, "8"),
        (Kind.MEMORY, 64 * GIB, "64Gi"),
        (Kind.MEMORY, 2.1 * GIB, "2.1Gi"),
        (Kind.MEMORY, 100 * 2**20, "100Mi"),
        (Kind.MEMORY, 2**40, "1Ti"),
        (Kind.MEMORY, 0, "0"),
    ],
)
def test_amounts_are_written_as_kubernetes_does(kind: Kind, amount: float, words: str) -> None:
    assert seff.shown(kind, amount) == words
