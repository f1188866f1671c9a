"""Try every situation, or some, and write the document."""

import argparse
import itertools
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from .document import document, share_text
from .situation import Found, Outcome, Situation, generators, is_met, seed_of
from .situations import statistics

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "truth.md"
SEED = 1
PIECES = 8
"""Parts into which the trials of a situation are cut, so that the last one does not hold up the rest."""


def pieces(situation: Situation, trials: int) -> list[tuple[int, int]]:
    """Return the ranges of trials that one process takes at a time."""
    if situation.batch is not None:
        return [(0, trials)]
    edges = [trials * index // PIECES for index in range(PIECES + 1)]
    return [(low, high) for low, high in itertools.pairwise(edges) if low < high]


def attempt(
    statistic: str, situation: str, seed: int, trials: int, first: int, last: int
) -> tuple[list[Outcome], float]:
    """Run some of the trials of a situation, found by its names: what runs in another process."""
    chosen = next(
        one
        for group in statistics()
        if group.name == statistic
        for one in group.situations
        if one.name == situation
    )
    return try_situation(chosen, seed_of(statistic, situation, seed), trials, first, last)


def try_situation(
    situation: Situation, seed: int, trials: int, first: int = 0, last: int | None = None
) -> tuple[list[Outcome], float]:
    """Run the trials ``first`` to ``last`` of a situation, and return outcomes and the seconds taken."""
    begin = time.perf_counter()
    if situation.batch is not None:
        outcomes: Sequence[Outcome] = situation.batch(seed, trials)
    else:
        assert situation.trial is not None
        outcomes = [situation.trial(random) for random in generators(seed, trials)[first:last]]
    return list(outcomes), time.perf_counter() - begin


def main() -> int:
    """Return 1 when a bar is missed."""
    parser = argparse.ArgumentParser(
        prog="scripts/truth", description="Try every statistic against known truth and write docs/truth.md."
    )
    parser.add_argument("--only", default="", help="statistics or situations whose name holds this text")
    parser.add_argument("--trials-ratio", type=float, default=1.0, help="times the trials of each situation")
    parser.add_argument("--seed", type=int, default=SEED, help="of every situation: %(default)s")
    parser.add_argument(
        "--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes: %(default)s"
    )
    parser.add_argument(
        "--out", type=Path, help=f"page to write: {DOCUMENT.relative_to(ROOT)}, none with --only"
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="with --only: try whole statistics of that name, and keep the page's other sections",
    )
    chosen = parser.parse_args()
    begin = time.perf_counter()
    work = [
        (group, one)
        for group in statistics()
        for one in group.situations
        if chosen.only.lower() in (group.name if chosen.update else f"{group.name}: {one.name}").lower()
    ]
    outcomes: dict[tuple[str, str], list[Outcome]] = {(group.name, one.name): [] for group, one in work}
    seconds = dict.fromkeys(outcomes, 0.0)
    waiting = dict.fromkeys(outcomes, 0)
    results: dict[tuple[str, str], Found] = {}
    with ProcessPoolExecutor(chosen.workers) as pool:
        jobs = {}
        for group, one in work:
            trials = max(round(one.trials * chosen.trials_ratio), 8)
            for first, last in pieces(one, trials):
                job = pool.submit(attempt, group.name, one.name, chosen.seed, trials, first, last)
                jobs[job] = group, one
                waiting[group.name, one.name] += 1
        for job in as_completed(jobs):
            group, one = jobs[job]
            key = group.name, one.name
            some, took = job.result()
            outcomes[key] += some
            seconds[key] += took
            waiting[key] -= 1
            if not waiting[key]:
                results[key] = Found.of(outcomes[key], seconds[key])
                print(_line(group.name, one, results[key]), flush=True)
    took = time.perf_counter() - begin
    partial = chosen.only and not chosen.update
    target = chosen.out or (None if partial or chosen.trials_ratio != 1 else DOCUMENT)
    if target is not None and chosen.update:
        target.write_text(document(statistics(), results, chosen.seed, earlier=DOCUMENT.read_text()))
    elif target is not None:
        tried = {name for name, _ in results}
        whole = [group for group in statistics() if group.name in tried]
        target.write_text(document(whole, results, chosen.seed))
    missed = sum(is_met(one, results[group.name, one.name]) is False for group, one in work)
    print(f"{len(work)} situations in {took:.0f} s, {missed} missed")
    return int(missed > 0)


def _line(statistic: str, situation: Situation, found: Found) -> str:
    met = {True: "met", False: "MISSED", None: "-"}[is_met(situation, found)]
    width = "" if found.width is None else f", width {found.width:.3g}"
    return (
        f"{met:<7}{statistic}: {situation.name}: {situation.claim} {share_text(situation, found)}"
        f" of {found.stated}/{found.trials}{width}, {found.seconds:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
