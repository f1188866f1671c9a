#!/usr/bin/env python3
"""Writes data/feed/work.json: what FeedSim's service answers with the settings that `steelyard run feed` has.

In: the executables. Out: the file. To be run only after the work was changed on purpose: results before and
after do not compare.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from steelyard._base import data_dir, executable
from steelyard.bench.feed import SERVER_NAME, SERVICE_SEED
from steelyard.bench.rank_client import checksums

TIMEOUT_S = 120.0


@contextmanager
def service(role: str, *flags: str) -> Iterator[dict[str, Any]]:
    """Give what a root or a leaf says when it is ready."""
    command = [str(executable("steelyard-rank")), role, "--seed", str(SERVICE_SEED), *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise AssertionError("it is a pipe")
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


def main() -> int:
    """Ask the service and write the file."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        leaf = stack.enter_context(service("leaf", "--tls-dir", str(folder)))
        root = stack.enter_context(service("root", "--tls-dir", str(folder), "--leaf", leaf["listen"]))
        authority = str(folder / "ca.pem")
        found = checksums(root["listen"], authority, SERVER_NAME, timeout_s=TIMEOUT_S)
    told = {str(user): (checksum % 2**64).to_bytes(8, "big").hex() for user, checksum in found.items()}
    path = data_dir() / "feed" / "work.json"
    entry = {"work": root["work"], "leaf_work": leaf["work"], "checksums": told}
    path.write_text(json.dumps({"results": [entry]}, indent=2) + "\n", encoding="utf-8")
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
