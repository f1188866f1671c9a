"""Imports task samples from Prometheus: cAdvisor's metrics of containers, or any by a mapping.

In: a server's address, and a time range. Out: task samples, one a container and step: each query gives one
column (`QUERIES`), the series' labels say whose it is (`IDENTITY`). A mapping file replaces either:

    [identity]
    machine = "{node}"
    job = "{namespace}/{container}"
    [queries]
    cpu_s = 'sum by (node, namespace, pod, container) (increase(my_cpu_seconds_total[${step}]))'

``${step}`` is the step in seconds, as ``60s``. Queries over a range look back from their time: a window ends
at it. Counters that a container lacks are null; CPI is not among cAdvisor's metrics and is null.

Documented by prometheus.io ("HTTP API", range queries) and google/cadvisor (``docs/storage/prometheus.md``).
"""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from steelyard._base import EnvironmentLacksError, RecordError, UsageError
from steelyard._base.toml import read_toml, table_in
from steelyard.fleet.importers.batches import Imported, Reader, write
from steelyard.fleet.store.schema import TABLES

_BY = "instance, namespace, pod, container"
_REAL = 'container!="", container!="POD"'

QUERIES: dict[str, str] = {
    "cpu_s": f"sum by ({_BY}) (increase(container_cpu_usage_seconds_total{{{_REAL}}}[${{step}}]))",
    "memory_bytes": f"sum by ({_BY})"
    f" (avg_over_time(container_memory_working_set_bytes{{{_REAL}}}[${{step}}]))",
    "storage_bytes": f"sum by ({_BY}) (increase(container_fs_reads_bytes_total{{{_REAL}}}[${{step}}])"
    f" + increase(container_fs_writes_bytes_total{{{_REAL}}}[${{step}}]))",
    "page_faults": f"sum by ({_BY}) (increase(container_memory_failures_total"
    f'{{{_REAL}, failure_type="pgfault", scope="container"}}[${{step}}]))',
}
"""A column of task samples -> what to ask. ``cpu_s`` must be there: a container without it has no row."""

IDENTITY: dict[str, str] = {
    "machine": "{instance}",
    "job": "{namespace}/{container}",
    "task": "{namespace}/{pod}/{container}",
    "platform": "unknown",
    "job_class": "batch",
}
"""How a series' labels become names; a label that it lacks is empty."""

_POINTS = 5_000
"""Points that one answer may hold for a series; the server refuses more than 11,000."""

_BELOW = 2.0**63

_COLUMNS: tuple[str, ...] = tuple(
    column.name
    for column in TABLES["task_samples"].columns
    if column.type in ("int64", "double") and not column.name.startswith("window_")
)


@dataclass
class Source:
    """What is asked of which server."""

    url: str
    queries: dict[str, str] = field(default_factory=lambda: dict(QUERIES))
    identity: dict[str, str] = field(default_factory=lambda: dict(IDENTITY))


def read_source(url: str, mapping: Path | None) -> Source:
    """Return the source at ``url`` with the mapping file's queries and names. Raises UsageError."""
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url}: no address of a Prometheus", hint="as http://127.0.0.1:9090")
    source = Source(url.rstrip("/"))
    if mapping is None:
        return source
    try:
        document = read_toml(mapping)
        tables = {key: table_in(document, key, mapping) for key in ("queries", "identity")}
    except RecordError as error:
        raise UsageError(error.message) from error
    unknown = document.keys() - {"queries", "identity"}
    if unknown:
        raise UsageError(f"{mapping}: {min(unknown)!r} means nothing", hint="identity, queries")
    if "queries" in document:
        named = tables["queries"].items()
        source.queries = {TABLES["task_samples"].today(str(name)): str(query) for name, query in named}
    source.identity |= {str(name): str(text) for name, text in tables["identity"].items()}
    wrong = (source.queries.keys() - set(_COLUMNS)) | (source.identity.keys() - IDENTITY.keys())
    if wrong:
        raise UsageError(f"{mapping}: {min(wrong)!r} cannot be requested", hint=", ".join(_COLUMNS))
    if "cpu_s" not in source.queries:
        raise UsageError(f"{mapping}: no query for cpu_s, which every task sample has")
    return source


def import_range(
    source: Source,
    store: str,
    *,
    begin_unix_s: int,
    end_unix_s: int,
    step_s: int,
    cluster: str = "prometheus",
) -> Imported:
    """Import the windows that end after ``begin_unix_s`` and until ``end_unix_s``, ``step_s`` long each."""
    if step_s < 1 or end_unix_s <= begin_unix_s:
        raise UsageError("no window is between the first and the last time")
    done = Imported("prometheus")
    first = begin_unix_s + step_s
    with Reader() as reader:
        for number, (begin, end) in enumerate(_chunks(first, end_unix_s, step_s)):
            rows = _ask(source, begin, end, step_s)
            if rows:
                table = pa.Table.from_pylist(rows, schema=_schema())
                uploader = f"prometheus.{step_s}.{begin}.{number}"
                write(
                    store, "task_samples", reader.table(table), cluster=cluster, uploader=uploader, done=done
                )
    return done


def _schema() -> pa.Schema:
    arrow = TABLES["task_samples"].arrow
    names = [*IDENTITY, "window_start_unix_s", "window_s", *_COLUMNS, "cpi_source", "labels"]
    return pa.schema([arrow.field(name).with_nullable(True) for name in names])


def _chunks(first: int, last: int, step_s: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of times, both included, that a server answers in one piece.

    >>> list(_chunks(60, 200, 60))
    [(60, 180)]
    """
    while first <= last:
        end = min(first + (_POINTS - 1) * step_s, last)
        yield first, first + (end - first) // step_s * step_s
        first = first + (end - first) // step_s * step_s + step_s


def _ask(source: Source, begin: int, end: int, step_s: int) -> list[dict[str, Any]]:
    """Return the task samples of one range: a row for each series and time with CPU time."""
    by_labels: dict[tuple[tuple[str, str], ...], dict[int, dict[str, float]]] = {}
    for column, query in source.queries.items():
        for series in _query_range(source.url, query.replace("${step}", f"{step_s}s"), begin, end, step_s):
            try:
                labels, points = _of_series(series, begin, end)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
                raise RecordError(
                    f"{source.url} does not answer as Prometheus does: {series!r:.80}",
                    hint=f"it was {query}",
                ) from error
            times = by_labels.setdefault(labels, {})
            for time, value in points:
                times.setdefault(time, {})[column] = value
    rows = []
    for labels, times in by_labels.items():
        names = {name: _filled(text, dict(labels)) for name, text in source.identity.items()}
        for time, values in times.items():
            if "cpu_s" in values:
                rows.append(names | _figures(values) | _window(time, step_s, source.url))
    return rows


def _of_series(
    series: Any, begin: int, end: int
) -> tuple[tuple[tuple[str, str], ...], list[tuple[int, float]]]:
    """Return labels, and times with their values where those are numbers."""
    labels = tuple(sorted((str(k), str(v)) for k, v in series["metric"].items() if k != "__name__"))
    pairs = [(round(float(time)), float(text)) for time, text in series["values"]]
    if not all(begin <= time <= end for time, _ in pairs):
        raise ValueError("a time that was not asked for")
    # No count comes near 2**63, and no column holds it.
    return labels, [(time, value) for time, value in pairs if abs(value) < _BELOW]


def _figures(values: dict[str, float]) -> dict[str, Any]:
    types = TABLES["task_samples"].by_name
    figures: dict[str, Any] = {
        name: round(value) if types[name].type == "int64" else value for name, value in values.items()
    }
    if "cpi" not in figures and figures.get("reference_cycles") and figures.get("instructions"):
        figures["cpi"] = figures["reference_cycles"] / figures["instructions"]
    if "cpi" in figures:
        figures["cpi_source"] = "cycles/instructions"
    return figures


def _window(time: int, step_s: int, url: str) -> dict[str, Any]:
    return {
        "window_start_unix_s": time - step_s,
        "window_s": float(step_s),
        "labels": [("source", "prometheus"), ("server", urllib.parse.urlsplit(url).netloc)],
    }


def _filled(text: str, labels: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda match: labels.get(match[1], ""), text)


def _query_range(url: str, query: str, begin: int, end: int, step_s: int) -> list[dict[str, Any]]:
    words = urllib.parse.urlencode({"query": query, "start": begin, "end": end, "step": step_s})
    request = urllib.request.Request(f"{url}/api/v1/query_range", data=words.encode())  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - http(s) was checked
            document = json.load(answer)
    except urllib.error.HTTPError as error:
        raise RecordError(f"{url} refused a query ({_reason(error)})", hint=f"it was {query}") from error
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "reason", error)
        raise EnvironmentLacksError(f"{url}: no answer of a Prometheus: {why}") from error
    if not isinstance(document, dict) or document.get("status") != "success":
        raise RecordError(f"{url} refused a query: {document!r:.200}", hint=f"it was {query}")
    data = document.get("data")
    kind = data.get("resultType") if isinstance(data, dict) else None
    result = data.get("result") if isinstance(data, dict) else None
    if kind != "matrix" or not isinstance(result, list):
        raise RecordError(f"{url} gave a {kind!r:.40}, not ranges", hint=f"it was {query}")
    return result


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        return f"HTTP {error.code}"
