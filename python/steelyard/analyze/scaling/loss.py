"""Scaling loss between two steps, split into its causes.

In: two steps. Out: `Loss`: how many times less each CPU does at the larger one, and factors that multiply to
it, above 1 where they cost throughput.

    loss = path length x CPI x (1 / frequency) x (1 / CPU use), each at the larger step over the smaller one

Path length is the software's: more instructions for an operation, as in retries and spinning. CPI is the
hardware's under that software: contention for cache lines, memory, shared cores. CPU use falls where threads
wait. Without counters, path length, CPI and frequency are one factor: CPU time per operation. After Chow,
Jiang, Li and Rajput, "Software Performance Analysis: Industry Perspectives".

Other processes explain at most the share of CPU time that they had (``Step.others_factor``): they are called
the cause where that is most of the loss.

Not here: which function causes it (``profiles.hot_functions``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard._base.documents import printed
from steelyard.analyze.counters.iron_law import IronLaw, difference, not_known
from steelyard.analyze.scaling.curve import IDLE, Step
from steelyard.analyze.values import Quantity

PATH, CPI, FREQUENCY, CLOCKS, USE, COST, RUN = (
    "path length",
    "CPI",
    "frequency",
    "clocks per CPU and second",
    "CPU use",
    "CPU time per operation",
    "CPU time per thread and second",
)
NO_LOSS = 1.05
"""A loss below this factor has no cause worth naming."""
MAIN_RATIO = 0.8
"""A factor with this much of the loss, in logarithms, is called its cause."""
OTHERS_ABOVE = 0.05
"""What others take of the CPUs' time without a word."""
_NO_CPU_TIME = "the CPU time of both steps was not measured (cpu_s, busy_ratio or idle_ratio)"
_CAUSES = {
    PATH: "extra work: each operation takes more instructions",
    CPI: "each instruction takes more clock cycles (CPI), because of contention or stalls; instructions per"
    " operation are not the main cause",
    FREQUENCY: "frequency: CPUs are clocked lower",
    CLOCKS: "CPUs run fewer clocks: they wait or are clocked lower",
    USE: "the workload leaves CPUs unused",
    COST: "each operation takes more CPU time",
    RUN: "each thread has a CPU for less of the time: there are fewer CPUs, or it waits",
}


@dataclass(frozen=True)
class LossTerm:
    """One factor of the loss."""

    name: str
    """Which one, such as `path length` or `CPI`."""
    low: Quantity
    """Its figure at the smaller step."""
    high: Quantity
    """Its figure at the larger step."""
    factor: Quantity
    """What it alone costs: above 1 is a loss."""
    share: Quantity
    """Its part of the logarithm of the loss; the shares of all terms sum to 1."""


@dataclass(frozen=True)
class Loss:
    """What is lost between two steps."""

    low_cpus: int
    """CPUs of the first step."""
    high_cpus: int
    """CPUs of the last step."""
    factor: Quantity
    """Throughput of one CPU at the smaller step over that at the larger one; of one thread on a machine whose
    CPUs are not known.
    """
    terms: tuple[LossTerm, ...]
    """Factors that multiply to it; empty without counts."""
    cause: str
    """The main cause in words, or why it is not known."""
    noun: str = "CPU"
    """What the loss is of: each CPU, or each thread."""
    caveat: str | None = None
    """What a reader must know before believing it, None where that is nothing."""
    noise_factor: float = 1.0
    """What noise alone makes of no loss."""

    @property
    @printed
    def is_clear(self) -> bool:
        """Whether anything is lost that noise does not explain."""
        return (self.factor.value or 0.0) >= max(NO_LOSS, self.noise_factor)

    def term(self, name: str) -> LossTerm | None:
        """Return one term, None where the loss is not split into it."""
        return next((term for term in self.terms if term.name == name), None)


def scaling_loss(low: Step, high: Step, *, noise_factor: float = 1.0) -> Loss:
    """Return the loss from ``low`` to ``high``; one below ``noise_factor`` may be none, and has no cause.

    Factors multiply to the loss exactly where counts are known; the loss is then that of the counts.
    """
    growth = _divisor(high, low) / _divisor(low, high)
    terms, reason = _terms(low, high, growth)
    if terms:
        factor = math.prod(term.factor.value or 1.0 for term in terms)
        whole = Quantity(factor, "1")
    elif low.ops_per_s is None or high.ops_per_s is None:
        whole = Quantity(None, "1", "a step has no throughput")
    else:
        whole = Quantity(low.ops_per_s * growth / high.ops_per_s, "1")
    shared = [_with_share(term, whole) for term in terms]
    cause = _cause(whole, shared, reason, noise_factor)
    if cause == _CAUSES[USE]:
        cause = _cause_of_use(low, high, shared, whole)
    noun = "CPU" if None not in (low.usable_cpus, high.usable_cpus) else "thread"
    return Loss(
        low.cpus, high.cpus, whole, tuple(shared), cause, noun, _caveat(low, high, shared), noise_factor
    )


def is_main(factor: float, whole: float) -> bool:
    """Return whether a factor is most of a loss.

    >>> is_main(1.37, 2.01), is_main(1.9, 2.01), is_main(1.2, 1.0)
    (False, True, False)
    """
    return whole > 1 and factor > 1 and math.log(factor) >= MAIN_RATIO * math.log(whole)


def _cause_of_use(low: Step, high: Step, terms: Sequence[LossTerm], whole: Quantity) -> str:
    """Return why CPU use falls: other processes where their time is most of the loss, else the workload."""
    factor = whole.value or 1.0
    taken, before = high.others_ratio or 0.0, low.others_ratio or 0.0
    most = min(high.others_factor, factor)
    # What they had at the smaller step, too, cannot have made the difference.
    if taken > OTHERS_ABOVE and is_main((1 - before) * high.others_factor, factor):
        explains = "all of it" if most == factor else f"up to {_of(most, factor)}"
        return (
            f"other processes had {taken:.0%} of the time of the {high.cpus} CPUs, which explains {explains},"
            " unless the workload waited and left it to them"
        )
    use = next(term for term in terms if term.name == USE)
    said = _CAUSES[USE]
    if use.low.value is not None and use.high.value is not None:
        said += f", CPU use falls from {use.low.value:.0%} to {use.high.value:.0%}"
    if taken <= OTHERS_ABOVE:
        return said
    return (
        f"{said}; other processes had {taken:.0%} of the CPUs' time, which explains at most"
        f" {_of(most, factor)}"
    )


def _of(part: float, whole: float) -> str:
    return f"{part:.2f}x of {whole:.2f}x"


def _divisor(step: Step, other: Step) -> int:
    """Return the CPUs that a step can use, or its threads where that is not known of both."""
    usable = step.usable_cpus
    return step.cpus if usable is None or other.usable_cpus is None else usable


def _caveat(low: Step, high: Step, terms: Sequence[LossTerm]) -> str | None:
    found = []
    # Without a known number of CPUs the term is the threads' own CPU time.
    from_idle = all(IDLE in step.readings for step in (low, high))
    if terms and from_idle and None in (low.busy_ratio, high.busy_ratio):
        found.append("CPU use is the time in which CPUs were not idle: that of other processes is in it")
    if high.shares_cores and not low.shares_cores and any(term.name == CPI for term in terms):
        found.append(
            f"at {high.cpus} CPUs threads share cores, at {low.cpus} they do not: a part of the CPI is that,"
            " and no contention of the program"
        )
    for step in (low, high):
        taken = step.others_ratio
        if taken is not None and taken > OTHERS_ABOVE:
            found.append(f"other processes had {taken:.0%} of the CPUs' time at the step of {step.cpus}")
    return "; ".join(found) or None


def _terms(low: Step, high: Step, growth: float) -> tuple[list[LossTerm], str | None]:
    """Return the factors, or none with the reason."""
    # How CPUs share cores is said by a caveat: the steps are of one machine.
    before, after = replace(low.law, smt=None), replace(high.law, smt=None)
    found = []
    for term in difference(before, after).terms:
        moved = term.factor.value
        if moved is None:
            return _coarse(before, after, low, high, term.factor.missing)
        if term.name == "CPUs used":
            found.append(_use(low, high, before, after))
        elif term.name == "clocks per second":
            clocks = _per_cpu(before.cycles_per_s, low, high), _per_cpu(after.cycles_per_s, high, low)
            found.append(_term(CLOCKS, clocks[0], clocks[1], growth / moved))
        elif term.name == "IPC":
            found.append(_term(CPI, before.cpi, after.cpi, 1 / moved))
        else:
            found.append(_term(term.name, term.before, term.after, 1 / moved))
    order = (PATH, CPI, FREQUENCY, CLOCKS, USE, RUN)
    return sorted(found, key=lambda term: order.index(term.name)), None


def _coarse(
    before: IronLaw, after: IronLaw, low: Step, high: Step, missing: str | None
) -> tuple[list[LossTerm], str | None]:
    """Return what CPU time alone tells."""
    costs = [_cost(law) for law in (before, after)]
    if costs[0].value is None or costs[1].value is None:
        return _by_shares(low, high), costs[0].missing or costs[1].missing
    return [
        _term(COST, costs[0], costs[1], costs[1].value / costs[0].value),
        _use(low, high, before, after),
    ], missing


def _by_shares(low: Step, high: Step) -> list[LossTerm]:
    """Return the factors where only shares of the CPUs' time were measured, or none."""
    uses = _uses(low, high)
    if uses is None or low.ops_per_s is None or high.ops_per_s is None:
        return []
    costs = [
        use * (step.usable_cpus or 1) / (step.ops_per_s or 1.0)
        for use, step in zip(uses, (low, high), strict=True)
    ]
    return [
        _term(COST, Quantity(costs[0], "s"), Quantity(costs[1], "s"), costs[1] / costs[0]),
        _term(USE, Quantity(uses[0], "ratio"), Quantity(uses[1], "ratio"), uses[0] / uses[1]),
    ]


def _uses(low: Step, high: Step) -> tuple[float, float] | None:
    """Return the workload's shares of the CPUs' time, else those of all processes, None where not known."""
    if None in (low.usable_cpus, high.usable_cpus):
        return None
    first, second = low.busy_ratio, high.busy_ratio
    if first is None or second is None:
        first, second = (
            None if (idle := step.readings.get(IDLE)) is None else 1 - idle for step in (low, high)
        )
    return (first, second) if first and second else None


def _cost(law: IronLaw) -> Quantity:
    used, rate = law.used_cpus, law.ops_per_s
    if used.value is None or rate.value is None:
        return Quantity(None, "s", used.missing or rate.missing)
    return Quantity(used.value / rate.value, "s")


def _use(low: Step, high: Step, before: IronLaw, after: IronLaw) -> LossTerm:
    shares = _per_cpu(before.used_cpus, low, high), _per_cpu(after.used_cpus, high, low)
    first, second = (Quantity.of(share.value, "ratio", share.missing) for share in shares)
    name = USE if None not in (low.usable_cpus, high.usable_cpus) else RUN
    return _term(name, first, second, (first.value or 1.0) / (second.value or 1.0))


def _per_cpu(whole: Quantity, step: Step, other: Step) -> Quantity:
    value = None if whole.value is None else whole.value / _divisor(step, other)
    return Quantity.of(value, whole.unit, whole.missing)


def _term(name: str, low: Quantity, high: Quantity, factor: float) -> LossTerm:
    return LossTerm(name, low, high, Quantity(factor, "1"), Quantity(None, "ratio", "not yet"))


def _with_share(term: LossTerm, whole: Quantity) -> LossTerm:
    if whole.value is None or abs(math.log(whole.value)) < math.log(1.005):
        return replace(term, share=Quantity(None, "ratio", "hardly anything is lost, and that has no parts"))
    return replace(term, share=Quantity(math.log(term.factor.value or 1.0) / math.log(whole.value), "ratio"))


def _cause(whole: Quantity, terms: list[LossTerm], missing: str | None, noise_factor: float) -> str:
    if whole.value is None:
        return f"not known: {whole.missing}"
    if whole.value < NO_LOSS:
        return "hardly anything is lost"
    if whole.value < noise_factor:
        return f"not known: noise alone may make {noise_factor:.3g}x of no loss"
    if not terms:
        return f"not known: {_NO_CPU_TIME if missing in (None, not_known('cpu_s')) else missing}"
    main = max(terms, key=lambda term: term.share.value or 0.0)
    if (main.share.value or 0.0) >= MAIN_RATIO:
        return _CAUSES[main.name]
    costs = [term for term in terms if (term.share.value or 0.0) >= 1 - MAIN_RATIO]
    return ", ".join(f"{term.name} {term.factor.value:.3g}x" for term in costs)
