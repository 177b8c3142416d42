"""What pods ask for: GPUs by name, and the sum of a pod's requests."""

import pytest

from tests.support.core_values import replicated_job, runtime, trainjob
from trainyard_operator.core.build import resources, templates
from trainyard_operator.core.build.info import DEFAULT_SETTINGS, new_info
from trainyard_operator.core.build.templates import SPEC_PATH


def requests(**amounts):
    return {"resources": {"requests": amounts}}


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param(
            {"requests": {"amd.com/GPU": "2"}, "limits": {"nvidia.com/gpu": "4"}}, 2, id="requests first"
        ),
        pytest.param(
            {"requests": {"nvidia.com/gpu": "0"}, "limits": {"nvidia.com/gpu": "4"}}, 4, id="else limits"
        ),
        pytest.param(
            {"limits": {"nvidia.com/mig-1g.5gb": "1", "google.com/tpu": "4"}}, 0, id="by name alone"
        ),
    ],
)
def test_gpus_are_counted(wanted, count):
    assert resources.gpu_count(wanted) == count


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({"containers": [{"resources": {"limits": {"cpu": "4"}}}]}, {}, id="no limits"),
        pytest.param(
            {"containers": [requests(cpu="500m"), requests(cpu="1", memory="1Gi")]},
            {"cpu": "1500m", "memory": "1Gi"},
            id="the sum of the containers",
        ),
        pytest.param(
            {"initContainers": [requests(cpu="3"), requests(cpu="2")], "containers": [requests(cpu="1")]},
            {"cpu": "3"},
            id="the largest init container if that is more",
        ),
        pytest.param(
            {
                "initContainers": [requests(memory="1073741824")],
                "containers": [requests(memory="1Gi")],
            },
            {"memory": "1Gi"},
            id="the containers' own if an init container asks for as much",
        ),
        pytest.param(
            {
                "initContainers": [
                    requests(cpu="4"),
                    {**requests(cpu="1"), "restartPolicy": "Always"},
                    requests(cpu="5"),
                ],
                "containers": [requests(cpu="2")],
            },
            {"cpu": "6"},
            id="an init container beside the sidecars before it",
        ),
        pytest.param(
            {
                "initContainers": [{**requests(cpu="1"), "restartPolicy": "Always"}],
                "containers": [requests(cpu="2")],
            },
            {"cpu": "3"},
            id="sidecars run beside the containers",
        ),
        pytest.param(
            {
                **requests(**{"cpu": "8", "nvidia.com/gpu": "9", "hugepages-2Mi": "4Mi"}),
                "containers": [requests(**{"cpu": "1", "nvidia.com/gpu": "2"})],
            },
            {"cpu": "8", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"},
            id="requests of the pod replace the sum",
        ),
        pytest.param(
            {"overhead": {"cpu": "250m"}, "containers": [requests(cpu="1")]},
            {"cpu": "1250m"},
            id="the overhead on top",
        ),
    ],
)
def test_a_pod_requests(pod, expected):
    named = [{"name": str(i), **c} for i, c in enumerate(pod.get("containers", []))]
    started = [{"name": f"i{i}", **c} for i, c in enumerate(pod.get("initContainers", []))]
    job = replicated_job()
    job["template"]["spec"]["template"]["spec"] = {**pod, "containers": named, "initContainers": started}
    (checked,) = templates.checked({"replicatedJobs": [job]}, SPEC_PATH)["replicatedJobs"]
    assert {name: str(amount) for name, amount in resources.pod_requests(checked).items()} == expected


@pytest.mark.parametrize(
    ("jobs", "cpus"),
    [
        ({"helper": None, "node": None, "trainer": "trainer"}, "2"),
        ({"helper": None, "trainer": "trainer", "node": None}, "2"),
        ({"helper": "dataset-initializer", "trainer": "trainer"}, "2"),
        ({"helper": None}, None),
    ],
)
def test_the_resources_of_a_node_are_those_of_the_first_that_trains_or_works(
    jobs: dict[str, str | None], cpus: str | None
) -> None:
    made = [
        replicated_job(
            name, ancestor, [{"name": "node", "resources": {"limits": {"cpu": str(position + 1)}}}]
        )
        for position, (name, ancestor) in enumerate(jobs.items())
    ]
    found = resources.per_node(new_info(trainjob(), runtime({}, made), DEFAULT_SETTINGS))
    assert found == ({} if cpus is None else {"limits": {"cpu": cpus}})
