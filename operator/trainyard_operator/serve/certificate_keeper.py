"""Where the servers' certificate comes from, and how it is kept fresh.

`SecretKeeper`: our own authority, in a Secret that all replicas share; each of
them may create or renew it, and the API server's preconditions ensure that one
of them succeeds and the others read what it wrote. `FolderKeeper`: files that
somebody else, such as cert-manager, keeps. Both pass what they have to
`serve`, at once and whenever it changes.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from trainyard_api.names import WEBHOOK_CERTIFICATE
from trainyard_kube.client import ApiError, Client, ConflictError, NotFoundError
from trainyard_kube.resources import SECRETS

from . import certificates
from .certificates import Issued, UnusableError

logger = logging.getLogger(__name__)

INTERVAL = 60.0
"""Seconds between two looks at the Secret."""
RETRY = 2.0
FOLDER_INTERVAL = 10.0

Serve = Callable[[bytes, bytes], None]
"""Takes a certificate chain and its key, as PEM; raises ValueError or OSError if they are invalid."""

_FIELDS = {
    "ca.crt": "authorities",
    "ca.key": "authority_key",
    "tls.crt": "certificate",
    "tls.key": "key",
}


class Keeper(Protocol):
    """A source of certificates."""

    problem: str
    """Why there is no certificate, or no newer one; empty if all is well."""

    @property
    def authorities(self) -> bytes | None:
        """Whom callers are to trust, as PEM; None if that is not known."""

    async def run(self) -> None:
        """Keep the certificate fresh until cancelled."""


class SecretKeeper:
    """Keeps certificates for `names` in the Secret `WEBHOOK_CERTIFICATE` of the operator's namespace."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        names: Sequence[str],
        serve: Serve,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.problem = ""
        self.issued: Issued | None = None
        self._client = client
        self._namespace = namespace
        self._names = names
        self._serve = serve
        self._now = now

    @property
    def authorities(self) -> bytes | None:
        """See `Keeper`."""
        return None if self.issued is None else self.issued.authorities

    async def run(self) -> None:
        """See `Keeper`."""
        while True:
            await self.step()
            pause = RETRY if self.problem else INTERVAL
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - spread, not secrecy

    async def look(self) -> None:
        """Serve what the Secret holds, if it holds something; write nothing."""
        try:
            secret = await self._client.get(SECRETS.path(self._namespace, WEBHOOK_CERTIFICATE))
            self._take(_issued(secret))
        except NotFoundError:
            return
        except (ApiError, OSError, ValueError) as error:
            self._report(str(error))

    async def step(self) -> None:
        """Read the Secret, create or renew what it holds if that is due, and serve it."""
        try:
            issued = await self._read()
        except ConflictError:
            self.problem = "another replica has just written the Secret"  # which is read in a moment
            return
        except ApiError as error:
            self._report(str(error))
            return
        self._take(issued)

    def _take(self, issued: Issued) -> None:
        if issued != self.issued:
            self._serve(issued.certificate, issued.key)
            until = certificates.good_until(issued.certificate)
            logger.info("serving a certificate that is valid until %s", until.date())
            self.issued = issued
        self._report("")

    async def _read(self) -> Issued:
        path = SECRETS.path(self._namespace, WEBHOOK_CERTIFICATE)
        try:
            secret = await self._client.get(path)
        except NotFoundError:
            now = self._now()  # the server's time, which is known once it has answered
            # Deleted while we had it: callers trust what we hold, so we write that again.
            issued = self.issued or certificates.issue(self._names, now)
            await self._client.create(SECRETS.path(self._namespace), self._manifest(issued))
            return issued
        now = self._now()
        try:
            kept = _issued(secret)
            fresh = certificates.renewed(kept, self._names, now)
        except UnusableError as error:
            logger.warning("Secret %s/%s: %s; written again", self._namespace, WEBHOOK_CERTIFICATE, error)
            fresh = self._replacement(secret, now)
        else:
            if fresh is None:
                return kept
        await self._client.replace(path, {**secret, "data": {**(secret.get("data") or {}), **_data(fresh)}})
        return fresh

    def _replacement(self, secret: dict[str, Any], now: datetime) -> Issued:
        """What replaces an unusable Secret, so that callers continue to trust us if possible.

        First what this replica holds, cross-signed authority and all; then
        what the authority in the Secret signs; only then a new authority,
        which callers do not trust yet.
        """
        if self.issued is not None:
            with contextlib.suppress(UnusableError):
                return certificates.renewed(self.issued, self._names, now) or self.issued
        with contextlib.suppress(UnusableError):
            return certificates.signed_again(_decoded(secret), self._names, now)
        return certificates.issue(self._names, now)

    def _manifest(self, issued: Issued) -> dict[str, Any]:
        return {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": {"name": WEBHOOK_CERTIFICATE, "namespace": self._namespace},
            "type": "kubernetes.io/tls",
            "data": _data(issued),
        }

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("Secret %s/%s: %s", self._namespace, WEBHOOK_CERTIFICATE, problem)
        self.problem = problem


class FolderKeeper:
    """Reads `tls.crt`, `tls.key` and, if it is there, `ca.crt` from a folder, again whenever they change."""

    def __init__(self, folder: Path, serve: Serve) -> None:
        self.problem = ""
        self.authorities: bytes | None = None
        """See `Keeper`. The writer of the files also sets the authority that the API server trusts."""
        self._folder = folder
        self._serve = serve
        self._served: tuple[bytes, bytes] | None = None

    async def run(self) -> None:
        """See `Keeper`."""
        while True:
            self.step()
            await asyncio.sleep(RETRY if self.problem else FOLDER_INTERVAL)

    def step(self) -> None:
        """Read the files, and serve them if they are new."""
        try:
            pair = ((self._folder / "tls.crt").read_bytes(), (self._folder / "tls.key").read_bytes())
            if pair != self._served:
                self._serve(*pair)
                self._served = pair
                logger.info("certificate read from %s", self._folder)
            authorities = self._folder / "ca.crt"
            self.authorities = authorities.read_bytes() if authorities.exists() else None
            self._report("")
        except (OSError, ValueError) as error:
            # A pair that does not match is being replaced at this moment, and is read again soon.
            reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            self._report(f"{self._folder}: tls.crt and tls.key cannot be used: {reason}")

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem


def _issued(secret: dict[str, Any]) -> Issued:
    issued = _decoded(secret)
    if not all(getattr(issued, field) for field in _FIELDS.values()):
        raise UnusableError("not all of ca.crt, ca.key, tls.crt and tls.key exist")
    return issued


def _decoded(secret: dict[str, Any]) -> Issued:
    """What the Secret holds; what is missing or cannot be decoded is empty."""
    data = secret.get("data") or {}
    values = {}
    for key, field in _FIELDS.items():
        try:
            values[field] = base64.b64decode(data[key])
        except (KeyError, TypeError, binascii.Error):
            values[field] = b""
    return Issued(**values)


def _data(issued: Issued) -> dict[str, str]:
    return {key: base64.b64encode(getattr(issued, field)).decode() for key, field in _FIELDS.items()}
