"""The arithmetic of quota holds whatever queues, cohorts and limits there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.kueues import GPU, Object, cluster_queue, cohort, state
from trainyard_api.capacity import Group, Quota
from trainyard_assist.quota import Answer, Job, PodSet, State, forecast
from trainyard_assist.quota.lines import Line, amount, lines
from trainyard_assist.quota.model import Cohort, Queue
from trainyard_assist.quota.tree import Tree

KEY = ("h100", GPU)
QUEUES = ("a", "b", "c")


def quotas(draw: st.DrawFn, *, limited: bool = True) -> dict[tuple[str, str], Quota]:
    nominal = draw(st.integers(0, 8))
    borrowing = draw(st.none() | st.integers(0, 6)) if limited else None
    lending = draw(st.none() | st.integers(0, nominal)) if limited else None
    return {KEY: Quota(nominal, borrowing, lending)}


@st.composite
def trees(draw: st.DrawFn) -> State:
    """Three queues in cohorts that are below each other or not."""
    cohorts = {
        "below": Cohort("below", draw(st.sampled_from(["", "top"])), quotas(draw)),
        "top": Cohort("top", "", quotas(draw, limited=False)),
    }
    queues = [
        Queue(
            name=name,
            cohort=draw(st.sampled_from(["", "below", "top"])),
            groups=(Group((GPU,), ("h100",)),),
            quotas=quotas(draw),
        )
        for name in QUEUES
    ]
    return State(queues={queue.name: queue for queue in queues}, cohorts=cohorts)


def tree_of(there: State) -> Tree:
    return Tree(there.queues.values(), there.cohorts)


@given(trees(), st.lists(st.tuples(st.sampled_from(QUEUES), st.integers(0, 4)), max_size=8))
def test_what_is_available_can_be_used_and_all_use_together_no_more_than_there_is(
    there: State, steps: list[tuple[str, int]]
) -> None:
    tree = tree_of(there)
    for queue, part in steps:
        free = tree.available(queue, KEY)
        tree.change(queue, {KEY: free * part // 4})
        assert tree.available(queue, KEY) == free - free * part // 4
    used = {name: node.used[KEY] for name, node in tree.queues.items()}
    everything = [queue.quotas[KEY].nominal for queue in there.queues.values()]
    everything += [above.quotas[KEY].nominal for above in there.cohorts.values()]
    assert sum(used.values()) <= sum(everything)
    assert all(used[name] <= tree.most(name, KEY) for name in QUEUES)
    # And as it began, once nobody uses anything.
    with tree.without((name, {KEY: gpus}) for name, gpus in used.items()):
        fresh = tree_of(there)
        assert [tree.available(name, KEY) for name in QUEUES] == [
            fresh.available(name, KEY) for name in QUEUES
        ]
    assert {name: node.used[KEY] for name, node in tree.queues.items()} == used


@given(trees(), st.sampled_from(QUEUES))
def test_a_job_starts_with_exactly_what_is_available(there: State, queue: str) -> None:
    free = tree_of(there).available(queue, KEY)

    def job(gpus: int) -> Job:
        return Job(name="team/new", queue=queue, pods=(PodSet(requests={GPU: gpus}),))

    assert forecast(there, job(free)).answer is Answer.STARTS
    assert forecast(there, job(free + 1)).answer is Answer.NEVER


def test_a_line_says_what_is_free_what_can_be_borrowed_and_what_is_lent() -> None:
    def gpus(name: str, used: str) -> Object:
        return cluster_queue(name, ("h100", {GPU: 8}), cohort="all", used={KEY: used})

    there = state(gpus("borrows", "10"), gpus("lends", "1"), cohorts=[cohort("all")])
    one = 10**9
    assert lines(there, "borrows") == [Line("h100", GPU, 8 * one, 10 * one, 2 * one, 0, 5 * one, 0)]
    assert lines(there, "lends") == [Line("h100", GPU, 8 * one, one, 0, 5 * one, 0, 2 * one)]
    assert lines(there, "unknown") == []


def test_amounts_are_written_as_kubernetes_does() -> None:
    assert [amount("cpu", 5 * 10**8), amount("memory", 3 * 2**30 * 10**9), amount(GPU, 0)] == [
        "500m",
        "3Gi",
        "0",
    ]
