"""What keeps a node of a machine without a registry alive."""

import json
from pathlib import Path

from trainyard_sandbox.node import Node
from trainyard_sandbox.pki import KeyPair


def test_kubelet_never_collects_images_and_asks_the_api_server_who_may_come_in(tmp_path: Path) -> None:
    pair = KeyPair(tmp_path / "cert", tmp_path / "key")
    node = Node("n", tmp_path, tmp_path / "config", "group", tmp_path / "ca", pair)
    kubelet = json.loads(node.files()["kubelet.json"])
    wanted = {
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "500Mi"},
        "authorization": {"mode": "Webhook"},
        "readOnlyPort": 0,
        "cgroupRoot": "/group",
    }
    assert {key: kubelet[key] for key in wanted} == wanted
    assert kubelet["authentication"]["anonymous"] == {"enabled": False}


def test_containerd_never_lowers_a_score_that_it_may_not_lower(tmp_path: Path) -> None:
    pair = KeyPair(tmp_path / "cert", tmp_path / "key")
    text = Node("n", tmp_path, tmp_path, "g", tmp_path, pair).files()["containerd.toml"]
    assert "restrict_oom_score_adj = true" in text
