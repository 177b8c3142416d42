"""docs/site.md: a site's whole stack file is what it says, and is verified as a pull request would be."""

import io
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import program
from tests.support.clones import clone_at
from tests.support.program import Registered
from tests.support.site_stacks import stack_file
from trainyard_cli.commands import verify

from .graphs import small_pins


@pytest.fixture(scope="module")
def registered(artifacts_folder: Path) -> list[Registered]:
    settings: dict[str, Any] = yaml.safe_load(stack_file())["config"]["trainyard:platform"]
    source = {"source": "folder", "folder": str(artifacts_folder)}
    with small_pins():
        return program.run({**settings, "artifacts": source})


def of(registered: list[Registered], kind: str) -> dict[str, dict[str, Any]]:
    """What the platform asks for of a kind, by namespace and name."""
    found = {}
    for one in registered:
        if one.type.endswith(f":{kind}"):
            metadata = one.inputs.get("metadata") or {"name": one.name}
            found["/".join(filter(None, (metadata.get("namespace"), metadata["name"])))] = one.inputs
    return found


def test_verify_finds_nothing_mandatory_in_it(tmp_path: Path) -> None:
    site = clone_at(tmp_path)
    shutil.copytree(program.ROOT / "runtimes", site.runtimes, dirs_exist_ok=True)
    (site.stacks / "Pulumi.prod.yaml").write_text(stack_file())
    out, err = io.StringIO(), io.StringIO()
    assert verify.run(today=date(2026, 11, 21), out=out, err=err, site=site) == 0, out.getvalue()
    assert " on 1 stacks: 0 mandatory, " in err.getvalue()


def test_each_namespace_with_pods_has_the_secret_with_which_they_are_pulled(
    registered: list[Registered],
) -> None:
    fetched = of(registered, "ExternalSecret")
    homes = (
        "jobset-system",
        "kueue-system",
        "trainyard-accelerators",
        "trainyard-system",
        "vision",
        "speech",
    )
    assert fetched.keys() == {*(f"{home}/registry" for home in homes), "vision/hugging-face"}
    assert {str(one["spec"]["secretStoreRef"]) for one in fetched.values()} == {
        "{'kind': 'ClusterSecretStore', 'name': 'vault'}"
    }
    accounts = of(registered, "ServiceAccount")
    for team in ("vision", "speech"):
        account = accounts[f"{team}/default"]
        assert account["imagePullSecrets"] == [{"name": "registry"}]
        role = f"arn:aws:iam::111122223333:role/{team}"
        assert account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"] == role
    pod = of(registered, "Deployment")["trainyard-system/trainyard-operator"]["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["nodeSelector"] == {"example.com/role": "control"}


def test_its_nodes_are_on_one_fast_network_and_what_pods_ask_of_it_is_counted(
    registered: list[Registered],
) -> None:
    (template,) = of(registered, "LaunchTemplate").values()
    assert len(template["networkInterfaces"]) == 32
    charts = {one["namespace"] + "/" + name for name, one in of(registered, "Chart").items()}
    assert {
        "trainyard-accelerators/nvidia-device-plugin",
        "trainyard-accelerators/efa-device-plugin",
    } <= charts
    vision = of(registered, "ClusterQueue")["vision"]["spec"]
    quota = {
        one["name"]: one["nominalQuota"]
        for group in vision["resourceGroups"]
        for one in group["flavors"][0]["resources"]
    }
    assert (quota["vpc.amazonaws.com/efa"], quota["nvidia.com/gpu"]) == ("192", "48")
    assert "torch-efa" in of(registered, "ClusterTrainingRuntime")
