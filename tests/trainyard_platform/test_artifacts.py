"""Upstream's artifacts: pinned, checked, and taken from where the stack says."""

from pathlib import Path
from typing import Any

import pytest

from tests.support import program
from trainyard_platform import artifacts
from trainyard_platform.artifacts import Artifacts, Chart
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import Artifacts as Source

UPSTREAM = Source()
MIRROR = Source.model_validate(
    {"source": "mirror", "registry": "harbor.example.com/hub", "manifests": "https://files.example.com/up"}
)


def folder(path: str) -> Source:
    return Source.model_validate({"source": "folder", "folder": path})


def test_the_real_pins_name_versions_addresses_and_true_or_no_digests() -> None:
    pins = artifacts.pins()
    assert set(pins) == {
        "trainer",
        "jobset",
        "kueue",
        "volcano",
        "prometheus-operator",
        "nvidia-device-plugin",
        "amd-device-plugin",
        "efa-device-plugin",
        "lws",
        "scheduler-plugins",
    }
    for pin in pins.values():
        assert all(pin.version in manifest.url for manifest in pin.manifests)
    counted = {name: len(pins[name].manifests) for name in ("kueue", "volcano", "scheduler-plugins")}
    assert counted == {"kueue": 11, "volcano": 11, "scheduler-plugins": 2}
    assert {manifest.path for name in ("trainer", "jobset") for manifest in pins[name].manifests} == {
        "crds/trainer.kubeflow.org_clustertrainingruntimes.yaml",
        "crds/trainer.kubeflow.org_trainingruntimes.yaml",
        "crds/trainer.kubeflow.org_trainjobs.yaml",
        "crds/jobset.x-k8s.io_jobsets.yaml",
    }


def test_upstream_is_the_normal_source(tmp_path: Path) -> None:
    upstream = Artifacts(UPSTREAM, tmp_path)
    assert upstream.chart("jobset") == Chart(
        chart="oci://registry.k8s.io/jobset/charts/jobset", version="0.12.0"
    )
    assert upstream.image("jobset") == "registry.k8s.io/jobset/jobset:v0.12.0"
    assert upstream.registry("docker.io") == "docker.io"


def test_a_chart_of_a_repository_is_asked_for_by_its_name(tmp_path: Path) -> None:
    assert Artifacts(UPSTREAM, tmp_path).chart("volcano") == Chart(
        chart="volcano", version="1.14.1", repository="https://volcano-sh.github.io/helm-charts"
    )
    assert Artifacts(MIRROR, tmp_path).chart("volcano") == Chart(
        chart="oci://harbor.example.com/hub/volcano-sh.github.io/helm-charts/volcano", version="1.14.1"
    )


def test_a_mirror_keeps_upstreams_paths(tmp_path: Path) -> None:
    mirror = Artifacts(MIRROR, tmp_path)
    assert mirror.chart("jobset") == Chart(
        chart="oci://harbor.example.com/hub/registry.k8s.io/jobset/charts/jobset", version="0.12.0"
    )
    assert mirror.registry("docker.io") == "harbor.example.com/hub/docker.io"
    assert mirror.image("jobset") == "harbor.example.com/hub/registry.k8s.io/jobset/jobset:v0.12.0"


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize(
    ("source", "address"),
    [
        (UPSTREAM, "https://example.com/jobsets.jobset.x-k8s.io.yaml"),
        (MIRROR, "https://files.example.com/up/jobset/v0.12.0/crds/jobsets.jobset.x-k8s.io.yaml"),
    ],
    ids=["upstream", "mirror"],
)
def test_manifests_are_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: Source, address: str
) -> None:
    asked = []

    def download(name: str, url: str) -> bytes:
        asked.append(url)
        return b"a: 1\n---\n---\nb: 2\n"

    monkeypatch.setattr(artifacts, "_download", download)
    assert Artifacts(source, tmp_path).manifests("jobset") == [{"a": 1}, {"b": 2}]
    assert asked == [address]


@pytest.mark.usefixtures("pins")
def test_a_folder_is_relative_to_the_project(tmp_path: Path) -> None:
    program.artifacts_folder(tmp_path / "here")
    local = Artifacts(folder("here"), tmp_path)
    assert [one["metadata"]["name"] for one in local.manifests("trainer")] == list(program.CRDS["trainer"])
    assert local.chart("jobset") == Chart(chart=str(tmp_path / "here/jobset/v0.12.0/chart"), version=None)


WAY_OUT = (
    " (artifact 'jobset': check trainyard:platform.artifacts; `trainyard sandbox up` fills the sandbox's "
    "folder, and source upstream needs no folder)"
)


@pytest.mark.usefixtures("pins")
def test_a_missing_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(PlatformError) as stopped:
        Artifacts(folder("none"), tmp_path).manifests("jobset")
    path = tmp_path / "none/jobset/v0.12.0/crds/jobsets.jobset.x-k8s.io.yaml"
    assert str(stopped.value) == f"{path}: No such file or directory{WAY_OUT}"


@pytest.mark.usefixtures("pins")
@pytest.mark.parametrize("name", ["none", "~no-such-user"])
def test_a_missing_chart_is_named_with_the_way_out(name: str, tmp_path: Path) -> None:
    with pytest.raises(PlatformError) as stopped:
        Artifacts(folder(name), tmp_path).chart("jobset")
    assert str(stopped.value) == f"{tmp_path / name}/jobset/v0.12.0/chart: there is no chart here{WAY_OUT}"


def test_an_address_that_does_not_answer_is_named_with_the_way_out(tmp_path: Path) -> None:
    source = MIRROR.model_copy(update={"manifests": "https://127.0.0.1:1"})
    with pytest.raises(PlatformError) as stopped:
        Artifacts(source, tmp_path).manifests("jobset")
    message = str(stopped.value)
    assert message.startswith("https://127.0.0.1:1/jobset/v0.12.0/crds/jobset.x-k8s.io_jobsets.yaml: ")
    assert message.endswith(WAY_OUT)


def test_other_bytes_than_the_pinned_ones_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "jobset/v0.12.0/crds/jobset.x-k8s.io_jobsets.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("kind: Surprise\n")
    with pytest.raises(PlatformError, match=f"^{file}: these are not the pinned bytes: sha256:") as stopped:
        Artifacts(folder(str(tmp_path)), tmp_path).manifests("jobset")
    assert str(stopped.value).endswith("take the pinned version, or update version and digest together")


def test_an_image_with_a_digest_is_named_by_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    digest = "sha256:" + "0" * 64
    pins: dict[str, Any] = dict(artifacts.pins())
    image = artifacts.ImagePin(name="registry.k8s.io/a", tag="v1", digest=digest)
    pins["jobset"] = pins["jobset"].model_copy(update={"image": image})
    monkeypatch.setattr(artifacts, "pins", lambda: pins)
    assert Artifacts(UPSTREAM, tmp_path).image("jobset") == f"registry.k8s.io/a:v1@{digest}"
