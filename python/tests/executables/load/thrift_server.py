"""A Thrift server in the way of thriftpy2: framed, compact, a thread a connection, in TLS if asked for.

Prints its port, and at its end (standard input closes) what it was asked, as JSON.
"""

import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path

import thriftpy2
from thriftpy2.protocol import TCompactProtocolFactory
from thriftpy2.server import TThreadedServer
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TFramedTransportFactory, TServerSocket, TSSLServerSocket

IDL = Path(__file__).with_name("ranker.thrift")


def checksum(user: int) -> int:
    """Return what the service makes of a user."""
    return user * 31 + 7


def main() -> None:
    """Serve until standard input closes."""
    idl = thriftpy2.load(str(IDL), module_name="ranker_thrift")
    calls: Counter[str] = Counter()
    users: set[int] = set()
    texts: set[str] = set()

    class Handler:
        """Answers calls."""

        def rank(self, request):  # type: ignore[no-untyped-def]
            """Answer as a ranking service does."""
            calls["rank"] += 1
            users.add(request.user_id)
            texts.add(request.text)
            assert (request.stories, request.compression) == (100, idl.Compression.ZSTD)
            return idl.RankResponse(
                checksum=checksum(request.user_id),
                compression=idl.Compression.NONE,
                stories=bytes(range(256)) * 40,
                story_count=100,
                stages_ns={"rank": 1000},
            )

        def refuse(self, request):  # type: ignore[no-untyped-def]
            """Raise what the service declares."""
            calls["refuse"] += 1
            raise idl.Overloaded(why="too much")

        def crash(self, request):  # type: ignore[no-untyped-def]
            """Raise what nobody declares: the connection ends."""
            raise RuntimeError("crashed")

    if len(sys.argv) > 1:
        socket = TSSLServerSocket(host="127.0.0.1", port=0, certfile=sys.argv[1])
    else:
        socket = TServerSocket(host="127.0.0.1", port=0)
    server = TThreadedServer(
        TProcessor(idl.Ranker, Handler()),
        socket,
        iprot_factory=TCompactProtocolFactory(),
        itrans_factory=TFramedTransportFactory(),
        daemon=True,
    )
    socket.listen()
    print(socket.sock.getsockname()[1], flush=True)
    # `serve` listens by itself: here it is done, so that the port is known.
    socket.listen = lambda: None
    threading.Thread(target=server.serve, daemon=True).start()
    sys.stdin.read()
    print(json.dumps({"calls": calls, "users": sorted(users), "texts": sorted(texts)}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
