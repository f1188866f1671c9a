"""What rules conclude and how they are registered, and the words that they share.

A rule is a function registered under a stable id, whose parameters are named as the facts that it needs
(``needs``). It answers with a `Finding` or None, and None too when what it needs was not measured.

Not here: the rules themselves (the other modules), and asking them (``explain``).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeVar

from steelyard.analyze.conditions import Conditions
from steelyard.analyze.headline import Headline
from steelyard.analyze.pressure.threads import TargetUse
from steelyard.analyze.rules.needs import Need, facts_for, needs_of
from steelyard.analyze.values import Quantity

AREAS = (
    *("machine", "cpu", "scheduler", "memory", "disk", "network", "numa", "profile", "load"),
    "operations",
)
"""What rules are about."""
PARTS = (
    *("cpu", "dram_capacity", "dram_bandwidth", "disk_latency", "disk_bandwidth", "network"),
    *("locks", "scheduler"),
)
"""What may hold a workload back: the resources of ``intensities``, and what is no resource of the machine."""
EXPLAINS = ("", "time", "cpu")
"""What a rule's first evidence may be a share of: nothing, the headline's time, its CPU time."""
BLAMES = ("own", "neighbours", "hypervisor", "unknown")
"""Whose doing a finding may be: the workload's, other processes' of this machine, other guests', or anyone's
where that is not known."""


@dataclass(frozen=True)
class Evidence:
    """A measured value and the bound it was held against; ``bound`` is None where there is none."""

    metric: str
    value: float
    unit: str
    bound: float | None = None


@dataclass(frozen=True)
class Finding:
    """What a rule concluded.

    ``weight`` (0..1) orders findings that explain as much, and notes. ``next_step`` is what to
    measure or to do next, ``gain`` what to expect of it. ``part`` is what holds the workload back, if the
    finding says so, one of `PARTS`; ``sure`` is False where that is concluded from signs and not measured.
    ``blame`` says whose doing it is, one of `BLAMES`. ``explained_ratio`` is the share of the headline's time
    that it explains, None for a note; ``also`` are claims of the same cause, by the rules ``merged``.
    ``id``, ``area`` and ``threshold``, the source of the bounds, are the rule's: `explain` fills them in.
    """

    claim: str
    evidence: tuple[Evidence, ...]
    next_step: str
    weight: float
    gain: str = ""
    part: str | None = None
    sure: bool = True
    id: str = ""
    area: str = ""
    threshold: str = ""
    blame: str = "own"
    explained_ratio: float | None = None
    also: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A question that is asked of every run. ``threshold`` says where its bounds come from.

    ``explains`` says what its first evidence is a share of: ``time``, the headline's, ``cpu``, the part of it
    in which its CPUs worked, or nothing, so that it makes notes. Findings of one ``cause`` are one finding.
    ``answer`` names the facts that it needs by its parameters; without one of them it is not asked. Raises
    ValueError for a name that is no fact's.
    """

    id: str
    question: str
    answer: Callable[..., Finding | None]
    area: str = "machine"
    threshold: str = ""
    explains: str = ""
    cause: str = ""

    def __post_init__(self) -> None:
        # A name that is no fact's is refused here, and not when the rule is asked.
        _ = self.needs

    @cached_property
    def needs(self) -> tuple[Need, ...]:
        """The facts that ``answer`` names."""
        try:
            return needs_of(self.answer)
        except ValueError as error:
            raise ValueError(f"rule {self.id}: {error}") from None

    def ask(self, conditions: Conditions) -> Finding | None:
        """Return the answer, None where a fact is absent that it needs."""
        facts = facts_for(self.needs, conditions)
        return None if facts is None else self.answer(**facts)


RULES: dict[str, Rule] = {}
"""Every rule by its id, in the order of registration. `explain.load_rules` fills it."""

Answer = TypeVar("Answer", bound=Callable[..., Finding | None])


def rule(
    rule_id: str, question: str, *, area: str, threshold: str, explains: str = "", cause: str = ""
) -> Callable[[Answer], Answer]:
    """Register a rule about ``area``, whose bounds come from ``threshold``; the rest: see `Rule`.

    Raises ValueError when the id is taken, there is no such area, or a parameter is no fact's name.
    """

    def register(answer: Answer) -> Answer:
        if rule_id in RULES:
            raise ValueError(f"rule {rule_id} is already registered")
        if area not in AREAS:
            raise ValueError(f"rule {rule_id} has the unknown area {area!r} (known: {', '.join(AREAS)})")
        if explains not in EXPLAINS:
            raise ValueError(
                f"rule {rule_id} has the unknown explains {explains!r} (known: {', '.join(EXPLAINS)})"
            )
        RULES[rule_id] = Rule(rule_id, question, answer, area, threshold, explains, cause)
        return answer

    return register


def threshold_rule(
    rule_id: str,
    question: str,
    figure: Callable[..., float | None],
    bound: tuple[str, str, float],
    claim: str,
    next_step: str,
    weight: float | Callable[[float], float],
    *,
    gain: str,
    part: str | None = None,
    blame: str = "own",
    **register: str,
) -> None:
    """Register a rule that answers where one figure, a function of facts by name, is not below a bound.

    ``bound`` is the figure's name, its unit and the bound. In ``claim`` and ``gain``, ``{value}``, ``{rate}``
    (`rate_text`), ``{percent}`` (`percent`) and ``{without}`` (`without`) stand for the figure. ``register``:
    see `rule`; the rest: see `Finding`.
    """
    metric, unit, least = bound

    @wraps(figure)
    def answer(**facts: Any) -> Finding | None:
        value = figure(**facts)
        if value is None or value < least:
            return None
        words = {"rate": rate_text(value), "percent": percent(value), "without": without(value)}
        return Finding(
            claim.format(value=value, **words),
            (Evidence(metric, value, unit, least),),
            next_step,
            weight(value) if callable(weight) else weight,
            gain=gain.format(**words),
            part=part,
            blame=blame,
        )

    rule(rule_id, question, **register)(answer)


def percent(ratio: float) -> str:
    """Write a share with as many digits as distinguish it from 0 and 100 %.

    >>> percent(0.983), percent(0.004)
    ('98 %', '0.4 %')
    """
    return f"{ratio * 100:.1f} %" if ratio < 0.1 else f"{ratio * 100:.0f} %"


def without(share: float) -> str:
    """Write how many times faster work is done without a share of its time (Amdahl).

    >>> without(0.5), without(0.2), without(0.03), without(0.95), without(0.993), without(1.0)
    ('2.0 x', '1.2 x', '1.03 x', '20 x', 'over 100 x', 'over 100 x')
    """
    # No more digits than a share of some hundred samples has.
    factor = 1 / (1 - share) if share < 1 else math.inf
    if factor >= 99.5:
        return "over 100 x"
    return f"{factor:.{0 if factor >= 9.95 else 1 if factor >= 1.095 else 2}f} x"


def at_most(share: float) -> str:
    """Write the same as a bound.

    >>> at_most(0.5), at_most(0.999)
    ('at most 2.0 x', 'over 100 x')
    """
    factor = without(share)
    return factor if factor.startswith("over") else f"at most {factor}"


def wait_share(target: TargetUse | None, kind: str, otherwise: float) -> float:
    """Return the share of the elapsed time that waits for ``kind`` may cost a program at most.

    Of a run without a program it is ``otherwise``. Threads that only sleep do not make it lower.
    """
    return min(0.99, otherwise if target is None else 1.0 - target.left_without(kind))


def held_up(target: TargetUse | None, kind: str, of_all: float) -> str:
    """Return what to add to ``of_all``, the waits' share of all threads' time, where they cost more."""
    cost = wait_share(target, kind, of_all)
    return f", and may be held up by it {percent(cost)} of the time" if cost > of_all + 0.02 else ""


def without_wait(target: TargetUse | None, kind: str, otherwise: float) -> str:
    """Return the gain of a program whose threads did not wait for ``kind`` (Amdahl, of `wait_share`)."""
    return at_most(wait_share(target, kind, otherwise))


def without_work(headline: Headline, share: float) -> str:
    """Return the gain of a workload without ``share`` of its CPU time.

    The base is the time of the headline in which its CPUs worked (`work_ratio`).
    """
    ran = headline.work_ratio
    return f"{at_most(share * (1.0 if ran is None else ran))}"


def rate_text(per_s: float) -> str:
    """Return how often something happens: whole from 10 on, two digits below.

    >>> rate_text(1496.4), rate_text(9.96), rate_text(2.345), rate_text(0.0507)
    ('1,496', '10', '2.3', '0.051')
    """
    return f"{per_s:,.0f}" if per_s >= 9.95 else f"{per_s:.2g}"


def time_text(ns: float) -> str:
    """Write a time span.

    >>> time_text(95_000), time_text(3.1e6)
    ('95 µs', '3.1 ms')
    """
    size, unit = next((pair for pair in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if ns >= pair[0]), (1.0, "ns"))
    return f"{ns / size:.3g} {unit}"


def above(quantity: Quantity | None, bound: float) -> bool:
    """Return whether ``quantity`` is known and not below ``bound``."""
    return quantity is not None and quantity.value is not None and quantity.value >= bound
