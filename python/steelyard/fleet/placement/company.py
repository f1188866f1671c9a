"""Sums of each job's CPI, alone and beside each other job: what ``pair`` compares.

In: ``task_samples``. Out: Ibis expressions of sums by job, platform, machine load and machine; of those
beside others one row for each word of `WORD` neighbours, as bits.

Not here: what the sums say (``pair``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from steelyard.fleet.effects import Floats
from steelyard.fleet.numa.locality import CPI_SOURCE, LEAST_USE
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import floats

LOAD_BINS = 20
PRESENT_USE = 0.05
"""CPU-s/s from which a job is beside another: less leaves no trace."""
GAP_S = 600
"""A job that was not seen for longer has left, and comes again."""
WORD = 20
"""Jobs in one word of bits; a store of more jobs has more words."""


def victims(task_samples: Any) -> Any:
    """Return the samples with a CPI: job, platform, machine, minute, load and CPI."""
    t = task_samples
    use = t.cpu_s / t.window_s
    t = t.filter(
        t.cpi > 0, use >= LEAST_USE, t.cpi_source.isnull() | (t.cpi_source == CPI_SOURCE), t.window_s > 0
    )
    t = t.mutate(
        minute=t.window_start_unix_s - t.window_start_unix_s % 60,
        load=ibis.coalesce(
            (t.machine_cpu_ratio * LOAD_BINS).floor().cast("int64"), ibis.literal(-1, "int64")
        ),
    )
    return t.select("job", "platform", "machine", "minute", "load", "cpi")


def present(task_samples: Any) -> Any:
    """Return which jobs were on which machine in which minute, as bits of words of `WORD` jobs.

    Columns: machine, minute, word, bits; the bit of a job is 2 ** (its number - `WORD` * word). ``starts``
    has the bits of the jobs that were not there in the row before, or where that is older than `GAP_S`.
    """
    t = task_samples.filter(task_samples.window_s > 0)
    t = t.mutate(minute=t.window_start_unix_s - t.window_start_unix_s % 60)
    each = t.group_by("machine", "minute", "job").agg(use=(t.cpu_s / t.window_s).sum())
    there = each.filter(each.use >= PRESENT_USE).join(numbered(task_samples), ["job"])
    # A job is there once, so that the sum of powers of two sets its bit. Ibis has no bitwise sum on Spark.
    bit = (ibis.literal(2.0) ** (there.number % WORD)).cast("int64")
    there = there.select("machine", "minute", word=there.number // WORD, bit=bit)
    rows = there.group_by("machine", "minute", "word").agg(bits=there.bit.sum().cast("int64"))
    order = ibis.window(group_by=["machine", "word"], order_by="minute")
    is_next = (rows.minute - rows.minute.lag(1).over(order) <= GAP_S).fill_null(False)
    stays = is_next.ifelse(rows.bits & rows.bits.lag(1).over(order), 0).fill_null(0)
    return rows.mutate(starts=rows.bits - stays)


def numbered(task_samples: Any) -> Any:
    """Return the jobs in the order of their names, with numbers from 0."""
    jobs = task_samples.filter(task_samples.job.notnull()).select("job").distinct()
    return jobs.mutate(number=ibis.row_number().over(order_by=jobs.job))


def whole(task_samples: Any) -> Any:
    """Return the sums of each job's CPI and its square by platform, load and machine."""
    v = victims(task_samples)
    keys = ["job", "platform", "load", "machine"]
    return v.group_by(keys).agg(n=v.count(), y=v.cpi.sum(), yy=(v.cpi * v.cpi).sum()).order_by(keys)


def beside(task_samples: Any) -> Any:
    """Return the same sums of the minutes in which other jobs were there, by word of those jobs.

    Columns: the keys of ``whole``, word, and for each bit K of the word ``n_K``, ``y_K`` and the number of
    stretches that begin ``s_K``. There is one row
    for each victim and word, not for each victim and neighbour, which would be more rows than the store has.
    """
    joined = victims(task_samples).join(present(task_samples), ["machine", "minute"])
    seen = {bit: (joined.bits & (1 << bit)) > 0 for bit in range(WORD)}
    cpi = {bit: there.ifelse(joined.cpi, ibis.null("float64")) for bit, there in seen.items()}
    sums = {f"n_{bit}": each.count() for bit, each in cpi.items()}
    sums |= {f"y_{bit}": each.sum() for bit, each in cpi.items()}
    sums |= {f"s_{bit}": ((joined.starts & (1 << bit)) > 0).sum() for bit in range(WORD)}
    keys = ["job", "platform", "load", "machine", "word"]
    return joined.group_by(keys).agg(**sums).order_by(keys)


def by_neighbour(with_sums: Any, jobs: Sequence[str]) -> pa.Table:
    """Return the rows of ``beside`` with one for each neighbour.

    Columns: job, beside, platform, load, machine, n, y and s, the number of stretches that begin. ``jobs``
    are the names by number (``numbered``). A job is no neighbour of itself.
    """
    keys = ("job", "platform", "load", "machine")
    names = np.asarray(jobs, dtype=object)
    own = np.asarray(with_sums["job"].to_pylist(), dtype=object)
    first = floats(with_sums["word"]).astype(np.int64) * WORD
    rows: list[NDArray[np.int64]] = []
    others: list[Any] = []
    n: list[Floats] = []
    y: list[Floats] = []
    s: list[Floats] = []
    for bit in range(WORD):
        seen = np.flatnonzero(floats(with_sums[f"n_{bit}"]) > 0)
        other = names[first[seen] + bit]
        apart = other != own[seen]
        rows.append(seen[apart])
        others.append(other[apart])
        n.append(floats(with_sums[f"n_{bit}"])[rows[-1]])
        y.append(floats(with_sums[f"y_{bit}"])[rows[-1]])
        s.append(floats(with_sums[f"s_{bit}"])[rows[-1]])
    at = np.concatenate(rows)
    columns = {name: with_sums[name].take(pa.array(at)) for name in keys}
    beside_job = pa.array(np.concatenate(others).tolist(), pa.string())
    sums = {name: np.concatenate(values) for name, values in (("n", n), ("y", y), ("s", s))}
    return pa.table({**columns, "beside": beside_job, **sums})
