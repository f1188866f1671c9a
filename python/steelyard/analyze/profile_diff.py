"""What changed between two profiles, and what may be noise.

In: two profiles of samples. Out: `ProfileDiff`: for functions, modules and categories of the tax map, the
shares of both, their difference with an interval, and whether it is a change.

How it is judged. The samples of a profile are n draws from a multinomial distribution, so that the share of
one function is a binomial one. The difference of two shares has Newcombe's interval, made of Wilson's
(Newcombe, Statistics in Medicine 17, 1998, method 10). Whether a difference is a change is decided by
Fisher's exact test, which holds its level for any counts, with Holm's correction over all rows of a table
(Scandinavian Journal of Statistics 6, 1979), after leaving out rows too rare to ever be significant (Tarone,
Biometrics 46, 1990): two profiles of the same thing show any change in a table in at most ``alpha`` of all
pairs.

Invariants: shares are of busy samples, each profile's own; counts that are not samples get no interval and no
judgement, with the reason; a function that one profile lacks has the share 0 there, which is what was
counted.

Not here: that two runs of one program differ by more than the noise of sampling (only repeated runs tell);
drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.profile import (
    SAMPLES,
    TRUNCATED,
    UNKNOWN,
    Ids,
    Profile,
    by_function,
    by_module,
    modules_of,
    weigh,
)
from steelyard.analyze.tax_map import place_all
from steelyard.analyze.tax_rules import IDLE, Rules, shipped_rules

Floats = NDArray[np.float64]
ALPHA = 0.05
CONFIDENCE = 0.95
OWN, TOTAL = "self", "total"
_NAMELESS = (UNKNOWN, TRUNCATED, "[no module]")


@dataclass(frozen=True, slots=True)
class Change:
    """One row: what share it has in A and in B. Shares are of busy samples, 0 to 1."""

    name: str
    module: str | None
    a_samples: int
    b_samples: int
    a_ratio: float
    b_ratio: float
    difference_ratio: float
    """Share in B less share in A."""
    low_ratio: float | None
    """Lower end of the difference's own 95 % interval; None where counts are not samples."""
    high_ratio: float | None
    p_value: float | None
    """Of Fisher's exact test, not yet corrected."""
    changed: bool | None
    """Whether the difference is more than noise after correction; None where that cannot be judged."""


@dataclass(frozen=True)
class Table:
    """All rows of one kind (``function``, ``module``, ``category``) and measure (``self``, ``total``).

    Changes come first, then the rest, each by the size of the difference.
    """

    by: str
    measure: str
    rows: tuple[Change, ...]

    @property
    def changes(self) -> list[Change]:
        """Rows whose difference is more than noise."""
        return [row for row in self.rows if row.changed]


@dataclass(frozen=True)
class ProfileDiff:
    """The comparison of A and B."""

    a_samples: int
    b_samples: int
    alpha: float
    """Share of pairs of equal profiles in which a table shows any change, at most."""
    confidence: float
    tables: tuple[Table, ...]
    reason: str | None = None
    """Why nothing is judged, None where it is."""
    cautions: tuple[str, ...] = field(default_factory=tuple)

    def table(self, by: str, measure: str = OWN) -> Table:
        """Return one table."""
        return next(one for one in self.tables if (one.by, one.measure) == (by, measure))

    @property
    def changed(self) -> bool | None:
        """Whether any table shows a change; None where that cannot be judged."""
        return None if self.reason else any(one.changes for one in self.tables)


def wilson(count: Floats, size: float, z: float) -> tuple[Floats, Floats]:
    """Return Wilson's interval for shares ``count / size`` (Journal of the American Statistical Association
    22, 1927).

    >>> low, high = wilson(np.array([10.0]), 100, 1.959964)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.0552, 0.1744)
    """
    share = count / size
    spread = z * np.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    scale = 1 + z * z / size
    middle = share + z * z / (2 * size)
    return np.maximum(0.0, (middle - spread) / scale), np.minimum(1.0, (middle + spread) / scale)


def newcombe(
    a: Floats, a_size: float, b: Floats, b_size: float, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    """Return Newcombe's hybrid score interval for ``b / b_size - a / a_size``.

    >>> low, high = newcombe(np.array([48.0]), 80, np.array([56.0]), 70)  # Newcombe's example (a), 0.2
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.0524, 0.3339)
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    a_low, a_high = wilson(a, a_size, z)
    b_low, b_high = wilson(b, b_size, z)
    a_share, b_share = a / a_size, b / b_size
    difference = b_share - a_share
    below = np.sqrt((b_share - b_low) ** 2 + (a_high - a_share) ** 2)
    above = np.sqrt((b_high - b_share) ** 2 + (a_share - a_low) ** 2)
    return difference - below, difference + above


def fisher(a: Ids, a_size: int, b: Ids, b_size: int) -> Floats:
    """Return two-sided p-values of Fisher's exact test, twice the smaller tail.

    Given how often a function was seen in both profiles together, its count in A is hypergeometric if nothing
    changed. Twice the smaller tail holds its level on either side alone.
    """
    # Most functions of a profile were seen once or twice: few pairs of counts, and the tails are dear.
    pairs, of = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    return _tails(pairs[:, 0], pairs.sum(axis=1), a_size, b_size)[of.reshape(-1)]


def smallest_p(seen: Ids, a_size: int, b_size: int) -> Floats:
    """Return the smallest p-value that functions seen so often in both together can have."""
    sizes, of = np.unique(seen, return_inverse=True)
    least = _tails(np.maximum(0, sizes - b_size), sizes, a_size, b_size)
    most = _tails(np.minimum(sizes, a_size), sizes, a_size, b_size)
    return np.minimum(least, most)[of.reshape(-1)]


def _tails(a: Ids, seen: Ids, a_size: int, b_size: int) -> Floats:
    size = a_size + b_size
    # It takes a second to load, and no report of a single run needs it.
    from scipy.stats import hypergeom

    below = hypergeom.cdf(a, size, seen, a_size)
    above = hypergeom.sf(a - 1, size, seen, a_size)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(below, above)), dtype=np.float64)


def judge(p_values: Floats, least: Floats, alpha: float) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected, with a family-wise error of at most ``alpha``.

    ``least`` are the smallest p-values each could have. Tarone: with K the smallest number such that at most
    K rows can reach alpha / K, the others take no part; Holm's steps over those that do.
    """
    rejected = np.zeros(len(p_values), dtype=bool)
    if not len(p_values):
        return rejected
    ordered = np.sort(least)
    count = len(ordered)
    family = next(
        (k for k in range(1, count + 1) if np.searchsorted(ordered, alpha / k, side="right") <= k), count
    )
    able = np.flatnonzero(least <= alpha / family)
    steps = able[np.argsort(p_values[able], kind="stable")]
    for step, row in enumerate(steps):
        if p_values[row] > alpha / (len(able) - step):
            break
        rejected[row] = True
    return rejected


def diff(
    a: Profile,
    b: Profile,
    rules: Rules | None = None,
    *,
    alpha: float = ALPHA,
    confidence: float = CONFIDENCE,
) -> ProfileDiff:
    """Compare two profiles by function, module and category of the tax map."""
    rules = rules or shipped_rules()
    idle = tuple(_idle_share(one) for one in (a, b))
    a, b = a.busy(), b.busy()
    reason = _reason(a, b)
    modules = modules_of(a) | modules_of(b)
    tables: list[Table] = []
    for by, key_of in (("function", by_function), ("module", by_module)):
        weights = [weigh(one, key_of) for one in (a, b)]
        for measure in (OWN, TOTAL):
            counts = [
                dict(zip(one.keys, (one.own if measure == OWN else one.total).tolist(), strict=True))
                for one in weights
            ]
            if measure == TOTAL:
                # Callers without a name are no function whose share could change.
                counts = [{key: n for key, n in one.items() if key not in _NAMELESS} for one in counts]
            known = modules if by == "function" else {}
            tables.append(_table(by, measure, counts, (a.total, b.total), known, reason, alpha, confidence))
    titles = {one.id: one.title for one in rules.categories}
    counts = [{titles[key]: value for key, value in _by_category(one, rules).items()} for one in (a, b)]
    tables.append(_table("category", OWN, counts, (a.total, b.total), {}, reason, alpha, confidence))
    return ProfileDiff(
        a.total, b.total, alpha, confidence, tuple(tables), reason, tuple(_cautions(a, b, idle))
    )


def _by_category(profile: Profile, rules: Rules) -> dict[str, int]:
    counts: dict[str, int] = {}
    for placed, count in zip(place_all(profile, rules), profile.counts.tolist(), strict=True):
        if placed.category != IDLE:
            counts[placed.category] = counts.get(placed.category, 0) + count
    return counts


def _table(
    by: str,
    measure: str,
    counts: Sequence[dict[str, int]],
    sizes: tuple[int, int],
    modules: dict[str, str],
    reason: str | None,
    alpha: float,
    confidence: float,
) -> Table:
    names = sorted(name for name in counts[0].keys() | counts[1].keys())
    a = np.array([counts[0].get(name, 0) for name in names], dtype=np.int64)
    b = np.array([counts[1].get(name, 0) for name in names], dtype=np.int64)
    seen = (a + b) > 0
    names = [name for name, kept in zip(names, seen, strict=True) if kept]
    a, b = a[seen], b[seen]
    low: Floats | None = None
    high, p_values, changed = low, low, np.zeros(len(names), dtype=bool)
    if reason is None:
        low, high = newcombe(a.astype(np.float64), sizes[0], b.astype(np.float64), sizes[1], confidence)
        p_values = fisher(a, sizes[0], b, sizes[1])
        changed = judge(p_values, smallest_p(a + b, *sizes), alpha)
    rows = [
        Change(
            name,
            modules.get(name),
            int(a[at]),
            int(b[at]),
            a_ratio := int(a[at]) / sizes[0] if sizes[0] else 0.0,
            b_ratio := int(b[at]) / sizes[1] if sizes[1] else 0.0,
            b_ratio - a_ratio,
            None if low is None else float(low[at]),
            None if high is None else float(high[at]),
            None if p_values is None else float(p_values[at]),
            None if reason else bool(changed[at]),
        )
        for at, name in enumerate(names)
    ]
    rows.sort(key=lambda row: (not row.changed, -abs(row.difference_ratio), row.name))
    return Table(by, measure, tuple(rows))


def _reason(a: Profile, b: Profile) -> str | None:
    for name, profile in (("A", a), ("B", b)):
        if not profile.total:
            return f"{name} has no busy sample"
        if profile.unit != SAMPLES:
            return (
                f"{name} counts {profile.unit}, not samples: how many samples stand behind a difference"
                " is not known"
            )
        # Beyond this the hypergeometric distribution of the library loses its digits.
        if profile.total > 2_000_000_000:
            return f"{name} has {profile.total:,} samples, more than any profiler takes: is that its unit?"
    return None


def _idle_share(profile: Profile) -> float | None:
    total = profile.total
    return float(profile.counts[profile.idle].sum()) / total if total else None


def _cautions(a: Profile, b: Profile, idle: tuple[float | None, ...]) -> list[str]:
    found = []
    for fact, noun in (("event", "events"), ("scope", "scopes"), ("hz", "rates")):
        one, other = a.facts.get(fact), b.facts.get(fact)
        if one and other and one != other:
            found.append(f"the profiles are of different {noun}: {one} and {other}")
    for name, profile in (("A", a), ("B", b)):
        lost, total = profile.lost, profile.total
        if lost and total and lost > 0.01 * (total + lost):
            found.append(f"{name} lost {lost:,} samples beside its {total:,}: its shares may lean")
        if profile.facts.get("reason"):
            found.append(f"{name} is reduced: {profile.facts['reason']}")
        found += [f"{name}: {sentence}" for sentence in profile.reading.sentences()]
    if all(share is not None for share in idle) and any(share for share in idle):
        shares = " and ".join(f"{share:.1%}" for share in idle if share is not None)
        found.append(f"idle processors had {shares} of the samples and are left out")
    return found
