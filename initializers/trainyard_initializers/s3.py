"""`s3://bucket[/folder]`: Amazon S3, or a server with its API (ENDPOINT)."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import botocore.session
from botocore import UNSIGNED
from botocore.client import BaseClient
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
)
from botocore.exceptions import (
    ConnectionError as NoConnection,
)
from urllib3.exceptions import HTTPError

from .failures import InvalidSource, Unauthorized, Unreachable, from_status
from .request import ADDRESS, Request
from .source import CHUNK, Checksum, RemoteFile

_TRANSIENT = ("RequestTimeout", "RequestTimeTooSkewed", "SlowDown", "Throttling", "InternalError")
_CREDENTIALS = ("ExpiredToken", "InvalidToken", "TokenRefreshRequired")


def open_s3(request: Request) -> S3:
    """The bucket or folder that the URI names.

    Reads ENDPOINT, ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN, REGION and
    ROLE_ARN; where ENDPOINT or REGION is missing, AWS_ENDPOINT_URL_S3 and
    AWS_REGION. Without keys, botocore looks for credentials in its usual places
    (such as the pod's identity); without any, reads the bucket anonymously.

    Raises:
        InvalidSource: If a variable is malformed or its companion is missing.
        Unauthorized: If there are no credentials to assume the role with.
    """
    endpoint = request.endpoint
    if endpoint and not ADDRESS.fullmatch(endpoint):
        raise InvalidSource(
            "ENDPOINT or AWS_ENDPOINT_URL_S3 must be http(s)://host[:port], without user and password"
        )
    if not request.uri.authority:
        raise InvalidSource(f"{request.uri} names no bucket: s3://bucket/folder")
    return S3(request.uri.authority, request.uri.path, _client(request, endpoint), endpoint)


def _client(request: Request, endpoint: str | None) -> BaseClient:
    session = botocore.session.Session()
    key, secret = request.get("ACCESS_KEY_ID"), request.get("SECRET_ACCESS_KEY")
    if bool(key) != bool(secret):
        missing = "SECRET_ACCESS_KEY" if key else "ACCESS_KEY_ID"
        raise InvalidSource(f"{missing} is not set, but its companion is: check the Secret")
    region = request.region or "auto"
    if region == "auto" and not endpoint:
        region = "us-east-1"  # S3 itself redirects from there
    try:
        if key and secret:
            session.set_credentials(key, secret, request.get("SESSION_TOKEN"))
        if role := request.get("ROLE_ARN"):
            session = _of_role(session, role, region)
        anonymous = session.get_credentials() is None
        config = Config(
            signature_version=UNSIGNED if anonymous else None,
            connect_timeout=15,
            read_timeout=60,
            retries={"total_max_attempts": 1},
            max_pool_connections=16,
            response_checksum_validation="when_required",
            s3={"addressing_style": "path" if endpoint else "auto"},
        )
        return session.create_client("s3", region_name=region, endpoint_url=endpoint, config=config)
    except (BotoCoreError, ValueError) as error:
        raise InvalidSource(f"the settings for S3 are invalid: {error}") from None


def _of_role(session: botocore.session.Session, role: str, region: str) -> botocore.session.Session:
    """A session that acts as `role`, which the given one may assume."""
    credentials = session.get_credentials()
    if credentials is None:
        raise Unauthorized("ROLE_ARN is set, but there are no credentials to assume the role with")

    def sts(*arguments: Any, **options: Any) -> BaseClient:
        return session.create_client(*arguments, **{"region_name": region, **options})

    fetcher = AssumeRoleCredentialFetcher(
        sts, credentials, role, extra_args={"RoleSessionName": "trainyard-initializer"}
    )
    assumed = botocore.session.Session()
    assumed.register_component("credential_provider", _Role(fetcher))
    return assumed


class _Role:
    """What botocore asks for a role's credentials: fetched when first used, and renewed before they end."""

    def __init__(self, fetcher: AssumeRoleCredentialFetcher) -> None:
        self._fetcher = fetcher

    def load_credentials(self) -> DeferredRefreshableCredentials:
        return DeferredRefreshableCredentials(
            method="assume-role", refresh_using=self._fetcher.fetch_credentials
        )


class S3:
    """The objects below a prefix of a bucket, or one object.

    Args:
        bucket: Its name.
        folder: The prefix, as a folder; the whole bucket if empty.
        client: A botocore client that makes one attempt per call.
        endpoint: For messages.
    """

    def __init__(self, bucket: str, folder: str, client: BaseClient, endpoint: str | None) -> None:
        self._bucket, self._client = bucket, client
        self._folder = folder.strip("/")
        self._at = f"s3://{bucket}" + (f" on {endpoint}" if endpoint else "")

    def files(self) -> Iterable[RemoteFile]:
        """Objects below the folder, otherwise the object of that name; skips keys that end with `/`."""
        with self._failures(self._at):
            is_folder = False
            prefix = f"{self._folder}/" if self._folder else ""
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            for page in pages:
                for entry in page.get("Contents", ()):
                    is_folder = True
                    if not entry["Key"].endswith("/"):
                        yield _file(entry, entry["Key"].removeprefix(prefix))
            if not is_folder and self._folder:
                page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._folder, MaxKeys=1)
                for entry in page.get("Contents", ()):
                    if entry["Key"] == self._folder:
                        yield _file(entry, self._folder.rpartition("/")[2])

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """The checksum of the whole object, or an ETag that is an MD5; None if S3 has only those of parts."""
        with self._failures(f"{file.address} in {self._at}"):
            head = self._client.head_object(
                Bucket=self._bucket, Key=file.address, IfMatch=file.version, ChecksumMode="ENABLED"
            )
        return _checksum(head)

    def read(self, file: RemoteFile, offset: int) -> Generator[bytes, None, None]:
        """The content from `offset` on, of the version that was listed."""
        ranges = {"Range": f"bytes={offset}-"} if offset else {}
        with self._failures(f"{file.address} in {self._at}"):
            answer = self._client.get_object(
                Bucket=self._bucket, Key=file.address, IfMatch=file.version, **ranges
            )
            with answer["Body"] as body:
                while chunk := body.read(CHUNK):
                    yield chunk

    @contextmanager
    def _failures(self, place: str) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
            code = str(error.response.get("Error", {}).get("Code", ""))
            if status == 412:
                raise Unreachable(f"{place} was changed while it was fetched") from None
            if code in _TRANSIENT:
                status = 503
            if code in _CREDENTIALS:
                status = 403
            way_out = f"check ACCESS_KEY_ID, SECRET_ACCESS_KEY and the bucket's policy (S3 says {code})"
            raise from_status(status, place, way_out=way_out) from None
        except NoCredentialsError:
            raise Unauthorized(f"{place}: there are no credentials") from None
        except ParamValidationError:
            raise InvalidSource(f"{place}: not a valid name of a bucket or key") from None
        except (NoConnection, HTTPClientError, HTTPError) as error:
            raise Unreachable(f"{place}: {type(error).__name__}") from None
        except BotoCoreError as error:
            raise Unreachable(f"{place}: {error}") from None


def _file(entry: Mapping[str, Any], path: str) -> RemoteFile:
    return RemoteFile(path, entry["Size"], entry["ETag"], entry["Key"])


def _checksum(head: Mapping[str, Any]) -> Checksum | None:
    # A checksum of parts' checksums ends with their number.
    for algorithm in ("SHA256", "SHA1", "CRC32"):
        value = head.get(f"Checksum{algorithm}")
        if value and "-" not in value and head.get("ChecksumType", "FULL_OBJECT") == "FULL_OBJECT":
            return Checksum.base64(algorithm.lower(), value)
    encrypted = head.get("ServerSideEncryption", "AES256") != "AES256" or "SSECustomerAlgorithm" in head
    tag = head.get("ETag", "").strip('"')
    return Checksum("md5", tag) if re.fullmatch("[0-9a-f]{32}", tag) and not encrypted else None
