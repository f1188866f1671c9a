"""The projection of DCPerf's section 4.1: the geometric mean of benchmark scores over a calibration machine.

In: a table. Out: how many times the calibration machine's performance each machine has, by benchmarks and, as
logarithms, by targets. The calibration machine has no error by construction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from steelyard.decide.projection.features import Floats
from steelyard.decide.tables.model import MachineTable


def log_scores(
    table: MachineTable, results: Sequence[str], weights: Mapping[str, float] | None = None
) -> Floats:
    """Return the mean logarithm of results, one a machine; NaN where any of them is missing.

    ``weights`` are by result (each workload's power in DCPerf), by default equal. A result of which less is
    better counts inverted. Differences of two machines are logarithms of their ratio of scores.
    """
    total = np.zeros(len(table.machines))
    share = {name: (weights or {}).get(name, 1.0) for name in results}
    for name in results:
        sign = 1.0 if table.column(name).better == "higher" else -1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            total = total + sign * share[name] * np.log(table.values(name))
    found: Floats = total / sum(share.values())
    return found
