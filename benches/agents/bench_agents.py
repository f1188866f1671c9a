#!/usr/bin/env python3
"""How quickly ``steelyard mcp`` starts and answers, and ``import steelyard`` loads.

There is no peer: each figure has a bar. Times are what a client of this machine sees, medians but for what
happens once: the start, and the first answer, which loads what it needs.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python")]

from steelyard.catalog.index import FILE, Index  # noqa: E402
from tests.agents.client import Raw  # noqa: E402
from tests.report.runs import write_run  # noqa: E402
from tests.web.serving import many_runs  # noqa: E402

RUNS = 10_000
ROUNDS = 9
START_BAR_S, LIST_BAR_S, FIRST_BAR_S, AGAIN_BAR_S, IMPORT_BAR_S = 2.0, 0.5, 2.0, 0.5, 0.2


def report(name: str, ours: float, bar: float) -> None:
    """Print one line for ``benches/run.py``."""
    print(json.dumps({"name": name, "ours": ours, "unit": "s", "bar": f"<= {bar:g}", "met": ours <= bar}))


def timed(act: Callable[[], Any]) -> float:
    """Return the seconds of a call, which must give an answer without an error."""
    began_s = time.perf_counter()
    said = act()
    took_s = time.perf_counter() - began_s
    assert not said.get("isError"), said
    return took_s


def agents(root: Path) -> None:
    """Time a server on a folder of many runs, of which the index is there."""
    many_runs(root, RUNS)
    write_run(root / "tao")
    index = Index(root, root / FILE)
    index.refresh()
    index.close()
    began_s = time.perf_counter()
    with Raw(root) as server:
        said = server.tool("describe")
        assert not said.get("isError"), said
        report("start of steelyard mcp, to its first answer", time.perf_counter() - began_s, START_BAR_S)
        server.tool("list_runs")
        lists = [timed(lambda: server.tool("list_runs", search="tao")) for _ in range(ROUNDS)]
        report(f"list_runs of {RUNS:,} runs", statistics.median(lists), LIST_BAR_S)
        report(
            "explain_run, the first of a session",
            timed(lambda: server.tool("explain_run", path="tao")),
            FIRST_BAR_S,
        )
        again = [timed(lambda: server.tool("explain_run", path="tao")) for _ in range(ROUNDS)]
        report("explain_run, later ones", statistics.median(again), AGAIN_BAR_S)


def imports() -> None:
    """Time ``import steelyard`` beside a bare interpreter."""

    def run(code: str) -> float:
        began_s = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began_s

    for name, code in (
        ("import steelyard", "import steelyard"),
        ("its first function", "import steelyard; steelyard.read"),
    ):
        more = [run(code) - run("pass") for _ in range(ROUNDS)]
        report(f"{name}, beside the interpreter", statistics.median(more), IMPORT_BAR_S)


if __name__ == "__main__":
    imports()
    with tempfile.TemporaryDirectory(prefix="steelyard-agents-") as folder:
        agents(Path(folder) / "runs")
