"""What the kernel's queueing disciplines let through, as ``tc`` tells it before and after a phase.

In: ``tc -j -s``. Out: ``shaping.json``, both answers as they came, with the time of each and why there is
none.

A link's own rate says nothing of a limit that somebody set on it, such as a token bucket; the counters of the
discipline say both the limit and whether it was met. Only this process's network namespace is seen, and no
classes (htb): ``tc`` does not print those in a form for programs.

Not here: what the counters mean (``analyze.pressure.traffic_shaping``).
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from steelyard.bench.clock import Clock

FILE = "shaping.json"
_TIMEOUT_S = 2.0


def read_shaping(clock: Clock) -> dict[str, Any]:
    """Return what ``tc`` says now: ``time_ns``, ``qdiscs``, and ``missing`` when it says nothing."""
    at_ns = clock.monotonic_ns()
    tool = shutil.which("tc") or next(
        (path for path in ("/usr/sbin/tc", "/sbin/tc") if Path(path).exists()), None
    )
    if tool is None:
        return {"time_ns": at_ns, "qdiscs": [], "missing": "there is no tc here: install iproute2"}
    qdiscs, why = _ask(tool, "qdisc", "show")
    return {"time_ns": at_ns, "qdiscs": qdiscs, "missing": why}


def write_shaping(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Write both answers into ``folder``."""
    partial = folder / f".{FILE}.partial"
    partial.write_text(json.dumps({"schema_version": "1.0", "before": before, "after": after}) + "\n")
    partial.rename(folder / FILE)


def _ask(tool: str, *words: str) -> tuple[list[dict[str, Any]], str | None]:
    try:
        done = subprocess.run(
            [tool, "-j", "-s", *words], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        answer = json.loads(done.stdout or "[]")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return [], f"tc {' '.join(words)}: {type(error).__name__}"
    if done.returncode != 0:
        return [], f"tc {' '.join(words)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}"
    return [each for each in answer if isinstance(each, dict)], None
