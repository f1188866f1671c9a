"""What a model learns from: results and attributes of machines as columns of numbers.

In: a table, the target, and the results to use. Out: `Features`: logarithms of results and sizes (a ratio of
machines is then a difference), results per CPU where they grow with CPUs, words as columns of 0 and 1.

Invariants: the target, and results measured together with it, are no features; a missing figure is NaN; the
unit of a result changes no column.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.decide.projection.processors import model_of, numbers_of, vendor_of
from steelyard.decide.tables.model import MachineTable

Floats = NDArray[np.float64]

SIZES = ("cpus", "cores")
"""Attributes that say how large a machine is, the first that is there."""
GROUPS = ("processor", "family", "generation")
"""Attributes whose machines are alike, the first that is there."""
_GROWS_FROM = 0.4
"""A result whose logarithm rises with that of the CPUs by this slope grows with the machine."""
_LEVELS_AT_MOST = 12
_FEW_FIGURES = 4
"""Up to this many figures in one unit, their ratios are features too."""
_SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
_COUNTS = ("1", "1/s")
"""Units of scores and rates: two of them count different things, whose sum means nothing."""
_FEW_RESULTS = 3
"""Below this many results, processors' names are read for what they say."""
_NO_FEATURES = frozenset(
    ["currency", "price", "price_per_hour", "maintenance_per_year", "rack_units", "year"]
)
_SIZE_BYTES = ("l1d_bytes", "l1i_bytes", "l2_bytes", "l3_bytes", "memory_bytes")


@dataclass(frozen=True)
class Features:
    """Columns by machine."""

    names: tuple[str, ...]
    """How each column is called: ``RESULT``, ``RESULT per CPU``, or an attribute."""
    of: tuple[str, ...]
    """The result or attribute that each column is of."""
    matrix: Floats
    """``[machine, column]``; NaN is missing."""
    anchors: Floats
    """``[machine, anchor]``: logarithms of what the target may be in proportion to; none is missing."""
    anchor_names: tuple[str, ...]
    is_size: tuple[bool, ...]
    """Whether an anchor is a size of the machine, and not a result."""
    size: Floats
    """Logarithm of the machine's size, NaN where it is unknown."""

    def only(self, kept: Collection[str]) -> Features:
        """Return the columns that are of ``kept``, and the anchors among them."""
        at = [at for at, name in enumerate(self.of) if name in kept]
        of_anchors = [
            at for at, name in enumerate(self.anchor_names) if name in kept or self.is_size[at] or name == ""
        ]
        return Features(
            tuple(self.names[one] for one in at),
            tuple(self.of[one] for one in at),
            self.matrix[:, at],
            self.anchors[:, of_anchors],
            tuple(self.anchor_names[one] for one in of_anchors),
            tuple(self.is_size[one] for one in of_anchors),
            self.size,
        )


def groups_of(table: MachineTable, attribute: str | None = None) -> tuple[str, NDArray[np.str_]]:
    """Return the attribute whose machines are alike, and each machine's value of it.

    A machine without it is alone. The names of processors are put into one form.
    """
    known = [name for name in GROUPS if any(machine.attributes.get(name) for machine in table.machines)]
    chosen = attribute or next(iter(known), "machine")
    if chosen == "machine":
        return chosen, np.array(table.names)
    values = []
    for machine in table.machines:
        value = machine.attributes.get(chosen)
        text = "" if value is None else str(value)
        values.append((model_of(text) if chosen == "processor" else text) or f"{machine.name} alone")
    return chosen, np.array(values)


def together_with(target: str, results: Sequence[str]) -> list[str]:
    """Return the results that were measured together with the target: those whose name begins as its.

    >>> together_with("web_1k_per_s", ["web_16k_per_s", "redis_set_per_s"])
    ['web_16k_per_s']
    """
    first = target.split("_")[0]
    return [name for name in results if name != target and name.split("_")[0] == first]


def features_of(table: MachineTable, results: Sequence[str], group: str) -> Features:
    """Return the features of all machines; ``results`` are those that the model may use."""
    size = _log(next((found for name in SIZES if np.isfinite(found := table.numbers(name)).any()),
                     np.full(len(table.machines), np.nan)))  # fmt: skip
    columns: list[tuple[str, str, Floats]] = []
    growing: list[tuple[str, Floats]] = []
    for name in results:
        values = _log(table.values(name))
        columns.append((name, name, values))
        if _slope(size, values) > _GROWS_FROM:
            columns.append((f"{name} per CPU", name, values - size))
            growing.append((name, values))
    sizes = _attributes(table, size, columns, group)
    if len(results) < _FEW_RESULTS:
        _names(table, columns)
    mixes = _pairs(table, results, columns)
    kept = [one for one in columns if _differs(one[2])]
    count = len(table.machines)
    anchors = [("", np.zeros(count)), *sizes, *((name, _filled(values, size)) for name, values in growing)]
    flat = [(name, _filled(values, size)) for name, _, values in kept if name in results]
    anchors += [one for one in flat if one[0] not in {name for name, _ in anchors}]
    anchors += [(name, _filled(values, size)) for name, values in mixes]
    return Features(
        tuple(name for name, _, _ in kept),
        tuple(of for _, of, _ in kept),
        np.column_stack([_centred(values) for _, _, values in kept]) if kept else np.zeros((count, 0)),
        np.column_stack([values for _, values in anchors]),
        tuple(name for name, _ in anchors),
        tuple(name in {name for name, _ in sizes} for name, _ in anchors),
        size,
    )


def _attributes(
    table: MachineTable, size: Floats, columns: list[tuple[str, str, Floats]], group: str
) -> list[tuple[str, Floats]]:
    """Add the columns of attributes; return those that are sizes, with nothing missing."""
    sizes = []
    for name in table.attributes:
        if name in _NO_FEATURES:
            continue
        numbers = table.numbers(name)
        if np.isfinite(numbers).any():
            values = _log(numbers) if (numbers[np.isfinite(numbers)] > 0).all() else numbers
            columns.append((name, name, values))
            if name in _SIZE_BYTES and name != SIZES[0]:
                columns.append((f"{name} per CPU", name, values - size))
            if name in SIZES:
                sizes.append((name, _filled(values, size)))
        elif name != group:
            columns += _words(name, [machine.text(name) for machine in table.machines])
    years = table.numbers("year")
    if np.isfinite(years).any():
        columns.append(("year", "year", years))
    if "vendor" not in table.attributes and "processor" in table.attributes:
        named = [machine.text("processor") for machine in table.machines]
        columns += _words("vendor", [None if name is None else vendor_of(name) for name in named])
    return sizes


def _pairs(
    table: MachineTable, results: Sequence[str], columns: list[tuple[str, str, Floats]]
) -> list[tuple[str, Floats]]:
    """Add the ratios of figures in one unit where there are few; return anchors between two of them.

    So power at part load follows from idle and full power.
    """
    units = {column.name: column.unit for column in table.results if column.name in results}
    units |= {name: "w" for name in table.attributes if name.endswith("_w")}
    names = [name for name in units if np.isfinite(table.values(name) if name in results else
                                                    table.numbers(name)).sum() > 1]  # fmt: skip
    if not 2 <= len(names) <= _FEW_FIGURES:
        return []
    mixes = []
    for first, second in combinations(names, 2):
        if units[first] != units[second]:
            continue
        a, b = (table.values(name) if name in results else table.numbers(name) for name in (first, second))
        columns.append((f"{first} over {second}", first, _log(a) - _log(b)))
        if units[first] in _COUNTS:
            continue
        mixes += [
            (f"{share:.0%} {first} and {1 - share:.0%} {second}", _log(share * a + (1 - share) * b))
            for share in _SHARES
        ]
    return mixes


def _names(table: MachineTable, columns: list[tuple[str, str, Floats]]) -> None:
    """Add what the processors' names say."""
    found = [numbers_of(machine.text("processor") or "") for machine in table.machines]
    for key in dict.fromkeys(name for one in found for name in one):
        values = np.array([one.get(key, 0.0 if key.startswith("letter") else np.nan) for one in found])
        columns.append((f"processor's {key}", "processor", values))


def _words(name: str, texts: Sequence[str | None]) -> list[tuple[str, str, Floats]]:
    levels = sorted({text or "" for text in texts})
    if not 2 <= len(levels) <= _LEVELS_AT_MOST:
        return []
    return [
        (f"{name} {level or 'unknown'}", name, np.array([float((text or "") == level) for text in texts]))
        for level in levels
    ]


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = np.where(values > 0, np.log(np.where(values > 0, values, 1.0)), np.nan)
    return found


def _slope(size: Floats, values: Floats) -> float:
    known = np.isfinite(size) & np.isfinite(values)
    if known.sum() < 3 or np.ptp(size[known]) == 0:
        return 0.0
    return float(np.polyfit(size[known], values[known], 1)[0])


def _differs(values: Floats) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known)) and bool(np.ptp(known) > 0 or len(known) < len(values))


def _centred(values: Floats) -> Floats:
    """Return a column less its median: in logarithms, without its unit."""
    found: Floats = values - np.nanmedian(values)
    return found


def _filled(values: Floats, size: Floats) -> Floats:
    """Return an anchor with nothing missing: in proportion to the size where it is."""
    known = np.isfinite(values)
    if known.all():
        return values
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rate = np.nanmedian(values - size)
        middle = np.nanmedian(values)
    guess: Any = np.where(np.isfinite(size) & np.isfinite(rate), size + rate, middle)
    filled: Floats = np.where(known, values, guess)
    return filled
