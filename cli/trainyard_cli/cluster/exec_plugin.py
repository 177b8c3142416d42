"""Credentials from the program that a kubeconfig names, such as `aws eks get-token`.

Called by `connection`. The `kubernetes` package runs the program, because it
implements the ExecCredential protocol; this module uses the answer, and turns
each error into one sentence (docs/adr/0015).
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from textwrap import shorten
from typing import Any, Final, Literal

import msgspec

from trainyard_kube.credentials import CredentialsError, ExecPlugin, as_file

MARGIN: Final = timedelta(seconds=10)
"""Credentials that expire within this time are renewed: a request with them could arrive too late."""

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
    install_hint: str = ""
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"


class _Status(msgspec.Struct, rename="camel"):
    """The `status` of an ExecCredential."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class Credential:
    """A plugin's credentials, renewed when they expire or the API server rejects them.

    Args:
        plugin: The plugin, which runs at once.
        clock: The current time, with a time zone.

    Raises:
        CredentialsError: The plugin gives no credentials; says why, and how to install the plugin.
    """

    def __init__(self, plugin: ExecPlugin, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._plugin = plugin
        self._clock = clock
        self._status = _Status()
        self._renew()

    def token(self) -> str:
        """The token; empty if the plugin gives only a client certificate."""
        expires = self._status.expiration_timestamp
        if expires is not None and self._clock() >= expires - MARGIN:
            self._renew()
        return self._status.token

    def replaces(self, refused: str) -> bool:
        """Run the plugin again, unless another request has already done so."""
        if self._status.token == refused:
            self._renew()
        return True

    def _renew(self) -> None:
        self._status = _run(self._plugin)
        certificate, key = self._status.client_certificate_data, self._status.client_key_data
        if bool(certificate) != bool(key):
            raise _error(self._plugin, "gave a client certificate without its key, or the reverse")
        if certificate and self._plugin.tls is not None:
            try:
                with as_file(certificate.encode()) as certfile, as_file(key.encode()) as keyfile:
                    self._plugin.tls.load_cert_chain(certfile, keyfile)
            except ssl.SSLError as error:
                raise _error(self._plugin, f"gave an unusable client certificate: {error}") from error
        if not certificate and not self._status.token:
            raise _error(self._plugin, "gave neither a token nor a client certificate")


def _run(plugin: ExecPlugin) -> _Status:
    # The package takes a second to import, which only kubeconfigs with plugins cost.
    from kubernetes.config.config_exception import ConfigException  # noqa: PLC0415
    from kubernetes.config.exec_provider import ExecProvider  # noqa: PLC0415
    from kubernetes.config.kube_config import ConfigNode  # noqa: PLC0415

    _require(plugin)
    folder = str(plugin.folder.absolute())
    try:
        provider = ExecProvider(
            ConfigNode("exec", plugin.config), folder, ConfigNode("cluster", dict(plugin.cluster))
        )
        answer: Any = provider.run()
    except FileNotFoundError as error:
        raise _error(plugin, "is not installed") from error
    except OSError as error:
        raise _error(plugin, f"cannot be run: {error.strerror}") from error
    except ConfigException as error:
        raise _error(plugin, f"failed: {_one_line(str(error).removeprefix('exec: '))}") from error
    except AttributeError as error:
        # In a terminal the plugin writes its errors there, where the package does not find them.
        raise _error(plugin, "failed; see its messages above") from error
    except (TypeError, ValueError) as error:
        raise _error(plugin, f"did not print an ExecCredential: {_one_line(str(error))}") from error
    try:
        status = msgspec.convert(answer, _Status)
    except msgspec.ValidationError as error:
        raise _error(plugin, f"did not print an ExecCredential: {error}") from error
    if status.expiration_timestamp is not None and status.expiration_timestamp.tzinfo is None:
        raise _error(plugin, "gave an expirationTimestamp without a time zone")
    return status


def _require(plugin: ExecPlugin) -> None:
    """Raise the errors that are known without running the plugin."""
    try:
        config = msgspec.convert(plugin.config, _Exec)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"{plugin.where}: exec: {error}") from error
    if config.interactive_mode == "Always" and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise _error(plugin, "needs a terminal (interactiveMode: Always), and there is none")


def _error(plugin: ExecPlugin, problem: str) -> CredentialsError:
    message = f"{plugin.where}: exec plugin {plugin.config['command']} {problem}"
    hint = plugin.config.get("installHint")
    return CredentialsError(f"{message}. To install it: {_one_line(hint)}" if hint else message)


def _one_line(text: str) -> str:
    return shorten(text, _LONGEST, placeholder=" ...")
