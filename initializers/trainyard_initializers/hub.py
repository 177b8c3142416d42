"""`hf://owner/name[@revision][/folder]`: the Hugging Face Hub, or a server with its API (HF_ENDPOINT)."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

import httpx2
from huggingface_hub import DatasetInfo, HfApi, ModelInfo, constants, get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

from .failures import Failure, InvalidSource, Unauthorized, Unreachable, from_status
from .request import ADDRESS, DATASET, Request
from .source import CHUNK, Checksum, RemoteFile

_TIMEOUT = httpx2.Timeout(60, connect=15)
_NAME = "trainyard-initializers"


def open_hub(request: Request) -> Hub:
    """The repository that the URI names.

    Reads ACCESS_TOKEN and HF_ENDPOINT.

    Raises:
        InvalidSource: If the URI or the endpoint is malformed.
        Unauthorized: If the token is malformed.
    """
    # Its handler would bypass our log, and so the redaction of tokens.
    logging.getLogger("huggingface_hub").handlers.clear()
    repository, revision, folder = _parse(request)
    token = request.get("ACCESS_TOKEN")
    if token and not re.fullmatch(r"[\x21-\x7e]+", token):
        raise Unauthorized("ACCESS_TOKEN holds characters that no token has: check the Secret")
    endpoint = (request.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
    if not ADDRESS.fullmatch(endpoint):
        raise InvalidSource("HF_ENDPOINT must be http(s)://host, without user and password")
    return Hub(
        kind=request.step,
        repository=repository,
        revision=revision,
        folder=folder,
        endpoint=endpoint,
        token=token,
    )


def _parse(request: Request) -> tuple[str, str | None, str]:
    """Repository, revision and folder. A `/` in a revision is written %2F, as in the Hub's own URIs."""
    text = f"{request.uri.authority}/{request.uri.path}".strip("/").removeprefix(f"{request.step}s/")
    match = re.fullmatch(r"([^@/]+(?:/[^@/]+)?)(?:@([^/]+))?(?:/(.*))?", text)
    if not match:
        raise InvalidSource(f"{request.uri} must be hf://owner/name, with an optional @revision and /folder")
    repository, revision, folder = match.groups()
    return repository, unquote(revision) if revision else None, (folder or "").strip("/")


@dataclass(frozen=True, kw_only=True)
class Hub:
    """One repository; after `files`, at one commit.

    Args:
        kind: `dataset` or `model`.
        repository: `owner/name`.
        revision: Branch, tag or commit; the default branch if None.
        folder: Only what is below it, or this one file; all if empty.
        endpoint: Address of the server.
        token: Sent only to that server.
    """

    kind: str
    repository: str
    revision: str | None
    folder: str
    endpoint: str
    token: str | None = field(repr=False)
    _listed: dict[str, tuple[str, Checksum]] = field(default_factory=dict, repr=False)

    @property
    def _place(self) -> str:
        revision = f" at {self.revision}" if self.revision else ""
        return f"the {self.kind} {self.repository}{revision} on {self.endpoint}"

    def files(self) -> Iterable[RemoteFile]:
        """Files of the revision's present commit, from which `read` reads too."""
        # False, because with None it would look for a token elsewhere.
        api = HfApi(endpoint=self.endpoint, token=self.token or False, library_name=_NAME)
        info: DatasetInfo | ModelInfo
        with self._failures(self._place):
            ask = api.dataset_info if self.kind == DATASET else api.model_info
            info = ask(self.repository, revision=self.revision, files_metadata=True, timeout=60)
        commit = info.sha or self.revision or "main"
        for sibling in info.siblings or ():
            path = sibling.rfilename
            if self.folder and path != self.folder and not path.startswith(f"{self.folder}/"):
                continue
            if sibling.size is None or not (sibling.lfs or sibling.blob_id):
                raise Unreachable(f"{self._place} does not say how large {path} is: is this a Hub?")
            checksum = (
                Checksum("sha256", sibling.lfs.sha256)
                if sibling.lfs
                else Checksum("git", str(sibling.blob_id))
            )
            self._listed[path] = commit, checksum
            yield RemoteFile(path, sibling.size, checksum.hexdigest)

    def checksum(self, file: RemoteFile) -> Checksum | None:
        """The SHA-256 of a large file, the git hash of others."""
        return self._listed[file.path][1]

    def read(self, file: RemoteFile, offset: int) -> Generator[bytes, None, None]:
        """The content from `offset` on, from wherever the Hub redirects to."""
        address = hf_hub_url(
            self.repository,
            file.path,
            repo_type=self.kind,
            revision=self._listed[file.path][0],
            endpoint=self.endpoint,
        )
        place = f"{file.path} of {self._place}"
        headers = {"User-Agent": _NAME, "Accept-Encoding": "identity"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if offset:
            headers["Range"] = f"bytes={offset}-"
        with (
            self._failures(place),
            get_session().stream("GET", address, headers=headers, timeout=_TIMEOUT) as response,
        ):
            if response.status_code >= 400:
                raise self._failure(response, place)
            # A server without ranges sends all of it again.
            skipped = offset if response.status_code == 200 else 0
            for chunk in response.iter_raw(CHUNK):
                content = chunk[skipped:]
                skipped = max(skipped - len(chunk), 0)
                if content:
                    yield content

    @contextmanager
    def _failures(self, place: str) -> Iterator[None]:
        try:
            yield
        except HfHubHTTPError as error:
            raise self._failure(error.response, place) from None
        except HFValidationError:
            raise InvalidSource(f"{self.repository!r} is not a repository's name: hf://owner/name") from None
        except OfflineModeIsEnabled:
            raise InvalidSource("HF_HUB_OFFLINE is set: nothing can be fetched from a Hub") from None
        except httpx2.HTTPError as error:
            raise Unreachable(f"{place}: {_why(error)}") from None
        except (httpx2.InvalidURL, ValueError, TypeError, KeyError) as error:
            raise Unreachable(
                f"{place}: the answer is not a Hub's ({type(error).__name__}): check HF_ENDPOINT"
            ) from None

    def _failure(self, response: httpx2.Response, place: str) -> Failure:
        way_out = (
            "ACCESS_TOKEN is refused, or may not read it: check the Secret, and that access was granted"
            if self.token
            else "it does not exist, or needs a token: set ACCESS_TOKEN with the initializer's secretRef"
        )
        after = response.headers.get("Retry-After")
        return from_status(response.status_code, place, retry_after=after, way_out=way_out)


def _why(error: httpx2.HTTPError) -> str:
    """The cause without addresses: those of a redirect contain signatures."""
    cause = str(error)
    return type(error).__name__ if not cause or "://" in cause else f"{cause} ({type(error).__name__})"
