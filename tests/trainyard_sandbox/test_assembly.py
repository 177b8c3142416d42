import socket
from pathlib import Path

import pytest

from trainyard_sandbox import assembly
from trainyard_sandbox.assembly import free_port
from trainyard_sandbox.control_plane import ControlPlane, Credentials
from trainyard_sandbox.errors import SandboxError


def test_a_free_port_is_none_that_the_kernel_gives_to_outgoing_connections() -> None:
    first_outgoing, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert max(free_port() for _ in range(20)) < first_outgoing


def test_ports_in_a_row_are_all_free(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port(4)
    monkeypatch.setattr(assembly, "_SERVER_PORTS", range(first, first + 3))
    with socket.create_server(("127.0.0.1", first + 1)):
        assert free_port(2) == first + 2


def test_no_free_port_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setattr(assembly, "_SERVER_PORTS", range(port, port + 1))
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(SandboxError, match=f"^No port of 127.0.0.1 is free between {port} and {port + 1}: "),
    ):
        free_port()


@pytest.mark.parametrize("whom", ["", "peer-"], ids=["clients", "peers"])
def test_etcd_answers_nobody_without_a_certificate_of_its_authority(tmp_path: Path, whom: str) -> None:
    control_plane = ControlPlane(
        "127.0.0.1", 1, 2379, tmp_path, tmp_path, tmp_path / "audit", with_node=False
    )
    etcd, *_ = control_plane.components(Path, Credentials.make(tmp_path, "127.0.0.1"))
    flags = dict(word.removeprefix("--").split("=", 1) for word in etcd.argv[1:])
    urls = "listen-peer-urls" if whom else "listen-client-urls"
    names = (urls, f"{whom}cert-file", f"{whom}key-file", f"{whom}client-cert-auth", f"{whom}trusted-ca-file")
    assert [flags.get(name) for name in names] == [
        f"https://127.0.0.1:{2380 if whom else 2379}",
        f"{tmp_path}/etcd.crt",
        f"{tmp_path}/etcd.key",
        "true",
        f"{tmp_path}/etcd-ca.crt",
    ]
