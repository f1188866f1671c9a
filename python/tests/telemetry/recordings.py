"""Builds recordings as steelyard-probe leaves them, from rows given by a test."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.records import Clock, Column, ColumnKind, SelfCost, Source, Telemetry, write

SECOND = 1_000_000_000
CLOCK = Clock(monotonic_ns=1000 * SECOND, realtime_ns=1_763_700_000 * SECOND)

_TYPES = {"u64": pa.uint64(), "i32": pa.int32(), "i64": pa.int64(), "f64": pa.float64(), "str": pa.string()}


def _columns(text: str) -> list[tuple[str, str, str, str | None]]:
    """Parse ``name:kind:type:unit`` words."""
    found = []
    for word in text.split():
        name, kind, kind_of_value, unit = word.split(":")
        found.append((name, kind, kind_of_value, unit or None))
    return found


def _counters(names: str, unit: str) -> str:
    return " ".join(f"{name}:counter:u64:{unit}" for name in names.split())


def _gauges(names: str, unit: str, kind: str = "u64") -> str:
    return " ".join(f"{name}:gauge:{kind}:{unit}" for name in names.split())


_MODES = "user_ns nice_ns system_ns idle_ns iowait_ns irq_ns softirq_ns steal_ns guest_ns guest_nice_ns"
_MEMORY = (
    "total_bytes free_bytes available_bytes buffers_bytes cached_bytes dirty_bytes writeback_bytes"
    " anonymous_bytes mapped_bytes shmem_bytes slab_bytes page_tables_bytes swap_total_bytes swap_free_bytes"
    " anonymous_huge_bytes"
)
SPECS: dict[str, list[tuple[str, str, str, str | None]]] = {
    source: _columns("time_ns:time:u64:ns " + text)
    for source, text in {
        "cpu": "cpu:label:i32: " + _counters(_MODES, "ns"),
        "scheduler": _counters("context_switches forks", "1")
        + " "
        + _gauges("runnable blocked", "1")
        + " "
        + _gauges("load_1min load_5min load_15min", "1", "f64"),
        "schedstat": "cpu:label:i32: " + _counters("run_ns wait_ns", "ns") + " timeslices:counter:u64:1",
        "memory": _gauges(_MEMORY, "bytes"),
        "network": "interface:label:str: "
        + _counters("received_bytes sent_bytes", "bytes")
        + " "
        + _counters(
            "received_packets received_errors received_drops sent_packets sent_errors sent_drops", "1"
        ),
        "disk": "device:label:str: "
        + _counters("reads writes reads_merged writes_merged", "1")
        + " "
        + _counters("read_bytes written_bytes", "bytes")
        + " "
        + _counters("read_time_ns write_time_ns busy_ns weighted_ns", "ns")
        + " in_flight:gauge:u64:1",
        "pressure": "resource:label:str: " + _counters("some_ns full_ns", "ns"),
        "cgroup": "path:label:str: "
        + _counters("usage_ns user_ns system_ns throttled_ns", "ns")
        + " throttled_periods:counter:u64:1 "
        + _gauges("memory_bytes memory_peak_bytes", "bytes")
        + " "
        + _counters("io_read_bytes io_written_bytes", "bytes"),
        "cpufreq": "cpu:label:i32: frequency_hz:gauge:u64:hz",
        "counters": "scope:label:str: entity:label:str: pmu:label:str: event:label:str: group:label:u64: "
        + _counters("count", "1")
        + " "
        + _counters("enabled_ns running_ns", "ns"),
        "power": "domain:label:str: energy_uj:counter:u64:uj " + _gauges("power_uw energy_max_uj", "uw"),
        "target": _gauges("processes threads unread_threads", "1")
        + " rss_bytes:gauge:u64:bytes cost_ns:counter:u64:ns",
        "target_process": "pid:label:u64: start_ticks:label:u64: command:label:str: "
        + _counters("user_ns system_ns", "ns")
        + " rss_bytes:gauge:u64:bytes threads:gauge:u64:1 "
        + _counters("minor_faults major_faults", "1")
        + " "
        + _counters("read_bytes written_bytes", "bytes"),
        "target_thread": "pid:label:u64: tid:label:u64: start_ticks:label:u64: unmoved_ns:gauge:u64:ns"
        + " state:gauge:str: sleeps_in:gauge:str: system_call:gauge:str: cpu:gauge:u64:1 "
        + _counters("run_ns wait_ns", "ns")
        + " timeslices:counter:u64:1 "
        + _counters("user_ns system_ns", "ns"),
        "process": "pid:label:i32: start_ticks:label:u64: command:label:str: "
        + _counters("user_ns system_ns", "ns")
        + " "
        + _gauges("rss_bytes", "bytes")
        + " "
        + _gauges("threads", "1"),
    }.items()
}


def schema_of(spec: Sequence[tuple[str, str, str, str | None]]) -> pa.Schema:
    return pa.schema(
        [
            pa.field(name, _TYPES[kind_of_value], metadata={"kind": kind, **({"unit": unit} if unit else {})})
            for name, kind, kind_of_value, unit in spec
        ]
    )


def table_of(source: str, rows: Iterable[Mapping[str, Any]], spec: Any = None) -> pa.Table:
    spec = spec or SPECS[source]
    listed = list(rows)
    columns = [
        pa.array([row.get(name) for row in listed], type=_TYPES[kind_of_value])
        for name, _, kind_of_value, _ in spec
    ]
    return pa.Table.from_arrays(columns, schema=schema_of(spec))


def write_stream(path: Path, table: pa.Table, splits: Sequence[int] = ()) -> None:
    """Write ``table`` as a stream in batches that end at ``splits``, with its end mark."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        begin = 0
        for end in [*sorted(splits), table.num_rows]:
            stream.write_table(table.slice(begin, end - begin))
            begin = end


def write_recording(
    folder: Path,
    tables: Mapping[str, pa.Table],
    *,
    absent: Mapping[str, str] | None = None,
    killed: bool = False,
    splits: Sequence[int] = (),
    interval_ns: int = SECOND,
) -> Path:
    """Write a recording of ``tables``; a killed one has only streams and unfinished metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    sources = []
    for name, table in tables.items():
        if killed:
            write_stream(folder / f"{name}.arrows", table, splits)
        else:
            pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
        columns = [
            Column(
                name=field.name,
                kind=ColumnKind(field.metadata[b"kind"].decode()),
                unit=field.metadata.get(b"unit", b"").decode() or None,
            )
            for field in table.schema
        ]
        sources.append(
            Source(
                name=name,
                available=True,
                file=None if killed else f"{name}.parquet",
                rows=0 if killed else table.num_rows,
                failed_reads=0,
                read_ns_mean=None if killed else 21_000.0,
                columns=columns,
            )
        )
    for name, reason in (absent or {}).items():
        sources.append(Source(name=name, available=False, reason=reason, rows=0, failed_reads=0, columns=[]))
    times = [table.column("time_ns") for table in tables.values() if table.num_rows]
    begin = min((column[0].as_py() for column in times), default=0)
    end = max((column[-1].as_py() for column in times), default=0)
    ticks = max((len(set(column.to_pylist())) for column in times), default=0)
    write(
        Telemetry(
            tool_version="0.1.0",
            command=["steelyard-probe", "record", "--interval", "1s"],
            root="/",
            clock=CLOCK,
            interval_ns=interval_ns,
            begin_ns=begin,
            end_ns=None if killed else end,
            ticks=ticks,
            missed_ticks=0,
            sources=sources,
            cost=None
            if killed
            else SelfCost(
                cpu_user_s=0.011, cpu_system_s=0.034, cpu_per_tick_ns=712_000.0, rss_max_bytes=11 << 20
            ),
            complete=not killed,
            end_reason=None if killed else "signal",
        ),
        folder / "telemetry.json",
    )
    return folder
