"""Names and volumes of the cluster: what CoreDNS and the volumes' provisioner are told."""

import json
from pathlib import Path

import pytest

from trainyard_sandbox.manifests import BOOTSTRAP
from trainyard_sandbox.services import Services

SERVICES = Services(Path("/config"), Path("/volumes"), "a-node")


def test_a_volume_is_on_all_nodes_and_made_on_the_one_that_stays() -> None:
    files = SERVICES.files()
    assert json.loads(files["local-path.json"]) == {"sharedFileSystemPath": "/volumes"}
    assert json.loads(files["volume-helper.json"])["spec"]["nodeSelector"] == {
        "kubernetes.io/hostname": "a-node"
    }


def test_there_is_one_storage_class_and_claims_get_it_by_default() -> None:
    [found] = [one for one in BOOTSTRAP if one["kind"] == "StorageClass"]
    assert found["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert (found["provisioner"], found["volumeBindingMode"]) == ("rancher.io/local-path", "Immediate")


def test_names_outside_the_cluster_get_a_plain_no_in_a_block_of_their_own() -> None:
    inside, outside = SERVICES.files()["Corefile"].split("\n}\n", 1)
    assert "template" not in inside
    assert "rcode NXDOMAIN" in outside


@pytest.mark.parametrize(
    ("folder", "word"),
    [
        ("/my work/config", '"/my work/config/coredns.kubeconfig"'),
        ("/the #1/config", '"/the #1/config/coredns.kubeconfig"'),
        ('/"a"/config', r'"/\"a\"/config/coredns.kubeconfig"'),
    ],
)
def test_the_kubeconfig_of_the_cluster_dns_is_one_word_whatever_its_folder_is_called(
    folder: str, word: str
) -> None:
    corefile = Services(Path(folder), Path("/volumes"), "a-node").files()["Corefile"]
    assert f"        kubeconfig {word}\n" in corefile
