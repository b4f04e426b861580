"""Addresses at which other devices in the network reach this machine, and the QR codes that lead there."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

import psutil
import segno

from app.classroom.answers import Door
from app.ground.settings import is_loopback

_VIRTUAL = ("docker", "br-", "veth", "virbr", "vmnet", "vboxnet", "utun", "tun", "tap", "zt", "tailscale", "wg")
_ANYWHERE = ("0.0.0.0", "::", "")
_SOMEWHERE = ("10.255.255.255", 9)  # an address in a local network, to which nothing is sent


def bases(opened: str, host: str) -> list[str]:
    """Return addresses at which other devices reach the server, the likeliest first, without a last slash.

    Args:
        opened: address of the presenter's page. If it is not a loopback address, others use it too (a proxy's name);
            otherwise only its port and path are used.
        host: what the server listens on.
    """
    parts = urlsplit(opened)
    name = parts.hostname or ""
    if not is_loopback(name):
        return [opened]
    if is_loopback(host.strip("[]")):
        return []
    port = f":{parts.port}" if parts.port else ""
    return [f"{parts.scheme}://{address}{port}{parts.path}" for address in _addresses(host.strip("[]"))]


def door(base: str, join: str) -> Door:
    """Return the entry of a class at an address of the server, by the path `join`."""
    url = base + join
    code = segno.make(url, error="m", micro=False)
    rows = [list(row) for row in code.matrix]
    path = "".join(f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, dark in enumerate(row) if dark)
    return {"url": url, "shown": f"{base.partition('://')[2]}/j", "size": len(rows), "path": path}


def _addresses(host: str) -> list[str]:
    if host not in _ANYWHERE:
        return [host]
    order = {
        one.address: int(interface.startswith(_VIRTUAL))
        for interface, addresses in psutil.net_if_addrs().items()
        for one in addresses
        if one.family == socket.AF_INET and _is_local(one.address)
    }
    if (first := _by_route()) in order:
        order[first] = -1
    return sorted(order, key=lambda address: (order[address], address))


def _is_local(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return not (found.is_loopback or found.is_link_local or found.is_unspecified)


def _by_route() -> str:
    """Return the address from which packets to the local network would be sent; None if there is no such network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
        except OSError:
            return ""
        return str(probe.getsockname()[0])
