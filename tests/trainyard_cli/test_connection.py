"""A stack has one cluster, which every command that is given the stack connects to."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.answers import answered
from trainyard_cli.cluster import connection
from trainyard_cli.commands import destroy, drift, impact, rollout, runtimes_diff, runtimes_jobs
from trainyard_cli.files import rendering, stackfile
from trainyard_delivery import impact as core
from trainyard_kube.credentials import Credentials, CredentialsError
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import Cluster, StackSettings

CLI = Path(connection.__file__).parents[1]
FILE = "/etc/prod/kubeconfig"
HOME = Path.home()
PROD = Cluster(kubeconfig=FILE, context="prod")


@pytest.mark.parametrize(
    ("cluster", "kubeconfig", "context", "chosen"),
    [
        (PROD, None, None, (FILE, "prod")),
        (PROD, "/etc/else/../prod/kubeconfig", "prod", ("/etc/else/../prod/kubeconfig", "prod")),
        (Cluster(kubeconfig="~/prod"), "~/prod", None, (f"{HOME}/prod", None)),
        (Cluster(kubeconfig="~/prod"), f"{HOME}/prod", None, (f"{HOME}/prod", None)),
        (Cluster(kubeconfig=f"{HOME}/prod"), "~/prod", None, (f"{HOME}/prod", None)),
        (Cluster(), "~nobody-of-this-name/prod", None, ("~nobody-of-this-name/prod", None)),
        (Cluster(), None, None, (None, None)),
        (Cluster(), "/else", "lab", ("/else", "lab")),
        (Cluster(context="prod"), "/else", None, ("/else", "prod")),
    ],
)
def test_the_stack_file_and_the_options_say_together_which_cluster_it_is(
    cluster: Cluster, kubeconfig: str | None, context: str | None, chosen: tuple[str | None, str | None]
) -> None:
    assert connection.choose(cluster, kubeconfig, context) == chosen


@pytest.mark.parametrize(
    ("kubeconfig", "context", "said"),
    [
        (
            "/else",
            None,
            f"--kubeconfig /else: cluster.kubeconfig of the stack file is {FILE}, and a stack has one "
            "cluster. Leave --kubeconfig out, or change the stack file.",
        ),
        (
            None,
            "lab",
            "--context lab: cluster.context of the stack file is prod, and a stack has one cluster. "
            "Leave --context out, or change the stack file.",
        ),
    ],
)
def test_an_option_that_contradicts_the_stack_file_is_refused(
    kubeconfig: str | None, context: str | None, said: str
) -> None:
    with pytest.raises(PlatformError) as refused:
        connection.of_stack(PROD, kubeconfig, context)
    assert str(refused.value) == said


def settings(**cluster: str | None) -> StackSettings:
    return StackSettings.model_validate({"operator": {"image": "example.com/operator:1"}, "cluster": cluster})


Connected = list[tuple[str | None, str | None]]


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Connected:
    """By which kubeconfigs and contexts a command connects, with a stack that says both; nothing answers."""
    connected: Connected = []
    prod = settings(kubeconfig=FILE, context="prod")

    def load(kubeconfig: str | None, context: str | None) -> Credentials:
        connected.append((kubeconfig, context))
        raise CredentialsError("nothing answers")

    monkeypatch.setattr(connection, "load", load)
    for reader in ("read", "read_as_pulumi"):
        monkeypatch.setattr(stackfile, reader, lambda *_: prod)
    monkeypatch.setattr(impact, "earlier", lambda _: nullcontext())
    monkeypatch.setattr(impact, "asked", lambda *_: (impact.Asked(), impact.Asked(prod)))
    monkeypatch.setattr(core, "changes", lambda *_: ("a change",))
    monkeypatch.setattr(rollout, "pulumi", lambda *_: 0)
    monkeypatch.setattr(rendering, "rolled_out", lambda *_: {"deployment": {}})
    return connected


COMMANDS: dict[str, Callable[..., int]] = {
    "destroy": lambda **options: destroy.run("prod", ask=lambda _: False, **options),
    "drift": lambda **options: drift.run("prod", **options),
    "drift --repair": lambda **options: drift.run("prod", repair=True, **options),
    "impact": lambda **options: impact.run("prod", "HEAD", **options),
    "preview": lambda **options: rollout.run("prod", change=False, **options),
    "runtimes diff": lambda **options: runtimes_diff.run([], stack="prod", **options),
    "runtimes jobs": lambda **options: runtimes_jobs.run("plain", stack="prod", **options),
    "up": lambda **options: rollout.run("prod", change=True, **options),
    "up --repair": lambda **options: rollout.run("prod", change=True, repair=True, **options),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_connects_to_the_cluster_of_its_stack_and_to_no_other(
    command: str, connected: Connected
) -> None:
    answered(COMMANDS[command])
    assert set(connected) == {(FILE, "prod")}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_refuses_another_cluster_before_it_connects_to_any(
    command: str, connected: Connected
) -> None:
    code, _, err = answered(COMMANDS[command], context="lab")
    assert code == 2
    assert err.startswith("--context lab: cluster.context of the stack file is prod, ")
    assert connected == []


@pytest.mark.parametrize(
    "command",
    [
        lambda: answered(drift.run, "prod", state=lambda: {"deployment": {"resources": []}}),
        lambda: answered(impact.run, "prod", "HEAD"),
        lambda: answered(runtimes_diff.run, stack="prod"),
        lambda: answered(runtimes_jobs.run, "plain", stack="prod"),
    ],
    ids=["drift", "impact", "runtimes diff", "runtimes jobs"],
)
def test_an_api_server_that_does_not_answer_is_named_with_its_kubeconfig_and_context(
    command: Callable[[], tuple[int, str, str]], connected: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "kubeconfig /site/kubeconfig, context 'prod'"
    monkeypatch.setattr(connection, "load", lambda *_: Credentials("http://127.0.0.1:1", None, source=source))
    monkeypatch.setattr(
        core, "changes", lambda *_: (core.Change(core.Ref("Namespace", "", "a"), core.Verb.ADDED, {}, {}),)
    )
    code, out, err = command()
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(f"{source}: ")
    assert "127.0.0.1:1" in err


def test_a_context_that_pulumi_does_not_go_by_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stackfile, "read_as_pulumi", lambda *_: settings())
    assert answered(rollout.run, "prod", change=True, context="lab") == (
        2,
        "",
        "--context lab: the stack prod has no cluster.context, so Pulumi goes by the current one of the "
        "kubeconfig. Write it into the stack file, or run: kubectl config use-context lab\n",
    )


def test_nobody_connects_by_the_kubeconfig_alone_who_has_a_stack() -> None:
    """Commands that act on a TrainJob, and `adopt`, have none; `moves` asks where a stack was before."""
    callers = {
        str(file.relative_to(CLI).with_suffix(""))
        for file in CLI.rglob("*.py")
        if "connection.load(" in file.read_text(encoding="utf-8")
    }
    of_trainjobs = ("answers", "cancel", "cp", "exec", "ports", "retry", "run", "run_local")
    assert callers == {"cluster/moves", "commands/adopt", *(f"commands/{name}" for name in of_trainjobs)}


def test_who_is_connected_knows_the_options_that_lead_to_the_same_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my config"
    lab = {"name": "lab", "context": {"cluster": "lab"}}
    clusters = [{"name": "lab", "cluster": {"server": "https://10.0.0.1"}}]
    file.write_text(json.dumps({"current-context": "lab", "contexts": [lab], "clusters": clusters}))
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert [
        connection.load(*given).command("kubectl", "get", "pods")
        for given in ((None, None), (None, "lab"), (str(file), "lab"), ("~/my config", "lab"))
    ] == [
        "kubectl get pods",
        "kubectl get pods --context lab",
        *[f"kubectl get pods --kubeconfig '{file}' --context lab"] * 2,
    ]
