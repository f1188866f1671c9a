"""An S3 server on loopback: moto's, in a process of its own, gone with the test."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Run the server; yield its address."""
    log = folder / "s3.log"
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "moto.server"]
    command += ["-H", "127.0.0.1", "-p", "0"]
    with log.open("wb") as file:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and child.poll() is None:
            found = re.search(r"Running on (http://127\.0\.0\.1:\d+)", log.read_text(errors="replace"))
            if found:
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f"the S3 server did not start:\n{log.read_text(errors='replace')[-2000:]}")
        yield found[1]
    finally:
        child.kill()
        child.wait()
