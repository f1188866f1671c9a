"""Every query of the fleet as one Ibis expression over a store, by name.

A list for the tests that hold engines equal and for the benchmarks: each query adds a line. Invariant: an
expression gives the same rows on every engine.
"""

from collections.abc import Callable
from typing import Any

from steelyard.fleet.store import Store

EXPRESSIONS: dict[str, Callable[[Store], Any]] = {}
"""Queries by name: each takes an open store and returns an Ibis table expression."""
