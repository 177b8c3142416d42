"""Names and volumes of the cluster: what CoreDNS and the volumes' provisioner are told."""

import json
from pathlib import Path

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
