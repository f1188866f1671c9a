"""Definitions of events and metrics from a checkout of Intel's, Arm's or the Linux kernel's own files.

In: a folder. Out: `Definition` of each family of processors in it, by id, as those that Steelyard ships.

Layouts: Intel's perfmon (``mapfile.csv``, ``SKX/events/*_core.json``, ``SKX/metrics/*_metrics.json``);
Arm's telemetry solution (``data/pmu/cpu/**.json``, each a product with events and metrics); the kernel's
``tools/perf/pmu-events`` (``arch/*/mapfile.csv`` and a folder for each family). The kernel's generic events
and those of ``msr`` and ``power`` are added, which such files use and do not define.

Invariants: a folder that is none of these, and a file that cannot be read, is reported in one line; a metric
whose formula does not read is missing with that as its reason, and takes no other with it.

Not here: choosing (``choice``). Nothing is fetched.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, UsageError, read_regular, text_of
from steelyard.analyze.counters.definitions import Definition, Event, Formula, Match, Metric, definitions
from steelyard.telemetry.counters import key_of

_HINT = (
    "give a checkout of Intel's perfmon, of Arm's telemetry-solution, or the kernel's tools/perf/pmu-events"
)
_MAX_PATTERN = 200
_MAX_FILE_BYTES = 64 << 20


def load_definitions(folder: Path) -> dict[str, Definition]:
    """Return the definitions of every family of processors in a checkout.

    Raises UsageError for a folder without definitions, RecordError for a file that cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no such folder", hint=_HINT)
    maps = [folder / "mapfile.csv"] if (folder / "mapfile.csv").is_file() else []
    for below in ("", "arch"):
        # Of the kernel's architectures, those that definitions here are for.
        maps = maps or sorted((folder / below).glob("x86/mapfile.csv")) + sorted(
            (folder / below).glob("arm64/mapfile.csv")
        )
    by_name: dict[str, Definition] = {}
    for path in maps:
        by_name |= _of_map(path)
    if not maps:
        by_name = _of_arm(folder)
    if not by_name:
        raise UsageError(f"{folder}: no definitions of events are here", hint=_HINT)
    return by_name


@dataclass
class _Family:
    """What the rows of a map say of one family."""

    patterns: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def _of_map(path: Path) -> dict[str, Definition]:
    families: dict[str, _Family] = {}
    common = sorted(path.parent.glob("*.json"))
    for pattern, name, kind in _rows(path):
        target = _within(path, name)
        if name.endswith(".json"):
            if kind not in ("core", "uncore", "uncore experimental", "offcore", "metrics"):
                continue
            family = families.setdefault(Path(name.lstrip("/")).parts[0].casefold(), _Family())
            files = [target]
            files += sorted(target.parent.parent.glob("metrics/*_metrics.json")) if kind == "core" else []
        else:
            family = families.setdefault(name.strip("/").replace("/", "-"), _Family())
            files = sorted(target.glob("*.json"))
        if pattern not in family.patterns:
            family.patterns.append(pattern)
        family.files += [file for file in files if file not in family.files]
    standard = _Items()
    for file in common:
        standard.read(file, {})
    return {
        name: _definition(
            name, family.files, [_match(each) for each in family.patterns], standard, path.parent
        )
        for name, family in families.items()
        if family.files
    }


def _within(path: Path, name: str) -> Path:
    """Return the file or folder that a row of the map ``path`` names."""
    target = path.parent / name.lstrip("/")
    try:
        # `exists` refuses names that no file can have.
        target.exists()
        is_inside = target.resolve().is_relative_to(path.parent.resolve())
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: {name[:60]!r} is no name of a file") from error
    if not is_inside:
        raise RecordError(f"{path}: {name!r} leads out of the folder")
    return target


def _rows(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield pattern, file and kind of each row of a map."""
    for row in _csv(path):
        if not row or row[0].startswith("#") or row[0].strip() == "Family-model":
            continue
        if len(row) < 4:
            raise RecordError(f"{path}: a row has {len(row)} columns, four are due")
        yield row[0].strip(), row[2].strip(), row[3].strip()


def _csv(path: Path) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(_text(path)))
    except csv.Error as error:
        raise RecordError(f"{path}: no CSV: {error}") from error


def _match(pattern: str) -> Match:
    """Return whom a row of a map is for: a pattern of identifiers, or Arm's main ID register."""
    if re.fullmatch(r"0x[0-9a-fA-F]{1,16}", pattern):
        register = int(pattern, 16)
        return Match(implementer=register >> 24 & 0xFF, parts=(register >> 4 & 0xFFF,))
    posix = pattern.replace("[[:xdigit:]]", "[0-9A-F]")
    # Only what maps use: nothing that could be slow to match.
    if len(posix) > _MAX_PATTERN or not re.fullmatch(r"[\w\-\[\](|)+.]*", posix):
        raise RecordError(f"{pattern[:60]!r} is no pattern of processors")
    try:
        re.compile(posix)
    except re.error as error:
        raise RecordError(f"{pattern[:60]!r} is no pattern of processors: {error}") from error
    return Match(pattern=posix)


def _text(path: Path) -> str:
    return text_of(read_regular(path, at_most_bytes=_MAX_FILE_BYTES), str(path))


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path}: not JSON: {error}") from error


class _Items:
    """Events and metrics of several files."""

    def __init__(self) -> None:
        self.raw: dict[str, Mapping[str, Any]] = {}
        self.events: dict[str, Event] = {}
        self.metrics: dict[str, Metric] = {}
        self.missing: dict[str, str] = {}

    def read(self, path: Path, standard: Mapping[str, Mapping[str, Any]]) -> None:
        """Add what a file defines; ``standard`` are items that others refer to by ``ArchStdEvent``."""
        content = _json(path)
        if isinstance(content, Mapping):
            lists = [content.get(key) for key in ("Events", "Metrics")]
            content = [item for each in lists if isinstance(each, list) for item in each]
        if not isinstance(content, list):
            raise RecordError(f"{path}: neither events nor metrics")
        for item in content:
            if not isinstance(item, Mapping):
                continue
            base = standard.get(key_of(str(item.get("ArchStdEvent", ""))), {})
            self._add({**base, **item}, path)

    def _add(self, item: Mapping[str, Any], path: Path) -> None:
        try:
            if item.get("EventName"):
                event = _event(item, path)
                self.raw[key_of(event.name)] = item
                self.events[event.name] = event
            if item.get("MetricName"):
                self.raw[key_of(str(item["MetricName"]))] = item
                self._add_metric(str(item["MetricName"]), item, path)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            name = str(item.get("EventName") or item.get("MetricName"))[:80]
            raise RecordError(f"{path}: {name!r}: {error}") from error

    def _add_metric(self, name: str, item: Mapping[str, Any], path: Path) -> None:
        text = item.get("MetricExpr")
        unit, factor = str(item.get("UnitOfMeasure") or ""), 1.0
        if text is None and item.get("Formula"):
            text = _with_names(str(item["Formula"]), item)
        if text is None:
            return
        if item.get("ScaleUnit"):
            factor, unit = _scale(str(item["ScaleUnit"]))
        formula = Formula(str(text), str(path.name))
        try:
            _ = formula.node
        except UsageError as error:
            self.missing[name] = str(error)
            return
        self.metrics[name] = Metric(name, (formula,), unit, scale=factor)


def _number(text: object) -> int:
    """Return a number of these files: decimal or hexadecimal, of several the first."""
    return int(str(text).split(",")[0].strip() or "0", 0)


_FIXED = {
    # As tools/perf/pmu-events/jevents.py of Linux encodes what the files give a fixed counter's number.
    "inst_retired.any": {"event": 0xC0},
    "cpu_clk_unhalted.thread": {"event": 0x3C},
    "cpu_clk_unhalted.core": {"event": 0x3C},
    "cpu_clk_unhalted.thread_any": {"event": 0x3C, "any": 1},
}
_TERMS = (
    ("UMask", "umask"),
    ("CounterMask", "cmask"),
    ("Invert", "inv"),
    ("EdgeDetect", "edge"),
    ("AnyThread", "any"),
    ("PortMask", "ch_mask"),
    ("FCMask", "fc_mask"),
    ("RdWrMask", "rdwrmask"),
    ("NodeType", "type"),
    ("EnAllCores", "enallcores"),
    ("EnAllSlices", "enallslices"),
    ("SliceId", "sliceid"),
    ("ThreadMask", "threadmask"),
)
_REGISTERS = {0x1A6: "offcore_rsp", 0x1A7: "offcore_rsp", 0x3F6: "ldlat", 0x3F7: "frontend"}
_UNITS = {
    "CBO": "uncore_cbox",
    "QPI LL": "uncore_qpi",
    "UPI LL": "uncore_upi",
    "SBO": "uncore_sbox",
    "L3PMC": "amd_l3",
    "DFPMC": "amd_df",
    "UMCPMC": "amd_umc",
}


def _event(item: Mapping[str, Any], path: Path) -> Event:
    name = str(item["EventName"])
    unit = item.get("Unit")
    pmu = "armv8_pmuv3" if "arm64" in path.parts else "cpu"
    if unit:
        own = str(unit)
        known = own in ("cpu_core", "cpu_atom") or own.startswith("arm_")
        pmu = _UNITS.get(own, own if known else f"uncore_{own.casefold().replace(' ', '_')}")
    fixed = _FIXED.get(name.casefold()) if pmu == "cpu" else None
    terms = dict(fixed or {})
    if fixed is None:
        if item.get("EventidCode"):
            terms["eventid"] = _number(item["EventidCode"])
        elif item.get("ConfigCode"):
            terms["config" if pmu != "armv8_pmuv3" else "event"] = _number(item["ConfigCode"])
        else:
            terms["event"] = _number(item.get("EventCode") or 0) | int(str(item.get("ExtSel") or 0), 0) << 8
        for key, term in _TERMS:
            value = _number(item[key]) if item.get(key) else 0
            if value:
                terms[term] = value
        register = _REGISTERS.get(_number(item["MSRIndex"])) if item.get("MSRIndex") else None
        if register:
            terms[register] = _number(item.get("MSRValue") or 0)
    is_fixed = fixed is not None or str(item.get("Counter", "")).startswith("Fixed")
    return Event(name, pmu, terms, fixed=is_fixed)


def _scale(text: str) -> tuple[float, str]:
    """Return the factor and the unit of perf's ``ScaleUnit``.

    >>> _scale("1e3per_1k_instr"), _scale("100%"), _scale("6.1e-5MiB")
    ((1000.0, 'per_1k_instr'), (100.0, '%'), (6.1e-05, 'MiB'))
    """
    match = re.match(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)(.*)", text)
    return (float(match[1]), match[2].strip()) if match else (1.0, text.strip())


_CONSTANTS = {
    # Intel's names of what a formula asks of the machine and of the measurement.
    "SYSTEM_TSC_FREQ": "#system_tsc_freq",
    "DURATIONTIMEINSECONDS": "duration_time",
    "DURATIONTIMEINMILLISECONDS": "(duration_time * 1000)",
    "HYPERTHREADING_ON": "#smt_on",
    "SOCKET_COUNT": "#num_packages",
    "THREADS_PER_CORE": "(#num_cpus_online / #num_cores)",
    "CORES_PER_SOCKET": "(#num_cores / #num_packages)",
    "TSC": "msr@tsc@",
}


def _with_names(formula: str, item: Mapping[str, Any]) -> str:
    """Return a formula of Intel's with names in place of the letters that stand for them."""
    names: dict[str, str] = {}
    for event in item.get("Events") or ():
        names[str(event["Alias"])] = re.sub(r"([^\w.:])", r"\\\1", str(event["Name"]))
    for constant in item.get("Constants") or ():
        name = str(constant["Name"]).upper().replace("SYSTEM.", "")
        plain = re.sub(r"\W+", "_", name).casefold()
        names[str(constant["Alias"])] = _CONSTANTS.get(name, f"#{plain}")
    return re.sub(r"[A-Za-z_]\w*", lambda match: names.get(match[0], match[0]), formula)


def _definition(
    name: str, files: Iterable[Path], matches: list[Match], standard: _Items, root: Path
) -> Definition:
    items = _Items()
    for file in files:
        items.read(file, standard.raw)
    return _finished(name, matches, items, root)


def _finished(
    name: str, matches: list[Match], items: _Items, root: Path, slots: int | None = None
) -> Definition:
    generic = definitions()["generic"].events
    definition = Definition(
        name,
        name,
        tuple(matches),
        slots=slots,
        sources=(str(root),),
        events={**generic, **items.events},
        metrics=items.metrics,
        missing=items.missing,
    )
    missing = dict(definition.missing)
    for metric in definition.metrics:
        try:
            definition.events_of(metric)
        except (UsageError, RecursionError) as error:
            missing[metric] = str(error)
    kept = {metric: each for metric, each in definition.metrics.items() if metric not in missing}
    return Definition(
        name, name, definition.matches, None, slots, definition.sources, "", definition.events, kept, missing
    )


def _of_arm(folder: Path) -> dict[str, Definition]:
    """Return the products of Arm's telemetry solution below a folder."""
    below = folder / "data" / "pmu" / "cpu"
    products = {}
    for path in sorted((below if below.is_dir() else folder).rglob("*.json")):
        content = _json(path)
        product = content.get("product_configuration") if isinstance(content, Mapping) else None
        if not isinstance(product, Mapping):
            continue
        try:
            name = f"arm-{path.stem.casefold()}"
            products[name] = _arm_product(name, content, product, path)
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise RecordError(f"{path}: not a product of Arm's telemetry solution: {error!r}") from error
    return products


def _arm_product(name: str, content: Mapping[str, Any], product: Mapping[str, Any], path: Path) -> Definition:
    items = _Items()
    for event, described in content.get("events", {}).items():
        items.events[event] = Event(event, "armv8_pmuv3", {"event": _number(described["code"])})
    for metric, described in content.get("metrics", {}).items():
        item = {"MetricExpr": described["formula"], "UnitOfMeasure": described.get("units")}
        items._add_metric(metric, item, path)
    implementer = _number(product.get("implementer") or "0x41")
    match = Match(implementer=implementer, parts=(_number(product["part_num"]),))
    slots = int(product.get("num_slots") or 0) or None
    return _finished(name, [match], items, path, slots)
