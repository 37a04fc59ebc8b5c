"""Network devices of the current namespace over rtnetlink, for machines without the command `ip`.

Run as a script: `python netlink.py up DEVICE`, `down DEVICE`, `address DEVICE ADDRESS/PREFIX`, `bridge DEVICE` and
`veth DEVICE PEER PID BRIDGE`, which gives the peer to the network namespace of a process.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

NEWLINK, NEWADDR, ERROR = 16, 20, 2  # message types
REQUEST, ACK, EXCL, CREATE = 0x1, 0x4, 0x200, 0x400  # flags of a message
IFNAME, MASTER, LINKINFO, NET_NS_PID = 3, 10, 18, 19  # attributes of a link
INFO_KIND, INFO_DATA, VETH_PEER = 1, 2, 1  # nested in LINKINFO
LOCAL = 2  # attribute of an address
UP = 0x1


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def name(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def link(device: str | None = None, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, socket.if_nametoindex(device) if device else 0, flags, change)


def send(kind: int, flags: int, body: bytes) -> None:
    """Send a request and wait for the kernel's acknowledgement."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.send(struct.pack("=IHHII", 16 + len(body), kind, REQUEST | ACK | flags, 1, 0) + body)
        reply = kernel.recv(4096)
    code = struct.unpack_from("=i", reply, 16)[0]
    if code:
        raise OSError(-code, os.strerror(-code))


def set_up(device: str, is_up: bool) -> None:
    send(NEWLINK, 0, link(device, UP * is_up, UP))


def add_address(device: str, address: str) -> None:
    host, prefix = address.split("/")
    body = struct.pack("=BBBBi", socket.AF_INET, int(prefix), 0, 0, socket.if_nametoindex(device))
    send(NEWADDR, CREATE | EXCL, body + attribute(LOCAL, socket.inet_aton(host)))


def add_bridge(device: str) -> None:
    send(NEWLINK, CREATE | EXCL, link() + name(IFNAME, device) + attribute(LINKINFO, name(INFO_KIND, "bridge")))


def add_veth(device: str, peer: str, pid: int, bridge: str) -> None:
    """Create a virtual cable from a bridge to the network namespace of a process."""
    other_end = link() + name(IFNAME, peer) + attribute(NET_NS_PID, struct.pack("=I", pid))
    info = name(INFO_KIND, "veth") + attribute(INFO_DATA, attribute(VETH_PEER, other_end))
    master = attribute(MASTER, struct.pack("=I", socket.if_nametoindex(bridge)))
    send(NEWLINK, CREATE | EXCL, link() + name(IFNAME, device) + master + attribute(LINKINFO, info))


def main(action: str, device: str, *words: str) -> None:
    match action:
        case "up" | "down":
            set_up(device, action == "up")
        case "address":
            add_address(device, words[0])
        case "bridge":
            add_bridge(device)
        case "veth":
            add_veth(device, words[0], int(words[1]), words[2])


if __name__ == "__main__":
    main(*sys.argv[1:])
