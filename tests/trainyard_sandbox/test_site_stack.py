"""A site's stack, tried on a sandbox by one command: what Pulumi then reads."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.site_stacks import stack_file
from tests.support.yaml_files import load
from trainyard_cli.commands import verify
from trainyard_cli.files import stackfile
from trainyard_platform import versions
from trainyard_platform.artifacts import Artifacts
from trainyard_platform.stack import settings
from trainyard_sandbox import pulumi, site_stack
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.parts import PARTS
from trainyard_sandbox.paths import PROJECT, Instance

STACKS = ("onprem", "eks", "gke", "aks", "openshift", "site")
SANDBOX = load(PROJECT / "stacks" / "Pulumi.sandbox.yaml")


def document(stack: str) -> dict[str, Any]:
    text = stack_file() if stack == "site" else (PROJECT / "stacks" / f"Pulumi.{stack}.yaml").read_text()
    return dict(yaml.safe_load(text))


@pytest.mark.parametrize("stack", STACKS)
def test_a_sites_stack_fits_the_sandbox_and_keeps_its_queues_and_tenants(stack: str) -> None:
    site = document(stack)
    before = copy.deepcopy(site)
    value, _ = site_stack.adapted(site, SANDBOX, "1.35", PARTS)
    assert site == before
    own = value["config"]["trainyard:platform"]
    read = settings.of(own, stack)
    versions.check(read, Artifacts(read.artifacts, PROJECT), stack)
    assert own["queues"] == site["config"]["trainyard:platform"]["queues"]
    assert list(read.tenants) == list(site["config"]["trainyard:platform"]["tenants"])
    assert {str(pool.provider) for pool in read.node_pools.values()} == {"kwok"}
    assert read.operator.image == "docker.io/trainyard/operator:sandbox"


def test_a_sites_stack_needs_no_identifier() -> None:
    site = document("site")
    del site["config"]["trainyard:platform"]["cluster"]
    value, _ = site_stack.adapted(site, SANDBOX, "1.35", PARTS)
    assert value["config"]["trainyard:platform"]["cluster"] == {"version": "1.35"}


@pytest.mark.parametrize("stack", ["eks", "site"])
def test_no_rule_refuses_it_where_the_site_allows_only_its_own_registries(
    stack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, _ = site_stack.adapted(document(stack), SANDBOX, "1.35", PARTS)
    file = tmp_path / f"Pulumi.{stack}.yaml"
    file.write_text(yaml.safe_dump(value))
    monkeypatch.setenv("PULUMI_OPTION_CONFIG_FILE", str(file))
    assert verify.refusals(stack, stackfile.read_as_pulumi(stack)) == []


def test_the_sandboxs_images_replace_those_of_a_release() -> None:
    site = document("site")
    own = site["config"]["trainyard:platform"]
    own["artifacts"]["images"] = [f"registry.example.com/operator:1.0.0@sha256:{'0' * 64}"]
    del own["operator"]["image"]
    assert settings.of(own, "site").operator.image == own["artifacts"]["images"][0]
    value, _ = site_stack.adapted(site, SANDBOX, "1.35", PARTS)
    read = settings.of(value["config"]["trainyard:platform"], "site")
    assert (read.operator.image, read.artifacts.images) == ("docker.io/trainyard/operator:sandbox", ())


def test_what_is_not_the_sites_is_said() -> None:
    site = document("site")
    site["config"]["trainyard:platform"]["volcano"] = {"enabled": True}
    value, notes = site_stack.adapted(site, SANDBOX, "1.34", ())
    assert value["config"]["trainyard:platform"]["volcano"] == {"enabled": False}
    assert notes == [
        "cluster: only the identifier, on Kubernetes 1.34; charts, CRDs and images are the sandbox's",
        "volcano: the sandbox is without (`trainyard sandbox up --with volcano`)",
        "controllers: left out, for their nodes and Secrets are the site's",
        "nodePools: h100: simulated, jobs on them end at once",
    ]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the shipped stacks and Pulumi's project."""
    shutil.copytree(PROJECT / "stacks", tmp_path / "stacks")
    shutil.copy(PROJECT / "Pulumi.yaml", tmp_path)
    return tmp_path


def test_pulumi_reads_a_copy_and_its_salt_is_kept(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    instance = Instance("prod", site)
    (instance.dir / "pulumi").mkdir(parents=True)
    file = Path(pulumi.environment(instance, "1.35", PARTS, "onprem")["PULUMI_OPTION_CONFIG_FILE"])
    value, notes = site_stack.adapted(document("onprem"), SANDBOX, "1.35", PARTS)
    assert (file.name, yaml.safe_load(file.read_text())) == ("Pulumi.onprem.yaml", value)
    said = [f"stacks/Pulumi.onprem.yaml on the sandbox: {note}" for note in notes]
    assert capsys.readouterr().err.splitlines() == said
    file.write_text(f"encryptionsalt: v1:abc\n{file.read_text()}")
    pulumi.environment(instance, "1.35", PARTS, "onprem")
    assert yaml.safe_load(file.read_text()) == {"encryptionsalt": "v1:abc", **value}


def test_what_the_sites_own_stack_of_the_sandbox_lacks_is_as_in_the_shipped_one(site: Path) -> None:
    tried = document("onprem")
    tried["config"]["trainyard:platform"] |= {
        "storage": {"scratch": {"className": "fast"}},
        "kueue": {"enabled": True},
        "dataCache": {"enabled": True},
    }
    (site / "stacks" / "Pulumi.onprem.yaml").write_text(yaml.safe_dump(tried))
    runtime = {"image": "registry.example.com/ours:1"}
    own = {
        "cluster": {"version": "1.35"},
        "kueue": {"enabled": True},
        "storage": None,
        "runtimes": {"ours": runtime},
    }
    (site / "stacks" / "Pulumi.sandbox.yaml").write_text(
        yaml.safe_dump({"config": {"trainyard:platform": own}})
    )
    instance = Instance("prod", site)
    (instance.dir / "pulumi").mkdir(parents=True)
    file = Path(pulumi.environment(instance, "1.35", PARTS, "onprem")["PULUMI_OPTION_CONFIG_FILE"])
    value, _ = site_stack.adapted(tried, SANDBOX, "1.35", PARTS)
    value["config"]["trainyard:platform"]["runtimes"]["ours"] = runtime
    assert yaml.safe_load(file.read_text()) == value


def test_a_stack_that_is_not_there_and_a_sandbox_that_has_another_are_refused(site: Path) -> None:
    instance = Instance("default", site)
    for name in ("prod", "../../stacks/Pulumi.onprem", "x/../../stacks/Pulumi.onprem"):
        with pytest.raises(SandboxError, match="there is no such stack"):
            pulumi.environment(instance, "1.35", PARTS, name)
    states = instance.dir / "pulumi" / ".pulumi" / "stacks" / "trainyard"
    states.mkdir(parents=True)
    for name, resources in (("sandbox", [{"urn": "a"}]), ("onprem", [])):
        state = {"checkpoint": {"latest": {"resources": resources}}}
        (states / f"{name}.json").write_text(json.dumps(state))
    with pytest.raises(
        SandboxError, match="This sandbox has the stack 'sandbox', and two stacks would both own"
    ):
        pulumi.environment(instance, "1.35", PARTS, "onprem")
