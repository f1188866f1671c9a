"""The Ibis expressions behind ``fleet top`` and ``fleet diff``, each over a whole store, by name.

In: an open store. Out: Ibis expressions, on which engines are held equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steelyard.fleet.profiles import shares as top_shares
from steelyard.fleet.profiles.stacks import Selection, select, stacks
from steelyard.fleet.profiles.symbols import symbols_of
from steelyard.fleet.store.store import Store
from steelyard.telemetry.engine import fetch


def _rows(store: Store) -> Any:
    return select(store.table("profiles"), Selection(event=("cycles",)))


def _by_leaf(store: Store) -> Any:
    """Return the shares' sums by function, whose keys join as a table that was made here."""
    from steelyard.fleet.profiles.top import memtable

    rows = _rows(store)
    texts = fetch(stacks(rows))["stack"].to_pylist()
    ones = [1.0] * len(texts)
    keys = memtable((texts, [text.rpartition(";")[2] for text in texts], ones, ones))
    return top_shares.moments(rows, top_shares.keyed_by_stack(rows, keys))


def _binaries(store: Store) -> Any:
    return top_shares.keyed_by_column(_rows(store), "binary")


def _sides(store: Store) -> Any:
    """Return machines whose names end in an even digit, and the others."""
    rows = _rows(store)
    even = rows.machine.substr(rows.machine.length() - 1).isin(["0", "2", "4", "6", "8"])
    return top_shares.sides(rows.filter(even), rows.filter(~even))


def _symbols(store: Store) -> Any:
    symbols = store.table("symbols")
    builds = fetch(symbols.select("build_id").distinct().order_by("build_id"))
    return symbols_of(symbols, builds["build_id"].to_pylist())


TOP: dict[str, Callable[[Store], Any]] = {
    "top stacks": lambda store: stacks(_rows(store), most=1000),
    "top sizes": lambda store: top_shares.sizes(_rows(store)),
    "top sizes by platform": lambda store: top_shares.sizes(_rows(store), ("platform",)),
    "top by binary": lambda store: top_shares.moments(_rows(store), _binaries(store)),
    "top by function": _by_leaf,
    "top groups": lambda store: top_shares.grouped(_rows(store), _binaries(store)),
    "symbols": _symbols,
}

DIFF: dict[str, Callable[[Store], Any]] = {
    "diff jobs": lambda store: top_shares.job_weights(_sides(store)),
    "diff sizes": lambda store: top_shares.pair_sizes(_sides(store)),
    "diff by job": lambda store: top_shares.pair_moments(
        _sides(store), top_shares.keyed_by_column(_sides(store), "job")
    ),
}
