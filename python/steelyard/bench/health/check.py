"""Health checks on disk, and how one is made.

In: a folder of runs. Out: a folder ``health/<machine>/<time>`` in it with ``health.json`` (the measured
record), ``machine.json`` (the inventory), ``comparison.json`` and the log; earlier checks of the same
machine.

Invariants: a check counts as earlier only when its comparison is there, so that one that was killed never
counts; only good ones (no alert, on a quiet machine) or accepted ones are what later checks are held
against.

Not here: judging (``analyze.health.comparison``), drawing (``report.health.page``).
"""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from steelyard._base import (
    EnvironmentLacksError,
    RecordError,
    UsageError,
    WorkloadFailedError,
    executable,
    read_regular,
    record_files,
    replacing,
)
from steelyard._base.documents import INLINE
from steelyard.analyze.health.comparison import Comparison
from steelyard.bench.executor import Executor, LocalExecutor, Process
from steelyard.bench.parameters import nearest
from steelyard.bench.progress import Progress
from steelyard.machine import snapshot
from steelyard.records import HealthResult, Machine, read
from steelyard.records import write as write_record
from steelyard.records.text import load_object

FOLDER = "health"
PARTS = ("memory_latency", "memory_bandwidth", "core_to_core", "disk", "loopback")
"""As `steelyard-tax health --parts` names them."""
RESULT = "health.json"
MACHINE = "machine.json"
COMPARISON = record_files.HEALTH_COMPARISON
LOG = "steelyard-tax.log"
_POLL_S = 0.1
_STOP_S = 10.0
_EXIT_USAGE, _EXIT_ENVIRONMENT = 2, 3


@dataclass(frozen=True)
class Check:
    """One health check on disk."""

    folder: Path
    result: HealthResult
    machine: Machine | None
    """Inventory, ``None`` for a record that came without one."""
    is_good: bool
    """Whether later checks may be held against it."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A health check beside earlier ones: `steelyard health --json`."""

    KIND: ClassVar[str] = "health_check"

    folder: Path
    """Folder of the check."""
    comparison: Comparison = field(metadata=INLINE)
    health: HealthResult
    """The record of the measurements."""


def machine_identity(root: Path = Path("/")) -> str:
    """Return a name for this machine that stays over reboots and repairs and tells nobody which one it is."""
    try:
        known = (root / "etc/machine-id").read_text().strip()
    except OSError:
        known = ""
    return hashlib.sha256((known or socket.gethostname()).encode()).hexdigest()[:12]


def check_request(parts: Sequence[str], directory: Path | None) -> None:
    """Raise UsageError for an unknown part, or a ``directory`` that is not a folder."""
    for part in parts:
        if part not in PARTS:
            raise UsageError(
                f"there is no part {part!r}{nearest(part, PARTS)}", hint=f"parts: {', '.join(PARTS)}"
            )
    if directory is not None and not directory.is_dir():
        problem = "is not a folder" if directory.exists() else "does not exist"
        raise UsageError(f"--directory {directory}: {problem}", hint="give a folder on the disk to measure")


def new_folder(out: Path, identity: str) -> Path:
    """Make the folder of a check that starts now."""
    base = out / FOLDER / identity
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for attempt in range(1, 100):
        folder = base / (stamp if attempt == 1 else f"{stamp}-{attempt}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise EnvironmentLacksError(
                f"{folder}: cannot be made: {error.strerror}", hint="choose another folder with --out"
            ) from error
        return folder
    raise WorkloadFailedError(f"{base}: a hundred checks have started in this second")


def measure(
    folder: Path,
    *,
    quick: bool,
    progress: Progress,
    parts: Sequence[str] = (),
    directory: Path | None = None,
    executor: Executor | None = None,
) -> Check:
    """Measure this machine into ``folder``; the disk in ``directory``, by default the folder itself.

    Raises UsageError, EnvironmentLacksError or WorkloadFailedError as the measuring program ends.
    """
    machine = snapshot()
    write_record(machine, folder / MACHINE)
    command = [
        str(executable("steelyard-tax")),
        "health",
        "--output",
        str(folder / RESULT),
        "--progress",
        "json",
    ]
    command += ["--directory", str(directory or folder)]
    command += ["--quick"] if quick else []
    command += ["--parts", ",".join(parts)] if parts else []
    process = (executor or LocalExecutor()).start("steelyard-tax", command, log=folder / LOG)
    try:
        _follow(process, progress)
    finally:
        ending = process.stop(_STOP_S)
    if ending.code != 0:
        reason = process.last_line() or f"it {ending}"
        message = reason.removeprefix("steelyard-tax: ")
        kind = {_EXIT_USAGE: UsageError, _EXIT_ENVIRONMENT: EnvironmentLacksError}.get(
            ending.code, WorkloadFailedError
        )
        raise kind(f"the health check ended early: {message}", hint=f"its log is {process.log}")
    return Check(folder, read(HealthResult, folder / RESULT), machine, is_good=False)


def _follow(process: Process, progress: Progress) -> None:
    """Pass on what the program tells until it ends."""
    part, done = "", 0.0
    while True:
        ended = process.poll() is not None
        for stream, line in process.lines():
            if stream != "stderr" or not line.startswith("{"):
                continue
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("event") != "progress":
                continue
            if event["part"] != part:
                part, done = event["part"], 0.0
                progress.phase(part.replace("_", " "))
            # A part that measures something anew is not less done than it was.
            done = max(done, float(event["done_ratio"]))
            progress.status({"of this part": f"{done:.0%}"})
        if ended:
            return
        time.sleep(_POLL_S)


def save_comparison(folder: Path, comparison: Comparison, *, accepted: bool) -> None:
    """Write what was concluded; from now on the check counts.

    Raises WorkloadFailedError when it cannot be written.
    """
    path = folder / COMPARISON
    document = {
        "against": comparison.against,
        "is_good": (comparison.is_ok and comparison.is_quiet) or accepted,
        "is_accepted": accepted,
        "is_quiet": comparison.is_quiet,
        "alerts": [asdict(alert) for alert in comparison.alerts],
        "notes": comparison.notes,
    }
    with replacing(path) as partial:
        partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def load(folder: Path) -> Check:
    """Return the check in ``folder``. Raises RecordError when it is not readable."""
    result = read(HealthResult, folder / RESULT)
    machine = read(Machine, folder / MACHINE) if (folder / MACHINE).is_file() else None
    return Check(folder, result, machine, is_good=bool(_conclusion(folder).get("is_good")))


def _conclusion(folder: Path) -> dict[str, Any]:
    try:
        return load_object(read_regular(folder / COMPARISON), where=COMPARISON)
    except RecordError:
        return {}


def history(out: Path, identity: str, *, mode: str) -> list[Check]:
    """Return a machine's good checks in ``mode`` (quick, full), oldest first, without unreadable ones."""
    checks = []
    for path in sorted((out / FOLDER / identity).glob(f"*/{COMPARISON}")):
        try:
            check = load(path.parent)
        except RecordError:
            continue
        # A quick check repeats less and measures fewer working sets: its figures spread differently.
        if check.is_good and check.result.settings.mode == mode:
            checks.append(check)
    return checks


def find_baseline(path: Path) -> Check:
    """Return the check to hold a machine against: a ``health.json`` or a folder that has one.

    Raises RecordError or UsageError when there is none.
    """
    folder = path if path.is_dir() else path.parent
    if path.is_dir() and not (path / RESULT).is_file():
        raise UsageError(f"{path} has no {RESULT}", hint="give a health.json, or the folder of a check")
    result = read(HealthResult, folder / RESULT if path.is_dir() else path)
    return Check(folder, result, None, is_good=True)
