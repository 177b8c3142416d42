"""Each command with `--stack` asks the API server of the stack, and never that of the current context.

With two API servers on loopback, a kubeconfig with both, and a stack file that
names the one that is not current. The commands come from the parser.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from trainyard_api.errors import UserError
from trainyard_api.places import SHIPPED
from trainyard_cli.commands import impact
from trainyard_cli.files import stackfile
from trainyard_cli.main import app
from trainyard_delivery.impact import Ref

STACK = "two-servers"
GIVEN = {"since": "HEAD"}
"""What a command requires beside the stack, by name; any other text will do."""
REPAIRS = (["drift", "--repair"], ["up", "--repair"])
"""Options that connect once more."""
OFFLINE = {"lint", "manifests", "runtimes list", "runtimes show", "sandbox exec", "init", "show"}
"""Commands with `--stack` that need no cluster but the sandbox, and so have no option for one."""
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "tenant", "namespace": "team-a"},
    "spec": {"hard": {"pods": "10"}},
}
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "plain"},
    "spec": {"mlPolicy": {"numNodes": 1}},
}
_COLLECTION = re.compile(r"/(api/v1|apis/[^/]+/[^/]+)(/namespaces/[^/]+)?/[^/]+")


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, list[click.Parameter]]]:
    """Each command by its words, with its parameters."""
    for name in group.commands:
        command = group.commands[name]
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command.params


def words_of(parameters: list[click.Parameter]) -> Iterator[str]:
    """What the command requires, and the stack."""
    for parameter in parameters:
        if parameter.name == "stack":
            yield from ("--stack", STACK)
        elif parameter.required:
            value = GIVEN.get(str(parameter.name), "plain")
            yield from (value,) if parameter.param_type_name == "argument" else (parameter.opts[0], value)


WITH_STACK = {
    name: parameters
    for name, parameters in commands(get_command(app))
    if any("--stack" in parameter.opts for parameter in parameters)
}
CONNECTING = {
    name: parameters
    for name, parameters in WITH_STACK.items()
    if any("--context" in parameter.opts for parameter in parameters)
}


class Server(ThreadingHTTPServer):
    """An API server without objects, which notes what it is asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        body: dict[str, Any]
        self.server.asked.append(f"{self.command} {path}")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if path == "/api/v1":
            resource = {"name": "resourcequotas", "kind": "ResourceQuota", "namespaced": True}
            code, body = 200, {"kind": "APIResourceList", "resources": [resource]}
        elif self.command == "GET" and _COLLECTION.fullmatch(path):
            code, body = 200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}
        else:
            code, body = 404, {"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names of http.server

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    servers = {"prod": Server(), "staging": Server()}
    for server in servers.values():
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield servers
    for server in servers.values():
        server.shutdown()
        server.server_close()


@pytest.fixture
def asked(
    servers: dict[str, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, list[str]]:
    """What each server is asked from now on; `staging` is the current one, and `prod` that of the stack."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "staging",
                "users": [{"name": "me", "user": {}}],
                "clusters": [{"name": name, "cluster": {"server": s.url}} for name, s in servers.items()],
                "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in servers],
            }
        )
    )
    onprem = (SHIPPED.stacks / "Pulumi.onprem.yaml").read_text(encoding="utf-8")
    file = tmp_path / f"Pulumi.{STACK}.yaml"
    file.write_text(onprem.replace("# context: onprem", "context: prod"), encoding="utf-8")
    pulumi_in(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(file))
    # Of git, which has no such stack.
    settings = stackfile.read_as_pulumi(STACK)
    new = impact.Asked(settings, {Ref("ClusterTrainingRuntime", "", "plain"): RUNTIME})
    monkeypatch.setattr(impact, "asked", lambda *_: (impact.Asked(settings), new))
    monkeypatch.setattr(impact, "unjudged", lambda _: [])
    for server in servers.values():
        server.asked.clear()
    return {name: server.asked for name, server in servers.items()}


def pulumi_in(folder: Path) -> None:
    """A `pulumi` whose stack has a quota, and which creates a runtime and deletes nothing."""
    resource = {"urn": "urn:quota", "type": "kubernetes:core/v1:ResourceQuota", "custom": True}
    exported = {"deployment": {"resources": [{**resource, "inputs": QUOTA}]}}
    (folder / "stack").write_text(json.dumps(exported))
    step: dict[str, Any] = {"op": "create", "urn": "urn:runtime", "type": "kubernetes:x:Y", "old": None}
    step["new"] = {"custom": True, "inputs": RUNTIME}
    events = [
        {"resourcePreEvent": {"metadata": step, "planning": True}},
        {"resOutputsEvent": {"metadata": step, "planning": True}},
        {"summaryEvent": {"isPreview": True, "result": "succeeded"}},
    ]
    (folder / "preview").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    script = folder / "pulumi"
    script.write_text('#!/bin/sh\n[ ! -f "${0%/*}/$1" ] || exec cat "${0%/*}/$1"\n')
    script.chmod(0o755)


@pytest.mark.parametrize("command", [[name] for name in CONNECTING] + list(REPAIRS), ids=" ".join)
def test_a_command_asks_the_server_of_its_stack_and_no_other(
    command: list[str], asked: dict[str, list[str]]
) -> None:
    words = [*command[0].split(), *words_of(CONNECTING[command[0]]), *command[1:]]
    result = CliRunner().invoke(app, words)
    assert result.exception is None or isinstance(result.exception, SystemExit | UserError), result.output
    assert asked["staging"] == [], result.output
    assert asked["prod"], result.output


def test_a_command_with_a_stack_connects_and_takes_a_context_or_is_known_to_need_no_cluster() -> None:
    assert WITH_STACK.keys() - CONNECTING.keys() == OFFLINE
