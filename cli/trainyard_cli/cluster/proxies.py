"""The proxy that the environment names for an API server, as kubectl reads it.

Called by `connection`. The rules are those of Go's package httpproxy: Python's own know neither networks
nor IPv6 addresses in NO_PROXY.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from trainyard_kube.credentials import require_proxy

_PORT: Final = 443


def proxy(server: str, environment: Mapping[str, str]) -> str | None:
    """The proxy for a server; None without one. Only this machine is reached without TLS, and directly.

    Raises:
        CredentialsError: The proxy is not supported.
    """
    url = urlsplit(server)
    host = url.hostname or ""
    address = _address(host)
    if url.scheme != "https" or host == "localhost" or (address is not None and address.is_loopback):
        return None
    entries = (entry.strip().lower() for entry in _variable("NO_PROXY", environment).split(","))
    if any(_excludes(entry, host, address, url.port or _PORT) for entry in entries if entry):
        return None
    if not (text := _variable("HTTPS_PROXY", environment).strip()):
        return None
    proxy_url = text if "://" in text else f"http://{text}"
    require_proxy(proxy_url, "HTTPS_PROXY")
    return proxy_url


def _variable(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name) or environment.get(name.lower(), "")


def _excludes(entry: str, host: str, address: IPv4Address | IPv6Address | None, port: int) -> bool:
    """Whether an entry of NO_PROXY means this server: `*`, a network, an address, or a domain."""
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False
    name, _, of_port = entry.rpartition(":")
    if not name or (":" in name and not name.startswith("[")):
        name, of_port = entry, ""
    if of_port not in ("", str(port)):
        return False
    name = name.removeprefix("[").removesuffix("]")
    if address is not None:
        return _address(name) == address
    suffix = name.removeprefix("*")
    return host == name or host.endswith(suffix if suffix.startswith(".") else f".{suffix}")


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None
