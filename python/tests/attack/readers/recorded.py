"""Readers of what Steelyard itself wrote: records, folders of results, recordings, the undo journal."""

import contextlib
import io
import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from steelyard._base import data_dir, schemas_dir
from steelyard.analyze.counters.checkouts import load_definitions
from steelyard.analyze.operations.files import KIND, read_sources
from steelyard.bench import runs, undo
from steelyard.bench.health import check as health
from steelyard.bench.stack.installation import Installation
from steelyard.decide.baseline import Baseline
from steelyard.machine import snapshot
from steelyard.machine.recording import opened
from steelyard.records import Run, read, read_lines
from steelyard.records.io import Record
from steelyard.records.schemas import RECORDS
from steelyard.stats.distribution import Distribution, Popularity
from steelyard.telemetry.recording import open_recording
from tests.cli.suites import write_suite
from tests.report.runs import write_run
from tests.telemetry.recordings import SECOND, SPECS, table_of, write_recording

from .counts import asked
from .mutations import mutated
from .reader import Make, Reader, holding

SHIPPED: tuple[tuple[type[Record], str], ...] = (
    (Baseline, "baselines/default.json"),
    (Distribution, "tao/key-sizes.json"),
    (Popularity, "tao/popularity.json"),
)
"""Records that come with Steelyard, or with a benchmark of somebody's."""
_CPU, _NODE = "sys/devices/system/cpu", "sys/devices/system/node"
MACHINE = (
    *(
        f"proc/{name}"
        for name in ("cpuinfo", "meminfo", "stat", "version", "cmdline", "mounts", "interrupts")
    ),
    *(
        f"proc/{name}"
        for name in ("uptime", "sys/kernel/osrelease", "sys/kernel/hostname", "sys/vm/swappiness")
    ),
    *(f"{_CPU}/{name}" for name in ("online", "possible", "present", "vulnerabilities/*", "smt/*")),
    *(f"{_CPU}/cpu[01]/{name}" for name in ("topology/*", "cache/index*/*", "cpufreq/scaling_*")),
    *(
        f"{_NODE}/online",
        f"{_NODE}/node*/*",
        "sys/class/dmi/id/*",
        "sys/block/*/queue/*",
        "sys/class/net/*/*",
    ),
    *("sys/kernel/mm/transparent_hugepage/*", "sys/devices/system/clocksource/clocksource0/*"),
)
"""Files of a machine, as patterns below its root."""
_SMALL = 1 << 16


def _golden(kind: str, name: str = "x.json") -> Make:
    return holding({name: (schemas_dir() / "golden" / f"{kind}.json").read_bytes()})


def _lines(folder: Path, model: type[Record]) -> None:
    list(read_lines(model, folder / "x.jsonl"))


def _records() -> list[Reader]:
    found = []
    for model in (*RECORDS, Installation):
        found.append(Reader(f"record {model.KIND}", _golden(model.KIND), _reads(model)))
    for model, name in SHIPPED:
        shipped = data_dir() / name
        if shipped.exists():
            found.append(
                Reader(f"record {model.KIND}", holding({"x.json": shipped.read_bytes()}), _reads(model))
            )
    stats = (schemas_dir() / "golden" / "cache_stats.json").read_text()
    line = json.dumps(json.loads(stats)) + "\n"
    (model,) = [one for one in RECORDS if one.KIND == "cache_stats"]
    found.append(
        Reader("lines of records", holding({"x.jsonl": line * 3}), lambda folder: _lines(folder, model))
    )
    return found


def _reads(model: type[Record]) -> Callable[[Path], object]:
    return lambda folder: read(model, folder / "x.json")


def _shown(name: str, kind: str, file: str, *words: str) -> Reader:
    """Return a reader of a whole folder: the command that shows it."""
    return Reader(name, _golden(kind, file), lambda folder: asked(*words, str(folder), "--json"))


def _folders() -> list[Reader]:
    without = ("telemetry", "cache_stats")
    return [
        _shown("experiment DIR", "experiment", "experiment.json", "experiment"),
        _shown("scale DIR", "experiment", "experiment.json", "scale"),
        _shown("experiment --resume", "experiment", "experiment.json", "experiment", "--resume"),
        _shown("tune show", "tuning", "tuning.json", "tune", "show"),
        _shown("report of a co-location", "colocation", "colocation.json", "report"),
        Reader(
            "report of a run",
            lambda folder: write_run(folder / "run", without=without),
            lambda folder: asked("report", str(folder / "run"), "--json"),
        ),
        Reader(
            "report of a suite",
            lambda folder: write_suite(folder / "suite"),
            lambda folder: asked("report", str(folder / "suite"), "--json"),
        ),
        Reader(
            "list",
            _several,
            lambda folder: asked("list", "--all", "--runs", str(folder), "--json"),
        ),
        Reader(
            "compare", _two, lambda folder: asked("compare", str(folder / "a"), str(folder / "b"), "--json")
        ),
        Reader(
            "folder of a run",
            lambda folder: write_run(folder / "run", without=without),
            lambda folder: runs.load(folder / "run"),
        ),
        Reader(
            "folder of a check",
            lambda folder: (
                _golden("health_result", "health.json")(folder),
                _golden("machine", "machine.json")(folder),
            ),
            health.load,
        ),
    ]


def _several(folder: Path) -> None:
    for kind in ("experiment", "tuning", "colocation", "run", "suite"):
        _golden(kind, f"{kind}/{kind}.json")(folder)


def _two(folder: Path) -> None:
    for name in "ab":
        write_run(folder / name, without=("telemetry", "cache_stats"))


def _recording(folder: Path, *, killed: bool) -> None:
    times = [at * SECOND for at in range(1000, 1010)]
    cpu = [
        {
            "time_ns": time,
            "cpu": cpu,
            **dict.fromkeys(("user_ns", "system_ns", "idle_ns"), (time - 999 * SECOND) // 4),
        }
        for time in times
        for cpu in (0, 1)
    ]
    disk = [
        {
            "time_ns": time,
            "device": "sda",
            **{name: at * 100 for name, kind, *_ in SPECS["disk"] if kind == "counter"},
        }
        for at, time in enumerate(times)
    ]
    tables: dict[str, pa.Table] = {"cpu": table_of("cpu", cpu), "disk": table_of("disk", disk)}
    write_recording(folder, tables, killed=killed)


def _rates(folder: Path) -> None:
    with open_recording(folder) as recording:
        for source in (*recording.sources, "cpu", "../x"):
            recording.rates(source, 1001 * SECOND, 1008 * SECOND)
            recording.series(source, 1001 * SECOND, 1008 * SECOND)


def _operations(folder: Path) -> None:
    first = {"kind": KIND, "schema_version": "1.0", "given": "log:x", "type": "log", "name": "x", "what": ""}
    first |= {"meaning": "count", "begin_ns": 95 * SECOND}
    counts = [{"time_ns": at * SECOND, "counts": {"a": 10, "b": at}} for at in range(96, 110)]
    gauge = first | {"meaning": "counter", "type": "prometheus"}
    values = [
        {"time_ns": at * SECOND, "values": {"": at * 5.0, 'x="y"': 3}, "declared": "counter"}
        for at in range(96, 110)
    ]
    tail = {"end_ns": 110 * SECOND, "cpu_s": 0.1}
    for number, lines in enumerate(([first, *counts, tail], [gauge, *values, tail])):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        holding({f"operations/{number}.jsonl": text})(folder)


def _read_operations(folder: Path) -> None:
    run = read(Run, schemas_dir() / "golden" / "run.json")
    read_sources(folder / "operations", run)


def _definitions(folder: Path) -> None:
    events = [
        {
            "EventName": "A",
            "EventCode": "0x3C",
            "UMask": "0x01",
            "BriefDescription": "a",
            "SampleAfterValue": "2000003",
        }
    ]
    metrics = [
        {
            "MetricName": "M",
            "MetricExpr": "A / (B + 1) if #smt_on else min(A, 2)",
            "MetricGroup": "x",
            "ScaleUnit": "1%",
        }
    ]
    holding(
        {
            "mapfile.csv": (
                "Family-model,Version,Filename,EventType\nGenuineIntel-6-8F,v1.2,/SPR/events/spr.json,core\n"
            ),
            "SPR/events/spr.json": json.dumps({"Events": events}),
            "SPR/metrics/spr_metrics.json": json.dumps({"Metrics": metrics}),
        }
    )(folder)


def _archive(folder: Path) -> None:
    """Pack what this machine says of itself."""
    with tarfile.open(folder / "m.tar", "w") as tar:
        for pattern in MACHINE:
            for path in sorted(Path("/").glob(pattern)):
                data = b""
                with contextlib.suppress(OSError):
                    data = path.read_bytes()[:_SMALL]
                member = tarfile.TarInfo(f"machine{path}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def _snapshot(folder: Path) -> None:
    with opened(folder / "m.tar") as root:
        snapshot(root)


def _repacked(path: Path, chosen: random.Random) -> None:
    """Change a file of an archive, or the archive."""
    if chosen.random() < 0.3:
        path.write_bytes(mutated(path.read_bytes(), chosen))
        return
    made = io.BytesIO()
    with tarfile.open(path) as tar, tarfile.open(fileobj=made, mode="w") as other:
        members = tar.getmembers()
        odd = {member.name for member in chosen.sample(members, k=min(3, len(members)))}
        for member in members:
            content = tar.extractfile(member) if member.isreg() else None
            data = content.read() if content else b""
            if member.name in odd and content:
                data = mutated(data, chosen)[:_SMALL]
                member.size = len(data)
            other.addfile(member, io.BytesIO(data) if content else None)
    path.write_bytes(made.getvalue())


def _journal(folder: Path) -> None:
    entry = {
        "kind": "none of ours",
        "module": "steelyard.tune.changes",
        "details": {"path": "/x", "value": "1"},
    }
    entry |= {"pid": 1, "start_ticks": 1, "boot_id": "x"}
    holding({"steelyard/undo/x.json": json.dumps(entry)})(folder)


def _replay(folder: Path) -> None:
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    try:
        undo.pending()
        undo.replay()
        undo.undo_kept()
    finally:
        del os.environ["XDG_STATE_HOME"]
        if before is not None:
            os.environ["XDG_STATE_HOME"] = before


def readers() -> list[Reader]:
    """Return them."""
    return [
        *_records(),
        *_folders(),
        Reader("recording", lambda folder: _recording(folder, killed=False), _rates),
        Reader("killed recording", lambda folder: _recording(folder, killed=True), _rates),
        Reader("files of operations", _operations, _read_operations),
        Reader("definitions of events", _definitions, load_definitions),
        Reader("packed machine", _archive, _snapshot, change=_repacked),
        Reader("undo journal", _journal, _replay),
    ]
