"""The API client: what it sends, and which error an answer becomes."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives import serialization

from tests.support import authorities, objects
from tests.support.fake_api import FakeApi, run, status
from trainyard_kube import credentials
from trainyard_kube.client import (
    ApiError,
    Client,
    ConflictError,
    ForbiddenError,
    GoneError,
    NotFoundError,
    Resource,
    RetriableError,
    UnauthorizedError,
    encoded,
    error_from,
    warnings_in,
)
from trainyard_kube.credentials import Credentials, CredentialsError, TokenFile
from trainyard_operator.serve import certificates


def test_a_path_is_spelled_as_the_api_server_spells_it() -> None:
    jobsets = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
    assert jobsets.path() == objects.ALL_JOBSETS
    assert jobsets.path("team", "tj", "status") == f"{objects.JOBSETS}/tj/status"
    assert Resource("", "v1", "events", "Event").path("team") == objects.EVENTS
    cluster = Resource("trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", "x", namespaced=False)
    assert cluster.path(None, "rt") == f"{objects.RUNTIMES}/rt"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, ApiError),
        (401, UnauthorizedError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, GoneError),
        (422, ApiError),
        (429, RetriableError),
        (500, RetriableError),
        (503, RetriableError),
    ],
)
def test_each_status_code_has_its_error(code: int, kind: type[ApiError]) -> None:
    error = error_from(code, b'{"reason":"Why","message":"so","details":{"name":"x"}}')
    assert type(error) is kind
    assert (error.code, error.reason, error.message, error.details) == (code, "Why", "so", {"name": "x"})


def test_retry_after_is_obeyed_up_to_a_minute() -> None:
    assert error_from(429, b"", "7").retry_after == 7.0
    assert error_from(429, b"", "86400").retry_after == 60.0
    assert error_from(429, b"", "Wed, 21 Oct 2026 07:28:00 GMT").retry_after is None


def test_an_answer_in_plain_text_is_an_error_like_any_other() -> None:
    error = error_from(502, b"<html>bad gateway</html>")
    assert isinstance(error, RetriableError)
    assert "bad gateway" in str(error)


def test_the_message_of_a_gateway_whose_code_is_a_word_is_shown() -> None:
    body = b'{"type":"error","status":503,"code":"ClusterUnavailable","message":"cluster agent disconnected"}'
    assert str(error_from(503, body)) == "503 : cluster agent disconnected"


def test_a_login_page_in_place_of_an_answer_is_an_error_and_no_log() -> None:
    async def login(_: web.Request) -> web.Response:
        return web.Response(text="<html>Log in</html>", content_type="text/html")

    async def test() -> None:
        app = web.Application()
        app.router.add_get("/{path}", login)
        async with TestServer(app) as server:
            who = Credentials(str(server.make_url("")).rstrip("/"), None)
            async with Client(who) as client:
                requests: list[Callable[[], Awaitable[object]]] = [
                    lambda: client.text("/log"),
                    lambda: client.get("/log"),
                    lambda: anext(client.stream("/log", params={}, inactivity=60)),
                    lambda: anext(client.watch("/log", params={})),
                ]
                for request in requests:
                    with pytest.raises(RetriableError, match=r"^GET /log: the answer is a web page and not"):
                        await request()

    run(test)


def test_an_object_too_large_for_etcd_is_no_server_error() -> None:
    error = error_from(500, b'{"message":"etcdserver: request is too large"}')
    assert not isinstance(error, RetriableError)


def test_a_missing_crd_is_told_from_a_missing_object() -> None:
    missing = error_from(404, b"404 page not found\n")
    absent = error_from(404, b'{"reason":"NotFound","details":{"name":"tj","kind":"jobsets"}}')
    assert isinstance(missing, NotFoundError)
    assert isinstance(absent, NotFoundError)
    assert (missing.resource_missing, absent.resource_missing) == (True, False)


def test_a_server_that_cannot_be_reached_is_worth_another_try() -> None:
    async def test() -> None:
        async with Client(Credentials(server="http://127.0.0.1:1", tls=None)) as client:
            with pytest.raises(RetriableError):
                await client.get("/version")

    run(test)


def test_a_list_comes_in_pages_with_the_version_of_each() -> None:
    async def test() -> None:
        api = FakeApi()
        for number in range(5):
            api.put(f"{objects.JOBSETS}/j{number}", objects.jobset())
        async with api.client() as client:
            pages = [page async for page in client.list(objects.ALL_JOBSETS, limit=2)]
        assert [len(page.items or ()) for page in pages] == [2, 2, 1]

    run(test)


def test_an_empty_list_may_come_as_null() -> None:
    async def test() -> None:
        async with FakeApi().client() as client:
            assert [page.items async for page in client.list(objects.ALL_JOBSETS)] == [None]

    run(test)


def test_a_delete_names_the_uid_that_it_means() -> None:
    async def test() -> None:
        api = FakeApi()
        stored = api.put(f"{objects.JOBSETS}/tj", objects.jobset())
        async with api.client() as client:
            with pytest.raises(ConflictError):
                await client.delete(f"{objects.JOBSETS}/tj", uid="another")
            await client.delete(f"{objects.JOBSETS}/tj", uid=stored["metadata"]["uid"])
        assert api.bodies[-1]["preconditions"] == {"uid": stored["metadata"]["uid"]}
        assert api.bodies[-1]["propagationPolicy"] == "Background"

    run(test)


def test_the_retry_after_header_reaches_the_caller() -> None:
    async def test() -> None:
        api = FakeApi()
        api.refuse_next("GET", "/x", status(429, "TooManyRequests"), {"Retry-After": "3"})
        async with api.client() as client:
            with pytest.raises(RetriableError) as caught:
                await client.get("/x")
        assert caught.value.retry_after == 3.0

    run(test)


def test_a_stream_that_goes_silent_counts_as_broken() -> None:
    async def test() -> None:
        async with FakeApi().client() as client:
            with pytest.raises(RetriableError):
                async for _ in client.watch(objects.ALL_JOBSETS, params={}, inactivity=0.05):
                    pass

    run(test)


def test_requests_are_counted_with_their_answers() -> None:
    async def test() -> None:
        seen: list[tuple[str, str, int]] = []
        async with FakeApi().client() as plain:
            counting = Client(plain.credentials, observer=lambda *request: seen.append(request))
            async with counting as client:
                with pytest.raises(NotFoundError):
                    await client.get(f"{objects.JOBSETS}/tj")
        assert seen == [("GET", f"{objects.JOBSETS}/tj", 404)]

    run(test)


def test_a_write_says_who_writes_and_asks_for_no_warnings() -> None:
    async def test() -> None:
        seen: list[tuple[str, str, int]] = []
        async with FakeApi().client() as plain:
            counting = Client(plain.credentials, observer=lambda *request: seen.append(request))
            async with counting as client:
                live = await client.create(objects.JOBSETS, objects.jobset(), manager="me")
                path = f"{objects.JOBSETS}/tj"
                await client.replace(path, live)
                await client.patch(path, {"spec": {"suspend": True}})
        assert seen == [
            ("POST", f"{objects.JOBSETS}?fieldValidation=Ignore&fieldManager=me", 201),
            ("PUT", f"{path}?fieldValidation=Ignore", 200),
            ("PATCH", f"{path}?fieldValidation=Ignore", 200),
        ]

    run(test)


def test_a_rotated_token_is_read_again_when_the_old_one_is_refused(tmp_path: Path) -> None:
    async def test() -> None:
        file = tmp_path / "token"
        file.write_text("old")
        seen: list[str] = []

        async def answer(request: web.Request) -> web.Response:
            seen.append(request.headers["Authorization"])
            return web.json_response({}, status=200 if seen[-1] == "Bearer new" else 401)

        app = web.Application()
        app.router.add_get("/x", answer)
        server = TestServer(app)
        await server.start_server()
        token = TokenFile(file)
        token.reload()
        file.write_text("new\n")
        who = Credentials(server=str(server.make_url("")).rstrip("/"), tls=None, token_source=token)
        async with Client(who) as client:
            await client.get("/x")
        await server.close()
        assert seen == ["Bearer old", "Bearer new"]

    run(test)


def test_a_token_is_read_again_every_minute(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    now = [0.0]
    token = TokenFile(file, clock=lambda: now[0])
    assert token.token() == "one"
    file.write_text("two")
    now[0] = 59.0
    assert token.token() == "one"
    now[0] = 60.0
    assert token.token() == "two"
    file.write_text("\n")
    now[0] = 120.0
    assert token.token() == "two"
    file.unlink()
    now[0] = 180.0
    assert token.token() == "two"


def kubeconfig(
    folder: Path, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None
) -> Path:
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_kubeconfig_names_server_and_token(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("secret\n")
    found = credentials.load(str(kubeconfig(tmp_path, user={"tokenFile": "t"})))
    assert found.server == "https://10.0.0.1:6443"
    assert found.token_source is not None
    assert found.token_source.token() == "secret"
    assert found.tls is not None
    assert found.tls.check_hostname


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_a_file_without_a_token_is_refused_at_once_and_nobody_is_anonymous(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(CredentialsError) as refused:
        credentials.load(str(kubeconfig(tmp_path, user={"tokenFile": "t"})))
    assert str(refused.value) == f"{tmp_path}/config, context 'here': {tmp_path}/t contains no token"


@pytest.mark.parametrize("content", [b"a\nb", "a".encode("utf-16")])
def test_a_token_that_no_request_can_have_is_not_accepted(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t").write_bytes(content)

    async def test() -> None:
        loaded = credentials.load(
            str(kubeconfig(tmp_path, {"server": "http://127.0.0.1:1"}, {"tokenFile": "t"}))
        )
        async with Client(loaded) as client:
            with pytest.raises(UnauthorizedError, match=r"^the token contains a line break or another"):
                await client.get("/version")

    run(test)


def test_a_server_in_capitals_is_trusted_by_the_authority_of_the_kubeconfig(tmp_path: Path) -> None:
    serving = certificates.issue(["10.0.0.1"], datetime.now(UTC))
    authority = base64.b64encode(serving.authorities).decode()
    cluster = {"server": "HTTPS://10.0.0.1:6443/", "certificate-authority-data": authority}
    loaded = credentials.load(str(kubeconfig(tmp_path, cluster)))
    assert loaded.tls is not None
    assert len(loaded.tls.get_ca_certs()) == 1


def test_a_user_acts_as_whom_the_kubeconfig_names_in_requests_and_streams(tmp_path: Path) -> None:
    heard: list[list[tuple[str, str]]] = []
    other = {"as": "ada", "as-uid": "u-1", "as-groups": ["a", "b"], "as-user-extra": {"Team/x": ["1", "2"]}}

    async def handle(request: web.Request) -> web.StreamResponse:
        heard.append([(name, value) for name, value in request.headers.items() if "Impersonate" in name])
        if request.path != "/exec":
            return web.json_response({})
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.close()
        return socket

    async def test() -> None:
        app = web.Application()
        app.router.add_get("/{path}", handle)
        async with TestServer(app) as server:
            cluster = {"server": str(server.make_url(""))}
            found = credentials.load(str(kubeconfig(tmp_path, cluster, {"token": "t", **other})))
            renamed = replace(found, headers={"User-Agent": "trainyard-exec"})
            async with Client(renamed) as client:
                await client.get("/pods")
                async with client.websocket("/exec", params=[], protocols=()):
                    pass

    run(test)
    assert heard == 2 * [
        [
            ("Impersonate-User", "ada"),
            ("Impersonate-Uid", "u-1"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Extra-Team%2Fx", "1"),
            ("Impersonate-Extra-Team%2Fx", "2"),
        ]
    ]


def test_certificates_of_a_kubeconfig_may_be_wrapped_in_lines(tmp_path: Path) -> None:
    serving = certificates.issue(["127.0.0.1"], datetime.now(UTC))
    cluster = {"certificate-authority-data": base64.encodebytes(serving.authorities).decode()}
    user = {
        "client-certificate-data": base64.encodebytes(serving.certificate).decode().replace("\n", "\r\n"),
        "client-key-data": base64.encodebytes(serving.key).decode(),
    }
    found = credentials.load(str(kubeconfig(tmp_path, cluster, user)))
    assert found.tls_files is not None
    assert found.tls_files.loaded == (serving.authorities, serving.certificate, serving.key)


def test_an_empty_file_beside_a_kubeconfig_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").write_text("# nothing yet\n")
    file = kubeconfig(tmp_path, user={"token": "secret"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'empty'}:{file}")
    assert credentials.load().token == "secret"
    with pytest.raises(CredentialsError, match="empty: no current-context; pass --context"):
        credentials.load(str(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        ({"insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify"),
        ({"server": "http://10.0.0.1"}, {}, "not https"),
        ({"server": "nonsense"}, {}, "not a URL"),
        ({"server": "https://host:port"}, {}, "not a URL"),
        ({"server": "https://[host"}, {}, "not a URL"),
        ({"server": "https://api..corp:6443"}, {}, "not a URL"),
        ({"server": "https://api.corp:6443", "proxy-url": "http://.corp:3128"}, {}, "proxy-url is not a URL"),
        ({"certificate-authority": "gone.crt"}, {}, "gone.crt"),
        ({"certificate-authority-data": "%%%"}, {}, "here"),
        ({"certificate-authority-data": "\u00e9"}, {}, "certificate-authority-data is not base64"),
        ({"certificate-authority-data": "DATA+OMITTED"}, {}, "server contains no certificate"),
        ({}, {"exec": {"command": "aws"}}, "exec plugins are not supported here"),
        ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider no longer exists"),
        ({"proxy-url": "socks5://proxy:1"}, {}, "use an http or https proxy"),
        ({}, {"client-certificate-data": "eA=="}, "pairs"),
        ({}, {"username": "u", "password": "p"}, "basic"),
        ({}, {"as-groups": ["admins"]}, "as-uid, as-groups and as-user-extra need as"),
        ({}, {"as": "ada", "as-groups": "admins"}, r"user: Expected `array \| null`, got `str`"),
        ({}, {"as": "ada\r\nImpersonate-Group: admins"}, "contains a control character"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_kubeconfig_must_not_ask_for_is_said_in_one_line(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], words: str
) -> None:
    with pytest.raises(CredentialsError, match=words) as caught:
        credentials.load(str(kubeconfig(tmp_path, cluster, user)))
    assert "\n" not in str(caught.value)


def test_a_missing_or_broken_kubeconfig_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match="No such file"):
        credentials.load(str(tmp_path / "none"))
    for text in ("{[", "a: !!timestamp 2026-11-31", 'a: !!int ""'):
        (tmp_path / "bad").write_text(text)
        with pytest.raises(CredentialsError, match="not YAML"):
            credentials.load(str(tmp_path / "bad"))
    with pytest.raises(CredentialsError, match=r"no context 'x' \(there are: here\)"):
        credentials.load(str(kubeconfig(tmp_path)), "x")


@pytest.mark.parametrize(
    ("section", "entry", "words"),
    [
        ("contexts", "here", "Expected `object`, got `str` - at `$.contexts[1]`"),
        ("contexts", {"context": {}}, "Object missing required field `name` - at `$.contexts[1]`"),
        ("contexts", {"name": 5}, "Expected `str`, got `int` - at `$.contexts[1].name`"),
        (
            "clusters",
            {"name": "d", "cluster": "c"},
            "Expected `object | null`, got `str` - at `$.clusters[1].cluster`",
        ),
        (
            "clusters",
            {"name": "d", "cluster": {"tls-server-name": 5}},
            "Expected `str | null`, got `int` - at `$.clusters[1].cluster.tls-server-name`",
        ),
        (
            "users",
            {"name": "v", "user": {"tokenFile": ["t"]}},
            "Expected `str | null`, got `array` - at `$.users[1].user.tokenFile`",
        ),
        (
            "users",
            {"name": "v", "user": {"token": 12345}},
            "Expected `str | null`, got `int` - at `$.users[1].user.token`",
        ),
    ],
)
def test_a_value_of_another_type_is_named_and_no_traceback(
    tmp_path: Path, section: str, entry: object, words: str
) -> None:
    path = kubeconfig(tmp_path)
    document = yaml.safe_load(path.read_text())
    document[section].append(entry)
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(CredentialsError) as refused:
        credentials.load(str(path))
    assert str(refused.value) == f"kubeconfig {path}: {words}"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_kubeconfig_may_be_written_on_windows(tmp_path: Path, encoding: str) -> None:
    path = kubeconfig(tmp_path, user={"token": "secret"})
    text = path.read_text().replace("here", "b\u00fcro").replace("\n", "\r\n")
    path.write_bytes(text.encode(encoding))
    loaded = credentials.load(str(path))
    assert (loaded.token, loaded.source) == ("secret", f"kubeconfig {path}, context 'b\u00fcro'")


def test_several_paths_are_for_the_variable_and_not_for_an_option_or_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kubeconfig(tmp_path, user={"token": "secret"})
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CredentialsError) as caught:
        credentials.load(f"~/none:{file}")
    assert str(caught.value) == (
        f"kubeconfig {tmp_path}/none:{file}: no such file. --kubeconfig and a stack's cluster.kubeconfig "
        f"each take one. For several, leave both out and set KUBECONFIG={tmp_path}/none:{file}"
    )
    monkeypatch.setenv("KUBECONFIG", f"~/none:{file}")
    assert credentials.load().token == "secret"
    named_so = file.rename(tmp_path / "a:b")
    assert credentials.load(str(named_so)).token == "secret"


def test_a_kubeconfig_that_nobody_may_look_for_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "exists", lambda _: False)  # as of Python 3.14
        patched.setattr(Path, "stat", refused)
        patched.setattr(Path, "read_bytes", refused)
        with pytest.raises(CredentialsError) as caught:
            credentials.load()
    assert str(caught.value) == f"kubeconfig {tmp_path}/.kube/config: Permission denied"


def test_a_kubeconfig_on_a_share_that_is_not_connected_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, other = tmp_path / "share", kubeconfig(tmp_path, user={"token": "secret"})
    stat, read = Path.stat, Path.read_bytes

    def unless_of_the_share(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Path, *positional: Any, **named: Any) -> Any:
            if path == share:
                raise OSError(errno.ENOTCONN, "Transport endpoint is not connected", str(path))
            return function(path, *positional, **named)

        return call

    monkeypatch.setenv("KUBECONFIG", f"{share}:{other}")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", unless_of_the_share(stat))
        patched.setattr(Path, "read_bytes", unless_of_the_share(read))
        with pytest.raises(CredentialsError) as caught:
            credentials.load()
    assert str(caught.value) == f"kubeconfig {share}: Transport endpoint is not connected"


def test_a_namespace_of_a_kubeconfig_that_looks_like_a_date_is_a_text(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, user={"token": "secret"})
    document = yaml.safe_load(path.read_text())
    document["contexts"][0]["context"]["namespace"] = "2026-12-01"
    path.write_text(yaml.safe_dump(document).replace("'2026-12-01'", "2026-12-01"))
    assert "namespace: 2026-12-01" in path.read_text()
    assert credentials.load(str(path)).namespace == "2026-12-01"


def test_sessions_do_not_ask_for_compression() -> None:
    async def test() -> None:
        session = Credentials(server="http://127.0.0.1:1", tls=None).session()
        async with session:
            assert aiohttp.hdrs.ACCEPT_ENCODING in session.skip_auto_headers

    run(test)


def test_no_credentials_go_where_the_api_server_redirects_to() -> None:
    requests: list[web.Request] = []

    async def elsewhere(request: web.Request) -> web.Response:
        requests.append(request)
        return web.Response()

    async def test() -> None:
        other = web.Application()
        other.router.add_get("/login", elsewhere)
        async with TestServer(other) as login:
            app = web.Application()

            async def redirect(_: web.Request) -> web.Response:
                raise web.HTTPFound(login.make_url("/login"))

            app.router.add_get("/exec", redirect)
            async with TestServer(app) as server:
                url = str(server.make_url("")).rstrip("/")
                async with Client(Credentials(server=url, tls=None, token="secret")) as client:
                    with pytest.raises(
                        RetriableError, match=r"redirected to http://127\.0\.0\.1:[0-9]+, which is"
                    ):
                        async with client.websocket("/exec", params={}, protocols=("x",)):
                            pass

    run(test)
    assert requests == []


@pytest.mark.parametrize("context", [None, "here"])
def test_in_a_pod_a_kubeconfig_leads_to_the_cluster_that_kubectl_and_pulumi_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: str | None
) -> None:
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path).rename(tmp_path / ".kube" / "config")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    loaded = credentials.load(context=context)
    assert loaded.source == f"kubeconfig {tmp_path}/.kube/config, context 'here'"


def served(tmp_path: Path, name: str) -> tuple[bytes, ssl.SSLContext]:
    """An authority, and a server's context with a certificate of it."""
    issued = certificates.issue([name], datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (tmp_path / "served.crt").write_bytes(issued.certificate)
    (tmp_path / "served.key").write_bytes(issued.key)
    context.load_cert_chain(tmp_path / "served.crt", tmp_path / "served.key")
    return issued.authorities, context


def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Credentials:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    (tmp_path / "token").write_text("t")
    return credentials.in_cluster(tmp_path)


def a_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Credentials:
    return credentials.load(str(kubeconfig(tmp_path, {"certificate-authority": "ca.crt"})))


def test_certificates_stay_those_of_the_context_that_was_current_at_first(tmp_path: Path) -> None:
    for name in ("ca.crt", "other.crt"):
        (tmp_path / name).write_bytes(served(tmp_path, "127.0.0.1")[0])
    path = kubeconfig(tmp_path, {"certificate-authority": "ca.crt"})
    found = credentials.load(str(path))
    document = yaml.safe_load(path.read_text())
    other = {"server": "https://10.0.0.2:6443", "certificate-authority": "other.crt"}
    document["clusters"].append({"name": "d", "cluster": other})
    document["contexts"].append({"name": "there", "context": {"cluster": "d", "user": "u"}})
    path.write_text(yaml.safe_dump({**document, "current-context": "there"}))
    assert found.tls_files is not None
    assert not found.tls_files.reload()


@pytest.mark.parametrize("source", [service_account, a_kubeconfig])
def test_a_new_authority_of_the_cluster_is_trusted_without_a_restart(
    source: Callable[[Path, pytest.MonkeyPatch], Credentials],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def test() -> None:
        before, _ = served(tmp_path, "127.0.0.1")
        (tmp_path / "ca.crt").write_bytes(before)
        found = source(tmp_path, monkeypatch)
        assert found.tls_files is not None
        assert not found.tls_files.reload()
        after, context = served(tmp_path, "127.0.0.1")
        async with await asyncio.start_server(nothing, "127.0.0.1", 0, ssl=context) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection("127.0.0.1", port, ssl=found.tls)
            (tmp_path / "ca.crt").write_text("half of a file")
            with pytest.raises(CredentialsError):
                found.tls_files.reload()
            (tmp_path / "ca.crt").write_bytes(after)
            assert found.tls_files.reload()
            assert not found.tls_files.reload()
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=found.tls)
            writer.close()
            await asyncio.sleep(0.01)

    run(test)


@pytest.mark.parametrize("source", [service_account, a_kubeconfig])
def test_an_empty_authority_does_not_mean_those_of_this_machine(
    source: Callable[[Path, pytest.MonkeyPatch], Credentials],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "ca.crt").write_bytes(b"")
    with pytest.raises(CredentialsError, match="the CA of the API server contains no certificate"):
        source(tmp_path, monkeypatch)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
@pytest.mark.parametrize("source", [service_account, a_kubeconfig])
def test_comments_in_an_authority_may_be_in_any_encoding(
    source: Callable[[Path, pytest.MonkeyPatch], Credentials],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
) -> None:
    authority, _ = served(tmp_path, "127.0.0.1")
    (tmp_path / "ca.crt").write_bytes("# Autorit\u00e9 du groupe\n".encode(encoding) + authority)
    loaded = source(tmp_path, monkeypatch)
    assert loaded.tls is not None
    assert len(loaded.tls.get_ca_certs()) == 1
    assert loaded.tls_files is not None
    assert not loaded.tls_files.reload()


def test_nobody_is_asked_for_the_password_of_an_encrypted_key(tmp_path: Path) -> None:
    issued = certificates.issue(["127.0.0.1"], datetime.now(UTC))
    encrypted = serialization.load_pem_private_key(issued.key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    user = {
        "client-certificate-data": base64.b64encode(issued.certificate).decode(),
        "client-key-data": base64.b64encode(encrypted).decode(),
    }
    with pytest.raises(CredentialsError) as refused:
        credentials.load(str(kubeconfig(tmp_path, user=user)))
    assert str(refused.value) == (
        f"{tmp_path / 'config'}, context 'here': the key of the client certificate is encrypted, "
        "which kubectl does not accept either"
    )


@pytest.mark.parametrize("issuer", [authorities.NAME, "corporate root"])
def test_an_authority_that_kubectl_trusts_is_trusted_whatever_it_lacks_and_whoever_has_issued_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, issuer: str
) -> None:
    authorities.contexts_of_python_3_13(monkeypatch)
    authority, context = authorities.without_key_identifiers(tmp_path, issuer)
    (tmp_path / "ca.crt").write_bytes(authority)

    async def test() -> dict[str, Any]:
        async with FakeApi().serving(context) as url:
            cluster = {"server": url, "certificate-authority": "ca.crt"}
            async with Client(credentials.load(str(kubeconfig(tmp_path, cluster)))) as client:
                return await client.get("/version")

    assert run(test) == {"gitVersion": "v0"}


def test_a_stream_through_a_proxy_that_does_not_answer_counts_as_broken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainyard_kube.client.REQUEST_TIMEOUT", 0.05)

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client hangs up
        writer.close()

    async def test() -> None:
        async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
            proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            who = Credentials("https://10.0.0.1:6443", ssl.create_default_context(), proxy=proxy)
            async with Client(who) as client:
                with pytest.raises(RetriableError, match="timed out"):
                    await anext(client.watch("/pods", params={}))

    run(test, timeout=60)


def test_a_proxy_that_refuses_is_told_without_its_password() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def test() -> None:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            proxy = f"http://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"
            who = Credentials("https://10.0.0.1:6443", ssl.create_default_context(), proxy=proxy)
            async with Client(who) as client:
                with pytest.raises(RetriableError) as refused:
                    await client.get("/version")
        assert str(refused.value) == "GET /version: the proxy answers 407 Proxy Authentication Required"

    run(test)


def test_a_body_has_the_escapes_of_kubernetes_own_encoder() -> None:
    """Otherwise the API server, which patches a ControllerRevision, finds its data changed."""
    text = {"command": "a && b < c > d \u2028 \u00e4"}
    assert encoded(text) == '{"command":"a \\u0026\\u0026 b \\u003c c \\u003e d \\u2028 \u00e4"}'.encode()
    assert json.loads(encoded(text)) == text


@pytest.mark.parametrize(
    ("header", "warnings"),
    [
        ('299 - "it is deprecated"', ["it is deprecated"]),
        (r'299 - "it says \"no\" \\ at once"', [r'it says "no" \ at once']),
        ('299 kube-apiserver "one", 299 - "two"', ["one", "two"]),
        ('299 - "\x1b[31mred\x1b[0m"', ["red"]),
        ('199 - "of a cache"', []),
        ('299 - "without an end', []),
        ("299 - none", []),
    ],
)
def test_a_warning_of_the_api_server_is_its_text(header: str, warnings: list[str]) -> None:
    assert list(warnings_in([header])) == warnings


def test_who_wants_warnings_gets_them() -> None:
    class Cautious(FakeApi):
        async def _post(self, request: web.Request, body: Any) -> web.Response:
            answer = await super()._post(request, body)
            answer.headers.add("Warning", '299 - "it waits for ever"')
            return answer

    async def test() -> list[str]:
        warnings: list[str] = []
        async with (
            Cautious().serving() as url,
            Client(Credentials(server=url, tls=None), warned=warnings.append) as client,
        ):
            await client.create(objects.JOBSETS, {"metadata": {"name": "tj"}}, dry_run=True)
        return warnings

    assert run(test) == ["it waits for ever"]
