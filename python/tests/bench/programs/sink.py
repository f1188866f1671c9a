"""Accepts one connection on a port of its choice, says which, and takes whatever comes."""

import socket
import sys


def main() -> None:
    """Do it until the connection ends."""
    with socket.create_server((sys.argv[1], 0)) as server:
        print(server.getsockname()[1], flush=True)
        connection, _ = server.accept()
        with connection:
            while connection.recv(1 << 20):
                pass


if __name__ == "__main__":
    main()
