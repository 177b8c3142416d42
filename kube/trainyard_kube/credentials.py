"""How to reach the API server and who to be there: kubeconfig files and in-cluster service accounts.

Read once at start; `client` and the operator's Kopf thread open their sessions
with the result. TLS is always verified: a kubeconfig that asks for less is
rejected. The operator runs no programs to get its credentials: a kubeconfig
with an exec plugin works only where the caller of `load` passes something to
run it, as the command does (docs/adr/0015).
"""

from __future__ import annotations

import base64
import contextlib
import errno
import os
import shlex
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol
from urllib.parse import SplitResult, quote, urlsplit

import aiohttp
import msgspec
import yaml
from yarl import URL

from trainyard_api import names
from trainyard_api.errors import UserError
from trainyard_api.printable import clean

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Folder with a pod's token, CA and namespace."""

TOKEN_TTL = 60.0
"""Seconds after which a token file is read again; kubelet rotates it long before it expires."""

_HEADER_MARKS: Final = "!#$&'*+-.^_`|~"
"""Marks that the name of a header can have, without the one that escapes the others."""

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class CredentialsError(UserError):
    """The configuration contains no accepted address or identity for the API server."""

    @property
    def shown(self) -> str:
        """One line: a kubeconfig, or the program that it has run, may be a stranger's."""
        return clean(str(self))


class NoKubeconfigError(CredentialsError):
    """There is no kubeconfig and no ServiceAccount."""


class RenewalError(CredentialsError):
    """Credentials that were good have expired; they could not be renewed now, and perhaps can be soon."""


class TokenSource(Protocol):
    """A bearer token that changes over time."""

    def token(self) -> str:
        """The token to send now; empty if the client certificate says who we are.

        Raises:
            RenewalError: No token is available now.
            CredentialsError: No token is available.
            OSError: The token's file cannot be read.
        """
        ...

    def replaces(self, refused: str) -> bool:
        """Look for another token after the API server rejected this one; False if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """The program that a kubeconfig names to get credentials from, and what it is for."""

    config: Any
    """The kubeconfig's `exec`, as it stands there."""
    cluster: Mapping[str, Any]
    """The kubeconfig's `cluster`, which a plugin can ask for, with the CA itself if a file has it."""
    folder: Path
    """The folder of the kubeconfig, which a relative command starts from."""
    tls: ssl.SSLContext | None
    """Target for a client certificate of the plugin."""
    where: str
    """The kubeconfig and its context, for messages."""


RunPlugin = Callable[[ExecPlugin], TokenSource]
"""Runs a plugin once, so that its errors are reported before any request."""


@dataclass(slots=True)
class TokenFile:
    """A bearer token on disk that somebody else rotates."""

    path: Path
    clock: Callable[[], float] = time.monotonic
    _token: str = ""
    _read_at: float | None = None

    def token(self) -> str:
        """Return the token, read again once it is `TOKEN_TTL` old; the old one if there is none to read."""
        if self._read_at is None or self.clock() - self._read_at >= TOKEN_TTL:
            self.reload()
        return self._token

    def reload(self) -> bool:
        """Read the file now; True if the token changed."""
        before = self._token
        try:
            token = self.path.read_text(encoding="utf-8", errors="replace").strip()
            if not token:  # being written, perhaps; without a token, requests would be anonymous
                raise OSError(f"{self.path} contains no token")
            self._token = token
        except OSError:
            if not before:
                raise
        self._read_at = self.clock()
        return self._token != before

    def replaces(self, refused: str) -> bool:
        """Read the file again unless another request has already done so; True if the token changed."""
        if self._token == refused:
            self.reload()
        return self._token != refused


Pems = tuple[bytes | None, bytes | None, bytes | None]
"""The cluster's CA, a client certificate and its key; None for what is missing."""


@dataclass(slots=True)
class TlsFiles:
    """The files of a TLS context, which may change while the process runs."""

    context: ssl.SSLContext
    read: Callable[[], Pems]
    loaded: Pems

    def reload(self) -> bool:
        """Read again; if something changed, new connections use it, and the answer is True.

        A CA that is removed stays trusted until the process ends: a context
        can only add trust.

        Raises:
            CredentialsError: What it reads cannot be used; the context is unchanged.
        """
        try:
            pems = self.read()
            if pems == self.loaded:
                return False
            _fill(_verifying(None), pems)  # fails here, not in the one in use
            _fill(self.context, pems)
        except OSError as error:
            raise CredentialsError(f"certificates of the API server: {error}") from error
        self.loaded = pems
        return True


def _verifying(authority: bytes | None) -> ssl.SSLContext:
    """A context that trusts this CA; without one, those of this machine."""
    context = ssl.create_default_context(cadata=None if authority is None else _ascii(authority))
    # By Go's rules, so that the clusters of kubectl can be reached. From Python 3.13 on, a certificate also
    # needs the identifiers of keys, which those of older EKS clusters lack; before, a CA had to be a root.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _fill(context: ssl.SSLContext, pems: Pems) -> None:
    authority, certificate, key = pems
    if authority is not None:
        context.load_verify_locations(cadata=_ascii(authority))
    if certificate is not None and key is not None:
        use_certificate(context, certificate, key)


def _ascii(authority: bytes) -> str:
    """The certificates of a CA, as `ssl` takes them; comments between them may be in any encoding."""
    if b"-----BEGIN " not in authority:  # for an empty one, `ssl` would trust the CAs of this machine
        raise OSError("the CA of the API server contains no certificate in PEM format")
    return authority.decode("ascii", "ignore")


def use_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Present this client certificate on new connections. Raises `OSError` if that is not possible."""
    with as_file(certificate) as certificate_file, as_file(key) as key_file:
        # Without this, OpenSSL asks for the password on the terminal, and waits.
        context.load_cert_chain(certificate_file, key_file, _no_password)


def _no_password() -> NoReturn:
    raise OSError("the key of the client certificate is encrypted, which kubectl does not accept either")


@dataclass(frozen=True, slots=True)
class Credentials:
    """One API server and one identity on it."""

    server: str
    """Base URL without a trailing slash."""
    tls: ssl.SSLContext | None
    """Verifying context, with the client certificate if there is one; None for plain HTTP on loopback."""
    tls_files: TlsFiles | None = None
    """Files of `tls`."""
    token: str | None = None
    token_source: TokenSource | None = None
    """Gives the token if it changes over time, in place of `token`."""
    keep_alive: bool = True
    """False where the client certificate changes over time: a connection keeps the one that it began with."""
    proxy: str | None = None
    """URL of the proxy that leads to the API server."""
    server_hostname: str | None = None
    """`tls-server-name`: the name to check the certificate against, if not the URL's host."""
    source: str = ""
    """Source of the credentials, as text for messages."""
    in_cluster: bool = False
    namespace: str = "default"
    """The namespace of the kubeconfig's context, or of the service account."""
    headers: Mapping[str, str] = field(default_factory=lambda: {"User-Agent": names.OPERATOR})
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers of each request that name another identity to act as."""
    options: tuple[str, ...] = ()
    """The options of kubectl, and of the command, that lead to the same cluster."""

    def command(self, *words: str) -> str:
        """A command to be printed, as a shell reads it, with the options that lead to the same cluster."""
        return shlex.join([*words, *self.options])

    def session(
        self,
        *,
        limit: int = 64,
        observer: Callable[[str, str, int], None] | None = None,
    ) -> aiohttp.ClientSession:
        """Open an HTTP session in the running loop.

        `limit` is the number of connections at a time (0: no limit);
        `observer` gets the method, path with query and status code (0 if there
        was no answer) of each request.
        """
        connector = aiohttp.TCPConnector(
            limit=limit,
            ssl=self.tls if self.tls is not None else True,
            force_close=not self.keep_alive,
        )

        origin = URL(self.server).origin()

        async def authenticate(
            request: aiohttp.ClientRequest,
            handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]],
        ) -> aiohttp.ClientResponse:
            # aiohttp follows a redirect by a request of its own, which passes here too.
            if (to := request.url.origin()) != origin:
                raise aiohttp.ClientError(f"redirected to {to}, which is not the API server")
            request.headers.extend(self.impersonation)
            source = self.token_source
            token = self.token if source is None else source.token()
            _authorize(request, token)
            response = await handler(request)
            if response.status == 401 and source is not None and source.replaces(token or ""):
                response.release()
                _authorize(request, source.token())
                response = await handler(request)
            return response

        async def count(
            request: aiohttp.ClientRequest,
            handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]],
        ) -> aiohttp.ClientResponse:
            status = 0
            if self.server_hostname is not None:
                request.server_hostname = self.server_hostname
            try:
                response = await handler(request)
                status = response.status
                return response
            finally:
                if observer is not None:
                    observer(request.method, request.url.raw_path_qs, status)

        return aiohttp.ClientSession(
            connector=connector,
            headers=dict(self.headers),
            middlewares=(count, authenticate),
            skip_auto_headers=("Accept-Encoding",),
            proxy=self.proxy,
        )


def _authorize(request: aiohttp.ClientRequest, token: str | None) -> None:
    if token and not token.isprintable():
        raise CredentialsError("the token contains a line break or another control character")
    if token:
        request.headers["Authorization"] = f"Bearer {token}"


def load(
    kubeconfig: str | None = None, context: str | None = None, run_plugin: RunPlugin | None = None
) -> Credentials:
    """Find credentials: the given kubeconfig, else $KUBECONFIG, else ~/.kube/config, else in-cluster.

    The order is kubectl's and Pulumi's, so that all of them reach the same cluster.

    Args:
        kubeconfig: The file to read.
        context: The context of the kubeconfig; its current one unless given.
        run_plugin: Runs a kubeconfig's exec plugin; without it such a kubeconfig is rejected.

    Raises:
        NoKubeconfigError: There is none in any of these places.
        CredentialsError: A line names the problem and its place.
    """
    if kubeconfig is not None:
        return from_kubeconfig([_only_path(kubeconfig)], context, run_plugin)
    if env := os.environ.get("KUBECONFIG"):
        return from_kubeconfig(_paths(env), context, run_plugin)
    default = _path("~/.kube/config")
    if _may_exist(default):
        return from_kubeconfig([default], context, run_plugin)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and context is None:
        return in_cluster()
    raise NoKubeconfigError(
        "no kubeconfig: pass --kubeconfig, set KUBECONFIG, or run in a pod with a service account"
    )


def in_cluster(folder: Path = SERVICE_ACCOUNT) -> Credentials:
    """Read the pod's service account; `folder` is where it is mounted."""
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = TokenFile(folder / "token")
    namespace = folder / "namespace"
    try:
        token.reload()
        authority = (folder / "ca.crt").read_bytes()
        tls = _verifying(authority)
    except OSError as error:
        raise CredentialsError(f"service account in {folder}: {error}") from error
    if ":" in host:
        host = f"[{host}]"
    return Credentials(
        server=f"https://{host}:{port}",
        tls=tls,
        tls_files=TlsFiles(
            tls, lambda: ((folder / "ca.crt").read_bytes(), None, None), (authority, None, None)
        ),
        token_source=token,
        source=f"service account in {folder}",
        in_cluster=True,
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _paths(text: str) -> list[Path]:
    """The paths in the value of KUBECONFIG."""
    return [_path(path) for path in text.split(os.pathsep) if path]


def _only_path(text: str) -> Path:
    """The path of one file, as kubectl reads it: its name may contain what separates several."""
    path = _path(text)
    if os.pathsep in text and not _may_exist(path):
        value = shlex.quote(os.pathsep.join(map(str, _paths(text))))
        raise CredentialsError(
            f"kubeconfig {path}: no such file. --kubeconfig and a stack's cluster.kubeconfig each take one. "
            f"For several, leave both out and set KUBECONFIG={value}"
        )
    return path


def _path(text: str) -> Path:
    # Path.expanduser() fails where a user, such as a pod's, has no home.
    return Path(os.path.expanduser(text))


def _may_exist(path: Path) -> bool:
    """Whether it exists, or nobody can look, as for a share that is not connected: its reader says why."""
    try:
        path.stat()  # from Python 3.14 on, Path.exists() takes each error for a file that is not there
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        return error.errno not in (errno.EINVAL, errno.ENAMETOOLONG)  # no file can have such a name
    return True


def from_kubeconfig(
    paths: list[Path], context: str | None = None, run_plugin: RunPlugin | None = None
) -> Credentials:
    """Read one or more kubeconfig files (the first one that names an entry takes precedence)."""
    merged: dict[str, dict[str, tuple[Mapping[str, Any], Path]]] = {
        "contexts": {},
        "clusters": {},
        "users": {},
    }
    current = context
    present = [path for path in paths if _may_exist(path)] or paths[:1]
    for path in present:
        document = _document(path)
        current = current or document.get("current-context")
        for section, entries in merged.items():
            for entry in document.get(section) or ():
                entries.setdefault(entry["name"], (entry.get(section[:-1]) or {}, path))
    source = os.pathsep.join(str(path) for path in present)

    def find(section: str, name: object) -> tuple[Mapping[str, Any], Path]:
        try:
            return merged[section][str(name)]
        except KeyError:
            choices = ", ".join(sorted(merged[section])) or "none"
            raise CredentialsError(f"{source}: no {section[:-1]} {name!r} (there are: {choices})") from None

    if not current:
        raise CredentialsError(f"{source}: no current-context; pass --context")
    chosen, _ = find("contexts", current)
    cluster, cluster_file = find("clusters", chosen.get("cluster"))
    user, user_file = find("users", chosen.get("user")) if chosen.get("user") else ({}, cluster_file)
    where = f"{source}, context {current!r}"
    credentials = _credentials(
        cluster, cluster_file.parent, user, user_file.parent, where=where, run_plugin=run_plugin
    )
    if (files := credentials.tls_files) is not None:
        files.read = lambda: _pems(paths, current)
    return replace(credentials, namespace=str(chosen.get("namespace") or "default"))


def _pems(paths: list[Path], context: str | None) -> Pems:
    """The current content of the kubeconfig, of the same context also if another one is current now."""
    files = from_kubeconfig(paths, context).tls_files
    return (None, None, None) if files is None else files.loaded


class _Context(msgspec.Struct):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    proxy_url: str | None = None
    extensions: list[dict[str, Any]] | None = None


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context | None = None


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: _User | None = None


class _Kubeconfig(msgspec.Struct):
    """The types of what is read of a kubeconfig; kubectl refuses others too."""

    current_context: str | None = msgspec.field(default=None, name="current-context")
    contexts: list[_NamedContext] | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None


class _Loader(yaml.SafeLoader):
    """PyYAML's, but what looks like a date is a text, as for kubectl."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _document(path: Path) -> Mapping[str, Any]:
    try:
        # UTF-8, or UTF-16 with its mark, as Windows writes it.
        document = yaml.load(path.read_bytes(), Loader=_Loader)  # noqa: S506 (a safe loader)
    except OSError as error:
        raise CredentialsError(f"kubeconfig {path}: {error.strerror}") from error
    except (yaml.YAMLError, AttributeError, LookupError, ValueError) as error:  # as PyYAML for `!!int x`
        raise CredentialsError(f"kubeconfig {path}: not YAML: {' '.join(str(error).split())}") from error
    if document is None:  # empty, as kubectl config unset leaves it, or a tool that has not filled it yet
        return {}
    if not isinstance(document, dict):
        raise CredentialsError(f"kubeconfig {path}: not a kubeconfig")
    try:
        msgspec.convert(document, _Kubeconfig)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"kubeconfig {path}: {error}") from error
    return document


def _credentials(
    cluster: Mapping[str, Any],
    cluster_dir: Path,
    user: Mapping[str, Any],
    user_dir: Path,
    *,
    where: str,
    run_plugin: RunPlugin | None,
) -> Credentials:
    server = str(cluster.get("server") or "").rstrip("/")
    _require_acceptable(server, cluster, user, where)
    tls: ssl.SSLContext | None = None
    tls_files: TlsFiles | None = None
    ca: bytes | None = None
    plugin = None if _has_its_own(user) else user.get("exec")
    if urlsplit(server).scheme == "https":  # also of HTTPS://
        try:
            ca = _pem(cluster, "certificate-authority", cluster_dir)
            tls = _verifying(ca)
            certificate = _pem(user, "client-certificate", user_dir)
            key = _pem(user, "client-key", user_dir)
            if (certificate is None) != (key is None):
                raise CredentialsError(f"{where}: client certificate and key come in pairs")
            _fill(tls, (None, certificate, key))
            if not plugin:  # a plugin keeps the context itself
                pems = (ca, certificate, key)
                tls_files = TlsFiles(tls, lambda: pems, pems)
        except OSError as error:
            raise CredentialsError(f"{where}: {error}") from error
    token_source: TokenSource | None = None
    if plugin:
        if run_plugin is None:
            raise CredentialsError(
                f"{where}: exec plugins are not supported here; use a token, tokenFile or client certificate"
            )
        authority = {} if ca is None else {"certificate-authority-data": base64.b64encode(ca).decode()}
        token_source = run_plugin(ExecPlugin(plugin, {**cluster, **authority}, user_dir, tls, where))
    elif name := user.get("tokenFile"):
        token_source = token_file = TokenFile(user_dir / _path(name))
        try:
            token_file.reload()
        except OSError as error:
            raise CredentialsError(f"{where}: {error}") from error
    return Credentials(
        server=server,
        tls=tls,
        tls_files=tls_files,
        token=user.get("token"),
        token_source=token_source,
        keep_alive=token_source is None or token_source.token() != "",
        proxy=cluster.get("proxy-url"),
        server_hostname=cluster.get("tls-server-name"),
        source=f"kubeconfig {where}",
        impersonation=_impersonation(user, where),
    )


def _has_its_own(user: Mapping[str, Any]) -> bool:
    """Whether a token or certificate is in the kubeconfig or a file: client-go then runs no plugin."""
    certificate = user.get("client-certificate-data") or user.get("client-certificate")
    key = user.get("client-key-data") or user.get("client-key")
    return bool(user.get("token") or user.get("tokenFile") or (certificate and key))


class _Impersonation(msgspec.Struct):
    """The part of a kubeconfig's `user` that names another identity to act as."""

    name: str | None = msgspec.field(default=None, name="as")
    uid: str | None = msgspec.field(default=None, name="as-uid")
    groups: list[str] | None = msgspec.field(default=None, name="as-groups")
    extra: dict[str, list[str]] | None = msgspec.field(default=None, name="as-user-extra")


def _impersonation(user: Mapping[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """The headers that client-go sends for it. Raises `CredentialsError` for what it refuses."""
    try:
        other = msgspec.convert(user, _Impersonation)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"{where}: user: {error}") from error
    headers = [("Impersonate-User", other.name)] if other.name else []
    headers += [("Impersonate-Uid", other.uid)] if other.uid else []
    headers += [("Impersonate-Group", group) for group in other.groups or ()]
    for key, values in (other.extra or {}).items():
        name = f"Impersonate-Extra-{quote(key, safe=_HEADER_MARKS)}"
        headers += [(name, value) for value in values]
    if headers and not other.name:
        raise CredentialsError(f"{where}: as-uid, as-groups and as-user-extra need as, the user to act as")
    if any(not value.isprintable() for _, value in headers):
        raise CredentialsError(f"{where}: the identity to act as contains a control character")
    return tuple(headers)


def _require_acceptable(server: str, cluster: Mapping[str, Any], user: Mapping[str, Any], where: str) -> None:
    """Raise `CredentialsError` for what is unsafe or not supported."""
    url = _url(server)
    if url is None or url.scheme not in {"https", "http"}:
        raise CredentialsError(f"{where}: server {server!r} is not a URL")
    if url.scheme == "http" and url.hostname not in LOOPBACK:
        raise CredentialsError(f"{where}: server {server} is not https")
    if cluster.get("insecure-skip-tls-verify"):
        raise CredentialsError(f"{where}: insecure-skip-tls-verify is not accepted; give the cluster's CA")
    if proxy := cluster.get("proxy-url"):
        require_proxy(str(proxy), f"{where}: proxy-url")
    if user.get("auth-provider"):
        raise CredentialsError(
            f"{where}: auth-provider no longer exists in Kubernetes; get a kubeconfig with an exec plugin, "
            "for example gke-gcloud-auth-plugin or kubelogin"
        )
    if user.get("username"):
        raise CredentialsError(f"{where}: basic authentication is not supported")


def require_proxy(proxy: str, place: str) -> None:
    """Raise `CredentialsError` for a proxy that is not supported. It is not shown: it may hold a password."""
    url = _url(proxy)
    if url is None:
        raise CredentialsError(f"{place} is not a URL, such as http://proxy:3128")
    if url.scheme not in {"http", "https"}:
        raise CredentialsError(f"{place}: {url.scheme} is not supported; use an http or https proxy")


def _url(text: str) -> SplitResult | None:
    """The parts of a URL with a host that can be looked up; None if it is none."""
    try:
        url = urlsplit(text)
        (url.hostname or "").encode("idna")  # as its look-up does, with an error that no client expects
        return url if url.hostname and url.port != 0 else None
    except ValueError:  # of its port, of an IPv6 address, or of a label of its host
        return None


def _pem(section: Mapping[str, Any], name: str, folder: Path) -> bytes | None:
    if data := section.get(f"{name}-data"):
        try:
            # As Go does: tools wrap it in lines.
            return base64.b64decode(str(data).replace("\n", "").replace("\r", ""), validate=True)
        except ValueError as error:
            raise OSError(f"{name}-data is not base64: {error}") from error
    if path := section.get(name):
        return (folder / _path(path)).read_bytes()
    return None


@contextlib.contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """Give the bytes a path, because `ssl` only loads keys from files; in memory where the kernel can."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("trainyard")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name
