"""The figures of a profile that rules ask for, apart from the profile itself.

In: a profile and its tax map. Out: `ProfileUse`: shares of busy samples by function and by category.

Not here: reading profiles (``profile``), placing samples (``tax_map``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from steelyard._base import SteelyardError
from steelyard.analyze.profiles.callers import is_artefact
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import Ids, Profile, modules_of, weigh
from steelyard.analyze.profiles.tax_map import CategoryShare, TaxMap, classify
from steelyard.analyze.profiles.times import Taken, recorded_times

FOLDED = "profile.folded"
_FUNCTIONS = 400


@dataclass(frozen=True)
class ProfileUse:
    """Shares of busy samples, 0 to 1: ``own`` of a function as the leaf, ``total`` anywhere in a stack."""

    samples: int
    own: Mapping[str, float] = field(default_factory=dict)
    total: Mapping[str, float] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    categories: Mapping[str, float] = field(default_factory=dict)
    unclassified_ratio: float | None = None
    leaders: Mapping[str, str] = field(default_factory=dict)
    """Category -> its function with most samples."""
    leader_ratios: Mapping[str, float] = field(default_factory=dict)
    """Category -> that function's share of the category's part in all busy samples."""

    def share(self, *categories: str) -> float:
        """Return the share of ``categories`` together; 0 where they have no samples."""
        return sum(self.categories.get(category, 0.0) for category in categories)


@dataclass(frozen=True)
class ReadProfile:
    """A profile with its tax map, or the reason why there is none."""

    found: tuple[Profile, TaxMap] | None = None
    missing: str | None = None
    taken: Taken | None = None
    """When its samples were taken, None where that was not recorded."""
    no_times: str | None = None
    """Why recorded times cannot be read."""

    @property
    def profile(self) -> Profile | None:
        """Return the profile, None where there is none."""
        return self.found[0] if self.found is not None else None

    @property
    def use(self) -> ProfileUse | None:
        """Return the figures for rules, None without a profile."""
        return None if self.found is None else profile_use(*self.found)


def read_profile(folder: Path, missing: str | None = None, *, name: str = FOLDED) -> ReadProfile:
    """Return the profile of the run in ``folder``; ``missing`` is what the run says about having none."""
    path = folder / name
    if not path.is_file():
        return ReadProfile(missing=missing or "no profile was recorded")
    try:
        profile = read_folded(path)
        tax = classify(profile)
    except SteelyardError as error:
        return ReadProfile(missing=error.message.replace(f"{folder}/", ""))
    if not profile.busy().total:
        return ReadProfile(missing="the profiler found nothing running")
    try:
        return ReadProfile((profile, tax), taken=recorded_times(path))
    except SteelyardError as error:
        return ReadProfile((profile, tax), no_times=error.message.replace(f"{folder}/", ""))


def profile_use(profile: Profile, tax: TaxMap) -> ProfileUse:
    """Return the figures of ``profile`` and its ``tax`` map; idle processors take no part."""
    busy = profile.busy()
    weights = weigh(busy)
    samples = busy.total

    def shares(counts: Ids) -> dict[str, float]:
        ranked = sorted(zip(weights.keys, counts.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))
        return {name: count / samples for name, count in ranked[:_FUNCTIONS] if count}

    leaders = {category.id: _leader(category) for category in tax.categories if category.functions}
    return ProfileUse(
        samples=samples,
        own=shares(weights.own),
        total=shares(weights.total),
        modules=modules_of(busy),
        categories={category.id: category.share_ratio for category in tax.categories},
        unclassified_ratio=tax.unclassified_ratio,
        leaders={category: function for category, (function, _) in leaders.items()},
        leader_ratios={category: ratio for category, (_, ratio) in leaders.items()},
    )


def _leader(category: CategoryShare) -> tuple[str, float]:
    """Return the function with most samples, which several rules may have placed, and its share of all.

    Artefacts of sampling are passed over.
    """
    ratios: dict[str, float] = {}
    named = [one for one in category.functions if not is_artefact(one.function)]
    for function in named or category.functions:
        ratios[function.function] = ratios.get(function.function, 0.0) + function.share_ratio
    return max(ratios.items(), key=lambda item: item[1])
