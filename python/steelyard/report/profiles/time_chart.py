"""When samples were taken: seconds across, parts of a second down, darker where more were.

In: times of samples. Out: a `Timeline` of kind ``heat``. A program that works all the time gives an even
colour; waits for a timer or a lock appear as stripes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.profiles.figures import ReadProfile
from steelyard.report.answer import Timeline, Trace, absent

_COLUMNS, _ROWS = 600, 20
_ID, _TITLE = "times", "Samples over time"


def run_time_charts(read: ReadProfile, zero_ns: int, title: str = _TITLE) -> tuple[Timeline, ...]:
    """Return the chart of a run's samples on the axis of its other charts, whose 0 is ``zero_ns``
    (CLOCK_MONOTONIC); none where times were not recorded.
    """
    if read.no_times is not None:
        return (absent(_ID, title, read.no_times),)
    if read.taken is None:
        return ()
    begin_s = (read.taken.first_ns - zero_ns) / 1e9
    return (time_chart(read.taken.elapsed_ns, title, begin_s=begin_s),)


def time_chart(times_ns: NDArray[np.int64], title: str = _TITLE, *, begin_s: float | None = None) -> Timeline:
    """Return the chart of samples at ``times_ns``, ns since the first, which was at ``begin_s`` of the page's
    other charts; None where it has no others.
    """
    column_s = int(times_ns.max()) // (_COLUMNS * 10**9) + 1
    part_ns = column_s * 10**9 // _ROWS
    columns = int(times_ns.max()) // (column_s * 10**9) + 1
    cells = np.zeros((_ROWS, columns), dtype=np.int64)
    parts = times_ns // part_ns
    np.add.at(cells, (parts % _ROWS, parts // _ROWS), 1)
    names = tuple(f"{part_ns * number / 1e6:g} ms" for number in range(_ROWS))
    seconds = np.arange(columns, dtype=np.float64) * column_s
    note = "A column is a second" if column_s == 1 else f"A column is {column_s} s"
    if begin_s is None:
        note += "."
    else:
        # A column is drawn around its x.
        seconds += begin_s + column_s / 2
        note += f"; steelyard profile show --between counts from the first sample, here at {begin_s:.1f} s."
    return Timeline(
        _ID,
        title,
        kind="heat",
        unit="1",
        x=seconds,
        traces=tuple(
            Trace(name, "total", counts.astype(np.float64)) for name, counts in zip(names, cells, strict=True)
        ),
        rows=names,
        y_title="within a second" if column_s == 1 else f"within {column_s} s",
        note=note,
    )
