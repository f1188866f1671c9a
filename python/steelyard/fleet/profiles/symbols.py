"""Names for offsets in profiles, from the ``symbols`` table, and what puts names there.

In: stacks whose frames may be ``0xOFFSET [module@BUILDID]``, and the table's rows of those builds. Out: the
same stacks with ``function [module]`` where a symbol covers the offset. To add: programs' files, read by
``steelyard-profile symbols``.

Invariants: only frames of the form above are touched; an offset outside of every symbol stays unknown, in
its module; names never hold the separators of stacks.

Not here: folding and counting (``stacks``), recording (``steelyard-agent``).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from steelyard._base import REPAIR_HINT, EnvironmentLacksError, UsageError, WorkloadFailedError
from steelyard.analyze.profiles.profile import UNKNOWN
from steelyard.telemetry.engine import fetch, integers

_FRAME = re.compile(r"0x([0-9a-fA-F]{1,16}) \[(.*)@([0-9a-fA-F]{2,128})\]")
PROGRAM = "steelyard-profile"


@dataclass(frozen=True)
class Named:
    """Stacks with names, and for each the module of its leaf if that is still an offset."""

    texts: tuple[str, ...]
    unknown_leaf: tuple[str | None, ...]
    frames: int
    """Distinct offset frames that were looked up."""
    named: int
    """Those that a symbol covers."""


def symbols_of(symbols: Any, builds: Sequence[str]) -> Any:
    """Return the symbols of ``builds``, each once however often it was uploaded."""
    rows = symbols.filter(symbols.build_id.isin(list(builds)))
    return (
        rows.group_by("build_id", "start")
        .agg(size=rows["size"].max(), name=rows["name"].min())
        .order_by(["build_id", "start"])
    )


def name_stacks(texts: Sequence[str], symbols: Any) -> Named:
    """Name the offset frames of ``texts``; distinct frames are looked up once."""
    matches: dict[str, re.Match[str] | None] = {}
    for text in texts:
        if "@" not in text:
            continue
        for frame in text.split(";"):
            if frame not in matches:
                matches[frame] = _FRAME.fullmatch(frame)
    offsets = {frame: match for frame, match in matches.items() if match is not None}
    names = _look_up(offsets, symbols) if offsets else {}
    named: list[str] = []
    unknown: list[str | None] = []
    for text in texts:
        if "@" not in text:
            named.append(text)
            unknown.append(None)
            continue
        frames = text.split(";")
        leaf = offsets.get(frames[-1])
        unknown.append(f"{leaf[2]}@{leaf[3]}" if leaf is not None and frames[-1] not in names else None)
        named.append(";".join(names.get(frame) or _unnamed(frame, offsets) for frame in frames))
    return Named(tuple(named), tuple(unknown), len(offsets), len(names))


def _unnamed(frame: str, offsets: dict[str, re.Match[str]]) -> str:
    """Return an offset without its digits, which mean nothing to a reader and would part equal places."""
    match = offsets.get(frame)
    return frame if match is None else f"{UNKNOWN} [{match[2]}@{match[3]}]"


def _look_up(offsets: dict[str, re.Match[str]], symbols: Any) -> dict[str, str]:
    """Return ``function [module]`` of each frame that a symbol covers."""
    by_build: dict[str, list[str]] = {}
    for frame, match in offsets.items():
        by_build.setdefault(match[3].lower(), []).append(frame)
    rows = fetch(symbols_of(symbols, sorted(by_build)))
    builds = np.asarray(rows["build_id"].to_pylist(), dtype=object)
    starts, sizes = (integers(rows[name]) for name in ("start", "size"))
    functions = rows["name"]
    names: dict[str, str] = {}
    for build, frames in by_build.items():
        # Rows are in the order of builds and starts.
        first, last = (int(np.searchsorted(builds, build, side)) for side in ("left", "right"))
        if first == last:
            continue
        addresses = np.array(
            [min(int(offsets[frame][1], 16), (1 << 63) - 1) for frame in frames], dtype=np.int64
        )
        places = first + np.searchsorted(starts[first:last], addresses, "right") - 1
        for frame, place, offset in zip(frames, places.tolist(), addresses.tolist(), strict=True):
            if place < first or not _covers(place, last, offset, starts, sizes):
                continue
            names[frame] = f"{clean(functions[place].as_py())} [{offsets[frame][2]}]"
    return names


def _covers(place: int, last: int, offset: int, starts: Any, sizes: Any) -> bool:
    """Whether the symbol at ``place`` holds ``offset``; one without a size reaches to the next."""
    if sizes[place] > 0:
        return bool(offset < starts[place] + sizes[place])
    return bool(place + 1 < last and offset < starts[place + 1])


def clean(name: str) -> str:
    """Return a function's name without what would end a frame.

    >>> clean("f(a;b)")
    'f(a:b)'
    """
    return name.replace(";", ":")


@dataclass(frozen=True)
class Added:
    """Symbols of one program that went into the store."""

    path: str
    """Its file."""
    build_id: str
    """Its build."""
    module: str
    """Its name in profiles."""
    symbols: int
    """How many."""


@dataclass(frozen=True)
class SymbolsAdded:
    """Symbols that went into a store: `steelyard fleet symbols add --json`."""

    KIND: ClassVar[str] = "fleet_symbols_add"

    added: list[Added]
    """By program."""


def add(url: str, binaries: Iterable[Path], program: Path, *, now: datetime | None = None) -> list[Added]:
    """Read the symbols of ``binaries`` by ``program`` (``steelyard-profile``) and write them into the store.

    Uploading a build again changes nothing that is asked. Raises UsageError for a file that is no program
    with a build id, EnvironmentLacksError when ``program`` is not there.
    """
    import pyarrow as pa

    from steelyard.fleet.store.store import write_rows

    day = (now or datetime.now(UTC)).strftime("%Y-%m-%d")
    added = []
    for binary in binaries:
        document = read_symbols(binary, program)
        starts, sizes, names = ([row[at] for row in document["symbols"]] for at in range(3))
        count = len(starts)
        if not count:
            raise UsageError(
                f"{binary} has no symbols of functions",
                hint="give the file before it was stripped, or install its debug file",
            )
        rows = pa.table(
            {
                "build_id": pa.array([document["build_id"]] * count, pa.string()),
                "module": pa.array([document["module"]] * count, pa.string()),
                "start": pa.array(starts, pa.int64()),
                "size": pa.array(sizes, pa.int64()),
                "name": pa.array(names, pa.string()),
            }
        )
        write_rows(url, "symbols", rows, cluster="all", date=day, machine=document["build_id"])
        added.append(Added(str(binary), document["build_id"], document["module"], count))
    return added


def read_symbols(binary: Path, program: Path) -> dict[str, Any]:
    """Return what ``steelyard-profile symbols`` says of one file."""
    try:
        done = subprocess.run(
            [program, "symbols", "--", binary], capture_output=True, text=True, check=False, encoding="utf-8"
        )
    except FileNotFoundError:
        raise EnvironmentLacksError(f"{program} is not here", hint=REPAIR_HINT) from None
    if done.returncode != 0:
        message = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise UsageError(message[0].removeprefix(f"{PROGRAM}: "), hint="give ELF files with a build id")
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise WorkloadFailedError(f"{PROGRAM} symbols {binary}: no JSON: {error}") from error
    return document
