"""What the pods of a cache are told."""

import pytest

from trainyard_cache import settings
from trainyard_cache.failures import InvalidSource
from trainyard_cache.settings import Settings

OF_LWS = {
    "LWS_LEADER_ADDRESS": "tj-cache-0.tj-cache.ns",
    "LWS_GROUP_SIZE": "3",
    "LWS_WORKER_INDEX": "1",
}
ASKED = {"METADATA_LOC": "s3://b/t/metadata/1.metadata.json", "SCHEMA_NAME": "shop", "TABLE_NAME": "reviews"}


def test_what_the_initializer_and_leaderworkerset_say_is_read() -> None:
    keys = {"ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "ENDPOINT": "http://store", "REGION": "eu"}
    read = settings.read({**ASKED, **OF_LWS, **keys, "AWS_REGION": "us"})
    assert read == Settings(
        location="s3://b/t/metadata/1.metadata.json",
        table="shop.reviews",
        leader="tj-cache-0.tj-cache.ns",
        size=3,
        index=1,
        health_port=8080,
        store={
            "s3.endpoint": "http://store",
            "s3.region": "eu",
            "s3.access-key-id": "a",
            "s3.secret-access-key": "s",
        },
    )
    assert read.hosts() == ["tj-cache-0-1.tj-cache.ns", "tj-cache-0-2.tj-cache.ns"]
    assert read.workers == 2
    assert "s3.secret-access-key" not in repr(read)


def test_a_role_is_assumed_with_the_keys_by_the_sdk() -> None:
    keys = {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "s", "SESSION_TOKEN": "t"}
    role = "arn:aws:iam::1:role/reader"
    read = settings.read({**ASKED, **OF_LWS, **keys, "REGION": "eu", "ROLE_ARN": role})
    assert (read.store, read.sdk) == (
        {"s3.region": "eu", "s3.role-arn": role},
        {
            "AWS_REGION": "eu",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_SESSION_TOKEN": "t",
        },
    )
    assert "AWS_SECRET_ACCESS_KEY" not in repr(read)


def test_without_keys_a_role_is_assumed_with_the_identity_of_the_pod() -> None:
    read = settings.read({**ASKED, **OF_LWS, "ROLE_ARN": "arn:aws:iam::1:role/reader"})
    assert (read.store, read.sdk) == ({"s3.role-arn": "arn:aws:iam::1:role/reader"}, {})


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"METADATA_LOC": " "}, "METADATA_LOC is not set"),
        ({"LWS_GROUP_SIZE": ""}, "LWS_GROUP_SIZE='' is not a number"),
        ({"LWS_WORKER_INDEX": "²"}, "LWS_WORKER_INDEX='²' is not a number"),
        ({"LWS_GROUP_SIZE": "1"}, "a cache has a head and a worker at least"),
        ({"LWS_WORKER_INDEX": "3"}, "a cache has a head and a worker at least"),
        ({"HEALTH_PORT": "http"}, "HEALTH_PORT='http' is not a number"),
    ],
)
def test_a_variable_that_is_missing_or_malformed_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidSource) as error:
        settings.read({**ASKED, **OF_LWS, **variables})
    assert message in str(error.value)
