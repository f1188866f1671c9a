"""What a profile says, or the difference of two, in words.

In: profiles and what was counted in them. Out: text. Not here: tables and charts (``answer``).
"""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.analyze.profiles.diff import OWN, RUNS, Change, ProfileDiff, Table
from steelyard.analyze.profiles.profile import SAMPLES, Profile, Weights, modules_of, weigh
from steelyard.analyze.profiles.tax_map import TaxMap


@dataclass(frozen=True)
class FunctionRow:
    """One function with its counts."""

    function: str
    module: str
    own: int
    total: int


def top_functions(profile: Profile, count: int, *, weights: Weights | None = None) -> list[FunctionRow]:
    """Return the ``count`` functions with most samples of their own, of the busy ones."""
    weights = weights or weigh(profile)
    modules = modules_of(profile)
    rows = zip(weights.keys, weights.own.tolist(), weights.total.tolist(), strict=True)
    ranked = sorted(rows, key=lambda row: (-row[1], -row[2], row[0]))[:count]
    return [FunctionRow(key, modules.get(key, ""), own, total) for key, own, total in ranked]


def facts_of(profile: Profile, tax: TaxMap) -> list[tuple[str, str]]:
    """Return what is known of how a profile was taken."""
    facts = profile.facts
    idle = f", {profile.in_unit(tax.idle_samples):,} of them idle" if tax.idle_samples else ""
    # Bytes, ns or faults are no samples; their number may be known beside.
    name, unit = (SAMPLES, "") if profile.unit == SAMPLES else ("total", f" {profile.unit}")
    rows = [(name, f"{profile.in_unit(profile.total):,}{unit}{idle}")]
    if profile.unit != SAMPLES and facts.get(SAMPLES):
        rows.append((SAMPLES, facts[SAMPLES]))
    names = {"event": "event", "hz": "rate", "duration_s": "duration", "scope": "scope", "lost": "lost"}
    units = {"hz": " Hz", "duration_s": " s", "lost": " samples"}
    rows += [(noun, facts[key] + units.get(key, "")) for key, noun in names.items() if facts.get(key)]
    rows.append(("distinct stacks", f"{len(profile.counts):,}"))
    if profile.whole_ratio is not None:
        rows.append(("complete stacks of programs", f"{profile.whole_ratio:.1%}"))
    return rows


def cautions_of(profile: Profile) -> list[str]:
    """Return what is wrong with a profile, a sentence each."""
    cautions = [f"Reduced: {profile.facts['reason']}"] if profile.facts.get("reason") else []
    lost = profile.lost
    if lost:
        share = lost / (lost + profile.total)
        cautions.append(f"The kernel dropped {lost:,} samples, {share:.1%} of what it took.")
    return cautions + [f"{sentence[:1].upper()}{sentence[1:]}." for sentence in profile.reading.sentences()]


def heading_of_profile(tax: TaxMap) -> str:
    """Return a profile in one line."""
    if not tax.samples:
        return "No busy sample"
    return f"{tax.share('application'):.0%} application logic"


def tax_sentence(tax: TaxMap) -> str:
    """Return what is no application logic, and how much no rule names."""
    if tax.tax_ratio is None:
        return "All samples are from idle processors."
    return (
        f"{tax.tax_ratio:.1%} datacenter tax, kernel and runtimes, {tax.unclassified_ratio or 0:.1%}"
        f" unclassified. {_by_default(tax.application_by_default_ratio or 0.0)}"
    )


def _by_default(ratio: float) -> str:
    """Say how much of the application's share no rule names."""
    if ratio < 0.0005:
        return "Every sample of application code is named by a rule."
    return f"{ratio:.1%} match no rule and count as application logic."


def heading_of(result: ProfileDiff) -> str:
    """Return the comparison in one line."""
    if result.reason:
        return "Not judged: " + result.reason
    out = result.table("function", OWN).standing_out
    if out:
        row = out[0]
        open_question = "" if result.basis == RUNS else "; one run per side cannot show a change"
        return f"{row.name}: {row.a_ratio:.1%} → {row.b_ratio:.1%}{open_question}"
    if result.basis == RUNS:
        return "Only callers, modules or categories changed" if result.changed else "No change beyond noise"
    return (
        "Only callers, modules or categories stand out"
        if result.stands_out
        else "No difference beyond the noise of sampling"
    )


def sides_of(result: ProfileDiff, names: tuple[str, str]) -> str:
    """Return how much was counted in A and in B; of samples those of busy processors."""
    counts = [result.counted(0, result.a_samples), result.counted(1, result.b_samples)]
    busy = [count.replace(f" {SAMPLES}", f" busy {SAMPLES}") for count in counts]
    return f"{names[0]}: {busy[0]}, {names[1]}: {busy[1]}"


def word_of(row: Change) -> str:
    """Return what is known of a row in a word."""
    if row.changed is not None:
        return "change" if row.changed else "may be noise"
    return "" if row.stands_out is None else "stands out" if row.stands_out else "may be noise"


def count_of(table: Table, result: ProfileDiff) -> str:
    """Return how many rows of a table are changes, or stand out."""
    count = len(table.standing_out)
    if result.basis == RUNS:
        return f"{count} change{'' if count == 1 else 's'}"
    return f"{count} stand{'s' if count == 1 else ''} out"


def points(value: float) -> str:
    """Return a difference of shares in points of a percent.

    >>> points(0.8273), points(-0.001)
    ('+82.73', '−0.10')
    """
    return f"{'−' if value < 0 else '+'}{abs(100 * value):.2f}"
