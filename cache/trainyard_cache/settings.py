"""What to hold and with whom: the environment of a container as a checked value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .failures import InvalidSource

PORT = 50051
"""Where workers serve, and the head if nobody says otherwise."""
HEALTH_PORT = 8080


@dataclass(frozen=True)
class Settings:
    """What a process of the cache is told.

    Args:
        location: Where the table is: a table metadata file of Iceberg, a Parquet file, or a folder of these.
        table: The table's name, for messages.
        leader: The host name of the head, as LeaderWorkerSet makes it.
        size: How many processes the cache has, the head included; at least 2.
        index: Which of them this is; 0: the head.
        health_port: Where `/ready` is answered.
        store: The properties of the store, under PyIceberg's names.
        sdk: The keys that assume the role in `store`, under the names of the AWS SDKs.
    """

    location: str
    table: str
    leader: str
    size: int
    index: int
    health_port: int = HEALTH_PORT
    store: Mapping[str, str] = field(default_factory=dict, repr=False)
    sdk: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self.size - 1

    def hosts(self) -> Sequence[str]:
        """The host name of each worker: LeaderWorkerSet appends their number to the leader's."""
        name, dot, domain = self.leader.partition(".")
        return [f"{name}-{number}{dot}{domain}" for number in range(1, self.size)]


_STORE = {
    "s3.endpoint": ("ENDPOINT", "AWS_ENDPOINT_URL_S3"),
    "s3.region": ("REGION", "AWS_REGION"),
    "s3.access-key-id": ("ACCESS_KEY_ID", "AWS_ACCESS_KEY_ID"),
    "s3.secret-access-key": ("SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY"),
    "s3.session-token": ("SESSION_TOKEN", "AWS_SESSION_TOKEN"),
    "s3.role-arn": ("ROLE_ARN",),
}
"""PyIceberg's names, and the variables: those of initializers first, then those of the AWS SDKs."""
_KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")


def read(environment: Mapping[str, str]) -> Settings:
    """The settings in the variables of a container; LeaderWorkerSet adds those with LWS_.

    Raises:
        InvalidSource: One is missing or malformed.
    """
    location = environment.get("METADATA_LOC", "").strip()
    if not location:
        raise InvalidSource(
            "METADATA_LOC is not set: set it in spec.initializer.dataset.env of the TrainJob, "
            "such as s3://bucket/table/metadata/00001.metadata.json"
        )
    size, index = (_number(environment, name) for name in ("LWS_GROUP_SIZE", "LWS_WORKER_INDEX"))
    if size < 2 or index >= size:
        raise InvalidSource(
            f"LWS_GROUP_SIZE={size} and LWS_WORKER_INDEX={index}: a cache has a head and a worker at least"
        )
    names = (environment.get(name, "").strip() for name in ("SCHEMA_NAME", "TABLE_NAME"))
    store = _store(environment)
    sdk = _sdk(store)
    return Settings(
        location=location,
        table=".".join(name for name in names if name) or location,
        leader=environment.get("LWS_LEADER_ADDRESS", "").strip() or "localhost",
        size=size,
        index=index,
        health_port=_number(environment, "HEALTH_PORT", HEALTH_PORT),
        store={key: text for key, text in store.items() if not sdk or key not in _KEYS},
        sdk=sdk,
    )


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "").strip()
    if not text and default is not None:
        return default
    if not text.isascii() or not text.isdecimal():
        raise InvalidSource(
            f"{name}={text!r} is not a number: LeaderWorkerSet sets it in the pods of a cache"
        )
    return int(text)


def _store(environment: Mapping[str, str]) -> Mapping[str, str]:
    values = {
        key: next((text for name in names if (text := environment.get(name, "").strip())), "")
        for key, names in _STORE.items()
    }
    return {key: text for key, text in values.items() if text}


def _sdk(store: Mapping[str, str]) -> Mapping[str, str]:
    """The variables with which the SDK in PyArrow assumes a role: PyArrow itself accepts keys or a role."""
    if not {"s3.role-arn", *_KEYS[:2]} <= store.keys():
        return {}
    return {_STORE[key][1]: store[key] for key in ("s3.region", *_KEYS) if key in store}
