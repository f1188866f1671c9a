"""The figures of a profile that rules ask for, apart from the profile itself.

In: a profile and its tax map. Out: `ProfileUse`: shares of busy samples by function and by category.

Not here: reading profiles (``profile``), placing samples (``tax_map``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from steelyard._base import SteelyardError

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

    def share(self, *categories: str) -> float:
        """Return the share of ``categories`` together; 0 where they have no samples."""
        return sum(self.categories.get(category, 0.0) for category in categories)


@dataclass(frozen=True)
class ReadProfile:
    """A profile with its tax map, or the reason why there is none."""

    profile: Any = None
    tax: Any = None
    missing: str | None = None

    @property
    def use(self) -> ProfileUse | None:
        """Return the figures for rules, None without a profile."""
        return None if self.profile is None else profile_use(self.profile, self.tax)


def read_profile(folder: Path, missing: str | None = None) -> ReadProfile:
    """Return the profile of the run in ``folder``; ``missing`` is what the run says about having none."""
    path = folder / FOLDED
    if not path.is_file():
        return ReadProfile(missing=missing or "no profile was recorded")
    try:
        profile = import_module("steelyard.analyze.profile").read_folded(path)
        tax = import_module("steelyard.analyze.tax_map").classify(profile)
    except ImportError as error:
        return ReadProfile(missing=f"this version cannot read profiles: {error}")
    except SteelyardError as error:
        return ReadProfile(missing=error.message)
    if not profile.busy().total:
        return ReadProfile(missing="the profiler found nothing running")
    return ReadProfile(profile, tax)


def profile_use(profile: Any, tax: Any) -> ProfileUse:
    """Return the figures of ``profile`` and its ``tax`` map; idle processors take no part."""
    module = import_module("steelyard.analyze.profile")
    busy = profile.busy()
    weights = module.weigh(busy)
    samples = busy.total

    def shares(counts: Any) -> dict[str, float]:
        ranked = sorted(zip(weights.keys, counts.tolist(), strict=True), key=lambda one: (-one[1], one[0]))
        return {name: count / samples for name, count in ranked[:_FUNCTIONS] if count}

    return ProfileUse(
        samples=samples,
        own=shares(weights.own),
        total=shares(weights.total),
        modules=module.modules_of(busy),
        categories={one.id: one.share_ratio for one in tax.categories},
        unclassified_ratio=tax.unclassified_ratio,
        leaders={one.id: one.functions[0].function for one in tax.categories if one.functions},
    )
