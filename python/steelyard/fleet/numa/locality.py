"""What NUMA locality costs a fleet: how scores are spread, and what CPI, CPU time and latency are at each
score.

In: ``task_samples`` with ``numa_score`` (above 0 to 1, all local). Out: `NumaAnswer`: the spread of scores
over days (the NUMA paper's Figure 2), means and deviations by score bin (its Figures 3 to 8), and for each
job the effect of locality within job, platform and load, beside what the raw samples seem to say.

Why strata. Where a scheduler moves pages while machines are busy, or busy machines leave tasks less room,
score and load go together, and load raises CPI by itself: the raw correlation then mixes both. Samples are
therefore compared only within the same job, platform and 2.5 % of machine load (``effects``). CPU utilisation
is a part of the load, so that its strata are hours of the day instead.

Invariants: each figure is of the samples that have it, with their number; normalised figures are over
the job's own at its best bin on the same platform.

Not here: scores themselves (the package ``numa``, the agent), drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from steelyard._base import ResultSaysNoError
from steelyard._base.documents import printed
from steelyard.fleet.effects import Effect, Floats, correlation, stratified_effect
from steelyard.telemetry.deferred import ibis
from steelyard.telemetry.engine import fetch, fetch_rows, floats

LOAD_BINS = 40
BINS = 10
LEAST_USE = 0.25
"""CPU-s/s below which a sample's CPI does not count, as in CPI2 (EuroSys'13)."""
CPI_SOURCE = "cycles/instructions"
FEW = 30
"""Samples below which a bin is not drawn, and none is normalised by."""
SHOWN_SCORE = 0.5
"""The score that effects are reported at, against 1: the paper's figures begin there."""

METRICS = {
    "cpi": "CPI",
    "cpu_use": "CPU utilisation",
    "cpu_per_operation": "CPU time per request",
    "latency_mean": "mean latency",
    "latency_p99": "99th percentile of latency",
}
"""Figures that locality may change: name in documents, and in words."""
BY_HOUR = ("cpu_use",)
"""Figures whose strata are hours of the day: the load is made of them."""


def scored(task_samples: Any, jobs: Sequence[str] = (), platforms: Sequence[str] = ()) -> Any:
    """Return the samples with a score, with x = 1 - score, the figures, and what parts them."""
    t = task_samples.filter(task_samples.numa_score.notnull(), task_samples.window_s > 0)
    if jobs:
        t = t.filter(t.job.isin(list(jobs)))
    if platforms:
        t = t.filter(t.platform.isin(list(platforms)))
    use = t.cpu_s / t.window_s
    counts = (t.cpi > 0) & (use >= LEAST_USE) & (t.cpi_source.isnull() | (t.cpi_source == CPI_SOURCE))
    none = ibis.null("float64")
    return t.select(
        t.job,
        t.platform,
        t.machine,
        t.date,
        x=1.0 - t.numa_score,
        load=ibis.coalesce(
            (t.machine_cpu_ratio * LOAD_BINS).floor().cast("int64"), ibis.literal(-1, "int64")
        ),
        hour=((t.window_start_unix_s % 86_400) / 3600).floor().cast("int64"),
        score=t.numa_score,
        cpi=ibis.cases((counts, t.cpi), else_=none),
        cpu_use=use,
        cpu_per_operation=ibis.cases((t.operations > 0, t.cpu_s / t.operations), else_=none),
        latency_mean=t.latency_mean_s,
        latency_p99=t.latency_p99_s,
    )


def score_bin(rows: Any, bins: int) -> Any:
    """Return the score's bin: the last one has 1 in it."""
    return ibis.least((rows.score * bins).floor().cast("int64"), ibis.literal(bins - 1, "int64"))


def days(rows: Any, bins: int = BINS) -> Any:
    """Return how many samples of each day are in each score bin (Figure 2)."""
    binned = rows.mutate(bin=score_bin(rows, bins))
    return binned.group_by("date", "bin").agg(samples=binned.count()).order_by(["date", "bin"])


def bins_of(rows: Any, bins: int = BINS) -> Any:
    """Return count, mean and deviation of every figure by job, platform and score bin (Figures 3 to 8)."""
    binned = rows.mutate(bin=score_bin(rows, bins))
    figures: dict[str, Any] = {}
    for metric in METRICS:
        figures |= {
            f"{metric}_n": binned[metric].count(),
            f"{metric}_mean": binned[metric].mean(),
            f"{metric}_sd": binned[metric].std(how="sample"),
        }
    return binned.group_by("job", "platform", "bin").agg(**figures).order_by(["job", "platform", "bin"])


def sums(rows: Any, metrics: Sequence[str], part: str) -> Any:
    """Return the sums that effects stand on: of each job, platform, ``part`` (``load`` or ``hour``) and
    machine.
    """
    made: dict[str, Any] = {}
    for metric in metrics:
        y = rows[metric]
        # What has no such figure must not count for x either.
        x = ibis.cases((y.notnull(), rows.x), else_=ibis.null("float64"))
        made |= {
            f"{metric}_n": y.count(),
            f"{metric}_x": x.sum(),
            f"{metric}_xx": (x * x).sum(),
            f"{metric}_y": y.sum(),
            f"{metric}_xy": (x * y).sum(),
            f"{metric}_yy": (y * y).sum(),
        }
    keys = ["job", "platform", part, "machine"]
    return rows.group_by(keys).agg(**made).order_by(keys)


@dataclass(frozen=True)
class Locality:
    """What locality does to one figure of one job."""

    job: str
    """The job."""
    metric: str
    """The figure."""
    effect: Effect
    """Within platform and load (or hour): y at score 0 over y at score 1, less 1."""
    raw_effect: Effect | None
    """The same over all samples of the job on a platform, whatever the load, as the paper has it."""
    raw_correlation: float | None
    """Pearson's, of score and figure, over the same samples."""

    @property
    @printed
    def ratio_at_half(self) -> float:
        """Return the figure at a score of 1/2 over that at 1."""
        return self.effect.at(1 - SHOWN_SCORE)[0]

    @property
    @printed
    def ratio_at_half_low(self) -> float | None:
        """Return the lower end of its interval."""
        return self.effect.at(1 - SHOWN_SCORE)[1]

    @property
    @printed
    def ratio_at_half_high(self) -> float | None:
        """Return the upper end of it."""
        return self.effect.at(1 - SHOWN_SCORE)[2]

    @property
    @printed
    def disagreement(self) -> str:
        """How the raw samples mislead, empty where they do not."""
        effect, raw = self.effect, self.raw_effect
        if raw is None or effect.low is None or effect.high is None or raw.low is None or raw.high is None:
            return ""
        clear, raw_clear = effect.low > 0 or effect.high < 0, raw.low > 0 or raw.high < 0
        if clear and raw_clear and (effect.value > 0) != (raw.value > 0):
            return "the raw samples show the opposite"
        if raw.high < effect.low or effect.high < raw.low:
            return (
                "the raw samples understate it"
                if abs(raw.value) < abs(effect.value)
                else "the raw samples overstate it"
            )
        if clear and not raw_clear:
            return "the raw samples hide it"
        return "the raw samples show what strata do not" if raw_clear and not clear else ""


@dataclass(frozen=True)
class Binned:
    """One figure of one job by score bin, over its own at the best bin, all platforms together."""

    job: str
    """The job."""
    metric: str
    """The figure."""
    ratio: tuple[float | None, ...]
    """Means over the mean of the best bin; None where a bin has too few samples."""
    sd: tuple[float | None, ...]
    """Standard deviations, in the same unit."""
    samples: tuple[int, ...]
    """Samples in each bin."""


@dataclass(frozen=True)
class Day:
    """Samples of a day."""

    date: str
    """Which day."""
    samples: tuple[int, ...]
    """Those in each score bin."""


@dataclass(frozen=True)
class NumaAnswer:
    """The answer of ``fleet numa``."""

    KIND: ClassVar[str] = "fleet_numa"

    score_bins: int
    """Bins of the score."""
    samples: int
    """Samples with a score."""
    machines: int
    """Machines that they are of."""
    days: tuple[Day, ...]
    """By date."""
    figures: tuple[Binned, ...]
    """Figures by score bin."""
    effects: tuple[Locality, ...]
    """In the order of jobs, then of `METRICS`."""
    missing: dict[str, str]
    """Figures that no job has, with the reason."""


def numa(
    task_samples: Any, *, jobs: Sequence[str] = (), platforms: Sequence[str] = (), bins: int = BINS
) -> NumaAnswer:
    """Answer what locality costs. Raises ResultSaysNoError when no sample has a score."""
    rows = scored(task_samples, jobs, platforms)
    spread = fetch_rows(days(rows, bins))
    if not spread:
        raise ResultSaysNoError(
            "no sample has a NUMA score", hint="agents give one on machines with several nodes"
        )
    dates = sorted({row["date"] for row in spread})
    counts = {(row["date"], row["bin"]): row["samples"] for row in spread}
    by_load = tuple(metric for metric in METRICS if metric not in BY_HOUR)
    tables = [fetch(sums(rows, by_load, "load")), fetch(sums(rows, BY_HOUR, "hour"))]
    localities: list[Locality] = []
    for table, metrics, part in ((tables[0], by_load, "load"), (tables[1], BY_HOUR, "hour")):
        localities += effects_of(table, metrics, part)
    order = {metric: at for at, metric in enumerate(METRICS)}
    localities.sort(key=lambda locality: (locality.job, order[locality.metric]))
    figures = normalised(fetch_rows(bins_of(rows, bins)), bins)
    known = {figure.metric for figure in figures}
    return NumaAnswer(
        score_bins=bins,
        samples=sum(counts.values()),
        machines=len(set(tables[1]["machine"].to_pylist())),
        days=tuple(Day(date, tuple(counts.get((date, at), 0) for at in range(bins))) for date in dates),
        figures=tuple(figures),
        effects=tuple(localities),
        missing={METRICS[m]: "no job of the selection exports it" for m in METRICS if m not in known},
    )


def effects_of(table: Any, metrics: Sequence[str], part: str) -> list[Locality]:
    """Return the effects on each of ``metrics`` by job, from the Arrow table of `sums`."""
    codes = {name: _codes(table[name]) for name in ("job", "platform", part, "machine")}
    jobs, job_of = codes["job"]
    strata = (codes["platform"][1] * (len(codes[part][0]) + 1)) + codes[part][1]
    machines = codes["machine"][1]
    made = []
    for metric in metrics:
        columns = {
            name: np.nan_to_num(floats(table[f"{metric}_{name}"]))
            for name in ("n", "x", "xx", "y", "xy", "yy")
        }
        for number, job in enumerate(jobs):
            own = (job_of == number) & (columns["n"] > 0)
            chosen = {name: values[own] for name, values in columns.items()}
            effect = stratified_effect(strata[own], machines[own], chosen)
            if effect is None:
                continue
            platforms = codes["platform"][1][own]
            raw = stratified_effect(platforms, machines[own], chosen)
            with_x = correlation(platforms, chosen)
            # x is 1 - score: the correlation with the score has the other sign.
            made.append(Locality(job, metric, effect, raw, None if with_x is None else -with_x))
    return made


def _codes(column: Any) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct values of an Arrow column in their order, and the number of each row's."""
    values, numbers = np.unique(np.asarray(column.to_pylist(), dtype=object), return_inverse=True)
    return values.tolist(), numbers.astype(np.int64)


def normalised(rows: Sequence[Mapping[str, Any]], bins: int) -> list[Binned]:
    """Return every figure of each job by bin, each platform over its own mean at its best bin."""
    results: list[Binned] = []
    for job in sorted({row["job"] for row in rows}):
        for metric in METRICS:
            binned = _normalised([row for row in rows if row["job"] == job], job, metric, bins)
            if binned is not None:
                results.append(binned)
    return results


def _normalised(rows: Sequence[Mapping[str, Any]], job: str, metric: str, bins: int) -> Binned | None:
    counts: Floats = np.zeros(bins)
    first: Floats = np.zeros(bins)
    second: Floats = np.zeros(bins)
    for platform in {row["platform"] for row in rows}:
        own = [row for row in rows if row["platform"] == platform and row[f"{metric}_n"] >= FEW]
        if len(own) < 2:
            # A platform of one node has one bin, and nothing to compare it with.
            continue
        base = max(own, key=lambda row: row["bin"])[f"{metric}_mean"]
        if not base or base <= 0:
            continue
        for row in own:
            n, mean = row[f"{metric}_n"], row[f"{metric}_mean"] / base
            sd = (row[f"{metric}_sd"] or 0.0) / base
            counts[row["bin"]] += n
            first[row["bin"]] += n * mean
            second[row["bin"]] += (n - 1) * sd**2 + n * mean**2
    if not counts.any():
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        means = first / counts
        deviations = np.sqrt(np.maximum(0.0, (second - counts * means**2) / np.maximum(counts - 1, 1)))
    return Binned(
        job,
        metric,
        tuple(float(m) if c else None for m, c in zip(means, counts, strict=True)),
        tuple(float(d) if c else None for d, c in zip(deviations, counts, strict=True)),
        tuple(int(c) for c in counts),
    )
