"""Versions that do not work together are refused in preview, and the page says what the data says."""

from typing import Any

import pytest

from tests.support.checked_in import hold
from tests.support.program import ROOT
from trainyard_api.compatibility import Table
from trainyard_platform import artifacts
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.errors import PlatformError
from trainyard_platform.stack.settings import Artifacts as Source
from trainyard_platform.stack.settings import StackSettings
from trainyard_platform.versions import check, used

OPERATOR = {"image": "docker.io/trainyard/operator:1"}


def stack(**settings: Any) -> StackSettings:
    return StackSettings.model_validate({"operator": OPERATOR, **settings})


def pinned() -> Artifacts:
    return Artifacts(Source(), ROOT)


def test_what_is_pinned_works_together_on_the_sandboxs_kubernetes() -> None:
    parts = {part: {"enabled": True} for part in ("kueue", "volcano", "coscheduling")}
    everything = {**parts, "cluster": {"version": "1.35"}}
    versions = used(stack(**everything), pinned())
    assert versions == {
        **{name: pin.version for name, pin in artifacts.pins().items() if name in Table.read().names},
        "kubernetes": "1.35",
    }
    assert list(Table.read().problems(versions)) == []


def test_an_image_of_another_version_is_that_version() -> None:
    kueue = {"enabled": True, "image": "registry.example.com:5000/kueue/kueue:v0.15.1"}
    with pytest.raises(PlatformError) as stopped:
        check(stack(kueue=kueue), pinned(), "prod")
    assert str(stopped.value) == (
        "stacks/Pulumi.prod.yaml is not valid:\n"
        "  trainyard:platform.kueue.image: JobSet 0.12 and Kueue 0.15 do not work together "
        "(these do: Kueue 0.19 and JobSet 0.12; Kueue 0.20 and JobSet 0.12)\n"
        "  trainyard:platform.kueue.image: Kueue 0.15 and Trainer API 2.3 do not work together: "
        "this Kueue writes podTemplateOverrides, "
        "which this API does not have; Kueue admits jobs, and they stay suspended "
        "(these do: Kueue 0.19 and Trainer API 2.3; Kueue 0.20 and Trainer API 2.3)"
    )


def test_a_kubernetes_that_volcano_does_not_know_is_refused() -> None:
    with pytest.raises(
        PlatformError, match=r"Kubernetes 1\.36 and Volcano 1\.14 do not work together: Volcano's own"
    ):
        check(stack(volcano={"enabled": True}, cluster={"version": "1.36"}), pinned(), "prod")
    check(stack(cluster={"version": "1.36"}), pinned(), "prod")


def test_a_kubernetes_that_nobody_has_tried_is_refused() -> None:
    with pytest.raises(PlatformError, match=r"JobSet 0\.12 and Kubernetes 1\.29 do not work together"):
        check(stack(cluster={"version": "1.29"}), pinned(), "prod")


def test_a_tag_that_is_no_version_says_nothing() -> None:
    assert used(stack(jobset={"image": "docker.io/jobset/jobset:main"}), pinned())["jobset"] == "v0.12.0"


def test_the_page_is_current() -> None:
    hold(ROOT / "docs/compatibility.md", Table.read().page())
