"""The capacity search against queues in virtual time: ``crates/load/examples/capacity_truth``."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from ..situation import Claim, Outcome, Situation, Statistic

ROOT = Path(__file__).resolve().parents[4]
LONG = 1_000_000
"""Requests of each long simulation by which the truth is found where there is no closed form."""


def _program() -> Path:
    """Return the driver: optimised as `make truth` builds it, or as `cargo test` does."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    programs = [target / profile / "examples" / "capacity_truth" for profile in ("release", "debug")]
    sources = [*(ROOT / "crates/load/src").rglob("*.rs"), *(ROOT / "crates/load/examples").rglob("*.rs")]
    changed = max(one.stat().st_mtime for one in sources)
    for program in programs:
        if program.exists() and program.stat().st_mtime >= changed:
            return program
    command = ["cargo", "build", "--locked", "-p", "steelyard-load", "--example", "capacity_truth"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return programs[-1]


def _searches(situation: str, seed: int, trials: int) -> list[dict[str, float | None]]:
    command = [str(_program()), situation, str(seed), str(trials), str(LONG)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def _holds(situation: str, seed: int, trials: int) -> Sequence[Outcome]:
    """Judge whether the interval holds the long-run capacity."""
    outcomes = []
    for one in _searches(situation, seed, trials):
        low, high, estimate, truth = one["low"], one["high"], one["estimate"], one["truth"]
        if low is None or high is None or estimate is None or truth is None:
            outcomes.append(Outcome(None))
        else:
            outcomes.append(Outcome(low <= truth <= high, estimate / truth - 1, (high - low) / truth))
    return outcomes


def _silent(situation: str, seed: int, trials: int) -> Sequence[Outcome]:
    """Judge whether no interval and no estimate is stated."""
    return [
        Outcome(one["high"] is None and one["estimate"] is None) for one in _searches(situation, seed, trials)
    ]


def _beyond(situation: str, seed: int, trials: int) -> Sequence[Outcome]:
    """Judge whether the estimate is more than the server serves."""
    return [
        Outcome(None if one["estimate"] is None else one["estimate"] > one["service_per_s"])  # type: ignore[operator]
        for one in _searches(situation, seed, trials)
    ]


def _off(situation: str, seed: int, trials: int) -> Sequence[Outcome]:
    """Judge whether the estimate is off by more than 5 %, from which on a verdict is suspect."""
    return [
        Outcome(None if one["estimate"] is None else abs(one["estimate"] / one["truth"] - 1) > 0.05)  # type: ignore[operator]
        for one in _searches(situation, seed, trials)
    ]


def _wide(situation: str, seed: int, trials: int) -> Sequence[Outcome]:
    """Judge whether the interval is so wide that the search says that it is no result."""
    return [
        Outcome(None if one["width_ratio"] is None else one["width_ratio"] > 0.4)
        for one in _searches(situation, seed, trials)
    ]


def _said(field: str, situation: str, seed: int, trials: int) -> Sequence[Outcome]:
    """Judge whether a collapse, or a speed that changes, is named."""
    return [Outcome(bool(one[field])) for one in _searches(situation, seed, trials)]


def _situation(
    name: str,
    situation: str,
    trials: int,
    before: str,
    judge: Callable[[str, int, int], Sequence[Outcome]] = _holds,
    claim: Claim = Claim.HOLDS,
    *,
    bar: float | None = None,
    is_limit: bool = False,
    note: str = "",
) -> Situation:
    return Situation(
        name=name,
        claim=claim,
        batch=partial(judge, situation),
        trials=trials,
        before=before,
        bar=0.93 if claim is Claim.HOLDS and bar is None else bar,
        is_limit=is_limit,
        note=note,
    )


STATISTICS = (
    Statistic(
        name="Capacity search",
        covers=("steelyard.records.capacity.CapacityInterval",),
        about="The long-run rate at which `p95<=500ms` holds, as `steelyard run feed` searches for it in the"
        " time of its tiers: closed forms for M/M/c, else long simulations. The search knows none of these"
        " queues. Slowed loads and correlated runs are allowed for, so plain queues are held more often.",
        situations=(
            _situation("M/M/2 at 50/s, `quick`", "mm2/quick", 40, "54 to 57 %"),
            _situation("M/M/2 at 50/s, `standard`", "mm2/standard", 24, "27 to 30 %"),
            _situation("M/M/16 at 500/s, `quick`", "mm16/quick", 40, "1 %; the low end too high in 99 %"),
            _situation(
                "M/M/16 at 500/s, `quick`: estimate above the service rate",
                "mm16/quick",
                24,
                "1.105 times the service rate",
                _beyond,
                Claim.FALSE,
            ),
            _situation(
                "M/M/16 at 500/s, `quick`: interval over 40 % of the capacity wide, which is no result",
                "mm16/quick",
                24,
                "100 %",
                _wide,
                Claim.FALSE,
            ),
            _situation(
                "M/M/2 at 50/s, `smoke`",
                "mm2/smoke",
                40,
                "0 % of those that were stated held",
                _silent,
                Claim.SILENT,
            ),
            _situation("unloaded p95 at 0.87 of the bound, `quick`", "delayed/quick", 40, "32 %"),
            _situation(
                "0.4 % slow at any rate, 16 servers at 900/s, `quick`", "wall/quick", 40, "100 %, 0.75 wide"
            ),
            _situation(
                "0.4 % slow at any rate, 16 servers at 900/s, `standard`",
                "wall/standard",
                24,
                "100 %, 0.34 wide",
            ),
            _situation(
                "0.4 % slow at any rate, `standard`: estimate off by more than 5 %",
                "wall/standard",
                24,
                "5.4 % too low on average",
                _off,
                Claim.FALSE,
            ),
            _situation(
                "0.4 % slow at any rate, run-to-run sd 0.05, 10 % of probes slowed by a third, `quick`",
                "wall-varying/quick",
                40,
                "100 %, 0.66 wide; 12 % too low on average",
            ),
            _situation("run-to-run sd 0.15, `quick`", "spread/quick", 40, "57 %"),
            _situation("run-to-run sd 0.05, correlation 0.8, `quick`", "correlated/quick", 40, "72 %"),
            _situation("20 % of probes slowed by a third, `quick`", "slowed/quick", 40, "80 %"),
            _situation("slow M/M/10 at 200/s, `quick`", "mm10/quick", 40, "89 %"),
            _situation("M/H2/2 at 50/s, `quick`", "mh2/quick", 40, ""),
            _situation(
                "arrivals in bursts of 1 s at 1.5 and 0.5 times the rate, `quick`", "bursts/quick", 40, ""
            ),
            _situation("pauses of 0.1 s every 3 s, `quick`", "pauses/quick", 40, ""),
            _situation(
                "16 servers at 500/s that collapse to 0.6 of it once a request waits 1 s, `quick`",
                "collapse-stays/quick",
                40,
                "11 %, stated in 19 of 40",
            ),
            _situation(
                "16 servers at 500/s that collapse to 0.6 of it, `standard`",
                "collapse-stays/standard",
                20,
                "0 of 20",
            ),
            _situation(
                "16 servers at 500/s that collapse to 0.6 of it, `quick`: collapse named",
                "collapse-stays/quick",
                24,
                "0 %",
                partial(_said, "collapse"),
                Claim.FOUND,
                bar=0.8,
            ),
            _situation(
                "20 % of probes slowed by a third, `quick`: collapse named",
                "slowed/quick",
                24,
                "",
                partial(_said, "collapse"),
                Claim.FALSE,
            ),
            _situation(
                "2 servers at 50/s that collapse until no request waits, `standard`",
                "collapse/standard",
                20,
                "90 %",
                is_limit=True,
                note="so few requests seldom show in time that less is served",
            ),
            _situation(
                "16 servers whose speed is 500/s or 300/s for 5 s each, `quick`", "regimes/quick", 40, ""
            ),
            _situation(
                "16 servers whose speed is 500/s or 300/s for 5 s each, `standard`",
                "regimes/standard",
                20,
                "71 % once narrower",
            ),
            _situation(
                "16 servers whose speed is 500/s or 300/s for 5 s each, `standard`: said",
                "regimes/standard",
                20,
                "0 %",
                partial(_said, "changing"),
                Claim.FOUND,
            ),
            _situation(
                "the objective holds at no rate, `quick`", "never/quick", 24, "", _silent, Claim.SILENT
            ),
        ),
    ),
)
