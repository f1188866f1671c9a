"""Writes data/feed/checksums.json again: what steelyard-rank answers, after its work was changed on purpose.

In: the executable, as the tests find it. Out: the file, with the same flags and users.

    .venv/bin/python scripts/make_feed_checksums.py
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import thriftpy2
from thriftpy2.protocol import TCompactProtocolFactory
from thriftpy2.rpc import make_client
from thriftpy2.transport import TFramedTransportFactory

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "data" / "feed" / "checksums.json"


def start(role: str, *arguments: str) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start a process of the service and wait until it is ready."""
    sys.path.insert(0, str(ROOT / "python" / "tests"))
    from executables.servers import executable

    command = [str(executable("steelyard-rank")), role, "--no-tls", "--die-with-parent", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def answers(entry: dict[str, Any]) -> dict[str, Any]:
    """Return ``entry`` as the executable answers it now."""
    leaf, leaf_ready = start("leaf", *entry["leaf"])
    root, root_ready = start("root", *entry["root"], "--leaf", leaf_ready["listen"])
    idl = thriftpy2.load(str(ROOT / "idl" / "rank.thrift"), module_name="rank_thrift")
    client = make_client(
        idl.Ranker,
        "127.0.0.1",
        int(root_ready["listen"].rsplit(":", 1)[1]),
        proto_factory=TCompactProtocolFactory(),
        trans_factory=TFramedTransportFactory(),
        timeout=30_000,
    )
    checksums = {
        user: str(client.rank(idl.RankRequest(user_id=int(user))).checksum) for user in entry["checksums"]
    }
    client.close()
    for process in (root, leaf):
        process.terminate()
        process.wait()
    return {**entry, "work": root_ready["work"], "leaf_work": leaf_ready["work"], "checksums": checksums}


def main() -> None:
    """Write the file again."""
    entries = json.loads(FILE.read_text())["results"]
    FILE.write_text(json.dumps({"results": [answers(entry) for entry in entries]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
