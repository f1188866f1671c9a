"""The profile that a file of metrics states: aggregates of a production fleet, or a target to calibrate to.

In: TOML, JSON or CSV. Out: a `WorkloadProfile`. A metric is a number in the unit of the catalogue, a list of
numbers (a value of each repeat), or a table with ``value``, ``values`` and ``unit``:

    name = "cache-a"

    [metrics]
    throughput_per_s = 153000
    frequency_hz = { value = 1.94, unit = "GHz" }
    llc_mpki = [1.31, 1.28, 1.40]
    l1i_mpki = { missing = "not sampled in production" }

    [functions]
    memcpy = 0.12

CSV has the columns ``metric``, ``value`` and, where needed, ``unit`` and ``repeat``; a row of a mix is
``functions:memcpy``. Values of ``windows = true`` are pieces of time of one run and resemble each other.

Invariants: what cannot be a value of its metric (negative, no number, a share above 1, another unit, a
metric named twice) is refused by name.

Not here: which metrics there are (``catalogue``).
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard._base import UsageError, read_regular, text_of
from steelyard.decide.fidelity.catalogue import CATALOGUE, FUNCTIONS, TAX, Kind, metric_of
from steelyard.decide.fidelity.workload import (
    Measurement,
    Mix,
    Replicate,
    WorkloadProfile,
    impossible,
    measurement,
    mix,
)

FILE = "file"
ENDINGS = (".toml", ".json", ".csv")
_BYTES_AT_MOST = 16 << 20
_MIXES = (FUNCTIONS, TAX)
_UNITS: Mapping[str, tuple[str, float]] = {
    "%": ("ratio", 0.01), "percent": ("ratio", 0.01), "hz": ("hz", 1.0), "mhz": ("hz", 1e6),
    "ghz": ("hz", 1e9), "s": ("ns", 1e9), "ms": ("ns", 1e6), "us": ("ns", 1e3), "µs": ("ns", 1e3),
    "w": ("w", 1.0), "kw": ("w", 1e3), "b": ("bytes", 1.0), "kib": ("bytes", 1024.0),
    "mib": ("bytes", 1048576.0), "gib": ("bytes", 1073741824.0), "kb": ("bytes", 1e3), "mb": ("bytes", 1e6),
    "gb": ("bytes", 1e9), "b/s": ("bytes/s", 1.0), "kb/s": ("bytes/s", 1e3), "mb/s": ("bytes/s", 1e6),
    "gb/s": ("bytes/s", 1e9), "/s": ("1/s", 1.0), "rps": ("1/s", 1.0), "qps": ("1/s", 1.0),
    "mpki": ("1/1000", 1.0), "": ("1", 1.0),
}  # fmt: skip
"""Units as people write them -> the base unit, and how many of it one is."""


@dataclass
class _Row:
    """What a file says of one metric."""

    values: list[float]
    unit: str | None = None
    missing: str | None = None
    single: float | None = None
    is_windows: bool = False


def is_profile_file(name: str) -> bool:
    """Return whether a name is a file of metrics."""
    return name.endswith(ENDINGS) and Path(name).is_file()


def read_profile_file(path: Path) -> WorkloadProfile:
    """Return the profile that a file states. Raises RecordError and UsageError."""
    text = text_of(read_regular(path, at_most_bytes=_BYTES_AT_MOST), str(path))
    document = _of_csv(path, text) if path.suffix == ".csv" else _parsed(path, text)
    name = document.get("name", path.stem)
    if not isinstance(name, str):
        raise UsageError(f"{path}: name must be a text")
    unknown = [key for key in document if key not in ("name", "windows", "metrics", *_MIXES)]
    if unknown:
        raise UsageError(
            f"{path}: unknown key {unknown[0]!r}", hint=f"keys: name, windows, metrics, {', '.join(_MIXES)}"
        )
    is_windows = bool(document.get("windows", False))
    metrics = {
        key: _metric(path, key, value, is_windows) for key, value in _table(path, document, "metrics").items()
    }
    mixes = {key: _mix(path, key, _table(path, document, key)) for key in _MIXES if key in document}
    profile = WorkloadProfile(name, FILE, metrics, mixes, lacks="the file does not state it")
    if not metrics and not mixes:
        raise UsageError(f"{path} states no metrics", hint="a [metrics] table, or CSV with metric,value")
    return profile


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path}: a table of metrics is expected")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice} is stated twice")
    return dict(pairs)


def _table(path: Path, document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = document.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f"{path}: {key} must be a table of names and values")
    return table


def _metric(path: Path, name: str, said: Any, is_windows: bool) -> Measurement:
    row = _row_of(path, name, said)
    known = CATALOGUE.get(name)
    if known is not None and known.kind is Kind.MIX:
        raise UsageError(
            f"{path}: {name} is a table of shares by name", hint=f"[{name}] instead of [metrics]"
        )
    if known is None and row.unit is None and row.missing is None:
        near = difflib.get_close_matches(name, list(CATALOGUE), n=1)
        close = f", did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"{path}: unknown metric {name!r}{close}",
            hint='a metric of your own needs a unit, such as "1" or "ratio"',
        )
    unit, scale = _unit(path, name, row.unit)
    metric = metric_of(name, unit)
    if row.missing is not None:
        return Measurement(metric, None, missing=row.missing)
    values = [value * scale for value in row.values]
    for value in values:
        wrong = impossible(metric, value)
        if wrong is not None:
            raise UsageError(f"{path}: {name}: {wrong}")
    mean = math.fsum(values) / len(values)
    replicate = Replicate.WINDOW if is_windows or row.is_windows else Replicate.REPEAT
    value = mean if row.single is None else row.single * scale
    several = values if len(values) > 1 else []
    return measurement(name, value, unit=metric.unit, values=several, replicate=replicate)


def _row_of(path: Path, name: str, said: Any) -> _Row:
    if isinstance(said, dict):
        unknown = [key for key in said if key not in ("value", "values", "unit", "missing", "windows")]
        if unknown:
            raise UsageError(
                f"{path}: {name} has no {unknown[0]!r}", hint="value, values, unit, missing, windows"
            )
        if "missing" in said:
            return _Row([], said.get("unit"), str(said["missing"]))
        single = said.get("value")
        values = said.get("values", [] if single is None else [single])
        row = _row_of(path, name, values)
        row.unit, row.is_windows = said.get("unit"), bool(said.get("windows", False))
        row.single = None if single is None else _number(path, name, single)
        return row
    listed = said if isinstance(said, list) else [said]
    if not listed:
        raise UsageError(f"{path}: {name} has no value", hint="a number, or missing = 'why'")
    return _Row([_number(path, name, each) for each in listed])


def _number(path: Path, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UsageError(f"{path}: {name}: {value!r} is no number")
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{path}: {name}: {value!r} is no number") from error
    return number


def _unit(path: Path, name: str, stated: str | None) -> tuple[str | None, float]:
    """Return the base unit of a metric, and how many of it the stated one is."""
    known = CATALOGUE.get(name)
    if stated is None or (known is not None and stated == known.unit):
        return (None if known is None else known.unit), 1.0
    base, scale = _UNITS.get(stated.strip().casefold(), (stated.strip(), 1.0))
    if known is not None and base != known.unit and not (base == "1" and known.unit == "count"):
        raise UsageError(f"{path}: {name} is in {known.unit}, not in {stated!r}")
    return (base if known is None else known.unit), scale


def _mix(path: Path, name: str, parts: Mapping[str, Any]) -> Mix:
    shares = {part: _number(path, f"{name}: {part}", value) for part, value in parts.items()}
    found = mix(name, shares)
    if not found.parts:
        raise UsageError(f"{path}: {name}: {found.missing}")
    return found


def _of_csv(path: Path, text: str) -> dict[str, Any]:
    """Return the table that the rows of a CSV file state."""
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    columns = [name.strip() for name in reader.fieldnames or []]
    reader.fieldnames = columns
    if "metric" not in columns or "value" not in columns:
        raise UsageError(
            f"{path}: the columns metric and value are needed, it has {', '.join(columns) or 'none'}"
        )
    metrics: dict[str, dict[str, Any]] = {}
    mixes: dict[str, dict[str, Any]] = {}
    seen: set[tuple[str, str]] = set()
    for row in reader:
        name, value = ((row.get(key) or "").strip() for key in ("metric", "value"))
        if not name and not value:
            continue
        repeat = (row.get("repeat") or row.get("window") or "").strip()
        if (name, repeat) in seen:
            raise UsageError(f"{path}: {name} is stated twice", hint="number repeats in a column `repeat`")
        seen.add((name, repeat))
        head, _, part = name.partition(":")
        if head in _MIXES and part:
            mixes.setdefault(head, {})[part] = value
            continue
        unit = (row.get("unit") or "").strip() or None
        entry = metrics.setdefault(name, {"unit": unit, "values": []})
        if entry["unit"] != unit:
            raise UsageError(f"{path}: {name} is in {entry['unit']} and in {unit}")
        if value:
            entry["values"].append(value)
        else:
            entry["missing"] = (row.get("missing") or "").strip() or "the file has no value"
    for entry in metrics.values():
        if "missing" in entry:
            del entry["values"]
    return {"metrics": metrics, "windows": "window" in columns, **mixes}
