"""Addresses at which other devices in the network reach this server, and QR codes of the join links."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

import psutil
import segno

from app.classroom.answers import Door
from app.ground.settings import is_loopback

_VIRTUAL = ("docker", "br-", "veth", "virbr", "vmnet", "vboxnet", "utun", "tun", "tap", "zt", "tailscale", "wg")
_ANY_ADDRESS = ("0.0.0.0", "::", "")
_PROBE = ("10.255.255.255", 9)  # an address in a local network, to which nothing is sent


def base_urls(page_url: str, host: str) -> list[str]:
    """Return URLs at which other devices reach the server, most likely first, without a trailing slash.

    Args:
        page_url: URL of the presenter's page. If its host is not a loopback address, other devices use it too;
            otherwise only its port and path are used.
        host: address that the server listens on.
    """
    parts = urlsplit(page_url)
    name = parts.hostname or ""
    if not is_loopback(name):
        return [page_url]
    if is_loopback(host.strip("[]")):
        return []
    port = f":{parts.port}" if parts.port else ""
    return [f"{parts.scheme}://{address}{port}{parts.path}" for address in _addresses(host.strip("[]"))]


def door(base: str, join: str) -> Door:
    """Return the join link of a class at a URL of the server, with its QR code. `join`: path of the link."""
    url = base + join
    code = segno.make(url, error="m", micro=False)
    rows = [list(row) for row in code.matrix]
    path = "".join(f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, dark in enumerate(row) if dark)
    return {"url": url, "shown": f"{base.partition('://')[2]}/j", "size": len(rows), "path": path}


def _addresses(host: str) -> list[str]:
    if host not in _ANY_ADDRESS:
        return [host]
    order = {
        one.address: int(interface.startswith(_VIRTUAL))
        for interface, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if one.family == socket.AF_INET and _is_local(one.address)
    }
    if (first := _route_address()) in order:
        order[first] = -1
    return sorted(order, key=lambda address: (order[address], address))


def _is_local(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)


def _route_address() -> str:
    """Return the source address of packets to the local network, or "" if there is no such network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_PROBE)
        except OSError:
            return ""
        return str(probe.getsockname()[0])
