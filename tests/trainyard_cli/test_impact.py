"""`trainyard impact`: what it compares, what it prints, and the exit codes; the cluster is e2e's."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.answers import answered
from tests.support.clones import clone_at
from tests.support.program import ROOT
from trainyard_cli.cluster.workloads import Seen
from trainyard_cli.commands import impact as command
from trainyard_cli.output import Output
from trainyard_delivery.impact import Change, Field, Job, Ref, State, Verb
from trainyard_platform.stack.settings import StackSettings, of

RUNTIME = Ref("ClusterTrainingRuntime", "", "plain")
TENANT = {"trainyard.dev/tenant": "vision"}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the catalog and the sandbox's stack, all committed, to work in."""
    (tmp_path / "stacks").mkdir()
    shutil.copytree(ROOT / "runtimes", tmp_path / "runtimes")
    shutil.copy(ROOT / "stacks" / "Pulumi.sandbox.yaml", tmp_path / "stacks")
    clone_at(tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "before"]):
        subprocess.run([*git, *arguments], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(stack: str, since: str = "HEAD", output: Output = Output.TEXT) -> tuple[int, str, str]:
    return answered(command.run, stack, since, kubeconfig="/no/such/file", output=output)


def test_without_a_change_no_cluster_is_asked(clone: Path) -> None:
    said = (
        "sandbox: no objects of its runtimes, queues, pools and tenants changed since HEAD, "
        "no TrainJobs touched\n"
    )
    assert answer("sandbox") == (0, said, "")


def test_what_cannot_be_judged_by_its_objects_is_named(clone: Path) -> None:
    (clone / "platform" / "__main__.py").write_text("")
    code, out, _ = answer("sandbox", output=Output.JSON)
    assert (code, json.loads(out)["unjudged"]) == (0, ["platform"])


@pytest.mark.parametrize(
    ("stack", "since", "words"),
    [
        ("sandbx", "HEAD", "stacks/Pulumi.sandbx.yaml: there is no such stack, nor was there one"),
        ("sandbox", "--all", "--since --all: must name a commit, a branch or a tag"),
        ("sandbox", "nowhere", "git merge-base: fatal: Not a valid object name nowhere"),
    ],
)
def test_what_cannot_be_asked(clone: Path, stack: str, since: str, words: str) -> None:
    assert answer(stack, since) == (2, "", f"{words}\n")


def test_a_clone_without_the_common_history_says_how_to_get_it(clone: Path) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com"]
    for words in (("branch", "before"), ("checkout", "--quiet", "--orphan", "other")):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "other"], check=True)
    assert answer("sandbox", "before") == (
        2,
        "",
        "before and this branch have no commit in common, as in a clone without its whole history: fetch "
        "that (git fetch --unshallow; for actions/checkout, fetch-depth: 0)\n",
    )


def test_a_change_asks_the_cluster_and_says_so_if_it_cannot(clone: Path) -> None:
    path = clone / "runtimes" / "plain" / "plain.yaml"
    path.unlink()
    stack = clone / "stacks" / "Pulumi.sandbox.yaml"
    stack.write_text(stack.read_text().partition("      plain:")[0])
    code, out, err = answer("sandbox")
    assert (code, out) == (2, "")
    assert "/no/such/file" in err


def test_a_file_that_was_wrong_where_the_branch_left_is_named_as_git_names_it(clone: Path) -> None:
    stack = clone / "stacks" / "Pulumi.sandbox.yaml"
    good = stack.read_text()
    stack.write_text(good.replace("trainyard:platform:", "trainyard:platfrom:"))
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "commit", "--quiet", "--all", "--message", "wrong"], check=True)
    stack.write_text(good)
    code, out, err = answer("sandbox")
    assert (code, out) == (2, "")
    assert re.match(r"[0-9a-f]{12}:stacks/Pulumi\.sandbox\.yaml:\d+: config\.trainyard:platfrom: ", err), err
    assert "\nThis was so where this branch left, and is valid now." in err


def test_the_text_says_what_has_changed_and_of_each_job_what_it_keeps_and_loses() -> None:
    same = "registry.example.com/" + "b" * 60
    fields = (Field("spec.image", "a", None), Field("x", [1], "b" * 70), Field("y", f"{same}:1", f"{same}:2"))
    change = Change(RUNTIME, Verb.CHANGED, {}, {}, fields)
    team = Change(Ref("Namespace", "", "vision"), Verb.LEFT, {"metadata": {"labels": TENANT}}, {})
    waits = Job("team-a", "next", State.QUEUED, RUNTIME, started=False)
    runs = Job("team-a", "llama", State.RUNNING, RUNTIME, started=True)
    seen = Seen([runs, waits], {"jobsets.jobset.x-k8s.io": "you are not allowed to list them"})
    value = command.document(
        "prod", "main", (change, team), seen, ["api"], after={}, advice=["nodePools.gpu: of no use"]
    )
    assert command.as_text(value) == (
        "prod: 2 objects of its runtimes, queues, pools and tenants changed since main, "
        "2 TrainJobs touched\n"
        "\n"
        "ClusterTrainingRuntime plain: changed\n"
        "  spec.image: a -> nothing\n"
        f"  x: [1] -> {'b' * 57}...\n"
        f"  y: ...{'b' * 55}:1 -> ...{'b' * 55}:2\n"
        "  team-a/llama (running) keeps the runtime that it started with, whatever becomes of its pods\n"
        "  team-a/next (queued) keeps its place; loses the runtime as it was: its pods will be built from "
        "the changed one\n"
        "\n"
        "Namespace vision: left in the cluster\n"
        "  its TrainJobs, volume claims and Secrets stay in it: a tenant with another name gets none\n"
        "\n"
        "nodePools.gpu: of no use\n"
        "\n"
        "Changed as well, see the preview: api\n"
        "Could not see jobsets.jobset.x-k8s.io: you are not allowed to list them\n"
    )


def test_a_pool_that_comes_to_have_no_quota_is_told_once() -> None:
    queue = {"resourceGroups": [{"flavors": [{"name": "cpu", "resources": {"cpu": {"nominal": "4"}}}]}]}
    pool = {
        "provider": "kwok",
        "nodes": 2,
        "machine": {"cpu": "96", "memory": "1Ti"},
        "accelerator": {"type": "nvidia-h100", "count": 8},
    }

    def stack(*quota: dict[str, str]) -> StackSettings:
        written = {
            "operator": {"image": "docker.io/trainyard/operator:1"},
            "kueue": {"enabled": True},
            "queues": {"flavors": {"cpu": {}}, "clusterQueues": {"team-a": queue}},
            "nodePools": {"gpu": {**pool, "quota": [*quota]}},
        }
        return of(written, "test")

    told = [
        "nodePools.gpu: no cluster queue has quota for its 2 nodes, so no job of a queue can use them: give "
        "the pool to a queue with nodePools.gpu.quota"
    ]
    used = stack({"clusterQueue": "team-a"})
    assert command.new_advice(used, stack()) == command.new_advice(None, stack()) == told
    assert command.new_advice(stack(), stack()) == command.new_advice(stack(), used) == []
    assert command.new_advice(stack(), None) == []
