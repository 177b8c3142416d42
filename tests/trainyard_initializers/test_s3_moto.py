"""`s3://` against somebody else's idea of S3: moto's server, filled with botocore."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.config import Config

from trainyard_initializers import request, s3
from trainyard_initializers.source import Checksum

from .fetching import get, tree

pytestmark = pytest.mark.long

KEYS = {"ACCESS_KEY_ID": "AKIATEST", "SECRET_ACCESS_KEY": "right"}


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
        yield from served()


def served() -> Iterator[str]:
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 (half a second, else for each process)

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def client(moto: str) -> Any:
    session = botocore.session.Session()
    session.set_credentials("AKIATEST", "right")
    config = Config(request_checksum_calculation="when_required")
    client = session.create_client("s3", region_name="us-east-1", endpoint_url=moto, config=config)
    client.create_bucket(Bucket="team")
    return client


def test_a_listing_of_many_pages_arrives_whole(tmp_path: Path, moto: str, client: Any) -> None:
    for number in range(25):
        client.put_object(Bucket="team", Key=f"many/{number:02}", Body=b"")
    get(tmp_path / "dataset", "s3://team/many", ENDPOINT=moto, **KEYS)
    assert set(tree(tmp_path / "dataset")) == {f"{number:02}" for number in range(25)}


@pytest.mark.parametrize("algorithm", ["SHA256", "SHA1", "CRC32", None])
def test_the_best_checksum_that_s3_keeps_is_held(
    tmp_path: Path, moto: str, client: Any, algorithm: str | None
) -> None:
    key = f"sums/{algorithm}"
    options = {"ChecksumAlgorithm": algorithm} if algorithm else {}
    client.put_object(Bucket="team", Key=key, Body=b"content", **options)
    asked = request.read("dataset", {"STORAGE_URI": f"s3://team/{key}", "ENDPOINT": moto, **KEYS})
    source = s3.open_s3(asked)
    [file] = source.files()
    checksum = source.checksum(file)
    assert checksum is not None
    assert checksum.algorithm == (algorithm or "MD5").lower()
    hasher = Checksum(checksum.algorithm, "").hasher(7)
    hasher.update(b"content")
    assert hasher.hexdigest() == checksum.hexdigest
    get(tmp_path / "dataset", f"s3://team/{key}", ENDPOINT=moto, **KEYS)
    assert tree(tmp_path / "dataset") == {str(algorithm): b"content"}


def test_an_object_in_parts_has_no_checksum_of_the_whole_and_arrives(
    tmp_path: Path, moto: str, client: Any
) -> None:
    parts = [b"a" * (5 << 20), b"b"]
    upload = client.create_multipart_upload(Bucket="team", Key="parts/it")["UploadId"]
    done = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(
                Bucket="team", Key="parts/it", UploadId=upload, PartNumber=number, Body=body
            )["ETag"],
        }
        for number, body in enumerate(parts, 1)
    ]
    client.complete_multipart_upload(
        Bucket="team", Key="parts/it", UploadId=upload, MultipartUpload={"Parts": done}
    )
    get(tmp_path / "dataset", "s3://team/parts", ENDPOINT=moto, **KEYS)
    assert tree(tmp_path / "dataset") == {"it": b"".join(parts)}


def test_a_role_is_assumed_with_the_keys(
    tmp_path: Path, moto: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore reads the address of the token service itself."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto)
    client.put_object(Bucket="team", Key="role/it", Body=b"content")
    role = "arn:aws:iam::123456789012:role/reader"
    asked = request.read(
        "dataset", {"STORAGE_URI": "s3://team/role", "ENDPOINT": moto, "ROLE_ARN": role, **KEYS}
    )
    source = s3.open_s3(asked)
    get(tmp_path / "dataset", "s3://team/role", ENDPOINT=moto, ROLE_ARN=role, **KEYS)
    assert tree(tmp_path / "dataset") == {"it": b"content"}
    credentials = source._client._request_signer._credentials
    assert credentials.get_frozen_credentials().access_key.startswith("ASIA")
