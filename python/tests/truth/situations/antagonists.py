"""Who made a task suffer: antagonists named rightly and wrongly, and anomalies of healthy tasks.

Tasks are drawn as bursts of geometric lengths, CPI as Gumbel noise, by itself or correlated in time: neither
is how the product's own simulation draws them. A machine runs for two hours before its victim begins to
suffer; `fleet cpi incidents` judges every episode of its 200 minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.cpi.anomalies import JobOutliers
from steelyard.fleet.cpi.caps import CapEffect
from steelyard.fleet.cpi.evidence import Bar
from steelyard.fleet.cpi.rule import BATCH, LATENCY_SENSITIVE, PAPER, Suspect, anomalies, judge
from steelyard.fleet.cpi.windows import Episode, judge_episode
from steelyard.fleet.cpi.windows import Machine as SeenMachine

from ..situation import Claim, Outcome, Random, Situation, Statistic

Floats = NDArray[np.float64]
THRESHOLD = 1.18
"""Mean and 2 standard deviations of the calm CPI of 1."""
CALM, WHOLE = 125, 200
"""Windows of a minute before the victim suffers, and in all."""


@dataclass(frozen=True)
class Machine:
    """What one machine went through: the victim's CPI, its neighbours' usage, and who is guilty."""

    cpi: Floats
    usage: Floats
    guilty: frozenset[int] = frozenset()


def _bursts(
    random: Random,
    tasks: int,
    on: tuple[float, float] = (1, 10),
    duty: tuple[float, float] = (0.02, 0.5),
    cpus: tuple[float, float] = (0.3, 2.0),
) -> Floats:
    """Return tasks of bursts: minutes on of a mean in ``on``, so much of the time, at such a use."""
    usage = np.abs(random.normal(0, 0.01, (tasks, WHOLE)))
    for one in usage:
        mean_on = random.uniform(*on)
        share, level = (float(np.exp(random.uniform(*np.log(one_of)))) for one_of in (duty, cpus))
        mean_off = mean_on * (1 - share) / share
        is_on, at = bool(random.random() < share), 0
        while at < WHOLE:
            run = int(random.geometric(1 / max(mean_on if is_on else mean_off, 1.0001)))
            if is_on:
                one[at : at + run] += level
            at, is_on = at + run, not is_on
        one *= np.clip(random.normal(1, 0.1, WHOLE), 0.5, 1.5)
    return usage


def _cpi(random: Random, excess: Floats, correlation: float = 0.0) -> Floats:
    """Return a CPI of 1 with skewed noise of 9 %, raised by ``excess``."""
    noise = (random.gumbel(0, 1, WHOLE) - np.euler_gamma) / 1.2825
    for at in range(1, WHOLE):
        noise[at] = correlation * noise[at - 1] + np.sqrt(1 - correlation**2) * noise[at]
    return np.maximum(1 + 0.09 * noise, 0.2) * (1 + excess)


def _span(random: Random) -> Floats:
    """Return one stretch of 8 to 40 minutes."""
    when = np.zeros(WHOLE)
    when[CALM : CALM + int(random.integers(8, 40))] = 1.0
    return when


def _on_off(random: Random) -> Floats:
    """Return minutes on and minutes off."""
    when = np.zeros(WHOLE)
    at, is_on = CALM, True
    while at < WHOLE:
        run = int(random.integers(3, 7))
        when[at : at + run] = float(is_on)
        at, is_on = at + run, not is_on
    return when


def _by_itself(random: Random, times: float, tasks: int, duty: tuple[float, float] = (0.02, 0.5)) -> Machine:
    return Machine(_cpi(random, (times - 1) * _span(random)), _bursts(random, tasks, duty=duty))


def _short_by_itself(random: Random) -> Machine:
    return Machine(_cpi(random, _burst(4)(random)), _bursts(random, 50))


def _cycling(random: Random, times: float, tasks: int) -> Machine:
    return Machine(_cpi(random, (times - 1) * _on_off(random)), _bursts(random, tasks))


def _idle(random: Random, times: float, tasks: int) -> Machine:
    ticks = (random.random((tasks, WHOLE)) < 0.05) * 1e-4
    return Machine(_cpi(random, (times - 1) * _span(random)), ticks)


def _healthy(random: Random, tasks: int) -> Machine:
    return Machine(_cpi(random, np.zeros(WHOLE), 0.9), _bursts(random, tasks))


def _antagonists(
    random: Random, times: float, tasks: int, cpus: float, shape: Callable[[Random], Floats], count: int = 1
) -> Machine:
    usage, excess = _bursts(random, tasks), np.zeros(WHOLE)
    for number in range(count):
        work = np.maximum(shape(random), 0.02) * np.clip(random.normal(1, 0.08, WHOLE), 0.7, 1.3)
        usage[number] = cpus * work
        excess += (times - 1) * work
    return Machine(_cpi(random, excess), usage, frozenset(range(count)))


def _follow(random: Random) -> Machine:
    """Return a victim that its own load slows down, and callers whose use follows that load."""
    usage, load = _bursts(random, 50), _on_off(random)
    usage[:5] = 2.0 * np.maximum(load, 0.1) * np.clip(random.normal(1, 0.1, (5, WHOLE)), 0.5, 1.5)
    return Machine(_cpi(random, load), usage)


def _grow(random: Random, times: float, growing: int, curve: str) -> Machine:
    """Return a victim and neighbours that each grow by themselves, each in a course of its own."""
    usage = _bursts(random, 50)
    for number in range(growing):
        level = 2.0 * random.uniform(0.5, 2)
        usage[number] = level * _growth(random, curve) * np.clip(random.normal(1, 0.1, WHOLE), 0.5, 1.5)
    return Machine(_cpi(random, (times - 1) * _growth(random, curve)), usage)


def _growth(random: Random, curve: str) -> Floats:
    """Return a course from 0 to 1: straight from a moment on, or in the shape of an S."""
    at = np.arange(WHOLE) / WHOLE
    if curve == "line":
        begin = random.uniform(0, 0.6)
        return np.asarray(np.clip((at - begin) / (1 - begin), 0, 1))
    middle, width = random.uniform(0.3, 0.8), random.uniform(0.03, 0.15)
    return np.asarray(1 / (1 + np.exp(-(at - middle) / width)))


def _burst(minutes: int, rise: int = 1) -> Callable[[Random], Floats]:
    """Return the shape of one burst, which takes ``rise`` minutes to come."""
    when = np.clip((np.arange(WHOLE) - CALM + 1) / rise, 0, 1)
    when[CALM + minutes :] = 0.0
    return lambda random: when


def _named(machine: Machine, windows: int) -> set[int]:
    """Return whom `fleet cpi incidents` names in any episode, with so many windows to look back at."""
    start = [60 * minute for minute in range(WHOLE)]
    anomalous = np.flatnonzero(anomalies(start, (machine.cpi > THRESHOLD).tolist(), PAPER)) * 60
    apart = np.flatnonzero(np.diff(anomalous) > PAPER.correlation_s) + 1
    tasks = [("web", "victim", LATENCY_SENSITIVE)]
    tasks += [("other", str(number), BATCH) for number in range(len(machine.usage))]
    unknown = np.full((len(tasks), WHOLE), np.nan)
    cpi, source = unknown.copy(), unknown.copy()
    cpi[0], source[0] = machine.cpi, 0
    seen = SeenMachine(0, tasks, np.vstack([np.ones(WHOLE), machine.usage]), cpi, source, unknown)
    key = ("c", "m", "p", "web", "victim")
    named = set()
    for moments in np.split(anomalous, apart) if len(anomalous) else []:
        times = tuple(moments.tolist())
        episode = Episode(
            key, LATENCY_SENSITIVE, "cpi", THRESHOLD, times[0], times[-1], float(machine.cpi.max()), times
        )
        bar = Bar(evidence_s=60 * windows)
        antagonist = judge_episode(episode, seen, 0, PAPER, bar).judgement.antagonist
        if antagonist is not None:
            named.add(int(antagonist.suspect.task))
    return named


def _wrong(random: Random, make: Callable[[Random], Machine], windows: int = 120) -> Outcome:
    machine = make(random)
    return Outcome(bool(_named(machine, windows) - machine.guilty))


def _right(random: Random, make: Callable[[Random], Machine], windows: int = 120) -> Outcome:
    machine = make(random)
    return Outcome(bool(_named(machine, windows) & machine.guilty))


def _silent(random: Random, make: Callable[[Random], Machine], windows: int) -> Outcome:
    return Outcome(not _named(make(random), windows))


def _healthy_day(random: Random) -> Outcome:
    """Return whether a healthy job has a task-day with an anomaly, and is not said to be ordinary."""
    days, anomalous = 20, 0
    for _ in range(days):
        noise = np.empty(1440)
        noise[0] = random.standard_normal()
        for at, shock in enumerate(random.standard_normal(1439) * np.sqrt(1 - 0.9**2), 1):
            noise[at] = 0.9 * noise[at - 1] + shock
        anomalous += any(anomalies(range(0, 86_400, 60), (noise > 2).tolist(), PAPER))
    job = JobOutliers("web", "p", "cycles/instructions", 1.2, 28_800, 0, 0.0, 0, 0, 0, days, anomalous)
    return Outcome(anomalous > 0 and not job.is_ordinary)


def _confirmed(random: Random, make: Callable[[Random], Machine], *, releases: bool) -> Outcome:
    """Return whether a cap of 3 minutes, at the fifth outlier, confirms its suspect.

    With ``releases`` the capped task is guilty: the victim is well under the cap.
    """
    machine = make(random)
    begin = int(np.flatnonzero(machine.cpi[CALM:] > THRESHOLD)[4]) + CALM + 1
    cpi = machine.cpi.copy()
    if releases:
        cpi[begin : begin + 3] = _cpi(random, np.zeros(WHOLE))[:3]
    phases = {"before": cpi[begin - 10 : begin], "during": cpi[begin : begin + 3]}
    phases["after"] = cpi[begin + 3 : begin + 13]
    means: dict[str, float | None] = {name: float(some.mean()) for name, some in phases.items()}
    counts = {name: len(some) for name, some in phases.items()}
    return Outcome(CapEffect(means, counts, {}, THRESHOLD).confirmed is True)


def _paper(random: Random, make: Callable[[Random], Machine], *, wants_right: bool) -> Outcome:
    """Return whether the paper's rule names somebody wrong (or right) in the episode."""
    machine = make(random)
    start = [60 * minute for minute in range(WHOLE)]
    for now in np.flatnonzero(anomalies(start, (machine.cpi > THRESHOLD).tolist(), PAPER)):
        if now < CALM:
            continue
        span = slice(now - 9, now + 1)
        suspects = [
            Suspect("other", str(number), BATCH, usage[span]) for number, usage in enumerate(machine.usage)
        ]
        named = judge(LATENCY_SENSITIVE, machine.cpi[span].tolist(), THRESHOLD, suspects, PAPER).antagonist
        if named is not None:
            return Outcome((int(named.suspect.task) in machine.guilty) is wants_right)
    return Outcome(False)


_SLOW_16 = partial(_by_itself, times=1.6, tasks=50)
_SLOW_20 = partial(_by_itself, times=2.0, tasks=50)
_HOG = partial(_antagonists, times=2.0, tasks=50, cpus=4.0, shape=_span)
_COMING = partial(_antagonists, times=2.0, tasks=50, cpus=4.0, shape=_on_off)
_WEAK = partial(_antagonists, times=1.6, tasks=50, cpus=4.0, shape=_on_off)
_SMALL = partial(_antagonists, times=2.0, tasks=50, cpus=1.0, shape=_on_off)
_TWO = partial(_antagonists, times=2.0, tasks=50, cpus=4.0, shape=_on_off, count=2)
_SHORT = partial(_antagonists, times=2.0, tasks=50, cpus=4.0, shape=_burst(4))
_SLOW = partial(_antagonists, times=2.0, tasks=50, cpus=4.0, shape=_burst(40, rise=10))
_FEW = partial(_antagonists, times=2.0, tasks=10, cpus=4.0, shape=_on_off)

STATISTICS = (
    Statistic(
        name="Antagonists",
        covers=("steelyard.fleet.cpi.evidence.Evidence",),
        about="Names by `fleet cpi incidents` in 200 minutes of one machine, over all tests: rotated windows"
        " and changes, the maximum over suspects, and minimum usage, share, effect and overlap.",
        situations=(
            Situation(
                "nobody guilty: 50 bursty tasks, a victim slow by itself, x1.6",
                Claim.FALSE,
                partial(_wrong, make=_SLOW_16),
                trials=300,
                quick=30,
                before="65 %",
            ),
            Situation(
                "nobody guilty: 50 bursty tasks, a victim slow by itself, x2",
                Claim.FALSE,
                partial(_wrong, make=_SLOW_20),
                trials=400,
                quick=30,
                before="100 %",
            ),
            Situation(
                "nobody guilty: 50 tasks of rare bursts, x2",
                Claim.FALSE,
                partial(_wrong, make=partial(_by_itself, times=2.0, tasks=50, duty=(0.02, 0.1))),
                trials=300,
                before="100 %",
            ),
            Situation(
                "nobody guilty: 10 bursty tasks, x2",
                Claim.FALSE,
                partial(_wrong, make=partial(_by_itself, times=2.0, tasks=10)),
                trials=200,
                before="99.7 %",
            ),
            Situation(
                "nobody guilty: 200 bursty tasks, x2",
                Claim.FALSE,
                partial(_wrong, make=partial(_by_itself, times=2.0, tasks=200)),
                trials=100,
                before="100 %",
            ),
            Situation(
                "nobody guilty: a victim that cycles by itself, x2, 50 bursty tasks",
                Claim.FALSE,
                partial(_wrong, make=partial(_cycling, times=2.0, tasks=50)),
                trials=200,
                before="100 %",
            ),
            Situation(
                "nobody guilty: 50 idle tasks with ticks of 1 ms, x2",
                Claim.FALSE,
                partial(_wrong, make=partial(_idle, times=2.0, tasks=50)),
                trials=100,
                quick=20,
                bar=0.0,
                before="100 %",
            ),
            Situation(
                "nobody guilty: healthy, CPI with correlation 0.9, 50 bursty tasks",
                Claim.FALSE,
                partial(_wrong, make=partial(_healthy, tasks=50)),
                trials=100,
                before="0 %",
                note="such anomalies add less than 0.4 to the calm CPI",
            ),
            *(
                Situation(
                    f"nobody guilty: the victim's CPI and {growing} of 50 neighbours each grow {course}, x3",
                    Claim.FALSE,
                    partial(_wrong, make=partial(_grow, times=3.0, growing=growing, curve=curve)),
                    trials=150,
                    quick=10 if growing == 10 and curve == "line" else 0,
                    before=before,
                )
                for growing, course, curve, before in (
                    (1, "in a line", "line", "16 %"),
                    (3, "in a line", "line", "37 %"),
                    (10, "in a line", "line", "62 to 89 %"),
                    (10, "in an S", "S", "93 %"),
                )
            ),
            Situation(
                "nobody guilty: a victim slow by itself for 4 minutes, x2, 50 bursty tasks",
                Claim.FALSE,
                partial(_wrong, make=_short_by_itself),
                trials=200,
            ),
            Situation(
                "a common cause: 5 of 50 tasks follow the victim's own load, x2: somebody named",
                Claim.FALSE,
                partial(_wrong, make=_follow),
                trials=150,
                is_limit=True,
                note="samples cannot distinguish it from an antagonist; a test cap can",
            ),
            *(
                situation
                for name, make, before in (
                    ("4 CPUs, one stretch, x2, among 49 bursty tasks", _HOG, ("23 to 27 %", "72 to 77 %")),
                    ("4 CPUs, 4 minutes, x2, among 49 bursty tasks", _SHORT, ("0 to 7 %", "")),
                    ("4 CPUs, come in 10 minutes, x2, among 49 bursty tasks", _SLOW, ("", "")),
                    ("4 CPUs, on and off, x2, among 49 bursty tasks", _COMING, ("26 %", "74 %")),
                    ("4 CPUs, on and off, x1.6, among 49 bursty tasks", _WEAK, ("0.3 %", "65 %")),
                    ("1 CPU, on and off, x2, among 49 bursty tasks", _SMALL, ("26 %", "74 %")),
                    ("4 CPUs, on and off, x2, among 9 bursty tasks", _FEW, ("79 %", "21 %")),
                    ("two at once of 4 CPUs, x2 each, among 48 bursty tasks", _TWO, ("29 %", "71 %")),
                )
                for situation in (
                    Situation(
                        f"antagonist of {name}: the right one named",
                        Claim.FOUND,
                        partial(_right, make=make),
                        trials=150,
                        quick=20 if make is _HOG else 0,
                        before=before[0],
                        bar=0.8,
                    ),
                    Situation(
                        f"antagonist of {name}: a wrong one named",
                        Claim.FALSE,
                        partial(_wrong, make=make),
                        trials=150,
                        before=before[1],
                    ),
                )
            ),
            Situation(
                "60 windows of history: nobody named",
                Claim.SILENT,
                partial(_silent, make=_HOG, windows=60),
                trials=50,
                quick=10,
                note="a p value of 0.01 takes 100 windows",
            ),
            Situation(
                "100 windows of history: 4 CPUs, one stretch, x2, the right one named",
                Claim.FOUND,
                partial(_right, make=_HOG, windows=100),
                trials=100,
            ),
        ),
    ),
    Statistic(
        name="Antagonists by the paper's rule",
        covers=(),
        about="`--rule paper`: only the antagonist correlation of CPI2 (section 4.2), from 0.35 on.",
        situations=(
            Situation(
                "50 bursty tasks, a victim slow by itself, x1.6: somebody named",
                Claim.FALSE,
                partial(_paper, make=_SLOW_16, wants_right=False),
                is_limit=True,
                trials=200,
            ),
            Situation(
                "50 bursty tasks, a victim slow by itself, x2: somebody named",
                Claim.FALSE,
                partial(_paper, make=_SLOW_20, wants_right=False),
                is_limit=True,
                trials=200,
            ),
            Situation(
                "an antagonist of 4 CPUs, one stretch, x2: a wrong one named",
                Claim.FALSE,
                partial(_paper, make=_HOG, wants_right=False),
                is_limit=True,
                trials=200,
            ),
            Situation(
                "an antagonist of 4 CPUs, one stretch, x2: the right one named",
                Claim.FOUND,
                partial(_paper, make=_HOG, wants_right=True),
                trials=200,
            ),
        ),
    ),
    Statistic(
        name="Confirmation by a cap",
        covers=(),
        about="A cap of 3 minutes confirms its suspect if the victim recovers under it, and suffers after.",
        situations=(
            Situation(
                "the wrong one capped, the victim slow by itself for 8 to 40 minutes, x2: confirmed",
                Claim.FALSE,
                partial(_confirmed, make=_SLOW_20, releases=False),
                trials=400,
                quick=40,
                before="not judged",
            ),
            Situation(
                "the wrong one capped, the victim cycles by itself, x2: confirmed",
                Claim.FALSE,
                partial(_confirmed, make=partial(_cycling, times=2.0, tasks=2), releases=False),
                is_limit=True,
                trials=400,
                before="not judged",
                note="a pause that falls on the cap confirms; to be capped it must be named first: 2 to 3 %",
            ),
            Situation(
                "the right one capped, one stretch, x2: confirmed",
                Claim.FOUND,
                partial(_confirmed, make=_HOG, releases=True),
                trials=400,
                before="not judged",
                note="of the others, most had ended before the cap did",
            ),
        ),
    ),
    Statistic(
        name="Anomalies of tasks",
        covers=("steelyard.fleet.cpi.anomalies.JobOutliers",),
        about="Three outliers in five minutes. `fleet cpi outliers` calls anomalies of a job ordinary if more"
        " than 5 % of its task-days have one.",
        situations=(
            Situation(
                "20 healthy task-days, CPI with correlation 0.9: an anomaly, and not said to be ordinary",
                Claim.FALSE,
                _healthy_day,
                trials=60,
                quick=5,
                before="95 to 100 %",
            ),
        ),
    ),
)
