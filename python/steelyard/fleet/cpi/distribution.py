"""How CPI is distributed: a histogram for each job and platform, and the curves that fit it.

In: ``task_samples`` and the specs made of them, which say how wide bins should be. Out: `Distribution`s.

Method: bins are a power of two wide, about a sixteenth of the standard deviation, so that both engines put
every sample into the same bin; the engine counts, and what is fitted is fitted to the counts. For the
errors of a fit the engine then adds up by task what each sample moves it by (`stats.gev.scores`): tasks are
unlike, and samples of one are alike. The published example (Zhang et al., EuroSys 2013, figure 7) is a
web-search job whose best fit is GEV(1.73, 0.133, -0.0534).

Not here: the fitting (``stats.gev``), drawing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

import numpy as np

from steelyard._base.documents import NOT_PRINTED, printed
from steelyard.fleet.cpi.samples import KEYS, Guards, counted
from steelyard.fleet.cpi.specs import Spec, SpecSettings
from steelyard.stats.gev import (
    GevFit,
    Histogram,
    TaskSums,
    chance_distance,
    clustered,
    fit_gev,
    sample_quantile,
    scores,
    share_above,
    tail,
)
from steelyard.telemetry.arrays import floats, integers, texts
from steelyard.telemetry.deferred import ibis

BINS_PER_SD = 16
TAIL_QUANTILE = 0.96
"""What mean + 2 sd is on the published distribution: a share of 0.0404 lies above it."""
_FEWEST_BEYOND = 5
"""Samples above a quantile of the samples that make it one."""


@dataclass(frozen=True)
class OtherFit:
    """A distribution with the samples' mean and standard deviation, and how far it lies from them."""

    name: str
    """Which distribution."""
    distance: float
    """Distance of the two distribution functions."""


@dataclass(frozen=True)
class Bins:
    """Bins [low, high) with the weight of their samples."""

    low: Sequence[float]
    """Lower ends."""
    high: Sequence[float]
    """Upper ends."""
    weight: Sequence[float]
    """Weights of the samples."""


@dataclass(frozen=True)
class Distribution:
    """CPI of one job on one platform."""

    spec: Spec
    """What is normal."""
    histogram: Histogram = field(metadata=NOT_PRINTED)
    gev: GevFit | None
    """The fitted curve."""
    missing: str | None
    """Why there is no curve."""
    others: tuple[OtherFit, ...] = ()
    """Other distributions, and how far they lie from the samples."""

    @property
    @printed
    def bins(self) -> Bins:
        """Return the samples by CPI."""
        columns = (self.histogram.low, self.histogram.high, self.histogram.count)
        return Bins(*(column.tolist() for column in columns))

    @property
    @printed
    def gev_mean(self) -> float | None:
        """Return the mean of the fitted curve."""
        return None if self.gev is None else self.gev.gev.mean

    @property
    @printed
    def gev_sd(self) -> float | None:
        """Return the standard deviation of the fitted curve."""
        return None if self.gev is None else self.gev.gev.sd

    @property
    @printed
    def above_threshold_ratio(self) -> float | None:
        """Return which share of the samples lies above the threshold, None without one."""
        return None if self.spec.threshold_cpi is None else self.above(self.spec.threshold_cpi)[0]

    @property
    @printed
    def gev_above_threshold_ratio(self) -> float | None:
        """Return which share of the fitted curve does."""
        return None if self.spec.threshold_cpi is None else self.above(self.spec.threshold_cpi)[1]

    @property
    @printed
    def chance_distance(self) -> float | None:
        """The distance that samples of the very curve stay below in 95 of 100 cases; None without samples."""
        samples = self.spec.effective_samples or self.histogram.total
        return chance_distance(samples) if samples > 0 else None

    def above(self, value: float) -> tuple[float | None, float | None]:
        """Return which share of the samples, and of the curve, lies above ``value``, if there is one."""
        bins = self.histogram
        if not len(bins.count):
            return None, None
        return share_above(bins, value), None if self.gev is None else float(1 - self.gev.gev.cdf(value))


def bin_width(spec: Spec) -> float | None:
    """Return the width of a spec's bins in units of its CPI; None where CPI does not vary.

    >>> from types import SimpleNamespace
    >>> bin_width(SimpleNamespace(cpi_sd=0.16))
    0.0078125
    """
    if not spec.cpi_sd or not math.isfinite(spec.cpi_sd):
        return None
    return float(2.0 ** round(math.log2(spec.cpi_sd / BINS_PER_SD)))


def width_table(specs: Iterable[Spec]) -> Any:
    """Return the widths of the bins of usable specs as an Ibis table."""
    import pyarrow as pa

    wide = [(spec, bin_width(spec)) for spec in specs if spec.is_usable and spec.cpi_source is not None]
    rows = [(spec, width) for spec, width in wide if width is not None]
    return ibis.memtable(
        pa.table(
            {
                "job": texts([spec.job for spec, _ in rows]),
                "platform": texts([spec.platform for spec, _ in rows]),
                "cpi_source": texts([spec.cpi_source for spec, _ in rows]),
                "width": floats([width for _, width in rows]),
            }
        )
    )


def expression(samples: Any, widths: Any, guards: Guards | None = None) -> Any:
    """Return how many samples of each job, platform, source and day lie in each bin.

    ``widths`` is a table with a ``width`` for each job, platform and source, or one width for all.
    """
    rows = counted(samples, guards or Guards())
    if isinstance(widths, float):
        rows = rows.mutate(width=ibis.literal(widths).cast("float64"))
    else:
        rows = rows.join(widths.select(*KEYS, "width"), list(KEYS))
    rows = rows.select(*KEYS, "date", "width", bin=(rows.cpi / rows.width).floor().cast("int64"))
    return rows.group_by(*KEYS, "date", "width", "bin").aggregate(n=rows.count())


def by_task(samples: Any, widths: Any, moved: Any, days: Any, guards: Guards | None = None) -> Any:
    """Return of each job, platform and source the sums over its tasks that the errors of a fit stand on.

    ``moved`` has a row for each bin with its scores (``s0`` to ``s2``), ``days`` a weight for each date.
    """
    rows = counted(samples, guards or Guards()).join(widths.select(*KEYS, "width"), list(KEYS))
    # In two steps: Ibis 12 cannot join by a column that the same projection of a join makes.
    rows = rows.select(*KEYS, "task", "date", "cpi", "width")
    rows = rows.mutate(bin=(rows.cpi / rows.width).floor().cast("int64"))
    rows = rows.join(days, "date").select(*KEYS, "task", "bin", "day_weight")
    rows = rows.join(moved, [*KEYS, "bin"])
    sums = {f"s{at}": (rows.day_weight * rows[f"s{at}"]).sum() for at in range(3)}
    each = rows.group_by(*KEYS, "task").agg(n=rows.day_weight.sum(), **sums)
    products = {f"s{a}{b}": (each[f"s{a}"] * each[f"s{b}"]).sum() for a in range(3) for b in range(a, 3)}
    return each.group_by(*KEYS).agg(n=each.n.sum(), n_square=(each.n * each.n).sum(), **products)


def find_distributions(
    samples: Any, specs: Sequence[Spec], settings: SpecSettings | None = None, *, errors: bool = True
) -> list[Distribution]:
    """Return the distribution of every usable spec, with samples weighted by age as the spec's are.

    ``errors`` of the fits take another pass over the samples.
    """
    from steelyard.telemetry.engine import fetch

    settings = settings or SpecSettings()
    usable = [spec for spec in specs if spec.is_usable]
    if not usable:
        return []
    if settings.as_of is not None:
        samples = samples.filter(samples.date <= settings.as_of)
    widths = width_table(usable)
    columns = fetch(expression(samples, widths, settings.guards)).to_pydict()
    last = settings.as_of or max(columns["date"], default=None)
    days = {
        day: settings.day_weight ** ((date.fromisoformat(last) - date.fromisoformat(day)).days if last else 0)
        for day in sorted(set(columns["date"]))
    }
    bins: dict[tuple[str, str, str | None], list[tuple[int, float, float]]] = {}
    for job, platform, source, day, width, place, n in zip(*columns.values(), strict=True):
        bins.setdefault((job, platform, source), []).append((place, width, days[day] * n))
    distributions = [_distribution(spec, bins.get(spec.key, [])) for spec in usable]
    if not errors or all(distribution.gev is None for distribution in distributions):
        return distributions
    rows = fetch(
        by_task(samples, widths, _moved(distributions), _day_table(days), settings.guards)
    ).to_pylist()
    sums = {(row["job"], row["platform"], row["cpi_source"]): row for row in rows}
    return [_with_errors(distribution, sums.get(distribution.spec.key)) for distribution in distributions]


def _moved(distributions: Sequence[Distribution]) -> Any:
    """Return the scores of each bin of each fit as an Ibis table."""
    import pyarrow as pa

    parts = []
    for distribution in distributions:
        if distribution.gev is None:
            continue
        bins = distribution.histogram
        moved = scores(bins, distribution.gev.gev)
        spec, count = distribution.spec, len(bins.count)
        parts.append(
            pa.table(
                {
                    "job": texts([spec.job] * count),
                    "platform": texts([spec.platform] * count),
                    "cpi_source": texts([spec.cpi_source] * count),
                    "bin": integers(np.rint(bins.low / (bins.high - bins.low)).astype(np.int64)),
                    **{f"s{at}": floats(moved[:, at]) for at in range(3)},
                }
            )
        )
    return ibis.memtable(pa.concat_tables(parts))


def _day_table(days: dict[str, float]) -> Any:
    import pyarrow as pa

    return ibis.memtable(
        pa.table(
            {
                "date": texts(list(days)),
                "day_weight": pa.array(list(days.values()), pa.float64()),
            }
        )
    )


def _with_errors(distribution: Distribution, row: dict[str, Any] | None) -> Distribution:
    """Return a distribution whose fit has errors by task."""
    if distribution.gev is None:
        return distribution
    if row is None:
        bare = replace(distribution.gev, shape_error=None, location_error=None, scale_error=None)
        return replace(distribution, gev=replace(bare, errors_missing="no sample has a task"))
    products = np.array([[row[f"s{min(a, b)}{max(a, b)}"] for b in range(3)] for a in range(3)])
    sums = TaskSums(float(row["n"]), float(row["n_square"]), products)
    return replace(distribution, gev=clustered(distribution.gev, distribution.histogram, sums))


def with_tails(
    specs: Sequence[Spec], distributions: Sequence[Distribution], quantile: float = TAIL_QUANTILE
) -> list[Spec]:
    """Return ``specs`` with the fitted curve and ``quantile`` of it, and of the samples, as other thresholds.

    Without a curve that fits, and with one that has another share of the samples above its quantile than it
    says, there is no threshold of it but a reason.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile of {quantile} is not between 0 and 1")
    by_key = {distribution.spec.key: distribution for distribution in distributions}
    return [_with_tail(spec, by_key.get(spec.key), quantile) for spec in specs]


def _with_tail(spec: Spec, found: Distribution | None, quantile: float) -> Spec:
    if found is None:
        return replace(spec, gev=None, gev_missing=spec.missing)
    bins = found.histogram
    beyond = (spec.effective_samples or bins.total) * (1 - quantile)
    enough = len(bins.count) > 0 and beyond >= _FEWEST_BEYOND
    spec = replace(spec, quantile_threshold_cpi=sample_quantile(bins, quantile) if enough else None)
    if found.gev is None:
        return replace(spec, gev=None, gev_missing=found.missing)
    threshold, missing = tail(bins, found.gev, quantile)
    gev = found.gev.gev if threshold is not None else None
    return replace(spec, gev=gev, gev_missing=missing, gev_threshold_cpi=threshold)


def by_tail(spec: Spec) -> Spec:
    """Return ``spec`` with the tail's threshold as the one that counts: the curve's, else the samples'."""
    if spec.threshold_cpi is None:
        return spec
    if spec.gev_threshold_cpi is not None:
        return replace(spec, threshold_cpi=spec.gev_threshold_cpi, threshold_from="gev")
    if spec.quantile_threshold_cpi is not None:
        return replace(spec, threshold_cpi=spec.quantile_threshold_cpi, threshold_from="quantile")
    missing = f"{spec.gev_missing}; fewer than {_FEWEST_BEYOND} samples above their own quantile"
    return replace(spec, threshold_cpi=None, threshold_from="quantile", missing=missing)


def _distribution(spec: Spec, rows: Sequence[tuple[int, float, float]]) -> Distribution:
    sums: dict[int, float] = {}
    width = rows[0][1] if rows else 1.0
    for place, _, weight in rows:
        sums[place] = sums.get(place, 0.0) + weight
    places = np.array(sorted(sums), dtype=np.float64)
    counts = [sums[int(place)] for place in places]
    histogram = Histogram.of(places * width, (places + 1) * width, counts)
    if not rows:
        return Distribution(spec, histogram, None, "no sample is in any bin")
    fit, missing = fit_gev(histogram)
    return Distribution(spec, histogram, fit, missing, _others(spec, histogram))


def _others(spec: Spec, histogram: Histogram) -> tuple[OtherFit, ...]:
    """Return how far curves of the same mean and deviation lie away, for comparison."""
    from scipy.special import gammainc, ndtr

    mean, sd = spec.cpi_mean or 0.0, spec.cpi_sd or 0.0
    if not (mean > 0 and sd > 0):
        return ()
    spread = math.sqrt(math.log1p((sd / mean) ** 2))
    at = np.maximum(histogram.high, 0.0)
    with np.errstate(divide="ignore"):
        # Their distribution functions in closed form: scipy.stats takes longer to import than the query.
        laws = {
            "normal": ndtr((histogram.high - mean) / sd),
            "log-normal": ndtr((np.log(at / mean) + spread**2 / 2) / spread),
            "gamma": gammainc((mean / sd) ** 2, at * mean / sd**2),
        }
    reached = np.cumsum(histogram.count) / histogram.total
    return tuple(OtherFit(name, float(np.abs(reached - law).max())) for name, law in laws.items())
