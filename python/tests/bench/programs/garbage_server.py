"""A TCP server that answers whatever it is sent with random bytes. Run as: garbage_server.py PORT."""

import random
import socketserver
import sys


class Garbage(socketserver.BaseRequestHandler):
    def handle(self):
        dice = random.Random(1)
        while self.request.recv(65536):
            self.request.sendall(dice.randbytes(100) + b"\r\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Garbage) as server:
        server.serve_forever()
