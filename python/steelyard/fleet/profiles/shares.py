"""Shares of a fleet's cycles, with intervals from the machines that were sampled, not from single samples.

In: selected rows of ``profiles`` (``profiles.select``) and what each row's key is. Out: for each key its
fleet weight, own and total, and shares with intervals; for two selections, the difference of shares.

How sure a share is. Minutes are drawn within machines, and a machine runs the same few tasks all day: its
minutes are alike. So each machine is one draw of (weight of the key, weight of all) from the fleet, however
many of its minutes were sampled, and the share is a ratio of sums over machines (``stats.shares``). It is
made of sums that the engine adds up by machine and then by key, up to their third powers. An interval is of
a fleet of machines like these, not of the machines alone that were sampled.

Two selections may have machines in common (two jobs of one machine, or two days of the same machines): the
difference of shares then has the covariance of both taken out, by the same sums.

Not here: which rows and keys (``stacks``, ``top``), tests (``diff``), drawing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.stats.shares import LEAST_HOLDERS, Clusters, Parts, Shares, holders, shares_of
from steelyard.telemetry.deferred import ibis

Floats = NDArray[np.float64]
MINUTE = ("machine", "window_start_unix_s")
"""What an agent chose at random: one machine in one window."""
GROUPS = 20
"""Groups of machines, drawn by lot, that whole profiles are compared and their entropy judged by."""
_PRIME, _STEP = 1_000_003, 48_271
"""Modulus of the lot, and how far apart it takes neighbours before their squares are taken."""
_PARTS = ("y", "yy", "yx", "yyy", "yyx", "yxx")


def keyed_by_column(rows: Any, column: str) -> Any:
    """Return ``rows`` with their ``key``: the named column, or ``binary``, the command of the stack."""
    key = rows.stack.split(";")[0] if column == "binary" else rows[column]
    return rows.mutate(key=key, own=1.0, total=1.0)


def binaries(stacks: Any) -> Any:
    """Return the keys of numbered stacks (``rows``) that are their commands."""
    return stacks.select(stack=stacks.number, key=stacks.stack.split(";")[0], own=1.0, total=1.0)


def keyed_by_stack(rows: Any, keys: Any) -> Any:
    """Return ``rows`` joined with ``keys``: (stack, key, own, total) as an Ibis table.

    ``own`` and ``total`` say with which part a stack counts for a key: as where the time was spent, or
    anywhere.
    """
    return rows.join(keys, "stack")


def machine_sizes(rows: Any, by: Sequence[str] = ()) -> Any:
    """Return the weight, samples and minutes of each machine, apart by ``by``."""
    minutes = rows.group_by([*MINUTE, *by]).agg(weight=rows.fleet.sum(), counted=rows.samples.sum())
    return minutes.group_by(["machine", *by]).agg(
        weight=minutes.weight.sum(), counted=minutes.counted.sum(), minutes=minutes.count()
    )


def sizes(rows: Any, by: Sequence[str] = ()) -> Any:
    """Return the sums over machines that shares stand on, apart by ``by``."""
    machines = machine_sizes(rows, by)
    weight = machines.weight
    sums = {
        "machines": machines.count(),
        "machine_minutes": machines.minutes.sum(),
        "weight": weight.sum(),
        "weight_square": (weight * weight).sum(),
        "weight_cube": (weight * weight * weight).sum(),
        "samples": machines.counted.sum(),
    }
    return machines.group_by(list(by)).agg(**sums).order_by(list(by)) if by else machines.agg(**sums)


def moments(rows: Any, keyed: Any, by: Sequence[str] = ()) -> Any:
    """Return for each key (and ``by``) the sums over machines that its shares stand on: `parts_of`."""
    each = keyed.group_by(["machine", *by, "key"]).agg(
        own=(keyed.own * keyed.fleet).sum(),
        total=(keyed.total * keyed.fleet).sum(),
        counted=(keyed.own * keyed.samples).sum(),
    )
    all_of = rows.group_by(["machine", *by]).agg(weight=rows.fleet.sum())
    joined = each.join(all_of, ["machine", *by])
    sums: dict[str, Any] = {}
    for name in ("own", "total"):
        y, x = joined[name], joined.weight
        products = (y, y * y, y * x, y * y * y, y * y * x, y * x * x)
        sums |= {f"{name}_{part}": product.sum() for part, product in zip(_PARTS, products, strict=True)}
    return (
        joined.group_by([*by, "key"])
        .agg(**sums, samples=joined.counted.sum(), machines=joined.count())
        .order_by([*by, "key"])
    )


def grouped(rows: Any, keyed: Any) -> Any:
    """Return each key's own weight in each of at most ``GROUPS`` groups of machines, drawn as if by lot.

    Every twentieth machine would not do: names follow racks and kinds of machines. The order of squares
    modulo a prime is as good as a lot, and the same on any engine.
    """
    machines = rows.select("machine").distinct()
    # Spark numbers rows in 32 bits, and squares would wrap; Ibis takes them for 64 and drops a mere cast.
    number = ibis.row_number().over(ibis.window(order_by=["machine"])).cast("float64").cast("int64")
    mixed = machines.mutate(number=(number * _STEP + 1) % _PRIME)
    lots = mixed.mutate(lot=(mixed.number * mixed.number) % _PRIME)
    place = ibis.row_number().over(ibis.window(order_by=["lot", "machine"])).cast("float64").cast("int64")
    split = lots.mutate(part=place % GROUPS).select("machine", "part")
    joined = keyed.join(split, "machine")
    return (
        joined.group_by(["key", "part"]).agg(own=(joined.own * joined.fleet).sum()).order_by(["key", "part"])
    )


@dataclass(frozen=True)
class Share:
    """A share of the weight, 0 to 1, with its interval; None where there is none."""

    ratio: float
    """The share."""
    low: float | None
    """Lower end of the interval."""
    high: float | None
    """Upper end of it."""
    standard_error: float | None
    """Of the share."""
    holders: float | None = None
    """Machines in effect that make up the weight (or the rest of it, where they are fewer)."""


def clusters_of(size: Mapping[str, Any]) -> Clusters:
    """Return the machines that ``sizes`` added up."""
    weight, square, cube = (float(size[name]) for name in ("weight", "weight_square", "weight_cube"))
    return Clusters(int(size["machines"]), weight, square, cube)


def shares(
    rows: Sequence[Mapping[str, Any]],
    size: Mapping[str, Any],
    confidence: float = 0.95,
    kind: str = "own",
) -> list[Share]:
    """Return the shares of rows of `moments` in the weight of `sizes`."""
    columns = [np.array([row[f"{kind}_{part}"] for row in rows], dtype=np.float64) for part in _PARTS]
    return share_rows(shares_of(Parts(*columns), clusters_of(size), confidence))


def share_rows(estimates: Shares) -> list[Share]:
    """Return the same values one by one, None for those that are not finite."""

    def plain(value: float) -> float | None:
        return value if np.isfinite(value) else None

    columns = (estimates.ratio, estimates.low, estimates.high, estimates.error, estimates.holders)
    lines = zip(*(column.tolist() for column in columns), strict=True)
    return [Share(ratio, plain(a), plain(b), plain(e), plain(h)) for ratio, a, b, e, h in lines]


def needed(share: Share, machines: int, precision: float) -> int | None:
    """Return how many more machines bring the interval's half to ``precision`` of the share.

    Errors shrink with the square root of the number of machines. None where there is no interval.
    """
    if share.low is None or share.high is None or not share.ratio:
        return None
    half = (share.high - share.low) / 2
    return max(0, int(np.ceil(machines * (half / (precision * share.ratio)) ** 2)) - machines)


def machines_to_state(share: Share, machines: int) -> int | None:
    """Return about how many machines in all give a share without an interval one; None where it has one."""
    if share.low is not None or not share.holders:
        return None
    return max(machines + 1, int(np.ceil(machines * LEAST_HOLDERS / share.holders)))


def sides(a: Any, b: Any) -> Any:
    """Return the rows of two selections, with their weights ``a`` and ``b``; a row of both is there twice."""
    from_a = a.mutate(a=a.fleet, b=0.0 * a.fleet, a_samples=a.samples, b_samples=0 * a.samples)
    from_b = b.mutate(a=0.0 * b.fleet, b=b.fleet, a_samples=0 * b.samples, b_samples=b.samples)
    return from_a.union(from_b)


def pair_sizes(both: Any) -> Any:
    """Return the sums over machines of two selections (`sides`)."""
    minutes = both.group_by(list(MINUTE)).agg(
        a=both.a.sum(), b=both.b.sum(), a_samples=both.a_samples.sum(), b_samples=both.b_samples.sum()
    )
    each = minutes.group_by("machine").agg(
        a=minutes.a.sum(),
        b=minutes.b.sum(),
        a_samples=minutes.a_samples.sum(),
        b_samples=minutes.b_samples.sum(),
        a_minutes=(minutes.a > 0).sum(),
        b_minutes=(minutes.b > 0).sum(),
    )
    return each.agg(
        a=each.a.sum(),
        b=each.b.sum(),
        aa=(each.a * each.a).sum(),
        bb=(each.b * each.b).sum(),
        ab=(each.a * each.b).sum(),
        aaa=(each.a * each.a * each.a).sum(),
        bbb=(each.b * each.b * each.b).sum(),
        a_machines=(each.a > 0).sum(),
        b_machines=(each.b > 0).sum(),
        both_machines=((each.a > 0) & (each.b > 0)).sum(),
        a_minutes=each.a_minutes.sum(),
        b_minutes=each.b_minutes.sum(),
        a_samples=each.a_samples.sum(),
        b_samples=each.b_samples.sum(),
    )


def job_weights(both: Any) -> Any:
    """Return the weight of each job in two selections (`sides`)."""
    return both.group_by("job").agg(a=both.a.sum(), b=both.b.sum()).order_by("job")


def pair_moments(both: Any, keyed: Any) -> Any:
    """Return for each key the sums that the difference of its shares stands on."""
    each = keyed.group_by(["machine", "key"]).agg(
        a=(keyed.own * keyed.a).sum(),
        b=(keyed.own * keyed.b).sum(),
        a_samples=(keyed.own * keyed.a_samples).sum(),
        b_samples=(keyed.own * keyed.b_samples).sum(),
    )
    machines = both.group_by("machine").agg(of_a=both.a.sum(), of_b=both.b.sum())
    joined = each.join(machines, "machine")
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
            machines=joined.count(),
            **{name: product.sum() for name, product in products.items()},
        )
        .order_by("key")
    )


@dataclass(frozen=True)
class Differences:
    """Shares in A and in B; one element a key."""

    a: Floats
    b: Floats
    variance: Floats
    """Of B's share less A's; NaN where a side has fewer than two machines."""
    degrees: Floats
    holders: Floats
    """Machines in effect that make up the key, or all but the key where these are fewer."""
    by_chance: Floats
    """Where A or B has the key on fewer than two machines in effect: how probable that is if both are of one
    fleet; NaN elsewhere.
    """


def differences_of(row: Mapping[str, Floats], size: Mapping[str, Any]) -> Differences:
    """Return each key's shares and the variance of their difference, from `pair_moments` and `pair_sizes`.

    Degrees of freedom are Welch's where A and B are of different machines and of as many; the more unequal
    they are in number, the nearer to those of the smaller side, whose skewness is then not cancelled by the
    other's.
    """
    of_a = Clusters(int(size["a_machines"]), *(float(size[name]) for name in ("a", "aa", "aaa")))
    of_b = Clusters(int(size["b_machines"]), *(float(size[name]) for name in ("b", "bb", "bbb")))
    with np.errstate(all="ignore"):
        p, q = row["a"] / of_a.weight, row["b"] / of_b.weight
        in_a = row["aa"] - 2 * p * row["a_of_a"] + p**2 * of_a.square
        in_b = row["bb"] - 2 * q * row["b_of_b"] + q**2 * of_b.square
        both = row["ab"] - q * row["a_of_b"] - p * row["b_of_a"] + p * q * float(size["ab"])
        of_p = of_a.correction * np.maximum(0.0, in_a) / of_a.weight**2
        of_q = of_b.correction * np.maximum(0.0, in_b) / of_b.weight**2
        shared = (of_a.correction * of_b.correction) ** 0.5 * both / (of_a.weight * of_b.weight)
        variance = np.maximum(0.0, of_p + of_q - 2 * shared)
        least, most = sorted((of_a.degrees, of_b.degrees))
        degrees = np.full(len(p), least)
        if not size["both_machines"]:
            welch = (of_p + of_q) ** 2 / (of_p**2 / of_a.degrees + of_q**2 / of_b.degrees)
            degrees = least + (welch - least) * least / most
        # Shares are added, not weights: the longer of two selections would decide alone.
        square = row["aa"] / of_a.weight**2 + row["bb"] / of_b.weight**2
        square = square + 2 * row["ab"] / (of_a.weight * of_b.weight)
        in_all = of_a.square / of_a.weight**2 + of_b.square / of_b.weight**2
        in_all += 2 * float(size["ab"]) / (of_a.weight * of_b.weight)
        cross = row["a_of_a"] / of_a.weight**2 + row["b_of_b"] / of_b.weight**2
        cross = cross + (row["a_of_b"] + row["b_of_a"]) / (of_a.weight * of_b.weight)
        held = np.minimum(holders(p + q, square), holders(2 - p - q, in_all - 2 * cross + square))
        by_a, by_b = holders(row["a"], row["aa"]), holders(row["b"], row["bb"])
        chance = np.full(len(p), np.nan)
        if not size["both_machines"]:
            for here, there, of_here, of_there in ((by_a, by_b, of_a, of_b), (by_b, by_a, of_b, of_a)):
                chance = np.where(here < 2, _on_few(there / of_there.effective, of_here.effective), chance)
    return Differences(p, q, variance, degrees, held, chance)


def _on_few(share: Floats, machines: float) -> Floats:
    """Return how probable it is that at most one of ``machines`` has what a ``share`` of all has."""
    absent = np.clip(1 - share, 0.0, 1.0)
    return absent**machines + machines * (1 - absent) * absent ** max(0.0, machines - 1)
