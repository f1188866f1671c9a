"""Google's cluster traces of 2011 and 2019.

2011 (``clusterdata-2011-2``): CSV parts without a header, as the trace's ``schema.csv`` and "Google
cluster-usage traces: format + schema" (Reiss, Wilkes, Hellerstein; version 2.1) lay them out: ``task_usage``
of 20 columns (the last absent in version 2.0), ``machine_events`` of 6, ``task_events`` of 13. Times are
microseconds from 600 s before the trace's begin at 19:00 EDT, 1 May 2011 (``google/cluster-data``:
ClusterData2011_2.md).

2019 (``clusterdata-2019``): ``instance_usage`` as BigQuery exports it, JSON lines or Parquet, with the nested
``average_usage`` ("Google cluster-usage traces v3", Wilkes); times are microseconds from 600 s before 00:00
PDT, 1 May 2019.

CPU is reported as a share of the largest machine's ("normalised"): without ``cpu_scale``, the CPUs of that
machine, ``cpu_s`` is in that unit, and the label ``cpu_unit`` says so. Memory, disk and memory accesses per
instruction (MAI) have no column of a fitting unit and are left out.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ibis

from steelyard._base import UsageError
from steelyard.fleet.importers.batches import (
    Imported,
    Reader,
    find,
    labels,
    must,
    named,
    unpacked,
    write,
)
from steelyard.fleet.store.layout import date_of

START_2011_UNIX_S = 1_304_290_800 - 600
"""1 May 2011, 19:00 EDT, less the 600 s that the trace's clock begins before it."""

START_2019_UNIX_S = 1_556_694_000 - 600
"""1 May 2019, 00:00 PDT, less the same 600 s."""

_USAGE_2011 = {
    "start_us": "int64",
    "end_us": "int64",
    "job": "string",
    "task_index": "string",
    "machine": "string",
    "cpu_rate": "float64",
    "canonical_memory": "float64",
    "assigned_memory": "float64",
    "unmapped_page_cache": "float64",
    "total_page_cache": "float64",
    "maximum_memory": "float64",
    "disk_io_time": "float64",
    "local_disk": "float64",
    "maximum_cpu_rate": "float64",
    "maximum_disk_io_time": "float64",
    "cpi": "float64",
    "mai": "float64",
    "sample_portion": "float64",
    "aggregation_type": "string",
    "sampled_cpu": "float64",
}
_MACHINES_2011 = {
    "time_us": "int64",
    "machine": "string",
    "event": "int64",
    "platform": "string",
    "cpus": "float64",
    "memory": "float64",
}
_TASKS_2011 = {
    "time_us": "int64",
    "missing": "string",
    "job": "string",
    "task_index": "string",
    "machine": "string",
    "event": "int64",
    "user": "string",
    "scheduling_class": "int64",
    "priority": "int64",
    "cpu_request": "float64",
    "memory_request": "float64",
    "disk_request": "float64",
    "different_machine": "string",
}
_USAGE_2019 = {
    "start_time": "BIGINT",
    "end_time": "BIGINT",
    "collection_id": "VARCHAR",
    "instance_index": "VARCHAR",
    "machine_id": "VARCHAR",
    "average_usage": "STRUCT(cpus DOUBLE, memory DOUBLE)",
    "cycles_per_instruction": "DOUBLE",
}
_NORMALISED = "share of the largest machine's CPUs"


def import_2011(
    inputs: Sequence[Path], store: str, *, cluster: str = "google-2011", cpu_scale: float | None = None
) -> Imported:
    """Import ``task_usage``, with platforms from ``machine_events`` and classes from ``task_events``.

    Without those two the platform is ``unknown`` and every task a batch one; the notes say so.
    """
    done = Imported("google-2011")
    paths = find(inputs)
    usage = must(named(paths, "task_usage") or _parts(paths), "task_usage file", inputs)
    with Reader() as reader:
        machines = _machines(reader, named(paths, "machine_events"), done)
        classes = _classes(reader, named(paths, "task_events"), done)
        if machines is not None:
            kept = machines.select("machine", "platform", seen_unix_s=ibis.literal(START_2011_UNIX_S))
            kept = kept.mutate(labels=labels(source="google-2011"))
            options: dict[str, Any] = {"cluster": cluster, "date": date_of(START_2011_UNIX_S)}
            write(store, "machines", kept, uploader="google-2011.machines", done=done, **options)
        for path in usage:
            rows = _usage_2011(reader, path, machines, classes, cpu_scale)
            uploader = f"google-2011.{unpacked(path)}"
            write(store, "task_samples", rows, cluster=cluster, uploader=uploader, done=done)
    return done


def _parts(paths: Sequence[Path]) -> list[Path]:
    """Return parts that are in no folder that names their table: those of task_usage, if they stand alone."""
    other = (
        "machine_events",
        "task_events",
        "job_events",
        "machine_attributes",
        "task_constraints",
        "schema",
    )
    alone = [path for path in paths if path.parent.name not in other]
    return [path for path in alone if ".csv" in path.name and not path.name.startswith(other)]


def _machines(reader: Reader, paths: Sequence[Path], done: Imported) -> Any:
    if not paths:
        done.notes.append("no machine_events: every platform is unknown")
        return None
    events = reader.csv(paths, _MACHINES_2011)
    known = events.filter(events.platform.notnull())
    return known.group_by("machine").agg(platform=known.platform.max())


def _classes(reader: Reader, paths: Sequence[Path], done: Imported) -> Any:
    if not paths:
        done.notes.append("no task_events: every task is taken for batch")
        return None
    events = reader.csv(paths, _TASKS_2011)
    known = events.filter(events.scheduling_class.notnull())
    return known.group_by("job", "task_index").agg(
        scheduling_class=known.scheduling_class.max(), priority=known.priority.max()
    )


def _usage_2011(reader: Reader, path: Path, machines: Any, classes: Any, cpu_scale: float | None) -> Any:
    rows = reader.csv([path], _USAGE_2011)
    rows = rows.mutate(task=rows.job + "/" + rows.task_index)
    if machines is not None:
        rows = rows.left_join(machines, "machine", rname="known_{name}")
    if classes is not None:
        rows = rows.left_join(classes, ["job", "task_index"], rname="class_{name}")
    platform = rows.platform.fill_null("unknown") if machines is not None else ibis.literal("unknown")
    kind = ibis.literal("batch")
    if classes is not None:
        # Scheduling class 3 is the most sensitive to latency; priorities 0 and 1 are free (best effort).
        sensitive, free = rows.scheduling_class >= 2, rows.priority <= 1
        kind = ibis.cases((sensitive, "latency-sensitive"), (free, "best-effort"), else_="batch")
    window_s = (rows.end_us - rows.start_us).cast("float64") / 1e6
    cpi = ibis.ifelse(rows.cpi > 0, rows.cpi, ibis.null("float64"))
    return rows.select(
        "machine",
        "job",
        "task",
        platform=platform,
        job_class=kind,
        window_start_unix_s=(rows.start_us // 1_000_000).cast("int64") + START_2011_UNIX_S,
        window_s=window_s,
        cpu_s=rows.cpu_rate * window_s * (cpu_scale or 1.0),
        cpi=cpi,
        cpi_source=ibis.ifelse(cpi.notnull(), "cycles/instructions", ibis.null("string")),
        labels=labels(source="google-2011", cpu_unit=_unit(cpu_scale)),
    )


def _unit(cpu_scale: float | None) -> str:
    if cpu_scale is None:
        return _NORMALISED
    if cpu_scale <= 0:
        raise UsageError(f"--cpu-scale {cpu_scale:g}: a machine has more CPUs than none")
    return f"CPUs, if the largest machine has {cpu_scale:g}"


def import_2019(
    inputs: Sequence[Path], store: str, *, cluster: str = "google-2019", cpu_scale: float | None = None
) -> Imported:
    """Import ``instance_usage``. Neither platforms nor classes are in that table: ``unknown`` and batch."""
    done = Imported("google-2019", notes=["platforms and classes are not in instance_usage"])
    paths = [path for path in find(inputs) if any(word in path.name for word in (".json", ".parquet"))]
    must(paths, "instance_usage export (.json, .json.gz or .parquet)", inputs)
    with Reader() as reader:
        for path in paths:
            is_json = ".json" in path.name
            rows = reader.json([path], _USAGE_2019) if is_json else reader.parquet([path])
            uploader = f"google-2019.{unpacked(path)}"
            shaped = _usage_2019(rows, path, cpu_scale)
            write(store, "task_samples", shaped, cluster=cluster, uploader=uploader, done=done)
    return done


def _usage_2019(rows: Any, path: Path, cpu_scale: float | None) -> Any:
    absent = [name for name in _USAGE_2019 if name not in rows.columns]
    if absent:
        raise UsageError(f"{path}: no column {absent[0]}", hint="export the table instance_usage whole")
    window_s = (rows.end_time - rows.start_time).cast("float64") / 1e6
    cpi = ibis.ifelse(rows.cycles_per_instruction > 0, rows.cycles_per_instruction, ibis.null("float64"))
    job = rows.collection_id.cast("string")
    return rows.select(
        machine=rows.machine_id.cast("string"),
        platform=ibis.literal("unknown"),
        job=job,
        task=job + "/" + rows.instance_index.cast("string"),
        job_class=ibis.literal("batch"),
        window_start_unix_s=(rows.start_time // 1_000_000).cast("int64") + START_2019_UNIX_S,
        window_s=window_s,
        cpu_s=rows.average_usage.cpus * window_s * (cpu_scale or 1.0),
        cpi=cpi,
        cpi_source=ibis.ifelse(cpi.notnull(), "cycles/instructions", ibis.null("string")),
        labels=labels(source="google-2019", cpu_unit=_unit(cpu_scale)),
    )
