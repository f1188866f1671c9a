"""What changed between two profiles, or between several runs of each side, and what may be noise.

In: profiles of samples, one or several runs a side; or the blocks of time that one run a side was cut into.
Out: `ProfileDiff`: for functions, modules and categories of the tax map, the shares of both, their
difference, and what is known of it.

How it is judged, by what there is (``ProfileDiff.basis``):

- *runs*, three or more a side: the run is the unit (``units``). Only this tells a change from what
  one run differs from the next, so only this calls a row a change and gives it an interval.
- *blocks*: one run a side, cut into stretches of time. A row stands out when it differs by more than the
  blocks do: the phases of a program are in that, what differs from run to run is not.
- *samples*: one run a side without times. A row stands out when it differs by more than independent samples
  would (Fisher's exact test, which holds its level for any counts; rows too rare to ever be significant take
  no part, Tarone, Biometrics 46, 1990). Samples of one phase are not independent, so that this is a hint.

All corrections are Holm's (Scandinavian Journal of Statistics 6, 1979) over the rows of a table, and
``alpha`` is shared among the tables: of pairs of equal sides, in at most ``alpha`` any row of any table is
called a change.

Invariants: shares are of busy samples, each profile's own, and means over the runs where there are several;
counts that are not samples get no judgement, with the reason; a function that one profile lacks has the
share 0 there, which is what was counted.

Not here: drawing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.profiles.profile import (
    SAMPLES,
    TRUNCATED,
    UNKNOWN,
    Ids,
    Profile,
    Weights,
    by_function,
    by_module,
    modules_of,
    weigh,
)
from steelyard.analyze.profiles.tax_map import place_all
from steelyard.analyze.profiles.tax_rules import IDLE, Rules, shipped_rules
from steelyard.analyze.profiles.units import FEWEST_RUNS, compare_units

Floats = NDArray[np.float64]
ALPHA = 0.05
CONFIDENCE = 0.95
OWN, TOTAL = "self", "total"
RUNS, BLOCKS, SAMPLES_BASIS = "runs", "blocks", "samples"
_KEYS = {"function": by_function, "module": by_module}
_TABLES = (
    ("function", OWN),
    ("function", TOTAL),
    ("module", OWN),
    ("module", TOTAL),
    ("category", OWN),
)
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
    """Lower end of the difference's own 95 % interval; None without several runs a side."""
    high_ratio: float | None
    p_value: float | None
    """Of the test of the comparison's basis, not yet corrected; None where nothing is judged."""
    changed: bool | None
    """Whether the difference is more than noise after correction; None without several runs a side, or where
    the row is too rare."""
    stands_out: bool | None = None
    """Whether the difference is more than the noise within the runs after correction; where there are several
    runs a side, whether it is a change."""


@dataclass(frozen=True)
class Table:
    """All rows of one kind (``function``, ``module``, ``category``) and measure (``self``, ``total``).

    Rows that stand out come first, then the rest, each by the size of the difference.
    """

    by: str
    measure: str
    rows: tuple[Change, ...]

    @property
    def changes(self) -> list[Change]:
        """Rows whose difference is more than noise."""
        return [row for row in self.rows if row.changed]

    @property
    def standing_out(self) -> list[Change]:
        """Rows whose difference is more than the noise within the runs."""
        return [row for row in self.rows if row.stands_out]


@dataclass(frozen=True)
class ProfileDiff:
    """The comparison of A and B."""

    a_samples: int
    b_samples: int
    alpha: float
    """Share of pairs of equal sides in which any table shows any change, at most."""
    confidence: float
    tables: tuple[Table, ...]
    reason: str | None = None
    """Why nothing is judged, None where it is."""
    cautions: tuple[str, ...] = field(default_factory=tuple)
    basis: str = "samples"
    """What a difference is held against: ``runs``, ``blocks`` or ``samples``."""
    runs: tuple[int, int] = (1, 1)
    units: tuple[str, str] = (SAMPLES, SAMPLES)
    """What is counted in A and in B."""
    scales: tuple[int, int] = (1, 1)
    """Counts of A and of B are in parts of 1/scale."""

    def counted(self, side: int, count: int) -> str:
        """Return a count of A (0) or B (1) with its unit."""
        scale = self.scales[side]
        return f"{count if scale == 1 else count / scale:,} {self.units[side]}"

    def table(self, by: str, measure: str = OWN) -> Table:
        """Return one table."""
        return next(table for table in self.tables if (table.by, table.measure) == (by, measure))

    @property
    def changed(self) -> bool | None:
        """Whether any table shows a change; None where that cannot be judged."""
        if self.reason or self.basis != RUNS:
            return None
        return any(table.changes for table in self.tables)

    @property
    def stands_out(self) -> bool:
        """Whether any row is more than the noise within the runs."""
        return any(table.standing_out for table in self.tables)


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
    a: Profile | Sequence[Profile],
    b: Profile | Sequence[Profile],
    rules: Rules | None = None,
    *,
    alpha: float = ALPHA,
    confidence: float = CONFIDENCE,
    are_blocks: bool = False,
) -> ProfileDiff:
    """Compare two profiles, or several runs a side, by function, module and category of the tax map.

    With ``are_blocks`` each side's profiles are blocks of time of one run.
    """
    rules = rules or shipped_rules()
    given = [[side] if isinstance(side, Profile) else list(side) for side in (a, b)]
    idle = [_idle_share(units) for units in given]
    sides = [[busy for profile in units if (busy := profile.busy()).total] for units in given]
    reason = _reason(given, sides)
    basis = SAMPLES_BASIS
    if reason is None and are_blocks and min(len(units) for units in sides) > 1:
        basis = BLOCKS
    elif reason is None and min(len(units) for units in sides) >= FEWEST_RUNS:
        basis = RUNS
    judge_by = _Judge(basis, reason, alpha / len(_TABLES), confidence)
    modules: dict[str, str] = {}
    for profile in (*sides[1], *sides[0]):
        modules |= modules_of(profile)
    weights = {
        by: [[weigh(profile, key) for profile in units] for units in sides] for by, key in _KEYS.items()
    }
    titles = {category.id: category.title for category in rules.categories}
    tables = []
    for by, measure in _TABLES:
        if by == "category":
            units = [
                [{titles[key]: n for key, n in _by_category(weighed, rules).items()} for weighed in side]
                for side in sides
            ]
        else:
            units = [[_counts(weighed, measure) for weighed in side] for side in weights[by]]
        totals = [[profile.total for profile in side] for side in sides]
        tables.append(judge_by.table(by, measure, units, totals, modules if by == "function" else {}))
    return ProfileDiff(
        sum(profile.total for profile in sides[0]),
        sum(profile.total for profile in sides[1]),
        alpha,
        confidence,
        tuple(tables),
        reason,
        tuple(_cautions(given, idle, basis, are_blocks)),
        basis,
        (1, 1) if are_blocks else (len(given[0]), len(given[1])),
        (given[0][0].unit, given[1][0].unit),
        (given[0][0].scale, given[1][0].scale),
    )


def _counts(weights: Weights, measure: str) -> dict[str, int]:
    values = (weights.own if measure == OWN else weights.total).tolist()
    counts = dict(zip(weights.keys, values, strict=True))
    # Callers without a name are no function whose share could change.
    return counts if measure == OWN else {key: n for key, n in counts.items() if key not in _NAMELESS}


def _by_category(profile: Profile, rules: Rules) -> dict[str, int]:
    counts: dict[str, int] = {}
    for placed, count in zip(place_all(profile, rules), profile.counts.tolist(), strict=True):
        if placed.category != IDLE:
            counts[placed.category] = counts.get(placed.category, 0) + count
    return counts


@dataclass(frozen=True)
class _Judge:
    """How the rows of a table are judged."""

    basis: str
    reason: str | None
    alpha: float
    confidence: float

    def table(
        self,
        by: str,
        measure: str,
        units: Sequence[Sequence[dict[str, int]]],
        totals: Sequence[Sequence[int]],
        modules: dict[str, str],
    ) -> Table:
        """Return the rows of a table from the counts of each unit of both sides."""
        names = sorted({name for side in units for unit in side for name, count in unit.items() if count})
        counts = [
            np.array([[unit.get(name, 0) for name in names] for unit in side], dtype=np.int64).reshape(
                len(side), len(names)
            )
            for side in units
        ]
        a, b = (side.sum(axis=0) for side in counts)
        if self.reason or self.basis == SAMPLES_BASIS:
            rows = self._by_samples(names, a, b, [sum(side) for side in totals], modules)
        else:
            rows = self._by_units(names, counts, totals, modules)
        rows.sort(key=lambda row: (not row.stands_out, -abs(row.difference_ratio), row.name))
        return Table(by, measure, tuple(rows))

    def _by_samples(
        self, names: Sequence[str], a: Ids, b: Ids, sizes: Sequence[int], modules: dict[str, str]
    ) -> list[Change]:
        p_values, out = np.zeros(len(names)), np.zeros(len(names), dtype=bool)
        if self.reason is None:
            p_values = fisher(a, sizes[0], b, sizes[1])
            out = judge(p_values, smallest_p(a + b, sizes[0], sizes[1]), self.alpha)
        changes = []
        for at, name in enumerate(names):
            shares = [
                int(counts[at]) / size if size else 0.0 for counts, size in zip((a, b), sizes, strict=True)
            ]
            changes.append(
                Change(
                    name,
                    modules.get(name),
                    int(a[at]),
                    int(b[at]),
                    shares[0],
                    shares[1],
                    shares[1] - shares[0],
                    None,
                    None,
                    None if self.reason else float(p_values[at]),
                    None,
                    None if self.reason else bool(out[at]),
                )
            )
        return changes

    def _by_units(
        self,
        names: Sequence[str],
        counts: Sequence[Ids],
        totals: Sequence[Sequence[int]],
        modules: dict[str, str],
    ) -> list[Change]:
        sizes = [np.array(side, dtype=np.float64) for side in totals]
        compared = compare_units(
            counts[0], sizes[0], counts[1], sizes[1], alpha=self.alpha, confidence=self.confidence
        )
        is_runs = self.basis == RUNS
        # Runs count alike, however many samples each has. Blocks are parts of one run: its shares are those
        # that `profile show` has.
        shares = (
            (compared.a_ratio, compared.b_ratio)
            if is_runs
            else tuple(side.sum(axis=0) / size.sum() for side, size in zip(counts, sizes, strict=True))
        )
        return [
            Change(
                name,
                modules.get(name),
                int(counts[0][:, at].sum()),
                int(counts[1][:, at].sum()),
                float(shares[0][at]),
                float(shares[1][at]),
                float(shares[1][at] - shares[0][at]),
                float(compared.low[at]) if is_runs else None,
                float(compared.high[at]) if is_runs else None,
                float(compared.p_value[at]),
                bool(compared.is_change[at]) if is_runs and compared.is_judged[at] else None,
                bool(compared.is_change[at]) if compared.is_judged[at] else None,
            )
            for at, name in enumerate(names)
        ]


def _reason(given: Sequence[Sequence[Profile]], busy: Sequence[Sequence[Profile]]) -> str | None:
    for name, units, kept in zip("AB", given, busy, strict=True):
        if not kept:
            return f"{name} has no busy sample"
        for profile in units:
            if profile.unit != SAMPLES:
                return (
                    f"{name} counts {profile.unit}, not samples: the number of samples behind a difference"
                    " is not known"
                )
        # Beyond this the hypergeometric distribution of the library loses its digits.
        total = sum(profile.total for profile in kept)
        if total > 2_000_000_000:
            return f"{name} has {total:,} samples, more than any profiler takes: is that its unit?"
    return None


def _idle_share(units: Sequence[Profile]) -> float | None:
    total = sum(profile.total for profile in units)
    return float(sum(profile.counts[profile.idle].sum() for profile in units)) / total if total else None


_ONE_RUN = {
    BLOCKS: "one run a side: rows stand out when they differ by more than blocks of time within the runs;"
    " only three runs a side or more show a change",
    SAMPLES_BASIS: "one run a side, without times: rows stand out when they differ by more than independent"
    " samples; phases and other runs of the same program also do, and only three runs a side or more show a"
    " change",
}


def _cautions(
    sides: Sequence[Sequence[Profile]], idle: Sequence[float | None], basis: str, are_blocks: bool
) -> list[str]:
    cautions = [_ONE_RUN[basis]] if basis in _ONE_RUN else []
    if basis == SAMPLES_BASIS and not are_blocks and max(len(side) for side in sides) > 1:
        fewest = " and ".join(str(len(side)) for side in sides)
        cautions = [
            f"{fewest} runs: how much one differs from the next takes {FEWEST_RUNS} a side",
            *cautions[1:],
        ]
    a, b = (side[0] for side in sides)
    for fact, noun in (("event", "events"), ("scope", "scopes"), ("hz", "rates")):
        left, right = a.facts.get(fact), b.facts.get(fact)
        if left and right and left != right:
            cautions.append(f"the profiles are of different {noun}: {left} and {right}")
    for name, units in zip("AB", sides, strict=True):
        for profile in units:
            lost, total = profile.lost, profile.total
            if lost and total and lost > 0.01 * (total + lost):
                cautions.append(f"{name} lost {lost:,} samples beside its {total:,}: its shares may lean")
            if profile.facts.get("reason"):
                cautions.append(f"{name} is reduced: {profile.facts['reason']}")
            cautions += [f"{name}: {sentence}" for sentence in profile.reading.sentences()]
    if all(share is not None for share in idle) and any(share for share in idle):
        shares = " and ".join(f"{share:.1%}" for share in idle if share is not None)
        cautions.append(f"idle processors had {shares} of the samples and are left out")
    return list(dict.fromkeys(cautions))
