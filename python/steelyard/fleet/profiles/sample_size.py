"""Whether a sample of profiles is enough, as Google-Wide Profiling judges it (Ren et al., IEEE Micro 30(4),
2010): by entropy and Manhattan distance.

In: rows of one event and their functions. Out: `Sample`. The entropy of the shares of functions says over how
many functions the cycles are spread; it is corrected for the functions that were not seen. The distance
sum |p - q| of the shares in two halves of the machines, from 0 to 2, says how much of the profile is noise.
Beside it stands the distance that the intervals let expect: much more than that, and machines are of kinds
that the halves have unequally.

Not here: shares (``shares``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard._base.documents import printed
from steelyard.fleet.profiles.shares import GROUPS, grouped, shares
from steelyard.stats.entropy import Entropy, entropy_of
from steelyard.stats.shares import LEAST_HOLDERS
from steelyard.telemetry.engine import fetch, floats, integers

Floats = NDArray[np.float64]
PRECISION = 0.10
"""The half of an interval, as part of the share, that is called enough."""


@dataclass(frozen=True)
class Sample:
    """How much was sampled, and whether it is enough."""

    machine_minutes: int
    """Minutes of machines that were sampled."""
    machines: int
    """Machines that were sampled."""
    samples: int
    """Samples of them."""
    entropy: Entropy
    """Of the shares of functions, own."""
    functions: int
    """Functions that were seen."""
    manhattan_distance: float | None
    """Manhattan distance between the functions' shares in two halves of the machines, 0 to 2; None where a
    half is empty.
    """
    expected_manhattan_distance: float | None
    """What chance alone would make of it."""
    more_machines: int | None
    """Until every row shown is known to ``PRECISION`` of its share; None where a row has no interval."""

    @property
    @printed
    def least_machines(self) -> float:
        """Return the machines that an interval needs."""
        return LEAST_HOLDERS

    @property
    @printed
    def precision_ratio(self) -> float:
        """Return the half of an interval, as part of the share, that is called enough."""
        return PRECISION

    @property
    @printed
    def is_enough(self) -> bool:
        """Whether every row shown is known to ``PRECISION`` of its share."""
        return self.more_machines == 0


def sample_of(
    rows: Any,
    keyed: Any,
    moments: Sequence[Mapping[str, Any]],
    size: Mapping[str, Any],
    more: Sequence[int | None],
) -> Sample:
    """Return how much was sampled.

    ``moments`` are those of functions (``keyed``), ``more`` the machines that each row shown still needs.
    """
    weights = np.array([row["own_y"] for row in moments], dtype=np.float64)
    alone = np.array([row["machines"] == 1 for row in moments], dtype=bool)
    unseen = float(weights[alone].sum() / weights.sum()) if weights.sum() > 0 else 0.0
    parts = _parts(fetch(grouped(rows, keyed)))
    first, second = parts[:, ::2].sum(axis=1), parts[:, 1::2].sum(axis=1)
    distance = expected = None
    if first.sum() > 0 and second.sum() > 0:
        distance = float(np.abs(first / first.sum() - second / second.sum()).sum())
        expected = _expected(moments, size)
    return Sample(
        machine_minutes=int(size["machine_minutes"]),
        machines=int(size["machines"]),
        samples=int(size["samples"]),
        entropy=entropy_of(parts, unseen),
        functions=int((weights > 0).sum()),
        manhattan_distance=distance,
        expected_manhattan_distance=expected,
        more_machines=None if not more or None in more else max(m for m in more if m is not None),
    )


def _parts(table: Any) -> Floats:
    """Return the weight of each function in each group of machines."""
    _, row = np.unique(np.array(table["key"].to_pylist(), dtype=object), return_inverse=True)
    made = np.zeros((int(row.max()) + 1 if len(row) else 0, GROUPS))
    made[row, integers(table["part"])] = floats(table["own"])
    return made


def _expected(moments: Sequence[Mapping[str, Any]], size: Mapping[str, Any]) -> float:
    """Return the distance of two halves that the variances of the shares let expect.

    Of n machines one half has (n + 1) // 2: the difference of two independent halves has the variance of the
    whole times n / n1 + n / n2. The mean of the absolute value of a normal variable is its standard deviation
    times sqrt(2 / pi).
    """
    count = int(size["machines"])
    larger = (count + 1) // 2
    factor = (count / larger + count / max(1, count - larger)) ** 0.5
    errors = [share.standard_error or 0.0 for share in shares(moments, size)]
    return float(factor * np.sqrt(2 / np.pi) * np.sum(errors))
