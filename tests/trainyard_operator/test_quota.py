"""What can never run in its queue: how that is computed, what Kueue says of it, and when it is asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support import objects
from tests.support.controller_scene import JOB, JOBSET, KEY, Scene, scene
from tests.support.core_values import replicated_job, runtime, trainjob
from tests.support.fake_api import run, status
from trainyard_api import quantity
from trainyard_api.capacity import Group, Pool, Queues, Quota
from trainyard_api.reasons import Reason
from trainyard_operator.core.admit.validation import Answer, validate
from trainyard_operator.core.build import plugins
from trainyard_operator.core.build.info import Settings
from trainyard_operator.core.decide import quota
from trainyard_operator.core.model import Cause
from trainyard_operator.work.queues import Queues as Reader

QUEUE = "kueue.x-k8s.io/queue-name"
JOBSETS = Settings(queue_holds_jobset=True)
LESS = "request fewer resources, use another queue, or ask the platform team for more quota"
NONE = "correct the label kueue.x-k8s.io/queue-name, or ask the platform team for a queue in this namespace"
TOO_MUCH = (
    "couldn't assign flavors to pod set node: insufficient quota for cpu in flavor cpu, previously "
    "considered podsets requests (0) + current podset request (128) > maximum capacity (1)"
)
IN_USE = (
    "couldn't assign flavors to pod set node: insufficient unused quota for cpu in flavor cpu, 1 more needed"
)


def nano(amount: str | None) -> int | None:
    return None if amount is None else quantity.parse(amount).nano


def cpu(nominal: str, *, borrows: str | None = None, lends: str | None = None) -> Quota:
    return Quota(nano(nominal) or 0, nano(borrows), nano(lends))


def pool(name: str, parent: str = "", **flavors: Quota) -> Pool:
    """A queue or cohort with quota of CPUs in these flavors."""
    quotas = {(flavor, "cpu"): found for flavor, found in flavors.items()}
    return Pool(name, quotas, [Group(["cpu"], list(flavors))], parent)


def queues(*cluster: Pool, cohorts: tuple[Pool, ...] = ()) -> Queues:
    return Queues({("team", "default"): cluster[0].name}, cluster, cohorts)


def jobset(resources: dict[str, Any], nodes: int = 2) -> dict[str, Any]:
    job = trainjob({"trainer": {"numNodes": nodes, "resourcesPerNode": resources}})
    [built] = plugins.ALL.build(job, runtime({"numNodes": 1, "torch": {}}), JOBSETS)
    return dict(built)


def never(among: Queues, asked: str = "64", queue: str = "default") -> Cause | None:
    return quota.never(jobset({"requests": {"cpu": asked}}), queue, among)


def test_what_is_asked_for_and_what_the_queue_has_at_most_is_told_in_the_users_numbers() -> None:
    assert never(queues(pool("q", a=cpu("1")))) == Cause(
        Reason.QUEUE_TOO_SMALL,
        f"it asks for cpu 128 (2 x 64), and LocalQueue default has at most 1; {LESS}",
    )


def test_a_resource_that_no_flavor_has_is_told_and_a_limit_is_a_request() -> None:
    asked = jobset({"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "4"}})
    assert quota.never(asked, "default", queues(pool("q", a=cpu("8")))) == Cause(
        Reason.QUEUE_TOO_SMALL,
        f"it asks for nvidia.com/gpu 8 (2 x 4), and LocalQueue default has no nvidia.com/gpu; {LESS}",
    )


def test_a_queue_that_is_not_there_is_told_with_the_nearest_name() -> None:
    assert never(queues(pool("q", a=cpu("1"))), queue="defualt") == Cause(
        Reason.QUEUE_NOT_FOUND,
        f"there is no LocalQueue defualt in namespace team; did you mean default?; {NONE}",
    )


@pytest.mark.parametrize(
    ("among", "most"),
    [
        pytest.param(queues(pool("q", a=cpu("4"))), "4", id="its own"),
        pytest.param(
            queues(pool("q", "c", a=cpu("4")), pool("r", "c", a=cpu("3"))), "7", id="what others lend"
        ),
        pytest.param(
            queues(pool("q", "c", a=cpu("4")), pool("r", "c", a=cpu("3", lends="1"))),
            "5",
            id="a lending limit",
        ),
        pytest.param(
            queues(pool("q", "c", a=cpu("4", borrows="2")), pool("r", "c", a=cpu("3"))),
            "6",
            id="a borrowing limit",
        ),
        pytest.param(
            queues(
                pool("q", "c", a=cpu("4")), cohorts=(pool("c", "top", a=cpu("2")), pool("top", a=cpu("8")))
            ),
            "14",
            id="cohorts of cohorts",
        ),
        pytest.param(
            queues(
                pool("q", "c", a=cpu("4")),
                cohorts=(pool("c", "top", a=cpu("2", borrows="1")), pool("top", a=cpu("8"))),
            ),
            "7",
            id="a cohort that borrows little",
        ),
    ],
)
def test_the_most_that_a_queue_gets_is_kueues_maximum_capacity(among: Queues, most: str) -> None:
    assert among.most(among.cluster["q"], ("a", "cpu")) == nano(most)


def test_cohorts_in_a_circle_tell_nothing() -> None:
    among = queues(pool("q", "c", a=cpu("1")), cohorts=(pool("c", "d"), pool("d", "c")))
    assert never(among) is None


def test_one_flavor_holds_all_pods_of_a_step() -> None:
    two = queues(pool("q", a=cpu("100"), b=cpu("100")))
    assert never(two, "50") is None
    assert never(two, "64") == Cause(
        Reason.QUEUE_TOO_SMALL,
        f"it asks for cpu 128 (2 x 64), and LocalQueue default has at most 100 in one flavor; {LESS}",
    )


def test_a_queue_whose_clusterqueue_is_not_there_yet_is_waited_for() -> None:
    assert never(Queues({("team", "default"): "q"}, ())) is None


@pytest.mark.parametrize(
    ("reason", "message", "is_never"),
    [
        ("Pending", TOO_MUCH, True),
        ("Pending", "couldn't assign flavors to pod set a: resource x unavailable in ClusterQueue q", True),
        ("Pending", IN_USE, False),
        ("Pending", f"{IN_USE}, {TOO_MUCH.partition('node: ')[2]}", False),
        ("Pending", f"{IN_USE}; {TOO_MUCH}", True),
        ("Inadmissible", "LocalQueue a doesn't exist", True),
        ("ExceedsMaxQuota", "", True),
        ("WaitingForQuota", IN_USE, False),
    ],
)
def test_kueues_words_are_told_apart(reason: str, message: str, is_never: bool) -> None:
    assert quota.is_never(reason, message) is is_never


def test_a_job_that_can_never_run_is_let_in_with_a_warning() -> None:
    rt = runtime({"numNodes": 1, "torch": {}})
    job = trainjob(
        {"trainer": {"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": "64"}}}},
        labels={QUEUE: "default"},
    )
    small = queues(pool("q", a=cpu("1")))
    warning = (
        "this job will wait forever: it asks for cpu 128 (2 x 64), and LocalQueue default has at most 1; "
        + LESS
    )
    assert validate(job, None, rt, queues=small, settings=JOBSETS) == Answer((warning,))
    assert validate(job, None, rt, queues=queues(pool("q", a=cpu("128"))), settings=JOBSETS) == Answer()
    assert validate(job, None, rt, settings=JOBSETS) == Answer()


def test_a_job_that_names_no_queue_waits_in_its_namespaces_default_one() -> None:
    among = Queues({("team", "default"): "q", ("other", "mine"): "q"}, (pool("q", a=cpu("1")),))
    assert quota.queue_of(trainjob({}), among) == "default"
    assert quota.queue_of(trainjob({}, labels={QUEUE: "mine"}), among) == "mine"
    assert quota.queue_of(trainjob({}), Queues({("other", "default"): "q"}, ())) == ""


@pytest.mark.parametrize(
    ("command", "trainer", "is_warned"),
    [
        ('exec torchrun --nnodes="${MIN:-1}:$PET_NNODES"', {"command": ["python", "a.py"]}, True),
        ('exec torchrun --nnodes="${MIN:-1}:$PET_NNODES"', {"args": ["a.py"]}, False),
        (
            'exec torchrun --nnodes="${MIN:-1}:$PET_NNODES"',
            {"command": ["bash", "-c", "torchrun --nnodes=1:4 a.py"]},
            False,
        ),
        ('exec torchrun --nnodes="${N:-1}"', {"command": ["python", "a.py"]}, False),
    ],
)
def test_a_command_that_makes_an_elastic_runtime_rigid_is_warned_of(
    command: str, trainer: dict[str, Any], is_warned: bool
) -> None:
    node = [{"name": "node", "image": "i", "command": ["sh", "-c", command]}]
    elastic = runtime({"numNodes": 1, "torch": {}}, [replicated_job(containers=node)])
    warning = (
        "spec.trainer.command: replaces the command that makes rt elastic, so this job fails when it loses a "
        "node: give the script as spec.trainer.args, without torchrun"
    )
    expected = Answer((warning,)) if is_warned else Answer()
    assert validate(trainjob({"trainer": trainer}), None, elastic) == expected


@pytest.mark.parametrize(
    ("nodes", "variable", "shown"),
    [
        ({}, {"value": "2"}, "2"),
        ({"numNodes": 4}, {"value": "5"}, "5"),
        ({"numNodes": 4}, {"value": "0"}, "0"),
        ({"numNodes": 4}, {"value": "two"}, "two"),
        ({"numNodes": 4}, {"value": "4"}, ""),
        ({"numNodes": 4}, {"value": ""}, ""),
        ({"numNodes": 4}, {"value": "$(OTHER)"}, ""),
        ({"numNodes": 4}, {"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, ""),
        ({"numNodes": 4}, {"name": "OTHER", "value": "two"}, ""),
    ],
)
def test_a_least_number_of_nodes_that_torchrun_refuses_is_warned_of(
    nodes: dict[str, Any], variable: dict[str, Any], shown: str
) -> None:
    command = ["sh", "-c", 'exec torchrun --nnodes="${MIN:-1}:$PET_NNODES"']
    node = [{"name": "node", "image": "i", "command": command}]
    elastic = runtime({"numNodes": 1, "torch": {}}, [replicated_job(containers=node)])
    warning = (
        f"spec.trainer.env: MIN is {shown}, and numNodes is {nodes.get('numNodes', 1)}: set it to a number "
        "from 1 to numNodes, or torchrun does not start"
    )
    trainer = {**nodes, "env": [{"name": "MIN", **variable}]}
    expected = Answer((warning,)) if shown else Answer()
    assert validate(trainjob({"trainer": trainer}), None, elastic) == expected


WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads"
LOCAL = "/apis/kueue.x-k8s.io/v1beta2/localqueues"
CLUSTER = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
COHORTS = "/apis/kueue.x-k8s.io/v1beta2/cohorts"
READS = [("GET", LOCAL), ("GET", CLUSTER), ("GET", COHORTS)]


def cluster_queue(nominal: str) -> dict[str, Any]:
    resources = [{"name": "cpu", "nominalQuota": nominal}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "cpu", "resources": resources}]}
    return {"metadata": {"name": "q"}, "spec": {"resourceGroups": [group]}}


def local_queue() -> dict[str, Any]:
    return {"metadata": {"name": "default", "namespace": "team"}, "spec": {"clusterQueue": "q"}}


async def waits(s: Scene, *, nominal: str) -> None:
    """Its JobSet waits in a queue with so many CPUs."""
    s.settings = JOBSETS
    s.api.put(f"{LOCAL.replace('localqueues', 'namespaces/team/localqueues')}/default", local_queue())
    s.api.put(f"{CLUSTER}/q", cluster_queue(nominal))
    job = objects.trainjob(trainer={"numNodes": 2, "resourcesPerNode": {"requests": {"cpu": "64"}}})
    s.api.put(JOB, {**job, "metadata": {**job["metadata"], "labels": {QUEUE: "default"}}})
    s.see(JOB, "MODIFIED")
    await s.settle()
    s.see_jobset()
    await s.settle()


def kueue_says(s: Scene, message: str) -> None:
    said = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
    mine = {"kueue.x-k8s.io/job-uid": s.api.objects[JOBSET]["metadata"]["uid"]}
    s.api.put(f"{WORKLOADS}/w", {"metadata": {"labels": mine}, "status": {"conditions": [said]}})


async def later(s: Scene, seconds: float) -> float | None:
    s.second += seconds
    s.controller.everything()
    return await s.settle()


def reads(s: Scene) -> list[tuple[str, str]]:
    return [request for request in s.api.requests if "kueue" in request[1]]


def test_a_job_that_can_never_run_is_blocked_with_kueues_words_until_it_can() -> None:
    async def test() -> None:
        async with scene() as s:
            await waits(s, nominal="1")
            kueue_says(s, TOO_MUCH)
            assert (reads(s), s.conditions()) == ([], {})
            await later(s, 10)
            [blocked] = s.api.objects[JOB]["status"]["conditions"]
            assert (blocked["reason"], blocked["message"]) == (
                "QueueTooSmall",
                "it asks for cpu 128 (2 x 64), and LocalQueue default has at most 1; "
                f"Kueue says: {TOO_MUCH}; {LESS}",
            )
            assert s.api.objects[JOB]["status"]["trainyard"]["state"] == "Blocked"
            assert reads(s) == [*READS, ("GET", WORKLOADS)]
            await later(s, 30)
            assert len(reads(s)) == 4, "what is known is not asked for again"
            s.api.put(f"{CLUSTER}/q", cluster_queue("128"))
            await later(s, 60)
            assert s.conditions() == {}
            assert reads(s) == [*READS, ("GET", WORKLOADS), *READS]

    run(test)


def test_a_new_leader_says_of_a_job_that_can_never_run_what_was_said_before() -> None:
    async def test() -> None:
        async with scene() as s:
            await waits(s, nominal="1")
            kueue_says(s, TOO_MUCH)
            await later(s, 10)
            status = s.api.objects[JOB]["status"]
            s.memories.forget(KEY)
            s.see(JOB, "MODIFIED")
            await later(s, 10)
            assert s.api.objects[JOB]["status"] == status

    run(test)


def test_a_job_that_waits_for_others_costs_one_look_at_the_queues_that_serves_all() -> None:
    async def test() -> None:
        async with scene() as s:
            await waits(s, nominal="128")
            await later(s, 10)
            assert await later(s, 20) == 600.0, "nobody tells when the quota is lowered"
            assert (reads(s), s.conditions()) == (READS, {})

    run(test)


def test_a_job_whose_queue_has_got_more_since_the_last_look_waits() -> None:
    async def test() -> None:
        async with scene() as s:
            await waits(s, nominal="1")
            kueue_says(s, IN_USE)
            await later(s, 10)
            assert s.conditions() == {}

    run(test)


def test_a_job_of_whose_queues_nothing_may_be_read_waits() -> None:
    async def test() -> None:
        async with scene() as s:
            await waits(s, nominal="1")
            s.api.refuse_next("GET", "/localqueues", status(403, "Forbidden"))
            await later(s, 10)
            assert await later(s, 10) == 30.0, "the right may be given"
            assert (reads(s), s.conditions()) == (READS[:1], {})

    run(test)


def test_queues_that_could_not_be_read_for_a_moment_are_read_again_soon() -> None:
    async def test() -> None:
        async with scene() as s:
            await waits(s, nominal="1")
            s.api.refuse_next("GET", "/localqueues", status(429, "TooManyRequests"))
            assert await later(s, 10) == 30.0
            await later(s, 9)
            assert (reads(s), s.conditions()) == (READS[:1], {}), "an overloaded server has a pause"
            await later(s, 21)
            assert s.conditions() == {"Blocked": "QueueTooSmall"}

    run(test)


def test_a_caller_that_does_not_wait_for_the_queues_keeps_them_from_nobody() -> None:
    async def test() -> None:
        async with scene() as s:
            await waits(s, nominal="1")
            queues = Reader(s.client, clock=s.clock)
            reading = asyncio.create_task(queues.all("team", "default"))
            await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            assert await queues.all("team", "default") is not None

    run(test)
