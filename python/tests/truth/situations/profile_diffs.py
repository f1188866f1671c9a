"""Two profiles of the same program: phases within a run, and runs that differ from each other."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from steelyard.analyze.profiles.diff import ALPHA, CONFIDENCE, diff
from steelyard.analyze.profiles.folded import fold
from steelyard.analyze.profiles.units import compare_units

from ..situation import Claim, Outcome, Random, Situation, Statistic

Counts = NDArray[np.int64]
FUNCTIONS, SAMPLES, BLOCKS, TABLES = 60, 5000, 10, 5
TARGET = 5
"""The function that changes where one does: 3.6 % of the samples."""


def _program() -> NDArray[np.float64]:
    shares = 1 / np.arange(1, FUNCTIONS + 1)
    return np.asarray(shares / shares.sum())


def _run(
    random: Random, phases: NDArray[np.float64], length: float, run_cv: float, factor: float = 1.0
) -> Counts:
    """Samples of each function in each block of a run.

    The program goes from one of its ``phases`` (a row the factors of each function) to another, each for an
    exponential time of ``length`` samples in the mean; a run has factors of its own.
    """
    shares = _program() * random.lognormal(0.0, run_cv, FUNCTIONS)
    shares[TARGET] *= factor
    found = np.zeros((BLOCKS, FUNCTIONS), dtype=np.int64)
    edges = np.linspace(0, SAMPLES, BLOCKS + 1).astype(int)
    at, phase = 0, int(random.integers(len(phases)))
    while at < SAMPLES:
        block = int(np.searchsorted(edges, at, side="right")) - 1
        end = min(at + 1 + int(random.exponential(length)), SAMPLES)
        mix = shares * phases[phase]
        mix /= mix.sum()
        while at < end:
            stop = min(end, edges[block + 1])
            found[block] += random.multinomial(stop - at, mix)
            at, block = int(stop), block + 1
        phase = int(random.integers(len(phases)))
    return found


def _phases(random: Random, strength: float) -> NDArray[np.float64]:
    return np.asarray(random.lognormal(0.0, strength, (3, FUNCTIONS)))


def _judged(a: Counts, b: Counts) -> NDArray[np.bool_]:
    sizes = (a.sum(axis=1).astype(float), b.sum(axis=1).astype(float))
    found = compare_units(a, sizes[0], b, sizes[1], alpha=ALPHA / TABLES, confidence=CONFIDENCE)
    return found.is_change


def _by_blocks(random: Random, strength: float, length: float, factor: float = 1.0) -> Outcome:
    phases = _phases(random, strength)
    a = _run(random, phases, length, 0.0)
    b = _run(random, phases, length, 0.0, factor)
    changed = _judged(a, b)
    return Outcome(bool(changed[TARGET] if factor != 1 else changed.any()))


def _sides(
    random: Random, runs: int, run_cv: float, factor: float = 1.0, strength: float = 0.3
) -> list[Counts]:
    phases = _phases(random, strength)
    return [
        np.stack([_run(random, phases, 200.0, run_cv, one).sum(axis=0) for _ in range(runs)])
        for one in (1.0, factor)
    ]


def _by_runs(random: Random, runs: int, run_cv: float, factor: float = 1.0) -> Outcome:
    changed = _judged(*_sides(random, runs, run_cv, factor))
    return Outcome(bool(changed[TARGET] if factor != 1 else changed.any()))


def _interval(random: Random, runs: int, run_cv: float) -> Outcome:
    """One function's difference between two sides that are the same: no change is 0."""
    a, b = _sides(random, runs, run_cv)
    sizes = np.full(runs, float(SAMPLES))
    found = compare_units(a, sizes, b, sizes, alpha=ALPHA, confidence=CONFIDENCE)
    row = int(random.integers(FUNCTIONS))
    return Outcome(bool(found.low[row] <= 0 <= found.high[row]))


def _one_each(random: Random, run_cv: float) -> Outcome:
    a, b = _sides(random, 1, run_cv)
    profiles = [
        fold((f"app;main [app];function_{at} [app]", int(n)) for at, n in enumerate(one[0]) if n)[0]
        for one in (a, b)
    ]
    return Outcome(diff(*profiles).changed is None)


_NOT_RUNS = "one run a side: what stands out, never called a change"


def _block_rows() -> tuple[Situation, ...]:
    cases = (
        (0.15, 50.0, "12%", "weak phases of 50 samples"),
        (0.3, 50.0, "8%", "phases of 50 samples"),
        (0.5, 100.0, "22%", "strong phases of 100 samples"),
        (0.5, 500.0, "82%", "strong phases as long as a block"),
    )
    return tuple(
        Situation(
            f"one run a side in blocks of time, the same program, {what}",
            Claim.FALSE,
            partial(_by_blocks, strength=strength, length=length),
            trials=400,
            quick=100,
            before=before,
            note=_NOT_RUNS,
        )
        for strength, length, before, what in cases
    )


def _run_rows() -> tuple[Situation, ...]:
    before = {0.05: "29%", 0.1: "69%", 0.2: "100%"}
    return tuple(
        Situation(
            f"{runs} runs a side of the same program, shares differ by {cv:.0%} from run to run",
            Claim.FALSE,
            partial(_by_runs, runs=runs, run_cv=cv),
            trials=200,
            quick=40 if runs == 3 else 0,
            before=f"{before[cv]} (one run a side)",
        )
        for runs, cv in ((3, 0.05), (3, 0.1), (3, 0.2), (5, 0.1), (10, 0.2))
    )


def _found(runs: int, cv: float, factor: float, before: str) -> Situation:
    return Situation(
        f"found: {factor:g} times a share of 3.6 %, {runs} runs a side, {cv:.0%} from run to run",
        Claim.FOUND,
        partial(_by_runs, runs=runs, run_cv=cv, factor=factor),
        trials=200,
        before=before,
    )


STATISTICS = (
    Statistic(
        name="Difference of two profiles",
        covers=(
            "steelyard.analyze.profiles.diff.Change",
            "steelyard.analyze.profiles.diff.ProfileDiff",
            "steelyard.analyze.profiles.units.Comparison",
        ),
        about="Sixty functions, 5000 samples a run; any row reported as a change is false."
        " Three runs a side or more tell a change; one run a side shows what stands out.",
        situations=(
            Situation(
                "one run a side without times, shares differ by 10% from run to run",
                Claim.SILENT,
                partial(_one_each, run_cv=0.1),
                trials=50,
                quick=10,
                before="69% a change",
                note="whether it changed; what differs by more than independent samples is shown as that",
            ),
            *_block_rows(),
            *_run_rows(),
            *(
                Situation(
                    f"interval of a difference, {runs} runs a side, 10% from run to run",
                    Claim.HOLDS,
                    partial(_interval, runs=runs, run_cv=0.1),
                    trials=300,
                    quick=50,
                    bar=0.93,
                )
                for runs in (3, 8)
            ),
            *(
                Situation(
                    f"found: {factor:g} times a share of 3.6 %, one run a side in blocks of time",
                    Claim.FOUND,
                    partial(_by_blocks, strength=0.3, length=50.0, factor=factor),
                    trials=200,
                    before=before,
                )
                for factor, before in ((1.5, "73%"), (2.0, "100%"))
            ),
            _found(3, 0.1, 2.0, "100% (and 75% false)"),
            _found(5, 0.1, 1.5, "100% (and 73% false)"),
            _found(10, 0.1, 1.5, "100% (and 73% false)"),
            _found(5, 0.05, 1.25, "78% (and 27% false)"),
            _found(10, 0.05, 1.25, "97% (and 23% false)"),
        ),
    ),
)
