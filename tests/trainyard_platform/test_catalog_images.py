"""The catalog's images: digests from one file, and a stack's mirror."""

from pathlib import Path
from typing import Any

import pytest

from trainyard_platform.artifacts import Artifacts, ImagePin
from trainyard_platform.catalog import files as catalog
from trainyard_platform.catalog import images as catalog_images
from trainyard_platform.catalog.images import Images
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.runtimes import RuntimeOverlay
from trainyard_platform.stack.settings import Artifacts as Source

DIGEST = "sha256:" + "0" * 64
BUSYBOX = "docker.io/library/busybox:1.37"
TENSORFLOW = "docker.io/tensorflow/tensorflow:2.20.0-gpu"
TORCH = "docker.io/pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"


def pinned(folder: Path, image: str) -> None:
    """Write a digest into the catalog's file, as renovate does."""
    name, _, tag = image.rpartition(":")
    path = folder / catalog_images.FILE
    path.write_text(f'images:\n  - name: {name}\n    tag: "{tag}"\n    digest: {DIGEST}\n')


def images(runtimes: tuple[catalog.Runtime, ...], name: str) -> list[str]:
    [runtime] = (one for one in runtimes if one.name == name)
    jobs = runtime.manifest["spec"]["template"]["spec"]["replicatedJobs"]
    pods: list[dict[str, Any]] = [job["template"]["spec"]["template"]["spec"] for job in jobs]
    return [
        one["image"] for pod in pods for part in ("initContainers", "containers") for one in pod.get(part, ())
    ]


def test_a_stack_installs_the_digest_that_is_known_and_the_tag_where_none_is(catalog_folder: Path) -> None:
    pinned(catalog_folder, TENSORFLOW)
    found = catalog.load(catalog_folder, {})
    assert images(found, "tensorflow-ps") == [f"{TENSORFLOW}@{DIGEST}"] * 3
    assert images(found, "plain") == [BUSYBOX]
    assert images(found, "torch-distributed") == [TORCH]


def test_a_mirror_has_every_image_of_the_catalog_and_none_that_the_stack_names_itself(
    catalog_folder: Path, tmp_path: Path
) -> None:
    pinned(catalog_folder, BUSYBOX)
    source = Source.model_validate(
        {
            "source": "mirror",
            "registry": "mirror.example.com/all",
            "manifests": "https://mirror.example.com/m",
        }
    )
    changes = {"torch-efa": RuntimeOverlay(enabled=True, image="registry.example.com/torch-efa:1")}
    found = catalog.load(catalog_folder, changes, Artifacts(source, tmp_path).registry)
    assert images(found, "plain") == [f"mirror.example.com/all/{BUSYBOX}@{DIGEST}"]
    assert images(found, "torch-distributed") == [f"mirror.example.com/all/{TORCH}"]
    assert images(found, "torch-efa") == ["registry.example.com/torch-efa:1"]


def test_a_variable_that_names_a_pinned_image_is_resolved_too(catalog_folder: Path) -> None:
    cache = "ghcr.io/kubeflow/trainer/data-cache:v2.3.0"
    pinned(catalog_folder, cache)
    found = catalog.every(catalog_folder)
    [runtime] = (one for one in found if one.name == "torch-distributed-with-cache")
    first = runtime.manifest["spec"]["template"]["spec"]["replicatedJobs"][0]
    [container] = first["template"]["spec"]["template"]["spec"]["containers"]
    assert container["env"][0] == {"name": "CACHE_IMAGE", "value": f"{cache}@{DIGEST}"}


def test_a_volume_of_an_image_is_pinned(catalog_folder: Path) -> None:
    [runtime] = (one for one in catalog.every(catalog_folder) if one.name == "plain")
    pod = runtime.manifest["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod["spec"]["volumes"] = [
        {"name": "data", "image": {"reference": "ghcr.io/team/data:1"}},
        {"name": "tmp"},
    ]
    pin = ImagePin(name="ghcr.io/team/data", tag="1", digest=DIGEST)
    catalog_images.apply(runtime.manifest, Images({"ghcr.io/team/data:1": pin}))
    assert pod["spec"]["volumes"][0]["image"] == {"reference": f"ghcr.io/team/data:1@{DIGEST}"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("images: []\nimage: []\n", "2: image: Extra inputs are not permitted"),
        (
            "images:\n  - name: a.example/b\n    tag: '1'\n    digest: sha256:1\n",
            "4: images.0.digest: String should match pattern '^sha256:[0-9a-f]{64}$'",
        ),
        (
            "images:\n  - {name: a.example/b, tag: x, digest: null}\n"
            "  - {name: a.example/b, tag: x, digest: null}\n",
            "3: a.example/b:x is listed twice",
        ),
    ],
    ids=["an unknown key", "an invalid digest", "an image twice"],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(catalog_folder: Path, text: str, message: str) -> None:
    path = catalog_folder / catalog_images.FILE
    path.write_text(text)
    with pytest.raises(PlatformError) as stopped:
        catalog.load(catalog_folder, {})
    assert str(stopped.value) == f"{path}:{message}"


def test_a_site_adds_digests_to_the_shipped_ones_and_its_own_count(
    catalog_folder: Path, tmp_path: Path
) -> None:
    theirs = f"sha256:{'f' * 64}"
    pinned(catalog_folder, TORCH)
    site = tmp_path / "site"
    site.mkdir()
    for image in (TORCH, BUSYBOX):
        pinned(site, image)
        text = (site / "images.yaml").read_text()
        (site / "images.yaml").write_text(text.replace(DIGEST, theirs))
        found = catalog.load(site, {}, beneath=catalog_folder)
        digest = theirs if image == TORCH else DIGEST
        assert images(found, "torch-distributed") == [f"{TORCH}@{digest}"]
    assert images(found, "plain") == [f"{BUSYBOX}@{theirs}"]
