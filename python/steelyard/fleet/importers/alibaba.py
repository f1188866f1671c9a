"""Alibaba's cluster traces of 2017 and 2018: services in containers, and their machines.

Files are CSV without a header, laid out as ``alibaba/clusterdata`` documents: ``cluster-trace-v2017``
(``schema.csv``, ``trace_201708.md``: ``container_usage`` of 12 columns, ``container_event`` of 8,
``server_usage`` of 8, ``server_event`` of 7) and ``cluster-trace-v2018`` (``schema.md``: ``container_usage``
of 11 columns, ``container_meta`` of 8, ``machine_usage`` of 9, ``machine_meta`` of 7).

Times are seconds from the trace's begin, which is not published: ``start`` names the day to take for it, and
the label ``time`` says so. A container's CPU is a percentage of what it requested; without the table of
requests its CPU time is unknown and its rows are left out. Memory, bandwidth, network and disk are
normalised, and MPKI has no count of instructions with it: none has a column of a fitting unit.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ibis

from steelyard.fleet.importers.batches import (
    Imported,
    Reader,
    find,
    labels,
    must,
    named,
    reading,
    unpacked,
    write,
)
from steelyard.fleet.store.layout import start_of
from steelyard.telemetry.engine import fetch_rows

WINDOW_2017_S = 300
"""What usage of 2017 is averaged over."""

_USAGE_2017 = {
    "time": "int64",
    "container": "string",
    "cpu_percent": "float64",
    "memory_percent": "float64",
    "disk_percent": "float64",
    "load1": "float64",
    "load5": "float64",
    "load15": "float64",
    "cpi": "float64",
    "mpki": "float64",
    "maximum_cpi": "float64",
    "maximum_mpki": "float64",
}
_REQUESTS_2017 = {
    "time": "int64",
    "event": "string",
    "container": "string",
    "machine": "string",
    "cpus": "float64",
    "memory": "float64",
    "disk": "float64",
    "cpuset": "string",
}
_SERVERS_2017 = {
    "time": "int64",
    "machine": "string",
    "cpu_percent": "float64",
    "memory_percent": "float64",
    "disk_percent": "float64",
    "load1": "float64",
    "load5": "float64",
    "load15": "float64",
}
_SERVER_EVENTS_2017 = {
    "time": "int64",
    "machine": "string",
    "event": "string",
    "detail": "string",
    "cpus": "float64",
    "memory": "float64",
    "disk": "float64",
}
_USAGE_2018 = {
    "container": "string",
    "machine": "string",
    "time": "float64",
    "cpu_percent": "float64",
    "memory_percent": "float64",
    "cpi": "float64",
    "mem_gps": "float64",
    "mpki": "float64",
    "net_in": "float64",
    "net_out": "float64",
    "disk_percent": "float64",
}
_REQUESTS_2018 = {
    "container": "string",
    "machine": "string",
    "time": "int64",
    "app": "string",
    "status": "string",
    "cpu_request": "float64",
    "cpu_limit": "float64",
    "memory": "float64",
}
_SERVERS_2018 = {
    "machine": "string",
    "time": "float64",
    "cpu_percent": "float64",
    "memory_percent": "float64",
    "mem_gps": "float64",
    "mpki": "float64",
    "net_in": "float64",
    "net_out": "float64",
    "disk_percent": "float64",
}
_SERVER_META_2018 = {
    "machine": "string",
    "time": "int64",
    "failure_domain_1": "string",
    "failure_domain_2": "string",
    "cpus": "float64",
    "memory": "float64",
    "status": "string",
}
_CPU_UNIT = "CPUs, from a percentage of the request"


def import_2017(
    inputs: Sequence[Path], store: str, *, cluster: str = "alibaba-2017", start: str = "2017-08-01"
) -> Imported:
    """Import ``container_usage`` with ``container_event``, and ``server_usage`` with ``server_event``.

    Services have no name in this trace: each container is a job of its own.
    """
    done = Imported("alibaba-2017", notes=[f"the trace's begin is taken for {start}"])
    paths = find(inputs)
    usage = must(named(paths, "container_usage"), "container_usage.csv", inputs)
    with Reader() as reader:
        requests = reader.csv(
            must(named(paths, "container_event"), "container_event.csv", inputs), _REQUESTS_2017
        )
        created = requests.filter(requests.machine.notnull())
        known = created.group_by("container").agg(
            machine=created.machine.max(), cpus=created.cpus.max(), job=created.container.max()
        )
        for path in usage:
            rows = reader.csv([path], _USAGE_2017)
            shaped = _containers(rows, known, WINDOW_2017_S, start, "alibaba-2017")
            uploader = f"alibaba-2017.{unpacked(path)}"
            write(store, "task_samples", shaped, cluster=cluster, uploader=uploader, done=done)
        servers = (named(paths, "server_usage"), named(paths, "server_event"))
        if all(servers):
            _servers(reader, servers, (_SERVERS_2017, _SERVER_EVENTS_2017), store, cluster, start, done)
        else:
            done.notes.append("no server_usage with server_event: no machine_samples")
    return done


def import_2018(
    inputs: Sequence[Path], store: str, *, cluster: str = "alibaba-2018", start: str = "2018-01-01"
) -> Imported:
    """Import ``container_usage`` with ``container_meta``, and ``machine_usage`` with ``machine_meta``.

    A job is an application group (``app_du``). The trace does not say how long a reading counts for: the
    usual time between two readings of a container is taken, and the label ``window`` says so.
    """
    done = Imported("alibaba-2018", notes=[f"the trace's begin is taken for {start}"])
    paths = find(inputs)
    usage = must(named(paths, "container_usage"), "container_usage.csv", inputs)
    with Reader() as reader:
        meta = reader.csv(must(named(paths, "container_meta"), "container_meta.csv", inputs), _REQUESTS_2018)
        requested = meta.filter(meta.cpu_request.notnull() & meta.app.notnull())
        known = requested.group_by("container").agg(
            cpus=requested.cpu_request.max() / 100.0, job=requested.app.max()
        )
        for path in usage:
            rows = reader.csv([path], _USAGE_2018)
            window = _usual_step(rows, "container")
            done.notes.append(f"{path.name}: a reading counts for {window:g} s, the usual time between two")
            shaped = _containers(rows, known, window, start, "alibaba-2018")
            uploader = f"alibaba-2018.{unpacked(path)}"
            write(store, "task_samples", shaped, cluster=cluster, uploader=uploader, done=done)
        servers = (named(paths, "machine_usage"), named(paths, "machine_meta"))
        if all(servers):
            _servers(reader, servers, (_SERVERS_2018, _SERVER_META_2018), store, cluster, start, done)
        else:
            done.notes.append("no machine_usage with machine_meta: no machine_samples")
    return done


def _usual_step(rows: Any, entity: str) -> float:
    """Return the most common time between two readings of an entity, among the file's first million rows."""
    some = rows.limit(1_000_000)
    window = ibis.window(group_by=entity, order_by=some.time)
    steps = some.mutate(step=some.time - some.time.lag().over(window))
    steps = steps.filter(steps.step > 0)
    usual = steps.group_by("step").agg(times=steps.count()).order_by(ibis.desc("times"), "step").limit(1)
    with reading():
        commonest = fetch_rows(usual)
    return float(commonest[0]["step"]) if commonest else 60.0


def _containers(rows: Any, known: Any, window_s: float, start: str, source: str) -> Any:
    joined = rows.left_join(known, "container", rname="known_{name}")
    cpi = ibis.ifelse(joined.cpi > 0, joined.cpi, ibis.null("float64"))
    return joined.select(
        "machine",
        "job",
        platform=ibis.literal(source),
        task=joined.container,
        job_class=ibis.literal("latency-sensitive"),
        window_start_unix_s=joined.time.cast("int64") + start_of(start),
        window_s=ibis.literal(float(window_s)),
        cpu_s=joined.cpu_percent / 100.0 * joined.cpus * float(window_s),
        cpi=cpi,
        cpi_source=ibis.ifelse(cpi.notnull(), "cycles/instructions", ibis.null("string")),
        labels=labels(source=source, cpu_unit=_CPU_UNIT, time=f"begin taken for {start}"),
    )


def _servers(
    reader: Reader,
    paths: tuple[list[Path], list[Path]],
    layouts: tuple[dict[str, str], dict[str, str]],
    store: str,
    cluster: str,
    start: str,
    done: Imported,
) -> None:
    """Write machines and what they did."""
    meta = reader.csv(paths[1], layouts[1])
    sized = meta.filter(meta.cpus > 0)
    known = sized.group_by("machine").agg(threads=sized.cpus.max().cast("int64"))
    begin = start_of(start)
    machines = known.select(
        "machine",
        "threads",
        platform=ibis.literal(done.source),
        seen_unix_s=ibis.literal(begin),
        labels=labels(source=done.source),
    )
    uploader = f"{done.source}.machines"
    write(store, "machines", machines, cluster=cluster, uploader=uploader, done=done, date=start)
    for path in paths[0]:
        rows = reader.csv([path], layouts[0])
        window_s = _usual_step(rows, "machine")
        joined = rows.inner_join(known, "machine")
        shaped = joined.select(
            "machine",
            "threads",
            platform=ibis.literal(done.source),
            window_start_unix_s=joined.time.cast("int64") + begin,
            window_s=ibis.literal(window_s),
            # Percentages of -1 and 101, which stand for "abnormal", are missing.
            cpu_s=ibis.ifelse(joined.cpu_percent.between(0, 100), joined.cpu_percent, ibis.null("float64"))
            / 100.0
            * joined.threads
            * window_s,
            labels=labels(source=done.source, time=f"begin taken for {start}"),
        )
        write(
            store,
            "machine_samples",
            shaped,
            cluster=cluster,
            uploader=f"{done.source}.{unpacked(path)}",
            done=done,
        )
