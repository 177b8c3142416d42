"""Run the platform's program under mocks, to its end, and say what it registered."""

import asyncio
import functools
import json
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from pulumi.runtime import mocks, resource, rpc
from pulumi.runtime.proto import source_pb2

from trainyard_api import stack_yaml

ROOT = Path(__file__).resolve().parents[2]

CRDS = {
    "trainer": ("clustertrainingruntimes.trainer.kubeflow.org", "trainjobs.trainer.kubeflow.org"),
    "jobset": ("jobsets.jobset.x-k8s.io",),
    "kueue": ("clusterqueues.kueue.x-k8s.io", "topologies.kueue.x-k8s.io"),
    "volcano": ("podgroups.scheduling.volcano.sh",),
    "prometheus-operator": ("servicemonitors.monitoring.coreos.com",),
    "nvidia-device-plugin": (),
    "efa-device-plugin": (),
    "lws": (
        "disaggregatedsets.disaggregatedset.x-k8s.io",
        "leaderworkersets.leaderworkerset.x-k8s.io",
    ),
    "scheduler-plugins": ("podgroups.scheduling.x-k8s.io",),
}
"""Names of the stand-ins for upstream's CRDs."""

PINS: dict[str, dict[str, Any]] = {
    "trainer": {"version": "v2.3.0"},
    "jobset": {
        "version": "v0.12.0",
        "chart": {
            "path": "chart",
            "url": "oci://registry.k8s.io/jobset/charts/jobset",
            "version": "0.12.0",
        },
        "image": {"name": "registry.k8s.io/jobset/jobset", "tag": "v0.12.0", "digest": None},
    },
    "kueue": {
        "version": "v0.19.0",
        "chart": {
            "path": "chart",
            "url": "oci://registry.k8s.io/kueue/charts/kueue",
            "version": "0.19.0",
        },
        "image": {"name": "registry.k8s.io/kueue/kueue", "tag": "v0.19.0", "digest": None},
    },
    "volcano": {
        "version": "v1.14.1",
        "chart": {
            "path": "chart",
            "name": "volcano",
            "url": "https://volcano-sh.github.io/helm-charts",
            "version": "1.14.1",
        },
    },
    "prometheus-operator": {"version": "v0.88.0"},
    "lws": {
        "version": "v0.9.0",
        "chart": {
            "path": "chart",
            "url": "oci://registry.k8s.io/lws/charts/lws",
            "version": "0.9.0",
        },
        "image": {"name": "registry.k8s.io/lws/lws", "tag": "v0.9.0", "digest": None},
    },
    "nvidia-device-plugin": {
        "version": "v0.18.0",
        "chart": {
            "path": "chart",
            "name": "nvidia-device-plugin",
            "url": "https://nvidia.github.io/k8s-device-plugin",
            "version": "0.18.0",
        },
        "image": {"name": "nvcr.io/nvidia/k8s-device-plugin", "tag": "v0.18.0", "digest": None},
    },
    "efa-device-plugin": {
        "version": "v0.5.8",
        "chart": {
            "path": "chart",
            "name": "aws-efa-k8s-device-plugin",
            "url": "https://aws.github.io/eks-charts",
            "version": "v0.5.8",
        },
        "image": {
            "name": "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin",
            "tag": "v0.5.8",
            "digest": None,
        },
    },
    "scheduler-plugins": {
        "version": "v0.34.7",
        "chart": {
            "path": "chart",
            "name": "scheduler-plugins",
            "url": "https://scheduler-plugins.sigs.k8s.io",
            "version": "0.34.7",
        },
    },
}


@dataclass(frozen=True, kw_only=True)
class Registered:
    """One resource as the program asked the engine for it."""

    type: str
    name: str
    parent: str
    inputs: dict[str, Any]
    depends_on: tuple[str, ...]
    retain: bool
    ignored: tuple[str, ...] = ()
    deleted_with: str = ""
    protect: bool = False
    replaced_on: tuple[str, ...] = ()
    deleted_first: bool = False

    @property
    def key(self) -> str:
        """Type and name: unique in a program."""
        return f"{self.type} {self.name}"


class Recorder(mocks.MockMonitor):
    """A mock engine that keeps what mocks do not show: options and dependencies."""

    def __init__(self) -> None:
        super().__init__(_Echo())
        self.registered: list[Registered] = []

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 (the name of the RPC)
        deserialize: Callable[[Any], Any] = rpc.deserialize_properties
        self.registered.append(
            Registered(
                type=request.type,
                name=request.name,
                parent=_key(request.parent),
                inputs=deserialize(request.object),
                depends_on=tuple(sorted(_key(urn) for urn in request.dependencies)),
                retain=request.retainOnDelete,
                ignored=tuple(request.ignoreChanges),
                deleted_with=_key(request.deletedWith),
                protect=request.protect,
                replaced_on=tuple(request.replaceOnChanges),
                deleted_first=request.deleteBeforeReplace,
            )
        )
        register: Callable[[Any], Any] = super().RegisterResource
        return register(request)


class _Echo(mocks.Mocks):
    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        # What only a cloud knows, and another resource is told.
        learnt = {"latestVersion": 1} if args.typ == "aws:ec2/launchTemplate:LaunchTemplate" else {}
        return f"{args.name}-id", {**args.inputs, **learnt}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], None]:
        return {}, None


def artifacts_folder(base: Path) -> Path:
    """A folder of artifacts with small stand-ins for upstream's files."""
    for artifact, names in CRDS.items():
        folder = base / artifact / PINS[artifact]["version"]
        (folder / "crds").mkdir(parents=True)
        for name in names:
            (folder / "crds" / f"{name}.yaml").write_text(_text(name))
    for artifact, pin in PINS.items():
        if "chart" in pin:
            chart = base / artifact / pin["version"] / "chart"
            chart.mkdir()
            (chart / "Chart.yaml").write_text(f"name: {artifact}\n")
    return base


def pinned() -> dict[str, Any]:
    """The content of an `artifacts.yaml` that pins the stand-ins."""
    return {
        artifact: {
            **PINS[artifact],
            "manifests": [
                {"path": f"crds/{name}.yaml", "url": f"https://example.com/{name}.yaml", "digest": None}
                for name in names
            ],
        }
        for artifact, names in CRDS.items()
    }


def crd(name: str) -> dict[str, Any]:
    """A CRD of that name with hardly anything in it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, "annotations": {"controller-gen.kubebuilder.io/version": "v0.18.0"}},
        "spec": {"group": name.split(".", 1)[1], "scope": "Namespaced", "versions": []},
    }


@functools.cache
def _text(name: str) -> str:
    text: str = yaml.safe_dump(crd(name))
    return text


def stack(name: str, artifacts: Path) -> dict[str, Any]:
    """The settings of a stack that is checked in, with a folder as source of its artifacts."""
    document = stack_yaml.load((ROOT / f"stacks/Pulumi.{name}.yaml").read_text())
    return {
        **document["config"]["trainyard:platform"],
        "artifacts": {"source": "folder", "folder": str(artifacts)},
    }


def run(settings: dict[str, Any], **config: str) -> list[Registered]:
    """What the program registers for a stack with these settings, and with more keys."""

    def program() -> None:
        runpy.run_path(str(ROOT / "platform"), run_name="__main__")

    driver: Callable[[Callable[[], None]], Callable[[], None]] = pulumi.runtime.test
    # Pulumi asks for the thread's current loop, which any `asyncio.run` before has taken away.
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        recorder = Recorder()
        pulumi.runtime.set_mocks(_Echo(), project="trainyard", stack="sandbox", monitor=recorder)
        more = {f"trainyard:{key}": value for key, value in config.items()}
        pulumi.runtime.set_all_config({"trainyard:platform": json.dumps(settings), **more})
        # Where in the program each resource is made takes a third of the time, and no engine asks here.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(resource, "_get_stack_trace", source_pb2.StackTrace)
            driver(program)()
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert recorder.registered, "the program registered nothing"
    return recorder.registered


def _key(urn: str) -> str:
    if not urn:
        return ""
    kind, name = urn.split("::", 3)[2:]
    return f"{kind.split('$')[-1]} {name}"
