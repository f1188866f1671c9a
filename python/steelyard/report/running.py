"""How many tasks run at each moment.

In: starts and ends. Out: times of changes, and counts.
"""

from typing import Any

import numpy as np


def running(spans: list[tuple[int, int]]) -> tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]:
    """Return the moments at which the number of running tasks changes, and the number from then on.

    >>> times, counts = running([(0, 10), (5, 10)])
    >>> times.tolist(), counts.tolist()
    ([0, 5, 10], [1, 2, 0])
    """
    begins, ends = np.asarray(spans, dtype=np.int64).T
    times = np.unique(np.concatenate((begins, ends)))
    started = np.searchsorted(np.sort(begins), times, side="right")
    ended = np.searchsorted(np.sort(ends), times, side="right")
    return times, started - ended
