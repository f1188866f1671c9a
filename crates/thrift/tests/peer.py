"""The other side of the test thriftpy2: thriftpy2's own compact protocol.

Prints the bytes of a call (hexadecimal), then reads the bytes of an answer and of an exception from
standard input, and prints what it made of them (JSON).
"""

import json
import sys

import thriftpy2
from thriftpy2.protocol.compact import TCompactProtocol
from thriftpy2.thrift import TApplicationException, TMessageType
from thriftpy2.transport import TMemoryBuffer
from thriftpy2.transport.framed import TFramedTransport

idl = thriftpy2.load(sys.argv[1], module_name="peer_thrift")
everything = idl.Everything(
    yes=True,
    no=False,
    small=-7,
    short_number=-300,
    number=2147483647,
    long_number=9223372036854775807,
    real=-0.1,
    text="Grüße",
    blob=bytes(range(256)),
    inner=idl.Inner(number=-1, yes=True),
    few=[0, 1, -1],
    many=[str(i) for i in range(20)],
    pairs={"a": 1, "b": -(2**63)},
    nothing={},
    flags=[True, False, True],
    inners=[idl.Inner(number=i, yes=False) for i in range(3)],
    far=-1,
    negative=-(2**40),
    nested=[[1, 2], [], [3]],
)


def open_frames(data: bytes = b"") -> tuple[TMemoryBuffer, TFramedTransport]:
    """Return the transport of `data`, and of whatever is written, with its inner buffer."""
    inner = TMemoryBuffer(data)
    return inner, TFramedTransport(inner)


inner, frames = open_frames()
protocol = TCompactProtocol(frames)
protocol.write_message_begin("echo", TMessageType.CALL, 70000)
idl.Peer.echo_args(everything=everything).write(protocol)
protocol.write_message_end()
frames.flush()
print(inner.getvalue().hex(), flush=True)

received = []
for line in sys.stdin:
    protocol = TCompactProtocol(open_frames(bytes.fromhex(line))[1])
    name, kind, seqid = protocol.read_message_begin()
    result = TApplicationException() if kind == TMessageType.EXCEPTION else idl.Peer.echo_result()
    result.read(protocol)
    protocol.read_message_end()
    if kind == TMessageType.EXCEPTION:
        received.append([name, seqid, result.type, result.message])
    else:
        received.append([name, seqid, result.success == everything])
print(json.dumps(received))
