"""A real Prometheus for the length of a test, with a past that the test wrote."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / ".tools" / "prometheus" / "usr" / "bin"
PATIENCE_S = 30.0


@contextmanager
def prometheus(folder: Path, past: Iterable[str], prefix: str = "") -> Iterator[str]:
    """Run a server whose store holds ``past``, lines of OpenMetrics text; yield its address.

    ``prefix`` is the path below which it answers, as behind a proxy.
    """
    assert (TOOLS / "prometheus").exists(), "prometheus is missing: run scripts/install-test-packages"
    text, store, config = folder / "past.txt", folder / "prometheus", folder / "prometheus.yml"
    text.write_text("".join(f"{line}\n" for line in [*past, "# EOF"]))
    config.write_text("{}\n")
    made = [TOOLS / "promtool", "tsdb", "create-blocks-from", "openmetrics", text, store]
    subprocess.run(made, check=True, capture_output=True, timeout=PATIENCE_S)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        TOOLS / "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={store}",
        "--storage.tsdb.retention.time=100y",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--web.route-prefix=/{prefix}",
        "--log.level=error",
    ]
    address = f"http://127.0.0.1:{port}" + (f"/{prefix}" if prefix else "")
    process = subprocess.Popen(command)
    try:
        _wait(process, f"{address}/-/ready")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


def _wait(process: "subprocess.Popen[bytes]", address: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urllib.request.urlopen(address, timeout=PATIENCE_S):
                return
        except (urllib.error.URLError, ConnectionError):
            assert process.poll() is None, "prometheus ended"
            assert time.monotonic() < deadline, f"{address} does not answer"
            time.sleep(0.05)
