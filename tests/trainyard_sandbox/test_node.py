"""What keeps a node of a machine without a registry alive."""

import json
from pathlib import Path

from trainyard_sandbox.node import Node
from trainyard_sandbox.pki import KeyPair


def test_kubelet_never_collects_images_and_asks_the_api_server_who_may_come_in(tmp_path: Path) -> None:
    pair = KeyPair(tmp_path / "cert", tmp_path / "key")
    node = Node("n", 1, tmp_path, tmp_path / "config", "group", tmp_path / "ca", pair)
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
    text = Node("n", 1, tmp_path, tmp_path, "g", tmp_path, pair).files()["containerd.toml"]
    assert "restrict_oom_score_adj = true" in text


def test_each_node_has_an_address_a_range_of_pods_a_control_group_and_component_names_of_its_own(
    tmp_path: Path,
) -> None:
    pair = KeyPair(tmp_path / "cert", tmp_path / "key")
    first, second = (Node("n", n, tmp_path, tmp_path, "g", tmp_path, pair) for n in (1, 2))
    assert (first.space.address, first.space.pods, first.space.cgroup) == ("10.88.0.1", "10.244.1.0/24", "g")
    assert (second.space.address, second.space.pods, second.space.cgroup) == (
        "10.88.0.2",
        "10.244.2.0/24",
        "g/node-2",
    )

    def seen(node: Node) -> list[tuple[str, str | None]]:
        return [(c.name, c.ready) for c in node.components(Path)]

    assert seen(first) == [
        ("containerd", "/run/containerd/containerd.sock"),
        ("kubelet", "10.88.0.1:10248"),
        ("kube-proxy", "10.88.0.1:10256"),
        ("kube-router", None),
    ]
    assert seen(second) == [
        ("containerd-2", "/run/nodes/node-2/containerd/containerd.sock"),
        ("kubelet-2", "10.88.0.2:10248"),
        ("kube-proxy-2", "10.88.0.2:10256"),
        ("kube-router-2", None),
    ]
