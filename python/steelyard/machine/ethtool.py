"""Rings, channels, interrupt delay and offloads of an interface, as ``ethtool`` shows them.

In: an interface's name. Out: ``records.LinkSettings``, or why the kernel gives none. Only the running kernel
can be asked (ioctl SIOCETHTOOL); every request made here reads, and needs no privilege.
Source: include/uapi/linux/ethtool.h.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import socket
import struct

from steelyard.records import LinkSettings

_SIOCETHTOOL = 0x8946
_GET_COALESCE, _GET_RINGS, _GET_CHANNELS = 0x0E, 0x10, 0x3C
_GET_STRINGS, _GET_SET_INFO, _GET_FEATURES = 0x1B, 0x37, 0x3A
_FEATURE_NAMES, _NAME_BYTES = 4, 32
_MOST_FEATURES = 1024

OFFLOADS = (
    "rx-checksum",
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-hashing",
    "rx-lro",
    "rx-udp-gro-forwarding",
    "tx-checksum-ip-generic",
    "tx-checksum-ipv4",
    "tx-generic-segmentation",
    "tx-scatter-gather",
    "tx-tcp-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
)
"""Features that move work between processor and card; the kernel knows some sixty."""


def settings(name: str) -> LinkSettings | str:
    """Return the settings of the interface ``name``, or the reason why there are none."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            rings = _words(asker, name, _GET_RINGS, 9)
            channels = _words(asker, name, _GET_CHANNELS, 9)
            coalesce = _words(asker, name, _GET_COALESCE, 23)
            offloads = _offloads(asker, name)
    except OSError as error:
        return f"the kernel answered: {error.strerror}"
    if not rings and not channels and not coalesce and not offloads:
        return "the driver reports nothing to ethtool"
    return LinkSettings(
        # Drivers without rings of their own answer zeros.
        receive_ring_max=(rings[1] or None) if rings else None,
        transmit_ring_max=(rings[4] or None) if rings else None,
        receive_ring=(rings[5] or None) if rings else None,
        transmit_ring=(rings[8] or None) if rings else None,
        channels_max=(channels[1] + channels[4] or None) if channels else None,
        channels=(channels[5] + channels[8] or None) if channels else None,
        receive_delay_ns=coalesce[1] * 1000 if coalesce else None,
        adaptive_receive=bool(coalesce[10]) if coalesce else None,
        offloads=offloads,
    )


def _ask(asker: socket.socket, name: str, request: array.array[int]) -> bool:
    """Let the kernel fill ``request``; return whether the driver knows the answer.

    Raises OSError when nobody may be asked, as without ioctls or for a name that is gone.
    """
    encoded = os.fsencode(name)
    if len(encoded) > 15:
        return False
    address, _ = request.buffer_info()
    try:
        fcntl.ioctl(asker, _SIOCETHTOOL, struct.pack("16sP16x", encoded, address))
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return False
        raise
    return True


def _words(asker: socket.socket, name: str, command: int, count: int) -> list[int] | None:
    request = array.array("I", [command] + [0] * (count - 1))
    return request.tolist() if _ask(asker, name, request) else None


def _offloads(asker: socket.socket, name: str) -> dict[str, str]:
    info = array.array("I", [_GET_SET_INFO, 0, 1 << _FEATURE_NAMES, 0, 0])
    if not _ask(asker, name, info) or not 0 < info[4] <= _MOST_FEATURES:
        return {}
    count = info[4]
    strings = array.array("I", [_GET_STRINGS, _FEATURE_NAMES, count] + [0] * (count * _NAME_BYTES // 4))
    blocks = (count + 31) // 32
    features = array.array("I", [_GET_FEATURES, blocks] + [0] * (blocks * 4))
    if not _ask(asker, name, strings) or not _ask(asker, name, features):
        return {}
    text = strings.tobytes()[12:]
    offloads = {}
    for index in range(count):
        raw = text[index * _NAME_BYTES : (index + 1) * _NAME_BYTES]
        feature = raw.split(b"\0", 1)[0].decode("ascii", "replace")
        if feature in OFFLOADS:
            available, _, active, never_changed = features[2 + index // 32 * 4 :][:4]
            bit = 1 << index % 32
            is_fixed = bool(never_changed & bit) or not available & bit
            offloads[feature] = ("on" if active & bit else "off") + (" [fixed]" if is_fixed else "")
    return dict(sorted(offloads.items()))
