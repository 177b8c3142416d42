"""`trainyard queue` and `trainyard nodes`: what they read, with which rights, and how they print it."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
import typer
from aiohttp import web

from tests.support.answers import answered
from tests.support.fake_api import FakeApi, status
from tests.support.fake_api import run as run_test
from tests.support.kueues import GPU, cluster_queue, cohort, looked_at, workload
from trainyard_api.errors import UserError
from trainyard_cli.cluster import connection, job_names
from trainyard_cli.cluster import nodes as cluster_nodes
from trainyard_cli.cluster import queues as cluster_queues
from trainyard_cli.cluster.jobs import OWN_ALONE
from trainyard_cli.commands import nodes, queue
from trainyard_kube.credentials import Credentials

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
TEAM = f"{KUEUE}/namespaces/team"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


class Cluster(FakeApi):
    """An API server with the queue `default` in front of `gpus`, which shares its quota with `others`."""

    def __init__(self) -> None:
        super().__init__()
        self.forbidden: set[str] = set()
        """Paths of what the user may not get or list."""
        self.named: dict[str, list[str]] = {}
        """By resource of Kueue's: what the user may get by name."""
        self.put(
            f"{TEAM}/localqueues/default",
            {"spec": {"clusterQueue": "gpus"}, "status": {"reservingWorkloads": 1}},
        )
        self.put(f"{KUEUE}/namespaces/others/localqueues/default", {"spec": {"clusterQueue": "others"}})
        quotas = ("h100", {GPU: 8})
        for name, used in (("gpus", "10"), ("others", "4")):
            self.put(
                f"{KUEUE}/clusterqueues/{name}",
                cluster_queue(name, quotas, cohort="all", used={("h100", GPU): used}),
            )
        self.put(f"{KUEUE}/cohorts/all", cohort("all"))

    def waits(self, job: str, gpus: int, *, namespace: str = "team", created: int = 0) -> None:
        made = workload(
            job, namespace=namespace, created=created, requests={GPU: str(gpus)}, conditions=[looked_at()]
        )
        self.put(f"{KUEUE}/namespaces/{namespace}/workloads/jobset-{job}", made)

    def as_ada(self) -> None:
        """Only the rights that the stack gives data scientists."""
        cluster_wide = ("workloads", "localqueues", "clusterqueues", "cohorts", "resourceflavors")
        self.forbidden |= {f"{KUEUE}/{plural}" for plural in cluster_wide}
        self.forbidden |= {"/api/v1/nodes", "/api/v1/pods"}
        self.named = {"clusterqueues": ["gpus", "others"], "cohorts": ["all"]}

    async def _get(self, request: web.Request, body: Any) -> web.Response:
        if request.path in self.forbidden:
            return web.json_response(status(403, "Forbidden"), status=403)
        return await super()._get(request, body)

    async def _post(self, request: web.Request, body: Any) -> web.Response:
        if request.path != REVIEW:
            return await super()._post(request, body)
        rules = [
            {
                "apiGroups": ["kueue.x-k8s.io"],
                "resources": [plural],
                "resourceNames": named,
                "verbs": ["get"],
            }
            for plural, named in self.named.items()
        ]
        return web.json_response({**body, "status": {"resourceRules": rules}}, status=201)

    def look(self, queue: str | None = None) -> cluster_queues.Seen:
        async def answer() -> cluster_queues.Seen:
            async with self.client() as client:
                return await cluster_queues.look(client, "team", queue)

        return run_test(answer)

    def look_at_nodes(self) -> cluster_nodes.Seen | None:
        async def answer() -> cluster_nodes.Seen | None:
            async with self.client() as client:
                return await cluster_nodes.look(client)

        return run_test(answer)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(seen: cluster_queues.Seen, out: io.StringIO | None = None) -> tuple[str, str]:
    out, err = out or io.StringIO(), io.StringIO()
    queue.write(seen, "team", out, err)
    return out.getvalue(), err.getvalue()


QUOTA = """\
LocalQueue default: ClusterQueue gpus, cohort all, BestEffortFIFO
RESOURCE        FLAVOR  QUOTA  USED  BORROWED  FREE  LENDABLE
nvidia.com/gpu  h100    8      10    2         0     2
Jobs with quota: 1; waiting: 1
"""


def test_the_quota_is_printed_with_what_becomes_of_who_waits() -> None:
    api = Cluster()
    api.waits("large", 4)
    out, err = printed(api.look())
    head, last = out.rsplit("  1 of 1  large (", 1)
    assert (head, err) == (QUOTA, "")
    assert last.partition("): ")[2] == "waits: 4 nvidia.com/gpu of flavor h100, of which 2 is free\n"
    assert api.writes() == []


def test_the_rights_of_a_data_scientist_say_the_same_of_the_quota() -> None:
    api = Cluster()
    api.waits("large", 4)
    whole = api.look()
    api.as_ada()
    seen = api.look()
    assert [(door.queue, door.lines) for door in seen.doors] == [
        (door.queue, door.lines) for door in whole.doors
    ]
    [waiting] = seen.doors[0].waiting
    assert waiting.verdict is not None
    assert (waiting.verdict.sure, waiting.place is not None and waiting.place.partial) == (True, True)
    assert seen.unseen == (OWN_ALONE,)
    assert api.writes() == [("POST", REVIEW)]


def test_what_the_rights_lack_is_said_in_a_sentence_each() -> None:
    api = Cluster()
    api.as_ada()
    api.named = {"clusterqueues": ["gpus"]}
    seen = api.look()
    assert seen.unseen == ("what cohort all lends: you are not allowed to see it",)
    assert [(line.free, line.lendable, line.lent) for line in seen.doors[0].lines] == [(0, None, None)]
    out, _ = printed(seen)
    assert out.splitlines()[2].split() == [GPU, "h100", "8", "10", "2", "0", "?"]
    [line] = queue.document(seen)["localQueues"][0]["quota"]
    assert (line["lendable"], line["lent"]) == (None, None)
    api.named = {}
    api.forbidden |= {f"{KUEUE}/clusterqueues/gpus", f"{TEAM}/workloads"}
    own = api.objects[f"{TEAM}/localqueues/default"]
    own["status"]["pendingWorkloads"] = 2
    seen = api.look()
    assert seen.unseen == (
        "the quota of ClusterQueue gpus: you are not allowed to see it",
        "the jobs that wait: you are not allowed to list Workloads",
    )
    [door] = queue.document(seen)["localQueues"]
    assert (door["pending"], door["waiting"]) == (2, [])
    out, err = printed(seen)
    assert out == "LocalQueue default: ClusterQueue gpus\nJobs with quota: 1; waiting: 2\n"
    assert err.splitlines() == [f"Not everything is visible: {words}" for words in seen.unseen]


def test_who_may_get_the_flavors_of_the_queue_by_name_is_told_which_is_not_for_the_job() -> None:
    api = Cluster()
    api.waits("small", 1)
    wanting = api.objects[f"{KUEUE}/namespaces/team/workloads/jobset-small"]
    wanting["spec"]["podSets"][0]["template"] = {"spec": {"nodeSelector": {"gpu": "a100"}}}
    api.put(f"{KUEUE}/resourceflavors/h100", {"spec": {"nodeLabels": {"gpu": "h100"}}})
    api.as_ada()
    [waiting] = api.look().doors[0].waiting
    assert waiting.verdict is not None
    assert waiting.verdict.why == "its nodeSelector wants gpu=a100, which flavor h100 does not have"


def test_more_queues_than_can_be_asked_for_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_queues, "MOST", 1)
    api = Cluster()
    api.as_ada()
    seen = api.look()
    assert seen.unseen == ("what the cohort lends: more than 1 queues or cohorts share the quota",)
    assert [line.lendable for line in seen.doors[0].lines] == [None]


def test_the_json_has_the_documented_shape() -> None:
    api = Cluster()
    api.waits("large", 4)
    document = queue.document(api.look())
    [waiting] = document["localQueues"][0].pop("waiting")
    assert document == {
        "apiVersion": "queues.trainyard.dev/v1alpha1",
        "kind": "Queues",
        "localQueues": [
            {
                "namespace": "team",
                "name": "default",
                "clusterQueue": "gpus",
                "cohort": "all",
                "queueingStrategy": "BestEffortFIFO",
                "stopped": None,
                "reserving": 1,
                "pending": 1,
                "quota": [
                    {
                        "flavor": "h100",
                        "resource": GPU,
                        "nominal": "8",
                        "used": "10",
                        "borrowed": "2",
                        "free": "0",
                        "lendable": "2",
                        "lent": "0",
                    }
                ],
            }
        ],
        "unseen": [],
    }
    assert waiting == {
        "name": "large",
        "priority": 0,
        "createdAt": "2026-01-01T10:00:00Z",
        "place": {"position": 1, "total": 1, "partial": False},
        "forecast": {
            "answer": "Waits",
            "message": "waits: 4 nvidia.com/gpu of flavor h100, of which 2 is free",
            "before": [],
            "preempts": [],
            "sure": True,
        },
    }


def test_a_narrow_terminal_has_what_matters_and_no_line_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    api = Cluster()
    api.waits("large", 4)
    out, _ = printed(api.look(), Terminal())
    assert max(map(len, out.splitlines())) <= 40
    assert "RESOURCE        QUOTA  FREE  LENDABLE" in out.splitlines()


def test_a_queue_of_another_name_is_not_found_and_the_nearest_is_named() -> None:
    api = Cluster()
    assert [door.name for door in api.look("default").doors] == ["default"]
    with pytest.raises(UserError) as error:
        api.look("defualt")
    assert str(error.value) == (
        "LocalQueue defualt is not found: namespace team has none; did you mean default?"
    )


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            lambda api: api.forbidden.add(f"{TEAM}/localqueues"),
            "you are not allowed to list the LocalQueues of team",
        ),
        (
            lambda api: api.missing.add(KUEUE),
            "there is no LocalQueue API: Kueue is not installed",
        ),
    ],
)
def test_without_queues_it_is_one_sentence(spoil: Any, sentence: str) -> None:
    api = Cluster()
    spoil(api)
    with pytest.raises(UserError) as error:
        api.look()
    assert str(error.value).endswith(sentence)


def test_the_shell_completes_the_names_of_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Cluster()
    context = typer.Context(typer.main.get_command(typer.Typer(callback=lambda: None)))

    async def answer(incomplete: str) -> Sequence[str]:
        async with api.serving() as url:
            credentials = Credentials(server=url, tls=None, namespace="team")
            monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: credentials)
            return await asyncio.to_thread(job_names.completed_queues, context, incomplete)

    api.put(f"{TEAM}/localqueues/deep", {})
    assert run_test(lambda: answer("de")) == ["deep", "default"]
    assert run_test(lambda: answer("def")) == ["default"]


def test_a_namespace_without_queues_says_so() -> None:
    api = Cluster()
    api.remove(f"{TEAM}/localqueues/default")
    assert printed(api.look()) == ("", "There is no LocalQueue in namespace team.\n")


@pytest.mark.parametrize("run", [queue.run, nodes.run])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"namespace": "../x"}, "'../x' is not a valid name of an object"),
        ({"kubeconfig": "/no/such/file"}, "/no/such/file"),
    ],
)
def test_what_cannot_be_asked_is_one_line_and_exit_code_2(
    run: Any, options: dict[str, Any], sentence: str
) -> None:
    code, out, err = answered(run, **options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


# --- nodes --------------------------------------------------------------------------


def put_node(api: Cluster, name: str, *conditions: dict[str, Any], gpus: str = "8", **spec: Any) -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    labels = {"trainyard.dev/pool": "gpu", "trainyard.dev/accelerator": "nvidia-h100"}
    resources = {"cpu": "96", "memory": "1Ti"}
    api.put(
        f"/api/v1/nodes/{name}",
        {
            "metadata": {"labels": labels},
            "spec": spec,
            "status": {
                "conditions": list(conditions) or [ready],
                "allocatable": {**resources, GPU: gpus},
                "capacity": {**resources, GPU: "8"},
            },
        },
    )


def put_pod(api: Cluster, namespace: str, name: str, node: str, gpus: str) -> None:
    """A pod that runs."""
    containers = [{"name": "node", "resources": {"limits": {GPU: gpus}}}]
    api.put(
        f"/api/v1/namespaces/{namespace}/pods/{name}",
        {"spec": {"nodeName": node, "containers": containers}, "status": {"phase": "Running"}},
    )


def a_pool() -> Cluster:
    api = Cluster()
    for name in ("gpu-0", "gpu-1"):
        put_node(api, name)
    put_node(api, "gpu-2", unschedulable=True)
    put_node(
        api,
        "gpu-3",
        {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": "2026-01-01T09:00:00Z",
        },
        gpus="6",
    )
    put_pod(api, "team", "a", "gpu-0", "8")
    put_pod(api, "others", "b", "gpu-1", "2")
    put_pod(api, "others", "done", "gpu-1", "4")
    done = api.objects["/api/v1/namespaces/others/pods/done"]
    done["status"] = {"phase": "Succeeded"}
    return api


def nodes_printed(seen: cluster_nodes.Seen, out: io.StringIO | None = None) -> tuple[list[str], str]:
    out, err = out or io.StringIO(), io.StringIO()
    nodes._write(seen, out, err)
    return out.getvalue().splitlines(), err.getvalue()


def test_a_pool_says_what_is_free_who_uses_it_and_what_is_sick() -> None:
    seen = a_pool().look_at_nodes()
    assert seen is not None
    lines, err = nodes_printed(seen)
    assert [line.split() for line in lines[:2]] == [
        ["POOL", "NODES", "SICK", "ACCELERATOR", "RESOURCE", "TOTAL", "USED", "FREE", "BY"],
        f"gpu 4 2 nvidia-h100 {GPU} 30 10 6 team 8, others 2".split(),
    ]
    assert [line.split()[:3] for line in lines[2:]] == [
        [],
        ["NODE", "POOL", "STATE"],
        ["gpu-2", "gpu", "Cordoned"],
        ["gpu-3", "gpu", "NotReady"],
        ["gpu-3", "gpu", GPU],
    ]
    assert "NodeStatusUnknown: Kubelet stopped posting node status." in lines[5]
    assert lines[6].endswith("2 of 8 do not work")
    assert err == ""


def test_the_json_of_pools_has_the_documented_shape() -> None:
    seen = a_pool().look_at_nodes()
    assert seen is not None
    document = nodes.document(seen)
    [pool] = document.pop("pools")
    assert document == {
        "apiVersion": "nodes.trainyard.dev/v1alpha1",
        "kind": "Nodes",
        "localQueues": None,
        "unseen": [],
    }
    resources = pool.pop("resources")
    assert resources[GPU] == {"total": "30", "used": "10", "free": "6", "by": {"others": "2", "team": "8"}}
    assert resources["memory"] == {"total": "4Ti", "used": "0", "free": "2Ti", "by": {}}
    assert pool == {
        "name": "gpu",
        "nodes": 4,
        "ready": 2,
        "accelerators": ["nvidia-h100"],
        "sick": [
            {"node": "gpu-2", "state": "Cordoned", "since": None, "why": "no new pods come to it"},
            {
                "node": "gpu-3",
                "state": "NotReady",
                "since": "2026-01-01T09:00:00Z",
                "why": "NodeStatusUnknown: Kubelet stopped posting node status.",
            },
            {"node": "gpu-3", "state": GPU, "since": None, "why": "2 of 8 do not work"},
        ],
    }


def test_on_a_narrow_terminal_no_line_is_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    seen = a_pool().look_at_nodes()
    assert seen is not None
    lines, _ = nodes_printed(seen, Terminal())
    assert max(map(len, lines)) <= 40
    assert lines[0].split() == ["POOL", "NODES", "RESOURCE", "TOTAL", "FREE"]


def test_nodes_without_the_stacks_label_are_in_the_flavor_that_fits_them_best() -> None:
    api = Cluster()
    api.put("/api/v1/nodes/a", {"metadata": {"labels": {"kubernetes.io/os": "linux", "gpu": "h100"}}})
    api.put("/api/v1/nodes/b", {"metadata": {"labels": {"kubernetes.io/os": "linux"}}})
    api.put("/api/v1/nodes/c", {})
    flavors = {"cpu": {"kubernetes.io/os": "linux"}, "h100": {"kubernetes.io/os": "linux", "gpu": "h100"}}
    for name, labels in flavors.items():
        api.put(f"{KUEUE}/resourceflavors/{name}", {"spec": {"nodeLabels": labels}})
    seen = api.look_at_nodes()
    assert seen is not None
    assert [(pool.name, pool.nodes) for pool in seen.pools] == [("cpu", 1), ("h100", 1), ("-", 1)]
    assert seen.unseen == ()
    api.forbidden.add(f"{KUEUE}/resourceflavors")
    seen = api.look_at_nodes()
    assert seen is not None
    assert [(pool.name, pool.nodes) for pool in seen.pools] == [("-", 3)]
    assert seen.unseen == (
        "pools of nodes without the label trainyard.dev/pool: you are not allowed to list ResourceFlavors",
    )
    api.forbidden.clear()
    api.missing.add(KUEUE)  # nobody has flavors
    seen = api.look_at_nodes()
    assert seen is not None
    assert ([pool.name for pool in seen.pools], seen.unseen) == (["-"], ())


def test_without_the_pods_of_all_it_is_not_known_what_is_used() -> None:
    api = a_pool()
    api.forbidden.add("/api/v1/pods")
    seen = api.look_at_nodes()
    assert seen is not None
    lines, err = nodes_printed(seen)
    assert f"gpu 4 2 nvidia-h100 {GPU} 30" == " ".join(lines[1].split())
    assert err == "Not everything is visible: use: you are not allowed to list the pods of all namespaces\n"
    assert nodes.document(seen)["pools"][0]["resources"][GPU]["free"] is None


def test_who_may_not_see_nodes_sees_what_the_queues_say() -> None:
    api = a_pool()
    api.as_ada()
    assert api.look_at_nodes() is None
    document = nodes.document(api.look())
    assert (document["pools"], document["unseen"]) == (None, [nodes.NOT_ALLOWED])
    assert [door["name"] for door in document["localQueues"]] == ["default"]


def test_without_nodes_and_without_queues_both_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    api = a_pool()
    api.as_ada()
    api.missing.add(KUEUE)

    async def answer() -> tuple[int, str, str]:
        async with api.serving() as url:
            credentials = Credentials(server=url, tls=None, namespace="team")
            monkeypatch.setattr(connection, "load_or_sandbox", lambda *_: credentials)
            return await asyncio.to_thread(answered, nodes.run)

    code, out, err = run_test(answer)
    assert (code, out) == (2, "")
    assert err.startswith("you are not allowed to list nodes: ")
    assert err.endswith("there is no LocalQueue API: Kueue is not installed\n")


@pytest.mark.parametrize(
    ("pressure", "ready"),
    [("DiskPressure", 0), ("PIDPressure", 0), ("NetworkUnavailable", 0), ("MemoryPressure", 1)],
)
def test_a_node_that_kubernetes_keeps_pods_from_has_nothing_free(pressure: str, ready: int) -> None:
    api = Cluster()
    put_node(api, "gpu-0", {"type": "Ready", "status": "True"}, {"type": pressure, "status": "True"})
    seen = api.look_at_nodes()
    assert seen is not None
    [pool] = nodes.document(seen)["pools"]
    assert (pool["ready"], pool["resources"][GPU]["free"]) == (ready, str(8 * ready))
    assert [sick["state"] for sick in pool["sick"]] == [pressure]


def test_whatever_a_kubelet_says_is_printed_on_one_line() -> None:
    api = Cluster()
    put_node(
        api, "gpu-0", {"type": "Ready", "status": "False", "reason": "\x1b[31mred", "message": "a\nb" * 500}
    )
    seen = api.look_at_nodes()
    assert seen is not None
    lines, _ = nodes_printed(seen)
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)
    assert json.loads(json.dumps(nodes.document(seen)))["pools"][0]["ready"] == 0
