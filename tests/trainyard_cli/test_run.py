"""`trainyard run` and `trainyard clone`: what they ask the cluster, what they say, and what they send."""

import asyncio
import base64
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
import yaml
from aiohttp import web

from tests.support.checked_in import ROOT
from tests.support.fake_api import FakeApi, status
from tests.support.fake_api import run as run_test
from tests.support.kueues import cluster_queue
from tests.support.run_runtimes import runtime
from trainyard_assist.run import interactive
from trainyard_assist.run.runtime import Runtime
from trainyard_assist.run.settings import Settings
from trainyard_cli.cluster import run as cluster
from trainyard_cli.commands import run as command
from trainyard_cli.commands import run_local
from trainyard_cli.commands.run_interactive import Shell
from trainyard_cli.files import run_settings
from trainyard_cli.main import exit_code
from trainyard_cli.output import Form

GROUP = "/apis/trainer.kubeflow.org/v1alpha1"
JOBS = f"{GROUP}/namespaces/team/trainjobs"
RUNTIMES = f"{GROUP}/clustertrainingruntimes"
OWN_RUNTIMES = f"{GROUP}/namespaces/team/trainingruntimes"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = f"{KUEUE}/namespaces/team/localqueues"
VISIBLE = "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/default/pendingworkloads"
SECRET = "/api/v1/namespaces/team/secrets/hub"
WORDS = ("python", "train.py")


class Cluster(FakeApi):
    """An API server with the runtime `torch-distributed`, and the LocalQueue `default` of a ClusterQueue."""

    def __init__(self) -> None:
        super().__init__()
        self.warnings: list[str] = []
        """What a create is answered with besides."""
        self.put(f"{RUNTIMES}/torch-distributed", runtime(name="torch-distributed", image="torch:2").manifest)
        self.put(f"{QUEUES}/default", {"spec": {"clusterQueue": "gpus"}})

    async def _post(self, request: web.Request, body: Any) -> web.Response:
        answer = await super()._post(request, body)
        for warning in self.warnings:
            answer.headers.add("Warning", f'299 - "{warning}"')
        return answer

    @property
    def sent(self) -> dict[str, Any]:
        """The TrainJobs that it has."""
        return {path: body for path, body in self.objects.items() if path.startswith(JOBS)}

    def forbid(self, path: str, method: str = "GET") -> None:
        message = f'{path} is forbidden: User "ada" cannot {"get" if method == "GET" else "create"} resource'
        self.refuse_next(method, path, status(403, "Forbidden", message))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that it is run from."""
    folder = tmp_path / "resnet"
    folder.mkdir()
    return folder


Answer = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Runs the command against an API server: the exit code, the output, and what is said."""
    monkeypatch.setattr(command, "_suffix", iter(["x7k2f", "bbbbb", *("ccccc",) * 9]).__next__)

    def answered(api: FakeApi, *words: str, **more: Any) -> tuple[int, str, str]:
        out, err = io.StringIO(), io.StringIO()
        names = (
            "copied",
            "yes",
            "dry_run",
            "detach",
            "local",
            "shell",
            "form",
            "ask",
            "namespace",
            "context",
        )
        options = {"detach": True} | {name: more.pop(name) for name in names if name in more}

        def ask(url: str) -> int:
            config = tmp_path / "kubeconfig"
            parts = {
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
            }
            config.write_text(json.dumps({"current-context": "x", **parts}))
            monkeypatch.setenv("KUBECONFIG", str(config))
            return exit_code(lambda: command.run(words, more, folder=folder, out=out, err=err, **options))

        async def test() -> int:
            async with api.serving() as url:
                return await asyncio.to_thread(ask, url)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stderr", err)
            code = run_test(test, timeout=60)
        return code, out.getvalue(), err.getvalue()

    return answered


PLAN = """TrainJob team/train-x7k2f
  runtime    torch-distributed
  image      torch:2
  command    torchrun train.py
  nodes      1
  queue      default; nobody waits before it in ClusterQueue gpus; nobody holds quota there
  admission  lets it in
"""


def test_a_command_is_planned_and_sent_as_a_plain_trainjob(run: Answer, folder: Path) -> None:
    api = Cluster()
    assert run(api, *WORDS, yes=True) == (
        0,
        f"{PLAN}TrainJob team/train-x7k2f is sent.\nTo follow it: trainyard attach train-x7k2f\n",
        "",
    )
    [job] = api.sent.values()
    assert job["metadata"]["labels"] == {"trainyard.dev/folder": run_settings.label(folder)}
    assert job["spec"] == {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {"command": ["torchrun", "train.py"]},
    }
    assert api.writes() == [("POST", JOBS), ("POST", JOBS)]


def test_a_dry_run_sends_nothing_and_prints_what_would_be_sent(run: Answer) -> None:
    api = Cluster()
    assert run(api, *WORDS, dry_run=True) == (0, PLAN, "")
    code, out, err = run(api, *WORDS, dry_run=True, form=Form.YAML, name="mine", nodes=2)
    assert code == 0
    assert err.startswith("TrainJob team/mine\n")
    job = yaml.safe_load(out)
    assert (job["kind"], job["metadata"]["name"], job["spec"]["trainer"]["numNodes"]) == (
        "TrainJob",
        "mine",
        2,
    )
    _, out, _ = run(api, *WORDS, dry_run=True, form=Form.JSON, name="mine", nodes=2)
    assert json.loads(out) == job
    assert api.sent == {}


def test_it_is_sent_once_its_user_says_yes(run: Answer) -> None:
    api = Cluster()
    questions: list[str] = []

    def no(question: str) -> bool:
        questions.append(question)
        return False

    assert run(api, *WORDS, ask=no) == (1, PLAN, "Nothing has been sent.\n")
    assert (questions, api.sent) == (["Send it?"], {})
    assert run(api, *WORDS, ask=lambda _: True)[0] == 0
    assert len(api.sent) == 1


def test_where_nobody_can_be_asked_the_way_out_is_told(run: Answer) -> None:
    api = Cluster()
    sentence = "there is no terminal to ask: --yes sends it, --dry-run only plans it\n"
    assert run(api, *WORDS) == (2, "", sentence)
    assert api.requests == []


def test_ctrl_c_at_the_question_sends_nothing(run: Answer) -> None:
    def interrupted(_: str) -> bool:
        raise KeyboardInterrupt

    api = Cluster()
    assert run(api, *WORDS, ask=interrupted) == (1, PLAN, "Nothing has been sent.\n")
    assert api.sent == {}


def test_settings_of_the_folder_the_script_and_the_command_line_are_joined(run: Answer, folder: Path) -> None:
    (folder / "trainyard.yaml").write_text("nodes: 1\ngpus: 8\nenv: {A: file}\n")
    (folder / "train.py").write_text("#!/usr/bin/python\n#TRAINYARD --nodes 2 --env A=head\nprint()\n")
    api = Cluster()
    assert run(api, *WORDS, yes=True, nodes=3, workspace="")[0] == 0
    [job] = api.sent.values()
    amounts = {"nvidia.com/gpu": "8"}
    assert job["spec"]["trainer"] == {
        "command": ["torchrun", "train.py"],
        "numNodes": 3,
        "env": [{"name": "A", "value": "head"}],
        "resourcesPerNode": {"requests": amounts, "limits": amounts},
    }


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "trainyard.yaml",
            b"nodes: 0\n",
            "trainyard.yaml:1: nodes: must be greater than or equal to 1; is 0\n",
        ),
        ("trainyard.yaml", b"\xff", "trainyard.yaml:1: not UTF-8\n"),
        (
            "train.py",
            b"#TRAINYARD --nodes 0\n",
            "train.py:1: --nodes: must be greater than or equal to 1; is '0'\n",
        ),
    ],
)
def test_a_wrong_file_is_told_before_the_cluster_is_asked(
    run: Answer, folder: Path, name: str, content: bytes, sentence: str
) -> None:
    (folder / name).write_bytes(content)
    api = Cluster()
    assert run(api, *WORDS, yes=True) == (2, "", sentence)
    assert api.requests == []


def test_what_is_no_regular_file_is_not_waited_for(run: Answer, folder: Path) -> None:
    (folder / "trainyard.yaml").mkdir()
    code, out, err = run(Cluster(), *WORDS, yes=True)
    assert (code, out, err) == (2, "", f"{folder / 'trainyard.yaml'}: is not a regular file\n")


def test_a_binary_that_is_run_has_no_head(run: Answer, folder: Path) -> None:
    (folder / "train.py").write_bytes(b"\x7fELF\0\xff" * 100_000)
    assert run(Cluster(), *WORDS, dry_run=True)[0] == 0


def test_a_word_that_is_too_long_for_a_file_is_no_script_of_the_folder(run: Answer) -> None:
    assert run(Cluster(), "python", f"{'x' * 300}.py", dry_run=True)[0] == 0


@pytest.mark.parametrize(
    ("head", "nodes"),
    [
        ("\ufeff#!/bin/sh\r\n#TRAINYARD --nodes 2\r\n", 2),
        ("# a line separator\u2028#TRAINYARD --nodes 3\n#TRAINYARD --nodes 2\n", 2),
        (f"{'#' * (64 * 1024 - 20)}\n#TRAINYARD --nodes 16\n", None),
    ],
    ids=["byte order mark", "within a line", "cut"],
)
def test_lines_of_a_head_are_read_whole_and_as_editors_count_them(
    run: Answer, folder: Path, head: str, nodes: int | None
) -> None:
    (folder / "train.py").write_bytes(head.encode())
    api = Cluster()
    assert run(api, *WORDS, yes=True, workspace="")[0] == 0
    [job] = api.sent.values()
    assert job["spec"]["trainer"].get("numNodes") == nodes


def test_the_nearest_runtime_is_told(run: Answer) -> None:
    api = Cluster()
    api.put(f"{OWN_RUNTIMES}/mine", runtime(name="mine").manifest)
    assert run(api, *WORDS, yes=True, runtime="torch-distribute") == (
        2,
        "",
        "there is no runtime torch-distribute (there are: mine, torch-distributed); "
        "did you mean torch-distributed?\n",
    )
    assert api.writes() == []


def test_a_runtime_of_the_namespace_comes_before_that_of_all(run: Answer) -> None:
    api = Cluster()
    api.put(f"{OWN_RUNTIMES}/torch-distributed", runtime("mpi", "torch-distributed").manifest)
    _, out, _ = run(api, *WORDS, dry_run=True)
    assert "  runtime    torch-distributed (TrainingRuntime)\n" in out
    assert "  command    mpirun python train.py\n" in out


def test_a_name_that_is_taken_is_told_before_anything_is_sent(run: Answer) -> None:
    api = Cluster()
    api.put(f"{JOBS}/mine", {})
    assert run(api, *WORDS, yes=True, name="mine", context="x") == (
        2,
        "",
        "namespace team has a TrainJob mine already: choose another --name, or delete that one: "
        "kubectl delete trainjob mine -n team --context x\n",
    )


def test_a_generated_name_that_is_taken_meanwhile_is_generated_again(run: Answer) -> None:
    api = Cluster()

    def taken(_: str) -> bool:
        api.put(f"{JOBS}/train-x7k2f", {})
        return True

    _, out, _ = run(api, *WORDS, ask=taken)
    assert out.endswith("TrainJob team/train-bbbbb is sent.\nTo follow it: trainyard attach train-bbbbb\n")


def test_what_admission_answers_is_in_the_plan(run: Answer) -> None:
    api = Cluster()
    api.warnings = ['this job will wait forever: it asks for \\"much\\"']
    _, out, _ = run(api, *WORDS, dry_run=True)
    assert out.endswith(
        "  admission  lets it in, with a warning\n"
        '             this job will wait forever: it asks for "much"\n'
    )
    denied = 'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: spec: Forbidden'
    api.refuse_next("POST", "/trainjobs", status(403, "Forbidden", denied))
    code, out, err = run(api, *WORDS, yes=True)
    assert (code, err) == (1, "")
    assert f"  admission  refuses it: {denied}\n" in out
    assert api.sent == {}


def test_who_may_not_create_trainjobs_is_told_so_in_one_sentence(run: Answer) -> None:
    api = Cluster()
    api.forbid("/trainjobs", "POST")
    assert run(api, *WORDS, yes=True) == (
        2,
        "",
        "you are not allowed to create TrainJobs in namespace team\n",
    )


def test_with_the_operator_down_the_next_step_is_said_and_nothing_is_sent(run: Answer) -> None:
    api = Cluster()
    call = (
        'failed calling webhook "validator.trainjob.trainer.kubeflow.org": Post '
        '"https://trainyard-operator.trainyard-system.svc:443/validate": no route to host'
    )
    api.refuse_next("POST", "/trainjobs", status(500, "InternalError", call))
    code, out, err = run(api, *WORDS, yes=True)
    assert (code, out) == (2, "")
    assert "Trainyard's operator does not answer, and until it does nobody can create" in err
    assert "kubectl -n trainyard-system get pods" in err
    assert api.sent == {}


def test_who_may_not_get_runtimes_is_told_so_in_one_sentence(run: Answer) -> None:
    api = Cluster()
    api.forbid("/clustertrainingruntimes/torch-distributed")
    sentence = "you are not allowed to get ClusterTrainingRuntime torch-distributed in namespace team\n"
    assert run(api, *WORDS, yes=True) == (2, "", sentence)


def test_who_may_get_no_runtimes_of_the_namespace_has_those_of_all(run: Answer) -> None:
    api = Cluster()
    api.forbid("/trainingruntimes/torch-distributed")
    assert run(api, *WORDS, dry_run=True) == (0, PLAN, "")
    for path in ("/trainingruntimes/torch-distributed", "/clustertrainingruntimes/torch-distributed"):
        api.forbid(path)
    sentence = "you are not allowed to get TrainingRuntime torch-distributed in namespace team\n"
    assert run(api, *WORDS, yes=True) == (2, "", sentence)


def test_a_cluster_without_trainyard_is_told(run: Answer) -> None:
    api = Cluster()
    api.missing.add("/apis/trainer.kubeflow.org")
    code, out, err = run(api, *WORDS, yes=True)
    assert (code, out) == (2, "")
    assert err.endswith(": there is no TrainJob API: Trainyard is not installed\n")


def test_a_cluster_without_kueue_has_no_queue(run: Answer) -> None:
    api = Cluster()
    api.missing |= {"/apis/kueue", "/apis/visibility"}
    _, out, _ = run(api, *WORDS, dry_run=True)
    assert "  queue      none: it starts as soon as there are nodes\n" in out


def test_the_nearest_queue_and_the_nearest_priority_are_told(run: Answer) -> None:
    api = Cluster()
    api.put(f"{KUEUE}/workloadpriorityclasses/high", {"value": 1000})
    assert run(api, *WORDS, yes=True, queue="defaut") == (
        2,
        "",
        "namespace team has no LocalQueue defaut; did you mean default?\n",
    )
    assert run(api, *WORDS, yes=True, priority="hihg") == (
        2,
        "",
        "there is no WorkloadPriorityClass hihg; did you mean high?\n",
    )
    assert api.sent == {}


def waiting(name: str, priority: int, **more: Any) -> dict[str, Any]:
    owner = {"kind": "TrainJob", "name": name}
    return {
        "metadata": {"name": name, "namespace": "team", "ownerReferences": [owner]},
        "priority": priority,
        **more,
    }


def test_the_place_counts_those_of_its_priority_and_higher(run: Answer) -> None:
    api = Cluster()
    api.put(f"{KUEUE}/workloadpriorityclasses/high", {"value": 1000})
    for name, priority in (("first", 2000), ("second", 0)):
        job = waiting(name, priority)
        spec = {"queueName": "default", "priority": priority}
        path = f"{KUEUE}/namespaces/team/workloads/{name}"
        api.put(path, {**job, "spec": spec})
    _, out, _ = run(api, *WORDS, dry_run=True)
    assert "default; it would be number 3 in ClusterQueue gpus, behind team/first, team/second;" in out
    _, out, _ = run(api, *WORDS, dry_run=True, priority="high")
    assert "default, priority high; it would be number 2 in ClusterQueue gpus, behind team/first;" in out


def test_who_sees_only_a_namespace_gets_the_positions_that_kueue_reports(run: Answer) -> None:
    api = Cluster()
    items = [
        waiting("first", 2000, positionInClusterQueue=4),
        waiting("second", -1, positionInClusterQueue=7),
    ]
    api.put(VISIBLE, {"items": items})
    for _reader in ("of the place", "of the quota"):
        api.forbid("/v1beta2/workloads")
    _, out, _ = run(api, *WORDS, dry_run=True)
    behind = "behind team/first and 4 more"
    assert f"default; it would be number 6 of those that you may see in ClusterQueue gpus, {behind}\n" in out


def test_who_may_list_no_workloads_is_not_told_that_nobody_holds_quota(run: Answer) -> None:
    api = Cluster()
    api.put(VISIBLE, {"items": []})
    for _reader in ("of the place", "of the quota"):
        api.forbid("/v1beta2/workloads")
        api.forbid("/namespaces/team/workloads")
    _, out, _ = run(api, *WORDS, dry_run=True)
    line = "  queue      default; nobody of those that you may see waits before it in ClusterQueue gpus\n"
    assert line in out


def test_what_may_not_be_seen_of_the_queue_is_told(run: Answer) -> None:
    api = Cluster()
    api.forbid("/localqueues/default")
    code, out, _ = run(api, *WORDS, dry_run=True)
    assert (code, "  queue      you are not allowed to get LocalQueues\n" in out) == (0, True)


def test_the_plan_says_whether_the_quota_has_room_for_it(run: Answer) -> None:
    api = Cluster()
    quotas = ("h100", {"nvidia.com/gpu": 8, "memory": "64Gi"})
    queue = cluster_queue("gpus", quotas, used={("h100", "nvidia.com/gpu"): "4"})
    api.put(f"{KUEUE}/clusterqueues/gpus", queue)
    limits = [{"type": "Container", "defaultRequest": {"memory": "33Gi"}}]
    _, out, _ = run(api, *WORDS, dry_run=True, gpus=4)
    assert "  queue      default: starts now; nobody waits before it in ClusterQueue gpus;" in out
    _, out, _ = run(api, *WORDS, dry_run=True, gpus=4, nodes=2)
    assert "  queue      default: waits: 8 nvidia.com/gpu of flavor h100, of which 4 is free; nobody" in out
    _, out, _ = run(api, *WORDS, dry_run=True, gpus=9)
    never = "never starts: 9 nvidia.com/gpu of flavor h100, of which its queue can have 8"
    assert f"  queue      default: {never}; " in out
    api.put("/api/v1/namespaces/team/limitranges/tenant", {"spec": {"limits": limits}})
    _, out, _ = run(api, *WORDS, dry_run=True, nodes=2)
    assert "  queue      default: never starts: 132Gi memory of flavor h100, of which" in out
    api.forbid("/limitranges")
    _, out, _ = run(api, *WORDS, dry_run=True, nodes=2)
    assert "  queue      default: starts now as far as you may see; " in out


def test_gpus_are_those_of_the_queue_unless_the_runtime_names_some(run: Answer) -> None:
    def resources(runtime_resources: dict[str, Any]) -> Any:
        own = runtime(name="torch-distributed", image="torch:2", resources=runtime_resources)
        api.put(f"{RUNTIMES}/torch-distributed", own.manifest)
        code, out, _ = run(api, *WORDS, dry_run=True, gpus=8, form=Form.JSON)
        return code, json.loads(out)["spec"]["trainer"]["resourcesPerNode"]["limits"]

    api = Cluster()
    assert resources({}) == (0, {"nvidia.com/gpu": "8"})
    api.put(f"{KUEUE}/clusterqueues/gpus", cluster_queue("gpus", ("mi300", {"amd.com/gpu": 8})))
    assert resources({}) == (0, {"amd.com/gpu": "8"})
    assert resources({"limits": {"nvidia.com/gpu": "4"}}) == (0, {"nvidia.com/gpu": "8"})
    api.forbid(f"{KUEUE}/clusterqueues/gpus")
    assert resources({}) == (0, {"nvidia.com/gpu": "8"})


def test_that_the_gpus_of_the_queue_could_not_be_seen_is_told(run: Answer) -> None:
    api = Cluster()
    assert "not seen" not in run(api, *WORDS, dry_run=True, gpus=8)[1]
    api.put(f"{KUEUE}/clusterqueues/gpus", cluster_queue("gpus", ("mi300", {"amd.com/gpu": 8})))
    api.forbid(f"{KUEUE}/clusterqueues/gpus")
    code, out, _ = run(api, *WORDS, dry_run=True, gpus=8)
    assert (code, out.splitlines()[-1]) == (
        0,
        "  not seen   which GPUs the queue has: you are not allowed to get LocalQueue default or its "
        "ClusterQueue; nvidia.com/gpu is assumed",
    )


def test_the_plan_says_once_who_is_before_it(run: Answer) -> None:
    api = Cluster()
    used = {("h100", "nvidia.com/gpu"): "4"}
    api.put(f"{KUEUE}/clusterqueues/gpus", cluster_queue("gpus", ("h100", {"nvidia.com/gpu": 8}), used=used))
    spec = {"queueName": "default", "priority": 2000}
    api.put(f"{KUEUE}/namespaces/team/workloads/first", {**waiting("first", 2000), "spec": spec})
    _, out, _ = run(api, *WORDS, dry_run=True, gpus=4, nodes=2)
    lacks = "8 nvidia.com/gpu of flavor h100, of which 4 is free"
    place = "it would be number 2 in ClusterQueue gpus, behind team/first;"
    assert f"  queue      default: waits: {lacks}; {place}" in out


def test_a_queue_that_is_stopped_says_so(run: Answer) -> None:
    api = Cluster()
    condition = {"type": "Active", "status": "False", "message": "LocalQueue is stopped"}
    api.put(f"{QUEUES}/default", {"spec": {"clusterQueue": "gpus"}, "status": {"conditions": [condition]}})
    _, out, _ = run(api, *WORDS, dry_run=True)
    assert "  queue      default: it admits nobody now (LocalQueue is stopped)\n" in out


def test_the_keys_of_a_secret_become_variables_and_its_values_are_nowhere(run: Answer) -> None:
    api = Cluster()
    api.put(SECRET, {"data": {"HF_TOKEN": "c2VjcmV0", "tls.crt": "c2VjcmV0"}})
    code, out, err = run(api, *WORDS, yes=True, secret=["hub"])
    assert (code, err) == (0, "")
    assert "  variables  HF_TOKEN (of Secret hub)\n" in out
    assert "  not seen   keys of Secret hub that cannot be variables: tls.crt\n" in out
    [job] = api.sent.values()
    reference = {"secretKeyRef": {"name": "hub", "key": "HF_TOKEN"}}
    assert job["spec"]["trainer"]["env"] == [{"name": "HF_TOKEN", "valueFrom": reference}]
    assert "c2VjcmV0" not in json.dumps(job) + out


def test_who_may_not_get_a_secret_names_its_keys(run: Answer) -> None:
    api = Cluster()
    assert run(api, *WORDS, yes=True, secret=["hub"]) == (2, "", "there is no Secret hub in namespace team\n")
    api.put(SECRET, {"data": {"HF_TOKEN": "eA=="}})
    assert run(api, *WORDS, yes=True, secret=["hub:HF_TOKNE"]) == (
        2,
        "",
        "Secret hub has no key HF_TOKNE; did you mean HF_TOKEN?\n",
    )
    api.forbid("/secrets/hub")
    assert run(api, *WORDS, yes=True, secret=["hub"]) == (
        2,
        "",
        "you are not allowed to get Secret hub in namespace team: name its keys, as in --secret hub:KEY\n",
    )
    api.forbid("/secrets/hub")
    assert run(api, *WORDS, yes=True, secret=["hub:ANY"])[0] == 0


def test_the_second_run_from_a_folder_says_what_has_changed(run: Answer) -> None:
    api = Cluster()
    run(api, *WORDS, yes=True, nodes=1)
    _, out, _ = run(api, *WORDS, dry_run=True, nodes=1)
    assert "  changes    none since train-x7k2f, " in out
    _, out, _ = run(api, *WORDS, dry_run=True, nodes=2, queue="default", env=["A=1"])
    changes = out[out.index("  changes    since train-x7k2f, ") :].splitlines()[1:]
    assert [change.strip() for change in changes] == [
        "queue: nothing -> default",
        'trainer.env: nothing -> [{"name":"A","value":"1"}]',
        "trainer.numNodes: 1 -> 2",
    ]


def test_a_copy_is_compared_with_what_it_copies_and_has_no_settings_of_the_folder(
    run: Answer, folder: Path
) -> None:
    (folder / "trainyard.yaml").write_text("nodes: 64\n")
    api = Cluster()
    spec = {
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "ClusterTrainingRuntime",
            "name": "torch-distributed",
        },
        "trainer": {"numNodes": 2, "command": ["torchrun", "train.py"]},
        "suspend": True,
    }
    api.put(f"{JOBS}/llama-bbbbb", {"spec": spec, "status": {"trainyard": {"state": "Failed"}}})
    code, out, err = run(api, copied="llama-bbbbb", yes=True, nodes=4)
    assert (code, err) == (0, "")
    assert "  changes    since llama-bbbbb, " in out
    assert "             trainer.numNodes: 2 -> 4\n" in out
    assert api.objects[f"{JOBS}/llama-x7k2f"]["spec"] == {
        "runtimeRef": {"name": "torch-distributed"},
        "trainer": {"numNodes": 4, "command": ["torchrun", "train.py"]},
    }
    assert run(api, copied="llama-bbbb", yes=True) == (
        2,
        "",
        "TrainJob llama-bbbb is not found: namespace team has none of this name; did you mean llama-bbbbb?\n",
    )


def test_where_no_answer_comes_the_truth_is_looked_up(run: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Cluster):
        stores = True

        async def _post(self, request: web.Request, body: Any) -> web.Response:
            if request.query.get("dryRun"):
                return await super()._post(request, body)
            if self.stores:
                await super()._post(request, body)
            return web.json_response(status(504, "Timeout", "no answer"), status=504)

    api = Lost()
    code, out, err = run(api, *WORDS, yes=True)
    assert (code, err) == (0, "")
    assert "TrainJob team/train-x7k2f is sent.\n" in out
    api.stores = False
    assert run(api, *WORDS, yes=True, context="x")[::2] == (
        2,
        "there is no TrainJob team/train-bbbbb after this answer: 504 Timeout: no answer; before you send it "
        "again, look for it once more: trainyard jobs -n team --context x\n",
    )


async def _interrupted_once(*_: Any) -> None:
    try:
        raise asyncio.CancelledError
    except asyncio.CancelledError:  # what asyncio does about the first Ctrl-C, once all is cancelled
        raise KeyboardInterrupt  # noqa: B904


async def _interrupted_twice(*_: Any) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_while_it_is_sent_says_what_may_be_there(
    run: Answer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "send", _interrupted_once)
    code, _, err = run(Cluster(), *WORDS, yes=True, namespace="team")
    assert code == 1
    assert err == "Interrupted: TrainJob train-x7k2f may have been sent. Look: trainyard jobs -n team\n"
    (folder / "train.py").write_text("")
    _, _, err = run(Cluster(), *WORDS, yes=True, name="mine")
    assert err == "Interrupted: TrainJob mine is not sent, or deleted again. Look: trainyard jobs\n"


def test_a_second_ctrl_c_does_not_wait_until_what_was_sent_with_its_folder_is_deleted_again(
    run: Answer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "train.py").write_text("")
    monkeypatch.setattr(cluster, "send", _interrupted_twice)
    code, _, err = run(Cluster(), *WORDS, yes=True, name="mine")
    assert (code, err) == (1, "Interrupted: TrainJob mine may have been sent. Look: trainyard jobs\n")


def test_what_is_stored_is_printed_as_a_document(run: Answer) -> None:
    api = Cluster()
    code, out, err = run(api, *WORDS, yes=True, form=Form.JSON)
    [job] = api.sent.values()
    assert (code, json.loads(out)) == (0, job)
    assert err.endswith("TrainJob team/train-x7k2f is sent.\nTo follow it: trainyard attach train-x7k2f\n")


# --- its folder ---------------------------------------------------------------------

SECRETS = "/api/v1/namespaces/team/secrets"
CLAIMS = "/api/v1/namespaces/team/persistentvolumeclaims"
WRAPPED = ["sh", "-c", ANY, "trainyard", "torchrun", "train.py"]
WHY_THE_FOLDER = "             the script is in this folder; --no-workspace leaves the folder here\n"


def unpacked(secret: dict[str, Any]) -> list[str]:
    """The names of the files in a Secret with a workspace."""
    archive = base64.b64decode(secret["data"]["workspace.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return tar.getnames()


def workspaces(api: FakeApi) -> dict[str, list[str]]:
    """Of each Secret with a workspace its owner and the files in it."""
    return {
        body["metadata"]["ownerReferences"][0]["name"]: unpacked(body)
        for path, body in api.objects.items()
        if path.startswith(f"{SECRETS}/") and "-workspace-" in path
    }


def test_a_script_of_the_folder_takes_the_folder_along(run: Answer, folder: Path) -> None:
    (folder / "train.py").write_text("print(1)\n")
    api = Cluster()
    code, out, err = run(api, *WORDS, yes=True)
    assert (code, err) == (0, "")
    assert out.replace(str(folder), "FOLDER") == (
        PLAN.replace(
            "  nodes      1\n",
            f"  workspace  FOLDER: 1 file, 9 bytes\n{WHY_THE_FOLDER}  nodes      1\n",
        )
        + "TrainJob team/train-x7k2f is sent.\nTo follow it: trainyard attach train-x7k2f\n"
    )
    assert api.objects[f"{JOBS}/train-x7k2f"]["spec"]["trainer"] == {"command": WRAPPED}
    assert workspaces(api) == {"train-x7k2f": ["train.py"]}
    assert run(api, *WORDS, yes=True, workspace="", name="plain")[0] == 0
    assert api.objects[f"{JOBS}/plain"]["spec"]["trainer"] == {"command": ["torchrun", "train.py"]}
    assert list(workspaces(api)) == ["train-x7k2f"]


def test_the_plan_of_the_guide_says_as_ours_why_the_folder_travels() -> None:
    assert WHY_THE_FOLDER in (ROOT / "docs/data-scientists.md").read_text()


@pytest.mark.parametrize("script", ["/train.py", "../train.py", "missing.py"])
def test_a_script_that_is_elsewhere_takes_no_folder_along(run: Answer, folder: Path, script: str) -> None:
    (folder.parent / "train.py").write_text("")
    _, out, _ = run(Cluster(), "python", script, dry_run=True)
    assert "workspace" not in out


def test_a_folder_that_is_named_travels_with_any_command(run: Answer, folder: Path) -> None:
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text("#TRAINYARD --env A=head\n")
    (folder / "trainyard.yaml").write_text("workspace: code\n")
    api = Cluster()
    code, out, _ = run(api, "sh", "-c", "python train.py", yes=True, name="named")
    assert (code, f"  workspace  {folder / 'code'}: 1 file, 24 bytes\n  nodes" in out) == (0, True)
    assert workspaces(api) == {"named": ["train.py"]}
    _, out, _ = run(api, *WORDS, dry_run=True)
    assert "  variables  A\n" in out


def test_what_looks_like_a_secret_is_asked_about_and_left_out_where_nobody_is(
    run: Answer, folder: Path
) -> None:
    (folder / "train.py").write_text("")
    (folder / ".env").write_text("TOKEN=1")
    questions: list[str] = []

    def yes(question: str) -> bool:
        questions.append(question)
        return True

    api = Cluster()
    assert run(api, *WORDS, ask=yes, name="asked")[0] == 0
    looks = ".env has the name of a file with secrets"
    assert questions == [
        f"Some files of the folder look like secrets:\n  {looks}\nSend them too?",
        "Send it?",
    ]
    _, out, _ = run(api, *WORDS, yes=True, name="quiet")
    assert f"             {looks}: it is left out\n" in out
    assert workspaces(api) == {"asked": [".env", "train.py"], "quiet": ["train.py"]}


@pytest.mark.parametrize(
    ("script", "text", "reason"),
    [
        (
            "train.py",
            f"TOKEN = 'hf_{'a' * 34}'",
            "it holds what looks like a key or a token: take that out of it, as with --secret, or leave out "
            "--yes, and say yes when you are asked about it",
        ),
        (
            ".cache/train.py",
            "",
            "it does not travel: git ignores it, or it is in a cache or behind a link out of the folder: "
            "name another script, or have git track this one",
        ),
    ],
)
def test_a_command_whose_script_does_not_travel_is_refused(
    run: Answer, folder: Path, script: str, text: str, reason: str
) -> None:
    (folder / ".cache").mkdir()
    (folder / "other.py").write_text("")
    (folder / script).write_text(text)
    api = Cluster()
    sentence = f"{folder / script}: the command starts it, and {reason}\n"
    assert run(api, "python", script, yes=True) == (2, "", sentence)
    assert run(api, "python", script, yes=True, workspace=".") == (2, "", sentence)
    assert run(api, "python", script, ask=lambda _: False) == (2, "", sentence)
    assert api.requests == []


def test_a_script_behind_a_link_in_the_folder_travels(run: Answer, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text("")
    (folder / "now").symlink_to("src")
    api = Cluster()
    assert run(api, "python", "now/train.py", yes=True)[0] == 0
    assert workspaces(api) == {"train-x7k2f": ["now", "src/train.py"]}


def test_a_folder_that_cannot_travel_is_told_with_the_way_out(run: Answer, folder: Path) -> None:
    (folder / "train.py").write_text("")
    (folder / "model").write_bytes(os.urandom(800 * 1024))
    api = Cluster()
    code, out, err = run(api, *WORDS, yes=True)
    assert (code, out, api.requests) == (2, "", [])
    assert err.endswith(
        "\nTo send the folder over a PersistentVolumeClaim of yours: --workspace-volume CLAIM\n"
        "To send the command without the folder: --no-workspace\n"
    )
    assert run(api, *WORDS, yes=True, workspace="none") == (
        2,
        "",
        f"{folder / 'none'}: there is no such folder\n",
    )


def test_a_folder_that_no_secret_has_room_for_travels_over_a_claim(run: Answer, folder: Path) -> None:
    (folder / "train.py").write_text("")
    (folder / "model").write_bytes(os.urandom(800 * 1024))
    api = Cluster()
    api.put(f"{CLAIMS}/results", {})
    volume = {"workspace-volume": "results", "dry_run": True, "form": Form.YAML}
    code, out, err = run(api, *WORDS, **volume)
    [job] = yaml.safe_load_all(out)
    assert (code, job["metadata"]["annotations"]["trainyard.dev/workspace-volume"]) == (0, "results")
    assert job["spec"]["trainer"]["command"] == WRAPPED
    assert "             it travels over PersistentVolumeClaim results\n" in err
    not_there = (
        "The folder may not be on PersistentVolumeClaim results yet, and without it the TrainJob fails: "
        "`trainyard run` without --dry-run brings it there first\n"
    )
    assert err.endswith(not_there)
    assert run(api, *WORDS, **{**volume, "form": Form.TEXT})[2] == ""
    (folder / "model").unlink()
    code, out, err = run(api, *WORDS, **volume)
    assert not_there not in err
    assert [document["kind"] for document in yaml.safe_load_all(out)] == ["TrainJob", "Secret"]
    (folder / "model").write_bytes(os.urandom(800 * 1024))
    assert run(api, *WORDS, yes=True, **{"workspace-volume": "result"}) == (
        2,
        "",
        "namespace team has no PersistentVolumeClaim result; did you mean results?: make it first\n",
    )


class RefusesCarriers(Cluster):
    """Where admission refuses what brings a folder."""

    async def _post(self, request: web.Request, body: Any) -> web.Response:
        if body["metadata"]["name"].endswith("-folder"):
            return web.json_response(status(403, "Forbidden", "request a GPU"), status=403)
        return await super()._post(request, body)


def test_what_admission_says_to_the_carrier_of_a_folder_is_in_the_plan(run: Answer, folder: Path) -> None:
    (folder / "train.py").write_text("")
    (folder / "model").write_bytes(os.urandom(800 * 1024))
    api = RefusesCarriers()
    api.put(f"{CLAIMS}/results", {})
    code, out, err = run(api, *WORDS, yes=True, **{"workspace-volume": "results"})
    refused = "  admission  refuses it: TrainJob train-x7k2f-folder, which brings the folder: request a GPU\n"
    assert (code, err, out.endswith(refused), api.sent) == (1, "", True, {})


def test_a_dry_run_prints_the_secret_too(run: Answer, folder: Path) -> None:
    (folder / "train.py").write_text("")
    api = Cluster()
    _, out, _ = run(api, *WORDS, dry_run=True, form=Form.YAML, namespace="other")
    job, secret = yaml.safe_load_all(out)
    assert (job["kind"], secret["kind"], unpacked(secret)) == ("TrainJob", "Secret", ["train.py"])
    assert [each["metadata"]["namespace"] for each in (job, secret)] == ["other", "other"]
    _, out, _ = run(api, *WORDS, dry_run=True, form=Form.JSON)
    assert [item["kind"] for item in json.loads(out)["items"]] == ["TrainJob", "Secret"]


def test_the_folder_has_no_part_in_what_has_changed_but_its_content(run: Answer, folder: Path) -> None:
    (folder / "train.py").write_text("1\n")
    api = Cluster()
    run(api, *WORDS, yes=True)
    _, out, _ = run(api, *WORDS, dry_run=True)
    assert "  changes    none since train-x7k2f, " in out
    (folder / "train.py").write_text("2\n")
    _, out, _ = run(api, *WORDS, dry_run=True)
    [change] = out[out.index("  changes    since train-x7k2f, ") :].splitlines()[1:]
    assert change.startswith("             workspace: sha256:")


def test_a_copy_takes_the_folder_of_its_model_along(run: Answer, folder: Path) -> None:
    (folder / "train.py").write_text("1\n")
    api = Cluster()
    run(api, *WORDS, yes=True, name="model")
    (folder / "train.py").unlink()
    code, out, err = run(api, copied="model", yes=True, name="copy", nodes=2)
    assert (code, err) == (0, "")
    assert "  workspace  that of model\n" in out
    changes = out[out.index("  changes    since model, ") :].splitlines()[1:-2]
    assert changes == ["             trainer.numNodes: nothing -> 2"]
    assert workspaces(api) == {"model": ["train.py"], "copy": ["train.py"]}
    assert run(api, copied="model", yes=True, name="bare", workspace="")[0] == 0
    spec = api.objects[f"{JOBS}/bare"]["spec"]
    assert (spec["trainer"], "runtimePatches" in spec) == ({"command": ["torchrun", "train.py"]}, False)


def test_a_copy_is_the_last_job_of_the_folder_that_it_is_sent_from_and_not_of_that_of_its_model(
    run: Answer, folder: Path
) -> None:
    (folder / "train.py").write_text("1\n")
    api = Cluster()
    colleagues: dict[str, Any] = {
        "metadata": {"labels": {"trainyard.dev/folder": "resnet-1a2b3c4d", "team": "vision"}},
        "spec": {
            "runtimeRef": {"name": "torch-distributed"},
            "trainer": {"command": ["torchrun", "train.py"]},
        },
    }
    api.put(f"{JOBS}/colleagues", colleagues)
    run(api, *WORDS, yes=True, name="mine")
    for copied, name, workspace in (
        ("colleagues", "taken", None),
        ("colleagues", "with-my-folder", "."),
        ("mine", "again", None),
    ):
        assert run(api, copied=copied, yes=True, name=name, workspace=workspace)[0] == 0
    own = {"trainyard.dev/folder": run_settings.label(folder)}
    assert {path.rpartition("/")[2]: body["metadata"].get("labels") for path, body in api.sent.items()} == {
        "colleagues": colleagues["metadata"]["labels"],
        "mine": own,
        "taken": {"team": "vision"},
        "with-my-folder": {"team": "vision"} | own,
        "again": own,
    }


def test_a_job_with_a_shell_waits_with_the_folder(run: Answer, folder: Path) -> None:
    (folder / "notes").write_text("1\n")
    (folder / "trainyard.yaml").write_text("memory: 2Gi\ncommand: [python, train.py]\n")
    waiting = interactive.Waiting(60)
    code, out, err = run(Cluster(), dry_run=True, detach=False, form=Form.JSON, shell=Shell(waiting=waiting))
    job, secret = json.loads(out)["items"]
    assert (code, job["metadata"]["name"], unpacked(secret)) == (
        0,
        "shell-x7k2f",
        ["notes", "trainyard.yaml"],
    )
    assert job["spec"]["trainer"]["command"] == [*WRAPPED[:4], *waiting.command(1)]
    assert err.replace(str(folder), "FOLDER") == (
        "TrainJob team/shell-x7k2f\n"
        "  runtime    torch-distributed\n"
        "  image      torch:2\n"
        "  shell      in rank 0; the job ends with it, or after 1 min (--time-limit)\n"
        "  workspace  FOLDER: 2 files, 42 bytes\n"
        "             the shell starts in this folder; --no-workspace leaves the folder here\n"
        "  nodes      1, each with memory 2Gi\n"
        "  queue      default; nobody waits before it in ClusterQueue gpus; nobody holds quota there\n"
        "  admission  lets it in\n"
    )
    for option in ({"detach": True}, {"local": True}, {"form": Form.YAML}):
        assert run(Cluster(), yes=True, shell=Shell(), **{"detach": False, **option}) == (
            2,
            "",
            "--interactive opens a shell: leave out --local, --detach and -o\n",
        )


def test_requirements_of_the_folder_are_installed_before_the_command(run: Answer, folder: Path) -> None:
    (folder / "lists").mkdir()
    (folder / "lists" / "more.txt").write_text("# for training\neinops==0.8\n\ntimm\n")
    api = Cluster()
    code, out, _ = run(api, "python", "-m", "timm", yes=True, requirements="lists/more.txt", name="model")
    assert (code, workspaces(api)) == (0, {"model": ["lists/more.txt"]})
    assert (
        "             the requirements are in this folder; --no-workspace leaves the folder here\n"
        "             each node installs the 2 requirements of lists/more.txt with pip before the command "
        "starts, and again after a restart; an image that has them starts sooner\n"
    ) in out
    model = api.objects[f"{JOBS}/model"]
    installed = [*WRAPPED[:4], *WRAPPED[:4], "lists/more.txt", "torchrun", "-m", "timm"]
    assert model["spec"]["trainer"]["command"] == installed
    assert model["metadata"]["annotations"]["trainyard.dev/requirements"] == "lists/more.txt"
    assert run(api, "python", "-m", "other", copied="model", yes=True, name="copy")[0] == 0
    copy = api.objects[f"{JOBS}/copy"]["spec"]["trainer"]["command"]
    assert copy == [*installed[:-1], "other"]
    again = {"copied": "model", "yes": True, "workspace": "."}
    assert run(api, **again) == (
        2,
        "",
        "TrainJob model installs the requirements of lists/more.txt: name a file with them in the new folder "
        "with --requirements, or send the command with `trainyard run`\n",
    )
    assert run(api, **again, requirements="lists/more.txt", name="moved")[0] == 0
    moved = api.objects[f"{JOBS}/moved"]["spec"]["trainer"]["command"]
    assert moved == installed


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("--index-url https://pip.example.com/simple\neinops\n", "the 1 requirements of r.txt"),
        (
            "-c constraints.txt\n--pre\n-e ./own\n--editable ./other\ntimm # fast\n",
            "the 3 requirements of r.txt",
        ),
        (
            "einops==0.8 \\\n    --hash=sha256:a \\\r\n    --hash=sha256:b\ntimm\n",
            "the 2 requirements of r.txt",
        ),
        ("  # einops \\\ntimm", "the 1 requirements of r.txt"),
        ("", "the 0 requirements of r.txt"),
        ("-r base.txt\ntimm\n", "the requirements of r.txt and of the files that it names"),
        ("--requirement=base.txt\n", "the requirements of r.txt and of the files that it names"),
    ],
)
def test_requirements_are_counted_as_pip_reads_them(
    run: Answer, folder: Path, text: str, counted: str
) -> None:
    (folder / "r.txt").write_bytes(text.encode())
    _, out, _ = run(Cluster(), "python", "-m", "timm", dry_run=True, requirements="r.txt")
    assert f"             each node installs {counted} with pip before the command starts" in out


@pytest.mark.parametrize(
    ("requirements", "sentence"),
    [
        (
            "none.txt",
            "FOLDER/none.txt: is not among the files that travel: name a file with requirements that is "
            "there, that git does not ignore and that is no link out of the folder",
        ),
        ("../other.txt", "../other.txt: is not in the folder that travels, FOLDER"),
        ("a\tb", "--requirements: must be the path of a file, such as requirements.txt"),
    ],
)
def test_requirements_that_do_not_travel_are_told(
    run: Answer, folder: Path, requirements: str, sentence: str
) -> None:
    (folder / "train.py").write_text("")
    api = Cluster()
    code, out, err = run(api, *WORDS, yes=True, requirements=requirements)
    assert (code, out, api.sent) == (2, "", {})
    assert sentence in err.replace(str(folder), "FOLDER")
    assert run(api, *WORDS, yes=True, requirements="r.txt", workspace="") == (
        2,
        "",
        "the requirements r.txt travel with the folder: leave out --no-workspace\n",
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("requirements.txt", "holds what looks like a key or a token"),
        ("credentials.txt", "has the name of a file with secrets"),
    ],
)
@pytest.mark.parametrize("option", [{"yes": True}, {"dry_run": True}, {"ask": lambda _: False}])
def test_requirements_that_look_like_a_secret_are_told_so(
    run: Answer, folder: Path, name: str, reason: str, option: dict[str, Any]
) -> None:
    index = f"--extra-index-url https://x:glpat-{20 * 'a'}@pip.example.com/simple\neinops\n"
    (folder / name).write_text(index if name == "requirements.txt" else "einops\n")
    assert run(Cluster(), "python", "-m", "timm", requirements=name, workspace=".", **option) == (
        2,
        "",
        f"{folder / name}: {reason}, so it does not travel: name a file with requirements that looks like no "
        "secret; an index that needs a password can be in a Secret: --secret NAME:PIP_EXTRA_INDEX_URL\n",
    )


# --- after it is sent ---------------------------------------------------------------


class Ends(Cluster):
    """Where each TrainJob has failed, or is complete, as soon as it is sent."""

    how = "Complete"

    def put(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        condition = {"type": self.how, "status": "True", "reason": "Ended", "message": "it has ended"}
        status = {"status": {"conditions": [condition]}} if path.startswith(JOBS) else {}
        return super().put(path, {**body, **status})


def test_it_is_followed_to_its_end_and_the_exit_code_is_the_jobs(run: Answer) -> None:
    api = Ends()
    code, out, err = run(api, *WORDS, yes=True, detach=False)
    assert (code, out) == (0, f"{PLAN}TrainJob team/train-x7k2f is sent.\n")
    assert err.endswith("\nTrainJob team/train-x7k2f is complete: it has ended.\n")
    api.how = "Failed"
    code, _, err = run(api, *WORDS, yes=True, detach=False)
    assert (code, "\nTrainJob team/train-bbbbb has failed: " in err) == (1, True)


def test_a_document_is_not_followed(run: Answer) -> None:
    api = Ends()
    api.how = "Failed"
    code, out, _ = run(api, *WORDS, yes=True, detach=False, form=Form.JSON)
    assert (code, json.loads(out)["kind"]) == (0, "TrainJob")


# --- on this machine ----------------------------------------------------------------


def locally(folder: Path, *words: str, **more: Any) -> tuple[int, str, str]:
    """The answer where no cluster is known."""
    out, err = io.StringIO(), io.StringIO()
    options = {name: more.pop(name) for name in ("dry_run",) if name in more}
    missing = str(folder / "kubeconfig")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stderr", err)
        code = exit_code(
            lambda: command.run(
                words, more, local=True, folder=folder, kubeconfig=missing, out=out, err=err, **options
            )
        )
    return code, out.getvalue(), err.getvalue()


def test_without_a_cluster_it_runs_here_on_the_runtime_of_the_catalog(folder: Path) -> None:
    (folder / "train.sh").write_text('echo "$TOKEN, $NOTE"; exit 3\n')
    (folder / "trainyard.yaml").write_text("runtime: plain\nenv: {NOTE: of the file}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN", "of the shell")
        code, out, err = locally(folder, "sh", "train.sh", secret=["hub:TOKEN"])
    assert (code, out) == (3, "0 | of the shell, of the file\n")
    assert err.startswith("Runtime plain is that of the catalog: ")


def test_what_does_not_run_here_is_told(folder: Path) -> None:
    assert locally(folder, "true", dry_run=True) == (
        2,
        "",
        "--local sends nothing, and plans nothing: leave out --dry-run, --detach and -o\n",
    )
    assert locally(folder, "true", secret=["hub"]) == (
        2,
        "",
        "--local reads no Secret: name the keys of hub, as in --secret hub:KEY\n",
    )
    code, _, err = locally(folder, "true", runtime="plane")
    assert code == 2
    assert err.endswith("\nThe site's catalog has no runtime plane either; did you mean plain?\n")


def test_the_runtime_is_that_of_the_cluster_if_it_answers(folder: Path) -> None:
    api, err = Cluster(), io.StringIO()
    api.put(f"{OWN_RUNTIMES}/plain", runtime("", "plain", image="ours").manifest)
    config = folder / "config"

    def ask(url: str) -> Runtime:
        parts = {
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        }
        config.write_text(json.dumps({"current-context": "x", **parts}))
        return run_local._runtime(Settings(runtime="plain"), None, str(config), None, err)

    async def test() -> Runtime:
        async with api.serving() as url:
            return await asyncio.to_thread(ask, url)

    there = run_test(test, timeout=60)
    assert (there.kind, there.container["image"], err.getvalue()) == ("TrainingRuntime", "ours", "")


def test_a_folder_has_a_label_of_its_own(tmp_path: Path) -> None:
    first, second = (
        run_settings.label(tmp_path / "a" / "ResNet 50"),
        run_settings.label(tmp_path / "b" / "ResNet 50"),
    )
    assert first.startswith("ResNet-50-")
    assert first != second
    assert len(run_settings.label(tmp_path / ("x" * 200))) <= 63
    assert run_settings.label(Path("/")) != ""
