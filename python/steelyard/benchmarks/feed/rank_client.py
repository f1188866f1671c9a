"""Asks a ranking service for the checksums of some users' feeds, before the clock runs.

In: an address, the authority that vouches for it. Out: a checksum by user. It is a client of one method
(idl/rank.thrift, framed compact protocol) in the control plane, so that a run needs no Thrift library, and so
that what the load is to expect does not come from the load. A test compares it with an independent client.

Not here: load.
"""

import socket
import ssl
import struct
from collections.abc import Iterable, Iterator

from steelyard._base import WorkloadFailedError

CHECKED_USERS = range(1, 9)
"""Users whose checksums are compared: enough to notice work that differs, few enough to wait for."""
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_I32, _I64, _STRING, _STRUCT = 5, 6, 8, 12
_PROTOCOL, _VERSION = 0x82, 1
_FRAME_BYTES_MAX = 16 << 20


def checksums(
    target: str,
    authority: str | None,
    name: str,
    *,
    timeout_s: float,
    users: Iterable[int] = CHECKED_USERS,
) -> dict[int, int]:
    """Return the checksum of each user's feed from the service at ``target``.

    ``authority`` is the certificate (PEM) that vouches for ``name``, None for a service without TLS.
    Raises WorkloadFailedError when the service does not answer as it should.
    """
    host, _, port = target.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as plain:
            if authority is None:
                return dict(_ask(plain, users))
            context = ssl.create_default_context(cafile=authority)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            with context.wrap_socket(plain, server_hostname=name) as wrapped:
                return dict(_ask(wrapped, users))
    except OSError as error:
        raise WorkloadFailedError(f"the ranking service at {target}: {error}") from error
    except (IndexError, ValueError, struct.error) as error:
        raise WorkloadFailedError(
            f"the ranking service at {target} answered with no result: {error}"
        ) from error


def _ask(connection: socket.socket, users: Iterable[int]) -> Iterator[tuple[int, int]]:
    for number, user in enumerate(users, start=1):
        message = request(number, user)
        connection.sendall(struct.pack(">I", len(message)) + message)
        (length,) = struct.unpack(">I", _read(connection, 4))
        if length > _FRAME_BYTES_MAX:
            raise ValueError(f"a frame of {length} bytes")
        yield user, response(_read(connection, length))


def _read(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ValueError("it closed the connection")
        data += part
    return bytes(data)


def request(seqid: int, user: int) -> bytes:
    """Return the message that calls ``rank`` for ``user``, with as many stories as the service is set to."""
    method = b"rank"
    rank_request = bytes([0x10 | _I64]) + _zigzag(user) + bytes([0x10 | _I32, 0, 0x10 | _I32, 0, 0])
    arguments = bytes([0x10 | _STRUCT]) + rank_request + b"\0"
    head = bytes([_PROTOCOL, _CALL << 5 | _VERSION]) + _varint(seqid) + _varint(len(method)) + method
    return head + arguments


def response(message: bytes) -> int:
    """Return the checksum in an answer; raises ValueError or IndexError for anything else."""
    if message[0] != _PROTOCOL or message[1] & 0x1F != _VERSION:
        raise ValueError("not a message of the compact protocol")
    _, at = _read_varint(message, 2)
    length, at = _read_varint(message, at)
    at += length
    if message[1] >> 5 == _EXCEPTION:
        raise ValueError(f"an exception: {_exception_text(message, at)}")
    if message[1] >> 5 != _REPLY:
        raise ValueError("not an answer")
    # The result is field 0, whose id does not fit the short form; the checksum is the first field in it.
    if message[at : at + 2] != bytes([_STRUCT, 0]) or message[at + 2] != 0x10 | _I64:
        raise ValueError("a result without a checksum")
    value, _ = _read_varint(message, at + 3)
    return (value >> 1) ^ -(value & 1)


def _exception_text(message: bytes, at: int) -> str:
    """Return the text of an exception, the first field of its structure; empty where it has none."""
    if message[at] != 0x10 | _STRING:
        return ""
    length, at = _read_varint(message, at + 1)
    return message[at : at + length].decode(errors="replace")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63))


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")
