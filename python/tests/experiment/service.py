"""A service of our own: it counts requests at a rate, and its latency and rate are changed by a request.

Standard library only: it is run as a program, ``service.py PORT_FILE LOG``. ``GET /set?rate=R&p99=P`` changes
it, ``GET /metrics`` tells what it has done, in Prometheus' text format; each request is a line of ``LOG``.
"""

import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

STATE = {"rate": 1000.0, "p99": 10.0, "count": 0.0, "speed": 1000.0, "time": time.time()}
LOCK = threading.Lock()
LOG = Path(sys.argv[2] if len(sys.argv) > 2 else "/dev/null")


def advance() -> list[float]:
    """Do the requests of the time since the last call; return when each ended.

    What is done is a matter of time alone, so that a busy machine changes no figure. A new rate is approached
    over a second.
    """
    ended = []
    while STATE["time"] + 0.01 <= time.time():
        STATE["time"] += 0.01
        STATE["speed"] += (STATE["rate"] - STATE["speed"]) * 0.03
        before = int(STATE["count"])
        STATE["count"] += STATE["speed"] * 0.01 * random.Random(before).gauss(1, 0.01)
        ended += [STATE["time"]] * (int(STATE["count"]) - before)
    return ended


class Handler(BaseHTTPRequestHandler):
    """Answers."""

    def do_GET(self) -> None:
        """Change the service, or tell what it has done."""
        at = urlsplit(self.path)
        with LOCK, LOG.open("a") as file:
            file.writelines(f"{ended:.3f} GET / 200\n" for ended in advance())
            if at.path == "/set":
                STATE.update({name: float(value[0]) for name, value in parse_qs(at.query).items()})
            noise = random.Random(int(STATE["count"])).gauss(1, 0.01)
            body = (
                "# TYPE requests_total counter\n"
                f"requests_total {STATE['count']:.0f}\n"
                "# TYPE latency_p99_ms gauge\n"
                f"latency_p99_ms {STATE['p99'] * noise}\n"
                "# TYPE speed gauge\n"
                f"speed {STATE['speed'] * random.Random(int(STATE['count']) + 1).gauss(1, 0.01)}\n"
                "# TYPE rate gauge\n"
                f"rate {STATE['rate']}\n"
            ).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Say nothing."""


def work() -> None:
    """Write a line of each request."""
    while True:
        time.sleep(0.05)
        with LOCK, LOG.open("a") as file:
            file.writelines(f"{ended:.3f} GET / 200\n" for ended in advance())


if __name__ == "__main__":
    LOG.touch()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=work, daemon=True).start()
    partial = Path(sys.argv[1] + ".partial")
    partial.write_text(str(server.server_port))
    partial.rename(sys.argv[1])
    server.serve_forever()
