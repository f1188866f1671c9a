"""Sends to the address and port that are named as fast as the other side takes it."""

import socket
import sys
import time


def main() -> None:
    """Do it for as many seconds as the first argument says."""
    data = bytes(1 << 16)
    with socket.create_connection((sys.argv[2], int(sys.argv[3])), timeout=10) as connection:
        connection.settimeout(None)
        end = time.monotonic() + float(sys.argv[1])
        while time.monotonic() < end:
            connection.sendall(data)


if __name__ == "__main__":
    main()
