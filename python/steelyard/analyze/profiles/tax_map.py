"""Where the time of a profile goes: application logic, or one of the categories of the datacenter tax.

In: a profile and rules (``data/tax-map/*.toml``, and the user's own before them). Out: `TaxMap`, every sample
in exactly one category, with the functions behind each and the share that no rule could place.

How a sample is placed: from the leaf outwards, the first frame that settles it. A rule settles it with its
category, or passes the question to the caller (a lock or a copy in the kernel is the work of whoever asked
for it). A frame without a rule settles it too: in the kernel it asks its caller, in a program it is
application logic by default, in a shared library or without a name it is unclassified.

Invariants: the samples of all categories add up to the profile's; idle processors are separate and take no
part in shares; the order of rules decides, the user's first.

Not here: reading rules from files (``tax_rules``), drawing.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from steelyard._base.documents import printed
from steelyard.analyze.profiles.profile import KERNEL, Frame, Profile
from steelyard.analyze.profiles.tax_rules import (
    APPLICATION,
    ASK_CALLER,
    IDLE,
    UNCLASSIFIED,
    Category,
    Rule,
    Rules,
    shipped_rules,
)

KERNEL_OTHER = "kernel_other"
_TOP = 12
_COMMANDS = 12
_LIBRARY = re.compile(r"\.so(?:\.|$)|\.dylib$|\.dll$|^\[?vdso\]?$|^ld-|-stable$")
_GENERATED = re.compile(r"perf-\d+\.map$|JIT$|anon|heap$|memfd|jitted-")
NO_SYMBOL = "no symbol"
NO_MAP = "code made at run time, without a perf map"
NO_RULE = "no rule for this library"


@dataclass(frozen=True, slots=True)
class FunctionShare:
    """The samples that one function brought into a category."""

    function: str
    module: str | None
    samples: int
    share_ratio: float
    """Of all busy samples."""
    rule: str | None
    """Which rule settled it; None where none did."""


@dataclass(frozen=True, slots=True)
class CategoryShare:
    """One category's part of the profile."""

    id: str
    """Stable name."""
    title: str
    """In words."""
    group: str
    """Group of categories."""
    samples: int
    """Its samples."""
    share_ratio: float
    """Of all busy samples, 0 to 1."""
    functions: tuple[FunctionShare, ...]
    """The leaf functions with most samples."""


@dataclass(frozen=True, slots=True)
class CommandShare:
    """One command's samples by category."""

    command: str
    """Which command."""
    samples: int
    """Its samples."""
    by_category: dict[str, int]
    """Them by category."""


@dataclass(frozen=True)
class TaxMap:
    """The samples of a profile by category; ``samples`` leaves idle processors out."""

    unit: str
    """What samples count."""
    samples: int
    """Busy samples."""
    idle_samples: int
    """Samples of idle processors."""
    categories: tuple[CategoryShare, ...]
    """Those with samples, in the order of the rules; ``unclassified`` is one of them."""
    commands: tuple[CommandShare, ...]
    """By command."""
    application_by_default_ratio: float | None
    """Share that is application logic only because no rule matches."""
    unclassified_ratio: float | None
    """Share that no rule places; None in a profile without busy samples."""
    unclassified_reasons: dict[str, int] = field(default_factory=dict)
    """Samples by why they could not be placed."""

    def share(self, category: str) -> float:
        """Return the share of a category; 0 where it has no samples, which is a count, not a gap."""
        return next((entry.share_ratio for entry in self.categories if entry.id == category), 0.0)

    @property
    @printed
    def tax_ratio(self) -> float | None:
        """Share of the datacenter tax: what is neither application, unclassified, nor idle."""
        if not self.samples:
            return None
        groups = ("tax", "kernel", "runtime")
        return sum(entry.samples for entry in self.categories if entry.group in groups) / self.samples


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a sample belongs, and what settled it: a rule's id, or None and the reason."""

    category: str
    rule: str | None
    reason: str | None = None


_IDLE = Placement(IDLE, None)


class Classifier:
    """Places stacks of one profile; what each frame answers is worked out once."""

    def __init__(self, profile: Profile, rules: Rules) -> None:
        self._frames = profile.frames
        self._rules = rules
        self._answers: list[tuple[Rule, ...] | None] = [None] * len(profile.frames)
        self._callers: dict[tuple[str, int], bool] = {}

    def category_of_frame(self, frame: int) -> str:
        """Return the category that a frame has by itself, for colours; whoever asks its caller has none
        ('').
        """
        for rule in self._matching(frame):
            if not rule.conditional:
                return "" if rule.category == ASK_CALLER else rule.category
        return self._without_rule(self._frames[frame]).category

    def place(self, stack: list[int]) -> Placement:
        """Return where the samples of ``stack`` (frame numbers, the outermost first) belong."""
        fallback: Placement | None = None
        in_kernel = False
        for at in range(len(stack) - 1, -1, -1):
            number = stack[at]
            frame = self._frames[number]
            if in_kernel and frame.module != KERNEL and not self._matching(number):
                # The kernel was left without an answer; the program's name is not one for the kernel's time.
                return fallback or Placement(KERNEL_OTHER, None)
            rule = self._settling(number, stack, at)
            if rule is not None and rule.category != ASK_CALLER:
                if in_kernel and self._rules.group_of(rule.category) != "kernel":
                    return fallback or Placement(KERNEL_OTHER, None)
                return Placement(rule.category, rule.id)
            if rule is not None:
                fallback = fallback or (Placement(rule.fallback, rule.id) if rule.fallback else None)
                in_kernel = in_kernel or frame.module == KERNEL
                continue
            if frame.module == KERNEL:
                in_kernel = True
                continue
            settled = self._without_rule(frame)
            if fallback is not None and settled.category == UNCLASSIFIED:
                return fallback
            return settled
        if fallback is not None:
            return fallback
        return Placement(KERNEL_OTHER, None) if in_kernel else Placement(APPLICATION, None, "by default")

    def _settling(self, number: int, stack: list[int], at: int) -> Rule | None:
        for rule in self._matching(number):
            if rule.leaf_only and at + 1 < len(stack):
                continue
            if not rule.callers or any(self._is_caller(rule, stack[i]) for i in range(at - 1, -1, -1)):
                return rule
        return None

    def _is_caller(self, rule: Rule, number: int) -> bool:
        key = (rule.id, number)
        known = self._callers.get(key)
        if known is None:
            known = self._callers[key] = rule.accepts_caller(self._frames[number])
        return known

    def _matching(self, number: int) -> tuple[Rule, ...]:
        rules = self._answers[number]
        if rules is None:
            rules = self._answers[number] = self._rules.matching(self._frames[number])
        return rules

    @staticmethod
    def _without_rule(frame: Frame) -> Placement:
        if frame.module == KERNEL:
            return Placement(KERNEL_OTHER, None)
        if not frame.known:
            generated = frame.module is not None and _GENERATED.match(frame.module)
            return Placement(UNCLASSIFIED, None, NO_MAP if generated else NO_SYMBOL)
        if frame.module is not None and _LIBRARY.search(frame.module):
            return Placement(UNCLASSIFIED, None, NO_RULE)
        return Placement(APPLICATION, None, "by default")


def place_all(profile: Profile, rules: Rules | None = None) -> list[Placement]:
    """Return the placement of each stack of ``profile``, in its order."""
    classifier = Classifier(profile, rules or shipped_rules())
    stacks = zip(profile.stacks(), profile.idle.tolist(), strict=True)
    return [_IDLE if at_rest else classifier.place(frames) for (_, frames, _), at_rest in stacks]


def classify(profile: Profile, rules: Rules | None = None) -> TaxMap:
    """Place every sample of ``profile`` by ``rules`` (by default those that are shipped)."""
    rules = rules or shipped_rules()
    classifier = Classifier(profile, rules)
    by_category: Counter[str] = Counter()
    behind: dict[str, Counter[tuple[str, str | None, str | None]]] = {}
    by_command: dict[int, Counter[str]] = {}
    reasons: Counter[str] = Counter()
    by_default = 0
    for (command, frames, count), at_rest in zip(profile.stacks(), profile.idle.tolist(), strict=True):
        placed = _IDLE if at_rest else classifier.place(frames)
        by_category[placed.category] += count
        if at_rest:
            continue
        leaf = profile.frames[frames[-1]]
        behind.setdefault(placed.category, Counter())[(leaf.key, leaf.module, placed.rule)] += count
        by_command.setdefault(command, Counter())[placed.category] += count
        if placed.category == UNCLASSIFIED and placed.reason:
            reasons[placed.reason] += count
        by_default += count if placed.category == APPLICATION and placed.rule is None else 0
    idle = by_category.pop(IDLE, 0)
    busy = sum(by_category.values())
    return TaxMap(
        unit=profile.unit,
        samples=busy,
        idle_samples=idle,
        categories=tuple(
            _category(category, by_category[category.id], busy, behind.get(category.id, Counter()))
            for category in rules.categories
            if by_category.get(category.id)
        ),
        commands=_commands(profile, by_command),
        application_by_default_ratio=by_default / busy if busy else None,
        unclassified_ratio=by_category.get(UNCLASSIFIED, 0) / busy if busy else None,
        unclassified_reasons=dict(reasons.most_common()),
    )


def _category(
    category: Category, samples: int, busy: int, behind: Counter[tuple[str, str | None, str | None]]
) -> CategoryShare:
    # Equal counts come in the order of names, so that the same profile gives the same document.
    ranked = sorted(
        behind.items(), key=lambda item: (-item[1], item[0][0], item[0][1] or "", item[0][2] or "")
    )
    return CategoryShare(
        category.id,
        category.title,
        category.group,
        samples,
        samples / busy,
        tuple(
            FunctionShare(function, module, count, count / busy, rule)
            for (function, module, rule), count in ranked[:_TOP]
        ),
    )


def _commands(profile: Profile, by_command: dict[int, Counter[str]]) -> tuple[CommandShare, ...]:
    ranked = sorted(by_command.items(), key=lambda item: (-item[1].total(), profile.commands[item[0]]))
    return tuple(
        CommandShare(profile.commands[number], counter.total(), dict(counter.most_common()))
        for number, counter in ranked[:_COMMANDS]
    )
