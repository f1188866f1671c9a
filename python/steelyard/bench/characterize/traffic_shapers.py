"""What the kernel's queueing disciplines let through, as ``tc`` shows it before and after a phase.

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
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import EnvironmentLacksError

if TYPE_CHECKING:
    from steelyard.bench.clock import Clock

FILE = "shaping.json"
_TIMEOUT_S = 2.0


def traffic_control() -> str:
    """Return the path of ``tc``. Raises EnvironmentLacksError where there is none."""
    tool = shutil.which("tc") or next(
        (path for path in ("/usr/sbin/tc", "/sbin/tc") if Path(path).exists()), None
    )
    if tool is None:
        raise EnvironmentLacksError("there is no tc here", hint="install iproute2")
    return tool


def disciplines(
    interface: str | None = None, *, enter: Sequence[str] = ()
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the queueing disciplines of one interface or of all, with counters, and why there are none.

    ``enter`` is a command that runs another one in another network namespace.
    """
    try:
        tool = traffic_control()
    except EnvironmentLacksError as error:
        return [], f"{error.message}: {error.hint}"
    words = ["qdisc", "show", *(["dev", interface] if interface is not None else [])]
    return _ask([*enter, tool], *words)


def read_shaping(clock: "Clock") -> dict[str, Any]:
    """Return what ``tc`` says now: ``time_ns``, ``qdiscs``, and ``missing`` when it says nothing."""
    at_ns = clock.monotonic_ns()
    qdiscs, why = disciplines()
    return {"time_ns": at_ns, "qdiscs": qdiscs, "missing": why}


def write_shaping(folder: Path, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Write both answers into ``folder``."""
    partial = folder / f".{FILE}.partial"
    partial.write_text(json.dumps({"schema_version": "1.0", "before": before, "after": after}) + "\n")
    partial.rename(folder / FILE)


def _ask(tool: list[str], *words: str) -> tuple[list[dict[str, Any]], str | None]:
    try:
        done = subprocess.run(
            [*tool, "-j", "-s", *words], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        answer = json.loads(done.stdout or "[]")
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return [], f"tc {' '.join(words)}: {type(error).__name__}"
    if done.returncode != 0:
        return [], f"tc {' '.join(words)}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}"
    return [each for each in answer if isinstance(each, dict)], None
