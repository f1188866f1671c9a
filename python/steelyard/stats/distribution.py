"""Distributions as data: a quantile function in a file, and what follows from it.

In: files of kind ``distribution`` in ``data/``. Out: quantiles, the mean, the distribution function. The data
plane reads the same files (``steelyard-load --value-sizes``, ``steelyard-cache --object-sizes``) and joins
their points by the same straight lines, so that what is computed here is what is sent.

Not here: fitting, which ``scripts/make_tao_distributions.py`` does once for each file.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from steelyard import records
from steelyard._base import data_dir

Numbers = float | Sequence[float] | NDArray[np.float64]


class Distribution(records.Record):
    """A quantile function: points (q, value), linear between them.

    >>> sizes = Distribution(name="n", unit="bytes", provenance="p", quantiles=[(0, 10), (0.5, 20), (1, 120)])
    >>> sizes.mean(), float(sizes.at(0.75)), float(sizes.probability_below(15))
    (42.5, 70.0, 0.25)
    """

    KIND: ClassVar[str] = "distribution"

    name: str = Field(description="Quantity")
    unit: str = Field(description="Unit of the values")
    provenance: str = Field(description="Where it comes from")
    quantiles: list[tuple[float, float]] = Field(
        description="Pairs of quantile and value: from 0 to 1, rising in the first, not falling in the second"
    )

    @model_validator(mode="after")
    def _rises(self) -> Self:
        points = self.quantiles
        if len(points) < 2 or points[0][0] != 0 or points[-1][0] != 1:
            raise ValueError("quantiles must run from 0 to 1")
        if points[0][1] < 0:
            raise ValueError("values must not be negative")
        for (low, small), (high, large) in itertools.pairwise(points):
            if high <= low or large < small:
                raise ValueError(f"quantiles must rise and values must not fall: see [{high}, {large}]")
        return self

    def at(self, quantile: Numbers) -> NDArray[np.float64]:
        """Return the value at each ``quantile`` (0 to 1), in ``unit``."""
        points = np.array(self.quantiles)
        return np.asarray(np.interp(np.asarray(quantile, dtype=np.float64), points[:, 0], points[:, 1]))

    def probability_below(self, value: Numbers) -> NDArray[np.float64]:
        """Return the probability of at most ``value``, which is in ``unit``."""
        points = np.array(self.quantiles)
        values = np.asarray(value, dtype=np.float64)
        # Where the quantile function is flat, the distribution jumps: its far end counts.
        above = np.searchsorted(points[:, 1], values, side="right")
        before, after = points[np.maximum(above - 1, 0)], points[np.minimum(above, len(points) - 1)]
        rise = after[..., 1] - before[..., 1]
        share = (values - before[..., 1]) / np.where(rise > 0, rise, 1.0)
        inside = before[..., 0] + share * (after[..., 0] - before[..., 0])
        return np.where(above == 0, 0.0, np.where(above == len(points), 1.0, inside))

    def mean(self) -> float:
        """Return the mean in ``unit``: the integral of the quantile function."""
        points = np.array(self.quantiles)
        return float(np.trapezoid(points[:, 1], points[:, 0]))


class PopularityChoice(records.values.Value):
    """One way in which requests choose keys."""

    name: str = Field(description="How users name it")
    key_distribution: str = Field(
        description="As steelyard-load takes it", pattern=r"^(uniform|zipf:[0-9.]+)$"
    )
    provenance: str = Field(description="Where it comes from")

    @property
    def exponent(self) -> float:
        """Return the Zipf exponent, 0 for uniform keys."""
        head, _, exponent = self.key_distribution.partition(":")
        return float(exponent) if head == "zipf" else 0.0


class Popularity(records.Record):
    """Named ways in which requests choose keys, and the default."""

    KIND: ClassVar[str] = "popularity"

    default: str = Field(description="Name of the default choice")
    argument: str = Field(description="Why that one")
    choices: list[PopularityChoice]

    @model_validator(mode="after")
    def _has_default(self) -> Self:
        names = [choice.name for choice in self.choices]
        if self.default not in names or len(set(names)) < len(names):
            raise ValueError("choices must have different names, and default must be one of them")
        return self

    def choice(self, name: str | None = None) -> PopularityChoice:
        """Return the choice called ``name``, the default without one.

        Raises:
            KeyError: if there is no such choice.
        """
        key = self.default if name is None else name
        for choice in self.choices:
            if choice.name == key:
                return choice
        raise KeyError(key)


def path_of(benchmark: str, name: str) -> Path:
    """Return where ``data/<benchmark>/<name>.json`` is, in a checkout as in an installed wheel."""
    return data_dir() / benchmark / f"{name}.json"


def load(path: Path) -> Distribution:
    """Return the distribution in the file ``path``. Raises ``RecordError`` where it holds none."""
    return records.read(Distribution, path)


def load_popularity(path: Path) -> Popularity:
    """Return the popularity choices in the file ``path``. Raises ``RecordError`` where it holds none."""
    return records.read(Popularity, path)
