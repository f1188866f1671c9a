#!/usr/bin/env python3
"""Writes the size distributions of data/tao/ anew: run it in the repository's environment, without arguments.

In: the published figures below, each with its source. Out: quantile files for steelyard-load and
steelyard-cache. Deterministic: a test regenerates them and compares every byte.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path

from scipy.optimize import brentq
from scipy.stats import genextreme, genpareto, lognorm, norm

HERE = Path(__file__).resolve().parent.parent / "data" / "tao"

# DCPerf's TaoBench as released in 2025: its histogram of object sizes, in bytes.
TAO_MEDIAN, TAO_P90, TAO_P99 = 223.0, 511.0, 2271.0
TAO_MEAN, TAO_LARGEST = 326.0, 65536.0
# It does not say where the histogram begins; the fitted body is below 16 B for 1 object in 40,000.
TAO_SMALLEST = 16.0

# Facebook's ETC pool: Atikoglu et al., Workload Analysis of a Large-Scale Key-Value Store, SIGMETRICS 2012,
# section 5.  scipy's shape of the generalized extreme value distribution has the opposite sign.
ETC_KEYS = genextreme(-0.078688, loc=30.7984, scale=8.20449)
ETC_VALUES = genpareto(0.348238, loc=0, scale=214.476)
# memcached's limits: 250 B for a key, 1 MiB for an item.
KEY_SMALLEST, KEY_LARGEST = 16.0, 250.0
VALUE_LARGEST = 1048576.0

# Twitter's cache clusters: Yang et al., A large scale analysis of hundreds of in-memory cache clusters at
# Twitter, OSDI 2020: values have a median of about 230 B. The shape is ours: log-normal, so that one in a
# hundred is ten times as large.
TWITTER_VALUES = lognorm(1.0, scale=230.0)
TWITTER_SMALLEST, TWITTER_LARGEST = 8.0, 65536.0

Quantile = Callable[[float], float]


def grid() -> list[float]:
    """Quantiles from 0 to 1: every hundredth, and finer towards both ends, where distributions bend."""
    middle = [hundredths / 100 for hundredths in range(1, 100)]
    low = [0.0, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005]
    high: list[float] = []
    for decade in (2, 3, 4, 5):
        # 0.992, 0.994 ... 0.998, 0.999; then the same one decade further out.
        high += [round(1 - 10**-decade * (10 - step) / 10, 7) for step in (2, 4, 6, 8, 9)]
    return sorted({*low, *middle, *high, 1.0})


def bounded(distribution: object, low: float, high: float) -> Quantile:
    """Quantile function of a scipy distribution, given that the value is between ``low`` and ``high``."""
    begin, end = distribution.cdf(low), distribution.cdf(high)  # type: ignore[attr-defined]
    return lambda q: float(min(max(distribution.ppf(begin + q * (end - begin)), low), high))  # type: ignore[attr-defined]


def tao_object_size(alpha: float) -> Quantile:
    """Object sizes with TaoBench's quantiles and a tail of the given weight.

    Up to the 99th percentile, log(size) is piecewise linear in the normal quantile (piecewise log-normal)
    through the median, p90 and p99, the first piece extended downwards. Above, a Pareto distribution of
    exponent ``alpha`` bounded by the largest size.
    """
    z90, z99 = norm.ppf(0.9), norm.ppf(0.99)
    body = math.log(TAO_P90 / TAO_MEDIAN) / z90
    shoulder = math.log(TAO_P99 / TAO_P90) / (z99 - z90)
    cut = 1 - (TAO_P99 / TAO_LARGEST) ** alpha

    def size(q: float) -> float:
        if q <= 0:
            return TAO_SMALLEST
        if q >= 0.99:
            return float(TAO_P99 * (1 - (q - 0.99) / 0.01 * cut) ** (-1 / alpha))
        z = norm.ppf(q)
        if q > 0.9:
            return float(TAO_P90 * math.exp(shoulder * (z - z90)))
        return float(max(TAO_MEDIAN * math.exp(body * z), TAO_SMALLEST))

    return size


def points_of(quantile: Quantile, decimals: int) -> list[tuple[float, float]]:
    """Points of ``quantile`` on the grid, values rounded."""
    return [(q, round(quantile(q), decimals)) for q in grid()]


def mean_of(points: list[tuple[float, float]]) -> float:
    """Mean of the piecewise linear quantile function through ``points``."""
    return math.fsum((b - a) * (x + y) / 2 for (a, x), (b, y) in itertools.pairwise(points))


def tao_points() -> list[tuple[float, float]]:
    """TaoBench's object sizes, with the tail that brings the mean to the published one."""
    alpha = brentq(
        lambda value: mean_of(points_of(tao_object_size(value), 1)) - TAO_MEAN, 0.2, 6.0, xtol=1e-6
    )
    return points_of(tao_object_size(alpha), 1)


def text_of(name: str, provenance: str, points: list[tuple[float, float]]) -> str:
    """A distribution file: one point a line, so that a difference can be read."""
    head = {
        "schema_version": "1.0",
        "kind": "distribution",
        "name": name,
        "unit": "bytes",
        "provenance": provenance,
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = ",\n".join(f"    [{q!r}, {value!r}]" for q, value in points)
    return "{\n" + "\n".join(lines) + '\n  "quantiles": [\n' + rows + "\n  ]\n}\n"


def files() -> dict[str, str]:
    """Text of every file by its name."""
    etc = "Facebook's ETC pool, Atikoglu et al., SIGMETRICS 2012: "
    return {
        "object-sizes.json": text_of(
            "TaoBench object sizes",
            "DCPerf's TaoBench, 2025: median 223 B, p90 511 B, p99 2271 B, mean 326 B, at most 64 KiB; "
            "piecewise log-normal through the quantiles, bounded Pareto tail that gives the mean",
            tao_points(),
        ),
        "key-sizes.json": text_of(
            "ETC key sizes",
            etc + "generalized extreme value (30.7984, 8.20449, 0.078688), bounded to 16 to 250 B",
            points_of(bounded(ETC_KEYS, KEY_SMALLEST, KEY_LARGEST), 2),
        ),
        "etc-value-sizes.json": text_of(
            "ETC value sizes",
            etc + "generalized Pareto (0, 214.476, 0.348238), at most 1 MiB",
            points_of(bounded(ETC_VALUES, 0.0, VALUE_LARGEST), 1),
        ),
        "twitter-value-sizes.json": text_of(
            "Twitter-like value sizes",
            "Twitter's clusters, Yang et al., OSDI 2020: median about 230 B; the shape is ours: log-normal "
            "with a standard deviation of 1 of the logarithm, 8 B to 64 KiB",
            points_of(bounded(TWITTER_VALUES, TWITTER_SMALLEST, TWITTER_LARGEST), 1),
        ),
    }


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to")
    folder = parser.parse_args().out
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
