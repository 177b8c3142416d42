"""Credentials from the program that a kubeconfig names, such as `aws eks get-token`.

Called by `connection`. It runs the program as kubectl does (docs/adr/0048), and
turns each error into one sentence.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from textwrap import shorten
from typing import Any, Final, Literal

import msgspec

from trainyard_kube.credentials import CredentialsError, ExecPlugin, RenewalError, use_certificate

MARGIN: Final = timedelta(seconds=10)
"""Credentials that expire within this time are renewed: a request with them could arrive too late."""

_PAUSES: Final = tuple(timedelta(seconds=seconds) for seconds in (2, 5, 10, 20, 30, 60))
"""How long a plugin that fails to renew credentials is not run again; after the last of them, it has failed.
The network may be cut, which whoever follows a job waits out."""
_EXTENSION: Final = "client.authentication.k8s.io/exec"
"""The extension of a kubeconfig's cluster that is meant for the plugin."""
_CLUSTER: Final = frozenset(
    {
        "server",
        "tls-server-name",
        "insecure-skip-tls-verify",
        "certificate-authority-data",
        "proxy-url",
        "disable-compression",
    }
)
"""The fields of a kubeconfig's cluster that an ExecCredential has too."""
_LONGEST: Final = 500
"""Characters of a plugin's output that are shown."""


class _Variable(msgspec.Struct):
    name: str
    value: str


class _Exec(msgspec.Struct, rename="camel"):
    """The `exec` of a kubeconfig."""

    command: str
    api_version: Literal["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"]
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str | None = None
    provide_cluster_info: bool = False
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"


class _Status(msgspec.Struct, rename="camel"):
    """The `status` of an ExecCredential."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _Credential(msgspec.Struct, rename="camel"):
    """An ExecCredential as a plugin prints it."""

    api_version: str
    kind: Literal["ExecCredential"]
    status: _Status


_given: Final[dict[str, _Status]] = {}
"""What plugins have given to this process, by what each was run with.

A roll-out connects up to nine times, and each run may take a second.
"""


class Credential:
    """A plugin's credentials, renewed when they expire or the API server rejects them.

    As in kubectl, all connections of a process share what a plugin gave.

    Args:
        plugin: The plugin, which runs at once, unless it has given good credentials before.
        clock: The current time, with a time zone.
        until: The `time.monotonic` by which the plugin must answer, without a terminal; None: it may ask the
            user, and take its time.

    Raises:
        CredentialsError: The plugin gives no credentials; says why, and how to install the plugin.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        until: float | None = None,
    ) -> None:
        self._plugin = plugin
        self._until = until
        self._clock = clock
        self._status = _Status()
        self._failures: list[RenewalError] = []
        self._again_at = clock()
        self._key = repr((plugin.config, plugin.cluster, plugin.folder))
        self._renew()

    def token(self) -> str:
        """The token; empty if the plugin gives only a client certificate.

        Raises:
            RenewalError: It has expired, and the plugin does not give another one now.
            CredentialsError: The plugin has failed to for minutes.
        """
        if self._has_expired(self._status):
            self._renew_expired()
        return self._status.token

    def replaces(self, refused: str) -> bool:
        """Get other credentials than the refused ones, unless another request has already done so."""
        if self._status.token == refused:
            self._renew()
        return True

    def _renew_expired(self) -> None:
        if self._failures and self._clock() < self._again_at:
            raise self._failures[-1]
        try:
            self._renew()
        except CredentialsError as error:
            if len(self._failures) == len(_PAUSES):
                raise
            self._again_at = self._clock() + _PAUSES[len(self._failures)]
            self._failures.append(RenewalError(str(error)))
            raise self._failures[-1] from error

    def _has_expired(self, status: _Status) -> bool:
        expires = status.expiration_timestamp
        return expires is not None and self._clock() >= expires - MARGIN

    def _renew(self) -> None:
        """Take what another connection has been given since, or run the plugin."""
        given = _given.get(self._key)
        if given is None or given == self._status or self._has_expired(given):
            given = _run(self._plugin, self._until)
        self._use(given)
        _given[self._key] = given
        self._failures.clear()

    def _use(self, status: _Status) -> None:
        certificate, key = status.client_certificate_data, status.client_key_data
        if bool(certificate) != bool(key):
            raise _error(self._plugin, "gave a client certificate without its key, or the reverse")
        if not certificate and not status.token:
            raise _error(self._plugin, "gave neither a token nor a client certificate")
        if certificate and self._plugin.tls is not None:
            try:
                use_certificate(self._plugin.tls, certificate.encode(), key.encode())
            except OSError as error:
                raise _error(self._plugin, f"gave an unusable client certificate: {error}") from error
        self._status = status


def _run(plugin: ExecPlugin, until: float | None) -> _Status:
    config = _config(plugin)
    is_interactive = until is None and config.interactive_mode != "Never" and sys.stdin.isatty()
    if config.interactive_mode == "Always" and not is_interactive:
        raise _error(plugin, "needs a terminal (interactiveMode: Always), and its input is none")
    environment = {variable.name: variable.value for variable in config.env or ()}
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(_info(plugin, config, is_interactive)).decode()
    try:
        with subprocess.Popen(
            [config.command, *(config.args or ())],
            # What is piped to the command is not the plugin's. Its messages may ask the user to log in.
            stdin=None if is_interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if until is None else subprocess.DEVNULL,
            start_new_session=until is not None,  # without a terminal, which it could open itself
            cwd=plugin.folder.absolute(),
            env=os.environ | environment,
            shell=sys.platform == "win32",  # which finds what is no .exe, such as gcloud
        ) as process:
            output = _output(process, until)
    except FileNotFoundError as error:
        raise _error(plugin, "is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise _error(plugin, "did not answer in time") from error
    except OSError as error:
        raise _error(plugin, f"cannot be run: {error.strerror}") from error
    if process.returncode != 0:
        raise _error(plugin, f"failed with exit code {process.returncode}; see its messages above")
    try:
        credential = msgspec.json.decode(output, type=_Credential)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _error(plugin, f"did not print an ExecCredential: {_one_line(str(error))}") from error
    if credential.api_version != config.api_version:
        versions = f"{_one_line(credential.api_version)} and not {config.api_version}"
        raise _error(plugin, f"printed an ExecCredential of {versions}")
    status = credential.status
    if status.expiration_timestamp is not None and status.expiration_timestamp.tzinfo is None:
        raise _error(plugin, "gave an expirationTimestamp without a time zone")
    return status


def _output(process: subprocess.Popen[bytes], until: float | None) -> bytes:
    """What the plugin prints until it ends; if that takes too long, it is killed with all that it started.

    On Windows, only the shell that runs it is killed.
    """
    try:
        output, _ = process.communicate(timeout=None if until is None else until - time.monotonic())
    except BaseException:
        if until is None or sys.platform == "win32":
            process.kill()
        else:  # its session is a group of its own
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        raise
    return output


def _config(plugin: ExecPlugin) -> _Exec:
    try:
        return msgspec.convert(plugin.config, _Exec)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"{plugin.where}: exec: {error}") from error


def _info(plugin: ExecPlugin, config: _Exec, is_interactive: bool) -> dict[str, Any]:
    """What the plugin is told: the ExecCredential that it is to complete."""
    spec: dict[str, Any] = {"interactive": is_interactive}
    if config.provide_cluster_info:
        extensions = plugin.cluster.get("extensions") or ()
        own = [each.get("extension") for each in extensions if each.get("name") == _EXTENSION]
        spec["cluster"] = {key: value for key, value in plugin.cluster.items() if key in _CLUSTER}
        spec["cluster"] |= {"config": own[0]} if own else {}
    return {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}


def _error(plugin: ExecPlugin, problem: str) -> CredentialsError:
    message = f"{plugin.where}: exec plugin {plugin.config['command']} {problem}"
    hint = plugin.config.get("installHint")
    return CredentialsError(f"{message}. To install it: {_one_line(hint)}" if hint else message)


def _one_line(text: str) -> str:
    return shorten(text, _LONGEST, placeholder=" ...")
