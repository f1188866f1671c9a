"""Reads what is complete only after the run: a table, a Prometheus server's answer, a load result.

In: a `Spec`, the run's span, the pair of clocks at its beginning and end. Out: the source's file, as the
recorder leaves one.

Invariants: only what falls into the run is kept, so that a long file costs time and no room; a value that is
not a number is left out and counted, never taken for 0.

Not here: what the values mean (``analyze``).
"""

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from steelyard._base import (
    EnvironmentLacksError,
    SteelyardError,
    UsageError,
    WorkloadFailedError,
    encoding_of,
    replacing,
)
from steelyard.bench import runs
from steelyard.bench.operations.exposition import SERIES_AT_MOST, text_of
from steelyard.bench.operations.fetch import Client, FetchError
from steelyard.bench.operations.recorder import KIND, SCHEMA_VERSION
from steelyard.bench.operations.sources import Spec
from steelyard.bench.operations.stamps import COARSE_NS, NoZoneError, Stamps
from steelyard.records import Clock, LoadResult, read

JUMP_NS = 50_000_000
"""A wall clock that moved this far against the monotonic one was set, not slewed."""
_ROWS_AT_MOST = 2_000_000
_MARGIN_NS = 2 * COARSE_NS
"""Values a little outside of the run bound its first and last interval."""
_QUERY_POINTS = 10_000
"""Prometheus refuses more than 11,000 of each series ("exceeded maximum resolution")."""
_FIELD_BYTES = 1 << 20
_HEAD_BYTES = 256


@dataclass(frozen=True)
class Span:
    """When the run measured, and both clocks at its beginning and its end."""

    begin_ns: int
    end_ns: int
    begin: Clock
    end: Clock

    @property
    def offset_ns(self) -> int:
        """Wall clock minus monotonic."""
        return self.begin.realtime_ns - self.begin.monotonic_ns

    @property
    def notes(self) -> list[str]:
        """What a reader of wall-clock stamps must know."""
        jump = self.end.realtime_ns - self.end.monotonic_ns - self.offset_ns
        if abs(jump) < JUMP_NS:
            return []
        return [
            f"the wall clock was set by {jump / 1e9:+.3f} s during the run: stamps after it are off by that"
        ]


@dataclass
class _Lines:
    """What becomes the file."""

    head: dict[str, Any]
    readings: list[dict[str, Any]] = field(default_factory=list)
    tail: dict[str, Any] = field(default_factory=dict)


def collect(spec: Spec, path: Path, span: Span, out: Path) -> None:
    """Read the source and write its file to ``path``; ``out`` is the folder of runs.

    A source that fails leaves the reason there. Raises WorkloadFailedError when it cannot be written.
    """
    lines = _Lines({**_head(spec), "begin_ns": span.begin_ns, "clock": span.begin.model_dump()})
    try:
        if spec.kind == "csv":
            _Table(spec, span).collect(lines)
        elif spec.kind == "prometheus-query":
            _query(spec, span, lines)
        else:
            _load(spec, path, out, lines)
    except SteelyardError as error:
        hint = f" ({error.hint})" if error.hint else ""
        lines.head["missing"] = error.message.removeprefix(f"--ops {spec.given}: ") + hint
    lines.tail = {"end_ns": span.end_ns, **lines.tail}
    lines.tail["notes"] = [*lines.tail.get("notes", []), *span.notes]
    _write(path, lines)


def write_missing(spec: Spec, path: Path, reason: str) -> None:
    """Write the file of a source that gave nothing."""
    _write(path, _Lines({**_head(spec), "missing": reason}))


def _head(spec: Spec) -> dict[str, Any]:
    head = {"kind": KIND, "schema_version": SCHEMA_VERSION, "given": spec.given, "type": spec.kind}
    return {**head, "name": spec.name, "meaning": spec.meaning, "what": spec.what}


def _write(path: Path, lines: _Lines) -> None:
    with replacing(path) as partial, partial.open("w", encoding="utf-8") as file:
        for line in (lines.head, *lines.readings, lines.tail):
            file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")


# Tables


class _Table:
    """Reads a CSV file row by row."""

    def __init__(self, spec: Spec, span: Span) -> None:
        self.spec = spec
        self.span = span
        self.stamps = Stamps(spec.options.get("format"), spec.options.get("zone"))
        self.rows = self.kept = self.bad_values = self.bad_times = self.backwards = 0

    def collect(self, lines: _Lines) -> None:
        """Fill ``lines``. Raises UsageError for a file that cannot be read as given."""
        counting = self.spec.meaning == "count"
        values_at: dict[Any, dict[str, float]] = {}
        first_ns = last_ns = before_ns = None
        for stamp_ns, label, value in self._rows():
            if before_ns is not None and stamp_ns < before_ns:
                self.backwards += 1
            before_ns = stamp_ns
            first_ns = stamp_ns if first_ns is None else min(first_ns, stamp_ns)
            last_ns = stamp_ns if last_ns is None else max(last_ns, stamp_ns)
            time_ns = stamp_ns - self.span.offset_ns
            if not self.span.begin_ns - _MARGIN_NS <= time_ns <= self.span.end_ns + _MARGIN_NS:
                continue
            self.kept += 1
            if self.kept > _ROWS_AT_MOST:
                raise self._error(f"it has more than {_ROWS_AT_MOST:,} rows in the time of the run")
            if counting:
                at = values_at.setdefault(stamp_ns, {})
                at[label] = at.get(label, 0.0) + value
            else:
                values_at.setdefault(time_ns, {})[label] = value
        if not self.kept or first_ns is None or last_ns is None:
            raise self._error(self._why_nothing(first_ns, last_ns))
        if counting:
            # Before its first and after its last row nothing is known.
            step = self.stamps.resolution_ns
            end_ns = min(self.span.end_ns, last_ns - last_ns % step + step - self.span.offset_ns)
            lines.head["begin_ns"] = max(self.span.begin_ns, first_ns - self.span.offset_ns)
            steps: dict[tuple[int, str], float] = {}
            for stamp_ns, labels in values_at.items():
                for label, value in labels.items():
                    key = (stamp_ns - stamp_ns % step, label)
                    steps[key] = steps.get(key, 0.0) + value
            stamps = [[stamp_ns, label, value] for (stamp_ns, label), value in sorted(steps.items())]
            reading = {"time_ns": end_ns, "offset_ns": self.span.offset_ns, "resolution_ns": step}
            lines.readings.append({**reading, "stamps": stamps})
            lines.tail["end_ns"] = end_ns
        else:
            lines.readings += [{"time_ns": at, "values": values} for at, values in sorted(values_at.items())]
        lines.tail["notes"] = self._notes()

    def _why_nothing(self, first_ns: int | None, last_ns: int | None) -> str:
        if first_ns is None or last_ns is None:
            if self.bad_times:
                return f"none of its {self.rows:,} rows has a time that can be read: set format="
            return f"none of its {self.rows:,} rows has a number" if self.rows else "it has no rows"
        begin_ns = self.span.begin_ns + self.span.offset_ns
        near_s = (begin_ns - last_ns if last_ns < begin_ns else first_ns - begin_ns) / 1e9
        order = "before" if last_ns < begin_ns else "after"
        return (
            f"none of its {self.rows:,} rows is of the time of the run: they lie {near_s:,.0f} s {order} it"
            " (wrong time zone?)"
        )

    def _notes(self) -> list[str]:
        remarks = (
            (self.bad_values, "rows have a value that is not a number: left out"),
            (self.bad_times, "rows have a time that cannot be read: left out"),
            (self.backwards, "rows are older than the row before: sorted"),
        )
        return [f"{count:,} {text}" for count, text in remarks if count]

    def _rows(self) -> Iterator[tuple[int, str, float]]:
        options = self.spec.options
        path = self.spec.path or Path()
        csv.field_size_limit(_FIELD_BYTES)
        try:
            with path.open(encoding=_encoding(path), errors="replace", newline="") as file:
                table = csv.reader(file, delimiter=delimiter_of(file.readline()))
                file.seek(0)
                header = [name.strip() for name in next(table, [])]
                names = ("time", "value", "by")
                places = {name: _place(self.spec, header, options.get(name)) for name in names}
                for row in table:
                    if not row:
                        continue
                    self.rows += 1
                    taken = self._row(row, places)
                    if taken is not None:
                        yield taken
        except OSError as error:
            raise self._error(f"{error.strerror}") from error
        except csv.Error as error:
            raise self._error(f"it is no CSV: {error}") from error

    def _row(self, row: list[str], places: dict[str, int | None]) -> tuple[int, str, float] | None:
        def cell(name: str) -> str:
            place = places[name]
            return row[place] if place is not None and place < len(row) else ""

        try:
            stamp_ns = self.stamps.read(cell("time"))
        except NoZoneError:
            raise self._error(
                f"its times, as {cell('time')[:40]!r}, have no time zone: add zone=UTC or zone=local"
            ) from None
        except (ValueError, OverflowError):
            self.bad_times += 1
            return None
        value = 1.0
        if places["value"] is not None:
            try:
                value = float(cell("value"))
            except ValueError:
                value = math.nan
            if not math.isfinite(value) or (value < 0 and self.spec.meaning != "gauge"):
                self.bad_values += 1
                return None
        label = f'{self.spec.options["by"]}="{cell("by")}"' if places["by"] is not None else ""
        return stamp_ns, label, value

    def _error(self, text: str) -> UsageError:
        return UsageError(f"{self.spec.path}: {text}")


def delimiter_of(header: str) -> str:
    """Return what separates the names of a header.

    >>> delimiter_of("a;b;c"), delimiter_of("a"), delimiter_of("a\\tb")
    (';', ',', '\\t')
    """
    counts = {sign: header.count(sign) for sign in (",", ";", "\t")}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] else ","


def _place(spec: Spec, header: list[str], name: str | None) -> int | None:
    if name is None:
        return None
    if name not in header:
        listed = ", ".join(header[:20]) or "none"
        raise UsageError(f"--ops {spec.given}: {spec.path} has no column {name!r}", hint=f"it has {listed}")
    return header.index(name)


def _encoding(path: Path) -> str:
    """Return the codec that a table's beginning tells. Raises OSError."""
    with path.open("rb") as file:
        return encoding_of(file.read(_HEAD_BYTES))


def check_table(spec: Spec) -> None:
    """Look at the header of a table that is there already. Raises UsageError for columns that it lacks."""
    path = spec.path or Path()
    try:
        with path.open(encoding=_encoding(path), errors="replace", newline="") as file:
            line = file.readline(_FIELD_BYTES)
    except OSError as error:
        raise UsageError(f"--ops {spec.given}: {path}: {error.strerror}") from error
    if not line.strip():
        # It is made during the run, or nothing will come of it.
        return
    header = [name.strip() for name in next(csv.reader([line], delimiter=delimiter_of(line)), [])]
    for name in ("time", "value", "by"):
        _place(spec, header, spec.options.get(name))


# A Prometheus server


def ask(spec: Spec, path: str, query: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a Prometheus server's result. Raises UsageError for a query that it refuses, else
    EnvironmentLacksError.
    """
    client = Client(spec.url or "", timeout_s=10.0)
    base = urlsplit(spec.url or "").path.rstrip("/")
    try:
        body = client.get(f"{base}/api/v1/{path}?{urlencode(query)}")
    except FetchError as error:
        message = _error_of(error.body)
        if message is not None:
            raise UsageError(f"--ops {spec.given}: {spec.url} refuses the query: {message}") from error
        raise EnvironmentLacksError(
            f"--ops {spec.given}: {error}", hint="give the address of a Prometheus server"
        ) from error
    finally:
        client.close()
    try:
        answer = json.loads(body)
        result = answer["data"]["result"] if answer["status"] == "success" else None
        if answer["data"]["resultType"] in ("scalar", "string"):
            result = [{"metric": {}, "value": answer["data"]["result"]}]
    except (ValueError, KeyError, TypeError, RecursionError):
        result = None
    if not isinstance(result, list):
        raise EnvironmentLacksError(
            f"--ops {spec.given}: {spec.url} does not answer as Prometheus does",
            hint="an endpoint with metrics is read by prometheus: instead",
        )
    return [series for series in result if isinstance(series, dict)]


def _error_of(body: str) -> str | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    message = answer.get("error") if isinstance(answer, dict) else None
    return " ".join(str(message).split())[:300] if message else None


def _query(spec: Spec, span: Span, lines: _Lines) -> None:
    begin_s = (span.begin_ns + span.offset_ns) / 1e9
    end_s = (span.end_ns + span.offset_ns) / 1e9
    step_s = max(float(spec.options.get("step", 1)), (end_s - begin_s) / _QUERY_POINTS)
    query = {"query": spec.what, "start": f"{begin_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
    result = ask(spec, "query_range", query)
    values_at: dict[int, dict[str, float]] = {}
    bad = 0
    for series in result[:SERIES_AT_MOST]:
        labels = series.get("metric") if isinstance(series.get("metric"), dict) else {}
        label = text_of({str(name): str(value) for name, value in (labels or {}).items()})
        for point in series.get("values") or []:
            taken = _point(point)
            if taken is None:
                bad += 1
                continue
            values_at.setdefault(int(taken[0] * 1e9) - span.offset_ns, {})[label] = taken[1]
    if not values_at:
        raise UsageError(f"--ops {spec.given}: the server has no values for the time of the run")
    lines.readings += [{"time_ns": at, "values": values} for at, values in sorted(values_at.items())]
    notes = [f"{bad:,} values are not numbers: left out"] if bad else []
    if len(result) > SERIES_AT_MOST:
        notes.append(f"{len(result) - SERIES_AT_MOST} series more than {SERIES_AT_MOST} are left out")
    lines.tail["notes"] = notes


def _point(point: Any) -> tuple[float, float] | None:
    try:
        time_s, value = float(point[0]), float(point[1])
    except (TypeError, ValueError, IndexError, KeyError):
        return None
    return (time_s, value) if math.isfinite(time_s) and math.isfinite(value) else None


# A load result


def find_load(spec: Spec, out: Path) -> Path | None:
    """Return the load result that is meant, None where there is none yet."""
    path = spec.path or Path()
    if path.is_file():
        return path
    if (path / "load.json").is_file():
        return path / "load.json"
    try:
        folder = runs.find(str(path), out)
    except SteelyardError:
        return None
    return folder / "load.json" if (folder / "load.json").is_file() else None


def _load(spec: Spec, path: Path, out: Path, lines: _Lines) -> None:
    source = find_load(spec, out)
    if source is None:
        raise UsageError(f"{spec.path}: there is no load result (load.json)")
    load = read(LoadResult, source)
    copy = path.with_name(f"{path.stem}-load.json")
    try:
        copy.write_bytes(source.read_bytes())
    except OSError as error:
        raise WorkloadFailedError(f"{copy}: cannot be written: {error.strerror}") from error
    lines.head["file"] = copy.name
    lines.tail["rows"] = len(load.series)
