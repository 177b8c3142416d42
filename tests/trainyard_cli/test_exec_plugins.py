"""Kubeconfigs whose credentials come from a program, as EKS, GKE and AKS give them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pty
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.answers import answered
from tests.support.explained.objects import HEALTHY
from tests.support.fake_api import FakeApi, run
from trainyard_api import places
from trainyard_api.places import Site
from trainyard_cli.cluster import connection, exec_plugin, proxies
from trainyard_cli.commands import explain
from trainyard_kube.client import ApiError, Client, RetriableError, UnauthorizedError
from trainyard_kube.credentials import Credentials, CredentialsError, ExecPlugin
from trainyard_operator.serve import certificates
from trainyard_sandbox.paths import Instance

TRAINJOB = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team/trainjobs/tj"
V1 = "client.authentication.k8s.io/v1"
HINT = "pip install cloud-cli"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def plugin(folder: Path, *statuses: dict[str, Any]) -> dict[str, Any]:
    """The `exec` of a kubeconfig: a program that gives these statuses one after the other, then the last."""
    return script(
        folder,
        f"""
        import json, pathlib
        runs = pathlib.Path({str(folder / "runs")!r})
        done = int(runs.read_text()) if runs.exists() else 0
        runs.write_text(str(done + 1))
        statuses = json.loads({json.dumps(json.dumps(statuses))})
        status = statuses[min(done, len(statuses) - 1)]
        print(json.dumps({{"apiVersion": {V1!r}, "kind": "ExecCredential", "status": status}}))
        """,
    )


def script(folder: Path, body: str, **config: Any) -> dict[str, Any]:
    file = folder / "cloud-cli"
    lines = [line.removeprefix(" " * 8) for line in body.strip("\n").splitlines()]
    file.write_text("\n".join([f"#!{sys.executable}", *lines]) + "\n")
    file.chmod(0o755)
    return {"apiVersion": V1, "command": "./cloud-cli", "installHint": HINT, **config}


def credential(status: str) -> str:
    """The body of a program that prints this as the status."""
    return f"""print('{{"apiVersion": "{V1}", "kind": "ExecCredential", "status": {status}}}')"""


def runs(folder: Path) -> int:
    return int((folder / "runs").read_text())


def kubeconfig(folder: Path, server: str, exec_: Any, **cluster: Any) -> str:
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "current-context": "cloud",
                "contexts": [
                    {"name": "cloud", "context": {"cluster": "c", "user": "u", "namespace": "team"}}
                ],
                "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": {"exec": exec_}}],
            }
        )
    )
    return str(file)


def cluster(accepts: Callable[[web.Request], bool]) -> FakeApi:
    api = FakeApi()
    api.put(TRAINJOB, dict(HEALTHY.trainjob))
    api.accepts = accepts
    return api


def asked(config: str) -> tuple[int, str]:
    """The exit code of `explain` and what it says on stderr."""
    code, _, err = answered(explain.run, "tj", kubeconfig=config)
    return code, err


def expiring(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def bearer(*tokens: str) -> Callable[[web.Request], bool]:
    return lambda request: request.headers.get("Authorization") in {f"Bearer {token}" for token in tokens}


def test_a_plugin_that_gives_a_token_is_run_once_while_the_token_is_good(folder: Path) -> None:
    async def test() -> None:
        async with cluster(bearer("first")).serving() as url:
            config = kubeconfig(
                folder, url, plugin(folder, {"token": "first", "expirationTimestamp": expiring(900)})
            )
            assert await asyncio.to_thread(asked, config) == (1, "")

    run(test)
    assert runs(folder) == 1


@pytest.mark.parametrize("user", [{"token": "own"}, {"tokenFile": "own"}])
def test_a_token_of_the_kubeconfig_is_used_instead_of_the_plugins_as_by_kubectl(
    folder: Path, user: dict[str, str]
) -> None:
    (folder / "own").write_text("own")
    config = Path(kubeconfig(folder, "https://10.0.0.1", plugin(folder, {"token": "first"})))
    document = yaml.safe_load(config.read_text())
    document["users"][0]["user"] |= user
    config.write_text(yaml.safe_dump(document))
    loaded = connection.load(str(config), None)
    token = loaded.token if loaded.token_source is None else loaded.token_source.token()
    assert token == "own"
    assert not (folder / "runs").exists()


def test_a_client_certificate_of_the_kubeconfig_is_used_instead_of_the_plugins_as_by_kubectl(
    folder: Path,
) -> None:
    config = Path(kubeconfig(folder, "https://10.0.0.1", plugin(folder, {"token": "first"})))
    document = yaml.safe_load(config.read_text())
    for name, pem in zip(("client-certificate", "client-key"), client_certificate("ada"), strict=True):
        (folder / name).write_text(pem)
        document["users"][0]["user"][name] = name
    config.write_text(yaml.safe_dump(document))
    loaded = connection.load(str(config), None)
    assert (loaded.token, loaded.token_source) == (None, None)
    assert not (folder / "runs").exists()


def test_a_plugin_is_run_again_when_its_token_has_expired(folder: Path) -> None:
    async def test() -> None:
        async with cluster(bearer("second")).serving() as url:
            statuses = ({"token": "first", "expirationTimestamp": expiring(5)}, {"token": "second"})
            assert await asyncio.to_thread(asked, kubeconfig(folder, url, plugin(folder, *statuses))) == (
                1,
                "",
            )

    run(test)
    assert runs(folder) == 2


def test_a_plugin_is_run_again_when_its_token_is_refused_however_many_requests_are_under_way(
    folder: Path,
) -> None:
    async def test() -> None:
        api = cluster(bearer("first", "second"))
        async with api.serving() as url:
            found = connection.load(
                kubeconfig(folder, url, plugin(folder, {"token": "first"}, {"token": "second"})), None
            )
            async with connection.client(found, "test") as client:
                await client.get(TRAINJOB)
                api.accepts = bearer("second")
                await asyncio.gather(*(client.get(TRAINJOB) for _ in range(8)))

    run(test)
    assert runs(folder) == 2


def test_all_connections_of_a_process_share_what_a_plugin_gave_while_it_is_good(folder: Path) -> None:
    async def test() -> None:
        api = cluster(bearer("second"))
        async with api.serving() as url:
            statuses = [{"token": token} for token in ("first", "second", "third")]
            config = kubeconfig(folder, url, plugin(folder, *statuses))
            connections = [connection.load(config, None) for _ in range(2)]
            assert runs(folder) == 1
            for credentials in connections:
                async with connection.client(credentials, "test") as client:
                    await client.get(TRAINJOB)
                assert runs(folder) == 2
            api.accepts = bearer("third")
            async with connection.client(connection.load(config, None), "test") as client:
                await client.get(TRAINJOB)

    run(test)
    assert runs(folder) == 3


def test_a_plugin_that_no_longer_gives_a_token_ends_the_command_with_one_sentence(folder: Path) -> None:
    async def test() -> None:
        async with cluster(bearer("second")).serving() as url:
            config = kubeconfig(
                folder, url, plugin(folder, {"token": "first", "expirationTimestamp": expiring(5)}, {})
            )
            code, said = await asyncio.to_thread(asked, config)
            assert code == 2
            assert said.endswith(
                f"kubeconfig, context 'cloud': exec plugin ./cloud-cli gave neither a token nor a client "
                f"certificate. To install it: {HINT}\n"
            )

    run(test)


def test_a_plugin_that_cannot_renew_a_token_for_now_is_run_again_until_it_has_failed_for_minutes(
    folder: Path,
) -> None:
    now = [datetime.now(UTC)]
    later = (now[0] + timedelta(minutes=15)).strftime("%Y-%m-%dT%H:%M:%SZ")
    giving = plugin(folder, {"token": "first", "expirationTimestamp": later}, {})
    where = ExecPlugin(giving, {}, folder, None, "here")
    credential = exec_plugin.Credential(where, lambda: now[0])

    async def test() -> list[type[ApiError]]:
        kinds: list[type[ApiError]] = []
        async with (
            cluster(bearer("first")).serving() as url,
            Client(Credentials(url, None, token_source=credential)) as client,
        ):
            await client.get(TRAINJOB)
            now[0] += timedelta(minutes=15)
            for seconds in range(130):
                try:
                    await client.get(TRAINJOB)
                except ApiError as error:
                    kinds.append(type(error))
                now[0] += timedelta(seconds=1)
                if seconds == 20:
                    assert runs(folder) == 5
        return kinds

    assert run(test) == [*[RetriableError] * 127, *[UnauthorizedError] * 3]
    (folder / "runs").unlink()
    assert credential.token() == "first"


def client_certificate(name: str) -> tuple[str, str]:
    """A certificate that vouches for itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode(), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def test_a_plugin_that_gives_a_client_certificate_is_run_again_when_it_is_refused(folder: Path) -> None:
    serving = certificates.issue(["127.0.0.1"], datetime.now(UTC))
    (folder / "server.pem").write_bytes(serving.certificate + serving.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.pem")
    tls.verify_mode = ssl.CERT_OPTIONAL
    statuses = []
    for name in ("first", "second"):
        certificate, key = client_certificate(name)
        tls.load_verify_locations(cadata=certificate)
        statuses.append({"clientCertificateData": certificate, "clientKeyData": key})

    def presents(name: str) -> Callable[[web.Request], bool]:
        def accepts(request: web.Request) -> bool:
            peer = request.get_extra_info("peercert") or {}
            return ((("commonName", name),),) == peer.get("subject")

        return accepts

    async def test() -> None:
        api = cluster(presents("first"))
        async with api.serving(tls) as url:
            authority = base64.b64encode(serving.authorities).decode()
            config = kubeconfig(
                folder, url, plugin(folder, *statuses), **{"certificate-authority-data": authority}
            )
            found = connection.load(config, None)
            async with connection.client(found, "test") as client:
                assert (await client.get(TRAINJOB))["kind"] == "TrainJob"
                api.accepts = presents("second")
                assert (await client.get(TRAINJOB))["kind"] == "TrainJob"
            assert await asyncio.to_thread(asked, config) == (1, "")

    run(test)
    assert runs(folder) == 2


def test_a_plugin_that_asks_for_it_is_told_the_cluster(folder: Path) -> None:
    body = f"""
        import json, os
        info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
        token = info["spec"]["cluster"]["server"] + " " + os.environ["REGION"]
        print(json.dumps({{"apiVersion": {V1!r}, "kind": "ExecCredential", "status": {{"token": token}}}}))
        """
    config = script(folder, body, provideClusterInfo=True, env=[{"name": "REGION", "value": "north"}])
    found = connection.load(kubeconfig(folder, "https://10.0.0.1", config), None)
    assert found.token_source is not None
    assert found.token_source.token() == "https://10.0.0.1 north"


def test_a_plugin_is_told_the_fields_of_an_exec_credential_and_the_ca_itself(folder: Path) -> None:
    authorities = certificates.issue(["10.0.0.1"], datetime.now(UTC)).authorities
    (folder / "ca.crt").write_bytes(authorities)
    body = f"""
        import json, os
        token = os.environ["KUBERNETES_EXEC_INFO"]
        print(json.dumps({{"apiVersion": {V1!r}, "kind": "ExecCredential", "status": {{"token": token}}}}))
        """
    own = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    fields = {"certificate-authority": "ca.crt", "tls-server-name": "api", "extensions": [own]}
    config = script(folder, body, provideClusterInfo=True)
    source = connection.load(kubeconfig(folder, "https://10.0.0.1", config, **fields), None).token_source
    assert source is not None
    assert json.loads(source.token())["spec"]["cluster"] == {
        "server": "https://10.0.0.1",
        "tls-server-name": "api",
        "certificate-authority-data": base64.b64encode(authorities).decode(),
        "config": {"audience": "a"},
    }


@pytest.mark.parametrize(
    ("body", "config", "said"),
    [
        ("", {"command": "no-such-cloud-cli"}, "exec plugin no-such-cloud-cli is not installed"),
        (
            "import sys; sys.exit('session has expired,\\nlog in again')",
            {},
            "exec plugin ./cloud-cli failed with exit code 1; see its messages above",
        ),
        ("print('Welcome!')", {}, "exec plugin ./cloud-cli did not print an ExecCredential: "),
        ("print('[]')", {}, "exec plugin ./cloud-cli did not print an ExecCredential: "),
        (
            credential("{}").replace("/v1", "/v1beta1"),
            {},
            "exec plugin ./cloud-cli printed an ExecCredential of client.authentication.k8s.io/v1beta1 and "
            f"not {V1}",
        ),
        ("print(5)", {}, "exec plugin ./cloud-cli did not print an ExecCredential: "),
        (
            credential('{"token": 5}'),
            {},
            "exec plugin ./cloud-cli did not print an ExecCredential: "
            "Expected `str`, got `int` - at `$.status.token`",
        ),
        (
            "",
            {"interactiveMode": "Always"},
            "exec plugin ./cloud-cli needs a terminal (interactiveMode: Always), and its input is none",
        ),
    ],
)
def test_a_plugin_without_credentials_is_one_sentence_with_its_install_hint(
    folder: Path, body: str, config: dict[str, Any], said: str
) -> None:
    where = kubeconfig(folder, "https://10.0.0.1", script(folder, body, **config))
    code, message = asked(where)
    assert (code, message.count("\n")) == (2, 1)
    assert message.startswith(f"{where}, context 'cloud': {said}")
    assert message.endswith(f". To install it: {HINT}\n")


@pytest.mark.parametrize(
    ("mode", "is_terminal", "token"),
    [
        ("IfAvailable", True, "True yes"),
        ("IfAvailable", False, "False "),
        ("Always", True, "True yes"),
        ("Never", True, "False "),
    ],
)
def test_a_plugin_can_ask_on_the_terminal_though_the_output_is_redirected(
    folder: Path, capfd: pytest.CaptureFixture[str], mode: str, is_terminal: bool, token: str
) -> None:
    body = f"""
        import json, os, sys
        print("log in?", file=sys.stderr)
        spec = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]
        token = f"{{spec['interactive']}} {{sys.stdin.readline().strip()}}"
        print(json.dumps({{"apiVersion": {V1!r}, "kind": "ExecCredential", "status": {{"token": token}}}}))
        """
    where = kubeconfig(folder, "https://10.0.0.1", script(folder, body, interactiveMode=mode))
    controller, terminal = pty.openpty() if is_terminal else os.pipe()[::-1]
    os.write(controller, b"yes\n")
    with typing_on(terminal):
        source = connection.load(where, None).token_source
    os.close(controller)
    assert source is not None
    assert source.token() == token
    assert capfd.readouterr() == ("", "log in?\n")


def test_a_plugin_for_a_completion_asks_nobody_and_is_not_waited_for(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = f"""
        import json, os, sys
        print("log in?", file=sys.stderr)
        spec = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["spec"]
        own = os.getsid(0) == os.getpid()
        token = f"{{spec['interactive']}} {{own}} {{sys.stdin.readline().strip()}}"
        print(json.dumps({{"apiVersion": {V1!r}, "kind": "ExecCredential", "status": {{"token": token}}}}))
        """
    where = kubeconfig(folder, "https://10.0.0.1", script(folder, body))
    controller, terminal = pty.openpty()
    os.write(controller, b"yes\n")
    with typing_on(terminal):
        with pytest.raises(CredentialsError, match="cloud-cli did not answer in time"):
            connection.load_or_sandbox(where, None, time.monotonic())
        source = connection.load_or_sandbox(where, None, time.monotonic() + 60).token_source
    os.close(controller)
    assert source is not None
    assert source.token() == "False True "
    assert capfd.readouterr() == ("", "")


def test_a_plugin_that_is_late_for_a_completion_ends_with_what_it_has_started(folder: Path) -> None:
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    lasts = ["sh", "-c", "echo begun; sleep 30; echo survived"]
    body = f"""
        import subprocess
        subprocess.run({lasts}, stdout=open({str(pipe)!r}, "w"))
        """
    where, printed = kubeconfig(folder, "https://10.0.0.1", script(folder, body)), ""
    for seconds in count(1):
        with open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as reader:
            with pytest.raises(CredentialsError, match="cloud-cli did not answer in time"):
                connection.load_or_sandbox(where, None, time.monotonic() + seconds)
            os.set_blocking(reader.fileno(), True)
            printed = reader.read()  # up to the end of whoever could write
        if printed:  # else the machine was too busy to start it in time
            break
    assert printed == "begun\n"


@contextmanager
def typing_on(terminal: int) -> Iterator[None]:
    """The terminal is the input of this process, and then closed."""
    before, screen = os.dup(0), os.fdopen(terminal)
    os.dup2(terminal, 0)
    with screen, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", screen)
        yield
    os.dup2(before, 0)
    os.close(before)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("aws", "exec: Expected `object`, got `str`"),
        ({"apiVersion": V1}, "exec: Object missing required field `command`"),
        (
            {"apiVersion": f"{V1}alpha1", "command": "x"},
            f"exec: Invalid enum value '{V1}alpha1' - at `$.apiVersion`",
        ),
        ({"apiVersion": V1, "command": "x", "args": [1]}, "exec: Expected `str`, got `int` - at `$.args[0]`"),
    ],
)
def test_a_kubeconfig_that_describes_its_plugin_wrongly_is_told_the_field(
    folder: Path, config: Any, said: str
) -> None:
    where = kubeconfig(folder, "https://10.0.0.1", config)
    assert asked(where) == (2, f"{where}, context 'cloud': {said}\n")


def test_a_proxy_is_taken_from_the_kubeconfig_or_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "10.0.0.2")
    giving = plugin(folder, {"token": "t"})
    assert connection.load(kubeconfig(folder, "https://10.0.0.1", giving), None).proxy == "http://proxy:3128"
    assert connection.load(kubeconfig(folder, "https://10.0.0.2", giving), None).proxy is None
    assert connection.load(kubeconfig(folder, "https://127.0.0.1:6443", giving), None).proxy is None
    own = kubeconfig(folder, "https://10.0.0.1", giving, **{"proxy-url": "http://own:1"})
    assert connection.load(own, None).proxy == "http://own:1"


@pytest.mark.parametrize(
    ("server", "no_proxy", "is_direct"),
    [
        ("https://10.0.0.1:6443", "", False),
        ("https://10.0.0.1:6443", "10.0.0.1", True),
        ("https://10.0.0.1:6443", "10.0.0.0/8", True),
        ("https://10.0.0.1:6443", "10.9.9.9/8", True),
        ("https://10.0.0.1:6443", "10.0.0.0/99", False),
        ("https://10.0.0.1:6443", "fd00::/8", False),
        ("https://10.0.0.1:6443", "10.0.0.1:6443", True),
        ("https://10.0.0.1:6443", "10.0.0.1:443", False),
        ("https://10.0.0.1", "10.0.0.1:443", True),
        ("https://10.0.0.1", "0.0.1, .1", False),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "[fd00::1]:443", False),
        ("https://[fd00::1]:6443", "fd00:0::1", True),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://api.corp", "*", True),
        ("https://api.corp", "other, CORP", True),
        ("https://API.corp", ".corp", True),
        ("https://api.corp", "*.corp", True),
        ("https://api.corp:6443", "*.corp:6443", True),
        ("https://api.corp:6443", "*.corp:443", False),
        ("https://api.corp", "api.corp", True),
        ("https://corp", ".corp", False),
        ("https://corp", "*.corp", False),
        ("https://corp", "10.0.0.0/8", False),
        ("https://apicorp", "corp", False),
        ("https://127.0.0.2", "", True),
        ("https://[::1]:6443", "", True),
        ("https://localhost:6443", "", True),
        ("http://localhost:8001", "", True),
    ],
)
def test_no_proxy_is_read_as_kubectl_reads_it(server: str, no_proxy: str, is_direct: bool) -> None:
    for no_proxy_name, proxy_name in (("NO_PROXY", "HTTPS_PROXY"), ("no_proxy", "https_proxy")):
        environment = {no_proxy_name: no_proxy, proxy_name: "http://proxy:3128", "HTTP_PROXY": "http://p:1"}
        assert proxies.proxy(server, environment) == (None if is_direct else "http://proxy:3128")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("proxy.corp:3128", "http://proxy.corp:3128"),
        ("me:secret@proxy.corp", "http://me:secret@proxy.corp"),
        ("https://proxy.corp", "https://proxy.corp"),
        (" ", None),
    ],
)
def test_a_proxy_of_the_environment_needs_no_scheme(text: str, url: str | None) -> None:
    assert proxies.proxy("https://10.0.0.1", {"HTTPS_PROXY": text}) == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("socks5://me:secret@h:1", "HTTPS_PROXY: socks5 is not supported; use an http or https proxy"),
        ("http://", "HTTPS_PROXY is not a URL, such as http://proxy:3128"),
        ("me:secret@h:port", "HTTPS_PROXY is not a URL, such as http://proxy:3128"),
    ],
)
def test_a_proxy_that_is_not_supported_is_told_without_its_password(text: str, message: str) -> None:
    with pytest.raises(CredentialsError) as error:
        proxies.proxy("https://10.0.0.1", {"HTTPS_PROXY": text})
    assert str(error.value) == message


def test_a_command_that_only_looks_finds_the_sandbox_of_its_site_where_there_is_no_kubeconfig(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(places, "SHIPPED", Site(folder / "of_a_wheel"))
    with pytest.raises(CredentialsError, match="no kubeconfig: pass --kubeconfig"):
        connection.load_or_sandbox(None, None)
    (folder / "stacks").mkdir()
    (folder / "Pulumi.yaml").write_text("name: acme\n")
    with pytest.raises(CredentialsError, match="no kubeconfig: pass --kubeconfig"):
        connection.load_or_sandbox(None, None)
    own = Instance(project=folder).kubeconfig
    own.parent.mkdir(parents=True)
    Path(kubeconfig(own.parent, "https://10.0.0.1", plugin(own.parent, {"token": "t"}))).rename(own)
    assert connection.load_or_sandbox(None, None).server == "https://10.0.0.1"
    with pytest.raises(CredentialsError, match="no kubeconfig"):
        connection.load(None, None)


def test_requests_go_through_the_proxy(folder: Path) -> None:
    async def test() -> None:
        async with cluster(bearer("first")).serving() as url:
            config = kubeconfig(
                folder, "http://127.0.0.1:1", plugin(folder, {"token": "first"}), **{"proxy-url": url}
            )
            assert await asyncio.to_thread(asked, config) == (1, "")

    run(test)
