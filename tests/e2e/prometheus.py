"""A Prometheus that scrapes what the platform's ServiceMonitors select, and evaluates its rules."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster import Cluster, Object
from tests.support.patience import eventually
from trainyard_sandbox.progress import Progress
from trainyard_sandbox.toolchain import Toolchain

SYSTEM = "trainyard-system"


def tool(name: str) -> str:
    """`prometheus` or `promtool`, built if need be."""
    toolchain = Toolchain(["prometheus"])
    toolchain.build(Progress())
    return str(toolchain.binary(name))


@dataclass(frozen=True)
class Prometheus:
    """A running server."""

    address: str

    def get(self, path: str, **parameters: str) -> Any:
        """What its API answers."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def values(self, query: str) -> list[float]:
        """The numbers that a query has for an answer now."""
        return [float(one["value"][1]) for one in self.get("query", query=query)["result"]]


_READ = """
import http.client, socket, ssl, sys
address, name, token, authority = sys.argv[1:]
trusted = ssl.create_default_context(cadata=authority)
with socket.create_connection((address, 8443)) as raw:
    with trusted.wrap_socket(raw, server_hostname=name) as connection:
        head = f"GET /metrics HTTP/1.1\\r\\nHost: h\\r\\nAuthorization: Bearer {token}\\r\\n\\r\\n"
        connection.sendall(head.encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        assert answer.status == 200, answer.status
        print(answer.read().decode())
"""


def operator_metrics(cluster: Cluster) -> str:
    """What a replica of the operator serves to the sandbox's Prometheus, read in its own pod."""
    [monitor] = (one for one in _objects(cluster, "servicemonitors") if "ca" in _tls(one))
    trust = _trust(cluster, _tls(monitor))
    replicas = cluster.within(SYSTEM).list("pods", "app.kubernetes.io/name=trainyard-operator")
    pod = next(one for one in replicas if one["status"]["phase"] == "Running")
    return cluster.kubectl(
        *("exec", "-n", SYSTEM, pod["metadata"]["name"], "--", "/opt/trainyard/bin/python", "-c", _READ),
        *(pod["status"]["podIP"], trust["server_name"], _token(cluster), trust["ca"]),
    )


def _tls(monitor: Object) -> Object:
    found: Object = monitor["spec"]["endpoints"][0].get("tlsConfig", {})
    return found


@contextlib.contextmanager
def watching(cluster: Cluster, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that reads and evaluates every two seconds what the platform declares to one."""
    with contextlib.ExitStack() as stack:
        scraped = [job for monitor in _objects(cluster, "servicemonitors") for job in _jobs(cluster, monitor)]
        for job in scraped:
            local = stack.enter_context(_forwarded(cluster, job.pop("forward")))
            job["static_configs"] = [{"targets": [local]}]
            if job.get("authorization"):
                (folder / "token").write_text(_token(cluster))
        groups = [group for rule in _objects(cluster, "prometheusrules") for group in rule["spec"]["groups"]]
        (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
        configuration = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": scraped,
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        yield stack.enter_context(_running(folder))


def _objects(cluster: Cluster, kind: str) -> list[Object]:
    found = cluster.within(SYSTEM).list(kind)
    assert found, f"the platform has no {kind}"
    return found


def _jobs(cluster: Cluster, monitor: Object) -> Iterator[Object]:
    """The scrape jobs that the Prometheus Operator makes of a ServiceMonitor."""
    spec = monitor["spec"]
    selector = ",".join(f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items())
    for namespace in spec.get("namespaceSelector", {}).get("matchNames", [SYSTEM]):
        [service] = cluster.within(namespace).list("services", selector)
        name = service["metadata"]["name"]
        for endpoint in spec["endpoints"]:
            [port] = [one for one in service["spec"]["ports"] if one["name"] == endpoint["port"]]
            job = {"job_name": name, "scheme": endpoint.get("scheme", "http")}
            if "bearerTokenFile" in endpoint:
                job["authorization"] = {"credentials_file": "token"}
            if "tlsConfig" in endpoint:
                job["tls_config"] = _trust(cluster, endpoint["tlsConfig"])
            yield {**job, "forward": (namespace, name, port["port"])}


def _trust(cluster: Cluster, config: Object) -> Object:
    """Whom a scrape job trusts, with the authority itself in the place of the Secret that holds it."""
    if "ca" not in config:
        return {"insecure_skip_verify": config["insecureSkipVerify"]}
    source = config["ca"]["secret"]
    secret = cluster.within(SYSTEM).get("secret", source["name"]) or {}
    authority = base64.b64decode(secret["data"][source["key"]]).decode()
    return {"ca": authority, "server_name": config["serverName"]}


def _token(cluster: Cluster) -> str:
    """A token of the ServiceAccount that the sandbox's stack gives the right to."""
    monitoring = cluster.within("monitoring")
    account = {"name": "prometheus", "namespace": "monitoring"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account},
    )
    return monitoring.kubectl("create", "token", "prometheus").strip()


@contextlib.contextmanager
def _forwarded(cluster: Cluster, target: tuple[str, str, int]) -> Iterator[str]:
    """The address on this machine that leads to a port of a Service."""
    namespace, service, port = target
    command = ["kubectl", "--namespace", namespace, "port-forward", f"service/{service}", f":{port}"]
    cluster.environment = cluster.environment or cluster.sandbox.environment()
    with _process(command, {**os.environ, **cluster.environment}) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"Forwarding from (127\.0\.0\.1:[0-9]+)", line)
        assert found, f"{' '.join(command)}: {line}"
        yield found[1]


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[Prometheus]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    log = folder / "prometheus.log"
    command = [
        *(tool("prometheus"), f"--config.file={folder / 'prometheus.yml'}"),
        *(f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"),
    ]
    with log.open("w") as output, _process(command, dict(os.environ), output):
        server = Prometheus(address)

        def scrapes() -> bool:
            try:
                targets = server.get("targets", state="active")["activeTargets"]
            except OSError as error:
                raise AssertionError(f"{error}\n{log.read_text()}") from error
            assert all(one["health"] == "up" for one in targets), targets
            return bool(targets)

        eventually("Prometheus reads every target", scrapes)
        yield server


@contextlib.contextmanager
def _process(
    command: list[str], environment: dict[str, str], output: Any = None
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output or subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(timeout=30)
        if process.stdout:
            process.stdout.close()
