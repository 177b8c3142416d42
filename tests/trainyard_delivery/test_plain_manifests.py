"""A stack as plain manifests: which objects, in which wave, and never a secret."""

from typing import Any

import pytest

from trainyard_api.places import SHIPPED
from trainyard_cli.files import stackfile
from trainyard_delivery import plain_manifests
from trainyard_delivery.plain_manifests import Placed
from trainyard_platform.errors import PlatformError

STACK = "urn:pulumi:s::p::pulumi:pulumi:Stack::p-s"


def urn(name: str) -> str:
    return f"urn:pulumi:s::p::t::{name}"


def resource(name: str, parent: str = "", after: tuple[str, ...] = (), **others: Any) -> dict[str, Any]:
    return {
        "urn": urn(name),
        "type": "trainyard:platform:Part",
        "custom": False,
        "parent": urn(parent) if parent else STACK,
        "dependencies": [urn(one) for one in after],
        **others,
    }


def kubernetes(
    name: str, parent: str = "", after: tuple[str, ...] = (), kind: str = "ConfigMap", **content: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", **content.pop("metadata", {})}
    inputs = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}
    return resource(name, parent, after, type=f"kubernetes:core/v1:{kind}", custom=True, inputs=inputs)


def waves(*resources: dict[str, Any]) -> list[tuple[int, str]]:
    placed = plain_manifests.waves({"deployment": {"resources": [resource("stack"), *resources]}})
    return [(one.wave, one.manifest["metadata"]["name"]) for one in placed]


def test_what_waits_for_nothing_comes_first_and_what_waits_comes_after() -> None:
    assert waves(kubernetes("c", after=("b",)), kubernetes("b", after=("a",)), kubernetes("a")) == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
    ]


def test_whoever_waits_for_a_component_waits_for_all_that_is_in_it() -> None:
    chart = [
        resource("chart"),
        resource("inner", "chart"),
        kubernetes("deep", "inner", after=("before",)),
        kubernetes("before", "chart"),
    ]
    assert waves(*chart, kubernetes("after", after=("chart",))) == [(0, "before"), (1, "deep"), (2, "after")]


def test_what_a_component_waits_for_its_parts_wait_for_too() -> None:
    assert waves(kubernetes("crd"), resource("chart", after=("crd",)), kubernetes("part", "chart")) == [
        (0, "crd"),
        (1, "part"),
    ]


def test_waves_are_counted_without_gaps_and_providers_are_no_objects() -> None:
    provider = resource("cluster", type="pulumi:providers:kubernetes", custom=True, inputs={})
    between = resource("between", type="random:index:Id", custom=True, inputs={}, after=("a",))
    assert waves(provider, between, kubernetes("a"), kubernetes("b", after=("between",))) == [
        (0, "a"),
        (1, "b"),
    ]


def test_a_manifest_has_its_wave_and_none_of_the_words_for_pulumi() -> None:
    marked = kubernetes(
        "a",
        metadata={
            "labels": {"x": "y"},
            "annotations": {
                "pulumi.com/waitFor": "z",
                "config.kubernetes.io/depends-on": "z",
                "mine": "stays",
            },
        },
        data={"k": "v"},
        __initialApiVersion="v1",
    )
    assert plain_manifests.waves({"deployment": {"resources": [marked]}}) == [
        Placed(
            0,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "a",
                    "namespace": "n",
                    "labels": {"x": "y"},
                    "annotations": {"mine": "stays", "argocd.argoproj.io/sync-wave": "0"},
                },
                "data": {"k": "v"},
            },
        )
    ]


def test_a_stack_without_resources_has_no_manifests() -> None:
    assert plain_manifests.waves({"deployment": {}}) == []


def test_a_file_is_named_after_its_object_in_the_folder_of_its_wave() -> None:
    metadata = {"namespace": "trainyard-system", "name": "system:operator"}
    placed = Placed(3, {"kind": "RoleBinding", "metadata": metadata})
    assert placed.file == "wave-03/rolebinding-trainyard-system_system+operator.yaml"
    assert Placed(0, {"kind": "Node", "metadata": {"name": "n"}}).file == "wave-00/node-n.yaml"


def test_a_namespace_and_a_name_make_a_file_that_no_others_make() -> None:
    objects = [
        kubernetes(f"{namespace}/{name}", metadata={"namespace": namespace, "name": name})
        for namespace, name in (("ml", "team-registry"), ("ml-team", "registry"))
    ]
    placed = plain_manifests.waves({"deployment": {"resources": objects}})
    assert [manifest.file for manifest in placed] == [
        "wave-00/configmap-ml-team_registry.yaml",
        "wave-00/configmap-ml_team-registry.yaml",
    ]


def test_two_objects_of_one_file_are_refused() -> None:
    namesakes = [kubernetes("Admins"), kubernetes("admins")]
    why = r"v1 ConfigMap n/Admins and v1 ConfigMap n/admins: both would be wave-00/configmap-n_admins\.yaml"
    with pytest.raises(PlatformError, match=why):
        plain_manifests.waves({"deployment": {"resources": namesakes}})


@pytest.mark.parametrize("stack", ["eks", "gke", "aks"])
def test_a_stack_that_makes_machines_in_a_cloud_is_not_rendered(stack: str) -> None:
    why = f"trainyard:platform.nodePools.[a-z0-9-]+.provider: {stack} makes node groups in the cloud"
    with pytest.raises(PlatformError, match=why):
        plain_manifests.check(stackfile.read(stack, SHIPPED.stacks))


@pytest.mark.parametrize("stack", ["sandbox", "onprem", "openshift"])
def test_any_other_is(stack: str) -> None:
    plain_manifests.check(stackfile.read(stack, SHIPPED.stacks))


@pytest.mark.parametrize("part", ["data", "stringData"])
def test_a_secret_that_holds_something_is_never_rendered(part: str) -> None:
    held: dict[str, Any] = {part: {"key": "dg=="}}
    with pytest.raises(
        PlatformError, match="Secret s: plain manifests are kept in git, and a secret must not be"
    ):
        waves(kubernetes("s", kind="Secret", **held))


def test_an_empty_secret_that_a_controller_fills_is() -> None:
    assert waves(kubernetes("s", kind="Secret", type="Opaque")) == [(0, "s")]
