"""When samples were taken: seconds across, parts of a second down, darker where more were.

In: times of samples. Out: a `Chart` of kind ``heat``. A program that works all the time gives an even
colour; waits for a timer or a lock appear as stripes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard.report.chart import Chart, Trace

_COLUMNS, _ROWS = 600, 20


def time_chart(times_ns: NDArray[np.int64]) -> Chart:
    """Return the chart of samples at ``times_ns``, ns since the first."""
    column_s = int(times_ns.max()) // (_COLUMNS * 10**9) + 1
    part_ns = column_s * 10**9 // _ROWS
    columns = int(times_ns.max()) // (column_s * 10**9) + 1
    cells = np.zeros((_ROWS, columns), dtype=np.int64)
    parts = times_ns // part_ns
    np.add.at(cells, (parts % _ROWS, parts // _ROWS), 1)
    names = tuple(f"{part_ns * number / 1e6:g} ms" for number in range(_ROWS))
    return Chart(
        "times",
        "Samples over time",
        kind="heat",
        unit="1",
        x=np.arange(columns, dtype=np.float64) * column_s,
        traces=tuple(
            Trace(name, "total", counts.astype(np.float64)) for name, counts in zip(names, cells, strict=True)
        ),
        rows=names,
        y_title="within a second" if column_s == 1 else f"within {column_s} s",
        note="A column is a second." if column_s == 1 else f"A column is {column_s} s.",
    )
