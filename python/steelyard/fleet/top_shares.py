"""Shares of a fleet's cycles, with intervals from the machine-minutes that were sampled, not from single
samples.

In: selected rows of ``profiles`` (``profiles.select``) and what each row's key is. Out: for each key its
fleet weight, own and total, and shares with intervals; for two selections, the difference of shares.

How sure a share is. Machine-minutes are what chance chose, and all samples of one come from the same few
tasks; so each machine-minute c is one draw of (weight of the key, weight of all), and the share p = sum w_ck
/ sum w_c is a ratio estimate with the variance

    n / (n - 1) sum_c (w_ck - p w_c)^2 / (sum_c w_c)^2

(Cochran, Sampling Techniques, 3rd ed., 6.4 and 9A.3). It is made of sums that the engine adds up by key. The
interval is Wilson's with the effective number of samples p (1 - p) / variance and Student's t (Korn and
Graubard, Survey Methodology 24, 1998), so that it stays within 0 to 1.

Two selections may have machine-minutes in common (two jobs on one machine): the difference of shares then has
the covariance of both taken out, by the same sums.

Not here: which rows and keys (``profiles``, ``top``), drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.telemetry.deferred import ibis

Floats = NDArray[np.float64]
CLUSTER = ("machine", "window_start_unix_s")
"""What chance chose: one machine in one window."""
_PRIME, _STEP = 1_000_003, 48_271
"""Modulus of the lot, and how far apart it takes neighbours before their squares are taken."""
RARE = 10
"""Keys that fewer machine-minutes saw are not judged: their weight is one or two draws."""


def keyed_by_column(rows: Any, column: str) -> Any:
    """Return ``rows`` with their ``key``: the named column, or ``binary``, the command of the stack."""
    key = rows.stack.split(";")[0] if column == "binary" else rows[column]
    return rows.mutate(key=key, own=1.0, total=1.0)


def binaries(stacks: Any) -> Any:
    """Return the keys of numbered stacks (``top_rows``) that are their commands."""
    return stacks.select(stack=stacks.number, key=stacks.stack.split(";")[0], own=1.0, total=1.0)


def keyed_by_stack(rows: Any, keys: Any) -> Any:
    """Return ``rows`` joined with ``keys``: (stack, key, own, total) as an Ibis table.

    ``own`` and ``total`` say with which part a stack counts for a key: as where the time was spent, or
    anywhere.
    """
    return rows.join(keys, "stack")


def cluster_sizes(rows: Any, by: Sequence[str] = ()) -> Any:
    """Return the weight of all samples of each machine-minute, apart by ``by``."""
    return rows.group_by([*CLUSTER, *by]).agg(weight=rows.fleet.sum(), counted=rows.samples.sum())


def sizes(rows: Any, by: Sequence[str] = ()) -> Any:
    """Return the sums over machine-minutes that shares stand on, apart by ``by``."""
    clusters = cluster_sizes(rows, by)
    sums = {
        "clusters": clusters.count(),
        "machines": clusters.machine.nunique(),
        "weight": clusters.weight.sum(),
        "weight_square": (clusters.weight * clusters.weight).sum(),
        "samples": clusters.counted.sum(),
    }
    return clusters.group_by(list(by)).agg(**sums).order_by(list(by)) if by else clusters.agg(**sums)


def moments(rows: Any, keyed: Any, by: Sequence[str] = ()) -> Any:
    """Return for each key (and ``by``) the sums that its shares stand on: see `Shares`."""
    each = keyed.group_by([*CLUSTER, *by, "key"]).agg(
        own=(keyed.own * keyed.fleet).sum(),
        total=(keyed.total * keyed.fleet).sum(),
        counted=(keyed.own * keyed.samples).sum(),
    )
    joined = each.join(cluster_sizes(rows, by).drop("counted"), [*CLUSTER, *by])
    return (
        joined.group_by([*by, "key"])
        .agg(
            own=joined.own.sum(),
            own_square=(joined.own * joined.own).sum(),
            own_cluster=(joined.own * joined.weight).sum(),
            total=joined.total.sum(),
            total_square=(joined.total * joined.total).sum(),
            total_cluster=(joined.total * joined.weight).sum(),
            samples=joined.counted.sum(),
            clusters=joined.count(),
        )
        .order_by([*by, "key"])
    )


def halves(rows: Any, keyed: Any) -> Any:
    """Return each key's own weight in two halves of the machine-minutes, as if drawn by lot.

    Every other one would not do: both halves would then have each machine alike, and differ by less than
    chance makes of it. The parity of squares modulo a prime is as good as a lot, and the same on any engine.
    """
    clusters = rows.select(*CLUSTER).distinct()
    # Spark numbers rows in 32 bits, and squares would wrap; Ibis takes them for 64 and drops a mere cast.
    number = ibis.row_number().over(ibis.window(order_by=list(CLUSTER))).cast("float64").cast("int64")
    mixed = clusters.mutate(number=(number * _STEP + 1) % _PRIME)
    split = mixed.mutate(half=(mixed.number * mixed.number) % _PRIME % 2)
    joined = keyed.join(split, list(CLUSTER))
    return (
        joined.group_by("key")
        .agg(
            first=(joined.own * joined.fleet * (1 - joined.half)).sum(),
            second=(joined.own * joined.fleet * joined.half).sum(),
        )
        .order_by("key")
    )


@dataclass(frozen=True)
class Share:
    """A share of the weight, 0 to 1, with its interval; None where there is none."""

    ratio: float
    low: float | None
    high: float | None
    standard_error: float | None


def share(sums: tuple[float, float, float], size: dict[str, Any], confidence: float = 0.95) -> Share:
    """Return the share of a key in ``size["weight"]`` from the sums of `moments` (its weight, its square, its
    product with the machine-minute's) and `sizes`.
    """
    part, square, with_cluster = sums
    weight, clusters = float(size["weight"]), int(size["clusters"])
    ratio = min(1.0, part / weight)
    if clusters < 2:
        return Share(ratio, None, None, None)
    spread = square - 2 * ratio * with_cluster + ratio**2 * float(size["weight_square"])
    variance = max(0.0, spread) * clusters / (clusters - 1) / weight**2
    low, high = wilson(ratio, variance, clusters, confidence)
    return Share(ratio, low, high, variance**0.5)


def wilson(ratio: float, variance: float, clusters: int, confidence: float) -> tuple[float, float]:
    """Return Wilson's interval of a share with this variance, from so many draws.

    With the variance of n independent samples and many draws it is Wilson's own:

    >>> low, high = wilson(0.2, 0.2 * 0.8 / 100, 10**9, 0.95)
    >>> round(low, 4), round(high, 4)
    (0.1334, 0.2888)
    """
    from scipy.special import stdtrit

    t = float(stdtrit(clusters - 1, (1 + confidence) / 2))
    within = ratio * (1 - ratio)
    # Without any spread seen, nothing is known beyond that so many draws agreed.
    size = within / variance if variance > 0 and within > 0 else float(clusters)
    middle = (ratio + t * t / (2 * size)) / (1 + t * t / size)
    reach = t * (within / size + t * t / (4 * size * size)) ** 0.5 / (1 + t * t / size)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def needed(one: Share, clusters: int, precision: float) -> int | None:
    """Return how many more machine-minutes bring the interval's half to ``precision`` of the share.

    Errors shrink with the square root of the number of machine-minutes. None where there is no interval.
    """
    if one.low is None or one.high is None or not one.ratio:
        return None
    half = (one.high - one.low) / 2
    return max(0, int(np.ceil(clusters * (half / (precision * one.ratio)) ** 2)) - clusters)


def sides(a: Any, b: Any) -> Any:
    """Return the rows of two selections, with their weights ``a`` and ``b``; a row of both is there twice."""
    one = a.mutate(a=a.fleet, b=0.0 * a.fleet, a_samples=a.samples, b_samples=0 * a.samples)
    other = b.mutate(a=0.0 * b.fleet, b=b.fleet, a_samples=0 * b.samples, b_samples=b.samples)
    return one.union(other)


def pair_sizes(both: Any) -> Any:
    """Return the sums over machine-minutes of two selections (`sides`)."""
    each = both.group_by(list(CLUSTER)).agg(
        a=both.a.sum(), b=both.b.sum(), a_samples=both.a_samples.sum(), b_samples=both.b_samples.sum()
    )
    return each.agg(
        a=each.a.sum(),
        b=each.b.sum(),
        aa=(each.a * each.a).sum(),
        bb=(each.b * each.b).sum(),
        ab=(each.a * each.b).sum(),
        a_clusters=(each.a > 0).sum(),
        b_clusters=(each.b > 0).sum(),
        a_samples=each.a_samples.sum(),
        b_samples=each.b_samples.sum(),
    )


def pair_moments(both: Any, keyed: Any) -> Any:
    """Return for each key the sums that the difference of its shares stands on."""
    each = keyed.group_by([*CLUSTER, "key"]).agg(
        a=(keyed.own * keyed.a).sum(),
        b=(keyed.own * keyed.b).sum(),
        a_samples=(keyed.own * keyed.a_samples).sum(),
        b_samples=(keyed.own * keyed.b_samples).sum(),
    )
    clusters = both.group_by(list(CLUSTER)).agg(of_a=both.a.sum(), of_b=both.b.sum())
    joined = each.join(clusters, list(CLUSTER))
    products = {
        "aa": joined.a * joined.a,
        "bb": joined.b * joined.b,
        "ab": joined.a * joined.b,
        "a_of_a": joined.a * joined.of_a,
        "a_of_b": joined.a * joined.of_b,
        "b_of_a": joined.b * joined.of_a,
        "b_of_b": joined.b * joined.of_b,
    }
    return (
        joined.group_by("key")
        .agg(
            a=joined.a.sum(),
            b=joined.b.sum(),
            a_samples=joined.a_samples.sum(),
            b_samples=joined.b_samples.sum(),
            clusters=joined.count(),
            **{name: product.sum() for name, product in products.items()},
        )
        .order_by("key")
    )


def difference_variance(row: dict[str, Floats], size: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    """Return, of each key, the shares in A and in B and the variance of their difference."""
    weight_a, weight_b = float(size["a"]), float(size["b"])
    p, q = row["a"] / weight_a, row["b"] / weight_b
    in_a = row["aa"] - 2 * p * row["a_of_a"] + p**2 * size["aa"]
    in_b = row["bb"] - 2 * q * row["b_of_b"] + q**2 * size["bb"]
    both = row["ab"] - q * row["a_of_b"] - p * row["b_of_a"] + p * q * size["ab"]
    n_a, n_b = float(size["a_clusters"]), float(size["b_clusters"])
    factor_a, factor_b = n_a / (n_a - 1), n_b / (n_b - 1)
    variance = (
        factor_a * np.maximum(0.0, in_a) / weight_a**2
        + factor_b * np.maximum(0.0, in_b) / weight_b**2
        - 2 * (factor_a * factor_b) ** 0.5 * both / (weight_a * weight_b)
    )
    return p, q, np.maximum(0.0, variance)
