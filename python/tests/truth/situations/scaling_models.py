"""Scaling curves of machines that are not all alike: the model that holds, the peak, the cause of a loss,
predictions.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from steelyard.analyze.scaling.curve import Observation, steps_of
from steelyard.analyze.scaling.machine import worth_of
from steelyard.analyze.scaling.measured import parse_curve
from steelyard.analyze.scaling.scaling import analyse
from steelyard.stats.scaling.choice import Kind, Topology
from steelyard.stats.scaling.curve import CurveFit, fit_curve

from ..situation import Claim, Outcome, Random, Situation, Statistic

_UP_TO_64 = (1, 2, 4, 8, 16, 32, 64)
_EVERY_4 = (1, *range(4, 65, 4))
_SMT = Topology(cpus=64, cores=32, threads_per_core=2)
_NODES = Topology(cpus=64, cores=64, threads_per_core=1, node_ends=(32,))
_PLAIN = Topology(cpus=256, threads_per_core=1)


def _law(count: np.ndarray, contention: float = 0.0, coherency: float = 0.0) -> np.ndarray:
    return np.asarray(count / (1 + contention * (count - 1) + coherency * count * (count - 1)))


def _world(name: str, cpus: tuple[int, ...]) -> np.ndarray:
    """Return throughput without noise; that of one CPU is 1000."""
    count = np.array(cpus, dtype=float)
    odd = np.where(count == cpus[len(cpus) // 2], 0.65, 1.0)
    return (
        1000
        * {
            "siblings worth 0.7": np.minimum(count, 32) + 0.7 * np.maximum(0.0, count - 32),
            "siblings worth 0.3": np.minimum(count, 32) + 0.3 * np.maximum(0.0, count - 32),
            "a NUMA step of -30 %": count * np.where(count > 32, 0.7, 1.0),
            "a hard limit at 8 CPUs": np.minimum(count, 8),
            "linear": count,
            "contention 3 %": _law(count, 0.03),
            "a peak at 31 CPUs": _law(count, 0.05, 0.001),
            "one step 35 % too low": _law(count, 0.02) * odd,
        }[name]
    )


def _values(
    random: Random, world: str, cpus: tuple[int, ...], blocks: int, sd: float
) -> dict[int, list[float]]:
    noise = np.exp(sd * random.standard_normal((len(cpus), blocks)))
    table = _world(world, cpus)[:, None] * noise
    return {count: list(row) for count, row in zip(cpus, table, strict=True)}


def _fit(
    random: Random,
    world: str,
    blocks: int = 5,
    cpus: tuple[int, ...] = _UP_TO_64,
    sd: float = 0.02,
    topology: Topology | None = None,
) -> CurveFit:
    return fit_curve(_values(random, world, cpus, blocks, sd), topology)


def _peak(random: Random, **world: object) -> Outcome:
    return Outcome(_fit(random, **world).law.peak.is_identified)  # type: ignore[arg-type]


def _unfit(random: Random, **world: object) -> Outcome:
    return Outcome(not _fit(random, **world).holds)  # type: ignore[arg-type]


def _is(random: Random, kinds: tuple[Kind, ...], **world: object) -> Outcome:
    return Outcome(_fit(random, **world).kind in kinds)  # type: ignore[arg-type]


def _unlike_law(random: Random, **world: object) -> Outcome:
    return Outcome(_fit(random, **world).kind is not Kind.LAW)  # type: ignore[arg-type]


def _figure(random: Random, name: str, truth: float, **world: object) -> Outcome:
    """Return whether what a sibling is worth, or where a ceiling is, is in its interval."""
    found = _fit(random, **world)  # type: ignore[arg-type]
    figure = None if found.chosen is None else getattr(found.chosen, name)
    wanted = Kind.SIBLINGS if name == "worth" else Kind.CEILING
    if figure is None or found.kind is not wanted:
        return Outcome(None)
    return Outcome(
        figure.low <= truth <= figure.high, (figure.value - truth) / truth, (figure.high - figure.low) / truth
    )


def _cause(random: Random, world: str, blocks: int) -> Outcome:
    values = _values(random, world, _UP_TO_64, blocks, 0.05)
    rows = [
        Observation(count, block, value, readings={"cpu_s": float(count), "elapsed_s": 1.0})
        for count, row in values.items()
        for block, value in enumerate(row)
    ]
    loss = analyse(steps_of(rows)).loss
    assert loss is not None
    return Outcome(loss.is_clear and not loss.cause.startswith(("not known", "hardly")))


def _beside_others(random: Random, cpus: int, is_held_back: bool) -> Outcome:
    """Return whether others are named as the cause of a loss from 1 CPU to ``cpus``.

    A lock lets the program use one CPU at a time, and others take what it leaves idle; or it could use all
    CPUs, and others take some. Their time comes in bursts.
    """
    rows = []
    most = 0.9 * (cpus - 1) / cpus if not is_held_back else 0.6
    wanted = random.uniform(0.12, most)
    for block in range(5):
        others = min(most, max(0.0, wanted * random.gamma(8.0, 1 / 8)))
        busy = 1 - others if is_held_back else 1 / cpus
        for count, share, idle in ((1, 1.0, 0.0), (cpus, busy, 1 - others - busy)):
            readings = {"busy_ratio": share, "idle_ratio": max(0.0, idle), "elapsed_s": 1.0}
            rate = 1000 * count * share * float(np.exp(0.03 * random.standard_normal()))
            rows.append(Observation(count, block, rate, readings=readings))
    loss = analyse(steps_of(rows)).loss
    assert loss is not None
    return Outcome(loss.is_clear and loss.cause.startswith("other processes"))


def _predicted(
    random: Random,
    world: str,
    cpus: tuple[int, ...],
    at: int,
    topology: Topology,
    blocks: int = 5,
    sd: float = 0.02,
    has_other: bool = False,
) -> Outcome:
    """Return whether the interval holds a trial on ``at`` CPUs."""
    worth = None
    if has_other:
        values = _values(random, world, _UP_TO_64, 1, sd)
        lines = [f"{count},{row[0]},32,2\n" for count, row in values.items()]
        other = parse_curve("cpus,ops_per_s,cores,threads_per_core\n" + "".join(lines), name="other")
        worth = worth_of({"other": other})
    found = fit_curve(_values(random, world, cpus, blocks, sd), topology).predict(at, worth)
    truth = float(_world(world, (at,))[0] * np.exp(sd * random.standard_normal()))
    if found.ops_per_s is None or found.low is None or found.high is None:
        return Outcome(None)
    return Outcome(
        found.low <= truth <= found.high, found.ops_per_s / truth - 1, (found.high - found.low) / truth
    )


def _silent(random: Random, **curve: object) -> Outcome:
    return Outcome(_predicted(random, **curve).answer is None)  # type: ignore[arg-type]


def _no_peak(world: str, before: str, blocks: int = 5, cpus: tuple[int, ...] = _UP_TO_64) -> Situation:
    said = "1 block" if blocks == 1 else f"{blocks} blocks"
    return Situation(
        f"a peak where there is none: {world}, {len(cpus)} steps, {said}, noise 2 %",
        Claim.FALSE,
        partial(_peak, world=world, blocks=blocks, cpus=cpus),
        trials=120,
        before=before,
    )


def _prediction(about: str, cpus: tuple[int, ...], at: int, world: str, **more: object) -> Situation:
    topology = more.pop("topology", _PLAIN)
    return Situation(
        about,
        Claim.HOLDS,
        partial(_predicted, world=world, cpus=cpus, at=at, topology=topology, **more),  # type: ignore[arg-type]
        trials=120,
        bar=0.9,
    )


_HALF = (1, 2, 4, 8, 16, 32)

STATISTICS = (
    Statistic(
        name="Model of a scaling curve",
        covers=(
            "steelyard.stats.scaling.choice.Figure",
            "steelyard.stats.scaling.choice.Chosen",
        ),
        about="The law, siblings worth a share of a core, a ceiling, a NUMA node, a bend that may be any of"
        " them, or none; by the corrected information criterion, at 1, 2, 4 ... 64 CPUs. Cores and nodes are"
        " known only where a row says so.",
        situations=(
            _no_peak("siblings worth 0.7", "70 %"),
            _no_peak("a NUMA step of -30 %", "52 %"),
            _no_peak("a hard limit at 8 CPUs", "98 to 100 %"),
            _no_peak("a hard limit at 8 CPUs", "", cpus=_EVERY_4, blocks=1),
            Situation(
                "a peak at 31 CPUs: stated, 17 steps, 1 block, noise 2 %",
                Claim.FOUND,
                partial(_peak, world="a peak at 31 CPUs", blocks=1, cpus=_EVERY_4),
                trials=120,
                bar=0.8,
            ),
            Situation(
                "one step 35 % too low, 1 block: no model fits",
                Claim.FOUND,
                partial(_unfit, world="one step 35 % too low", blocks=1),
                trials=120,
                quick=20,
                bar=0.9,
                before="0 %",
            ),
            Situation(
                "contention 3 %, 1 block, noise 2 %: no model fits",
                Claim.FALSE,
                partial(_unfit, world="contention 3 %", blocks=1),
                trials=120,
            ),
            Situation(
                "contention 3 %, 5 blocks, noise 2 %: another model than the law",
                Claim.FALSE,
                partial(_unlike_law, world="contention 3 %"),
                trials=120,
            ),
            Situation(
                "siblings worth 0.3, cores known: siblings, 5 blocks",
                Claim.FOUND,
                partial(_is, kinds=(Kind.SIBLINGS,), world="siblings worth 0.3", topology=_SMT),
                trials=120,
                quick=20,
                bar=0.95,
            ),
            Situation(
                "a hard limit at 8 CPUs: a ceiling, 5 blocks",
                Claim.FOUND,
                partial(_is, kinds=(Kind.CEILING,), world="a hard limit at 8 CPUs"),
                trials=120,
                bar=0.8,
            ),
            Situation(
                "a NUMA step of -30 %, nodes known: a node, 5 blocks",
                Claim.FOUND,
                partial(_is, kinds=(Kind.NODE,), world="a NUMA step of -30 %", topology=_NODES),
                trials=120,
                bar=0.9,
            ),
            Situation(
                "what siblings are worth, 0.3, cores known, 5 blocks",
                Claim.HOLDS,
                partial(_figure, name="worth", truth=0.3, world="siblings worth 0.3", topology=_SMT),
                trials=200,
            ),
            Situation(
                "where a ceiling begins, at 8 CPUs, 5 blocks",
                Claim.HOLDS,
                partial(_figure, name="at", truth=8.0, world="a hard limit at 8 CPUs"),
                trials=200,
            ),
        ),
    ),
    Statistic(
        name="Cause of a scaling loss",
        covers=("steelyard.analyze.scaling.loss.Loss",),
        about="At 1, 2, 4 ... 64 CPUs, noise 5 %: a cause is named where noise does not explain the loss."
        " Other processes are the cause only where the CPU time that they had explains most of it.",
        situations=(
            *(
                Situation(
                    f"linear, {blocks} block{'s' if blocks > 1 else ''}",
                    Claim.FALSE,
                    partial(_cause, world="linear", blocks=blocks),
                    trials=200,
                    before=before,
                )
                for blocks, before in ((1, "25 %"), (5, "9 %"))
            ),
            *(
                Situation(
                    f"contention 3 %, {blocks} block{'s' if blocks > 1 else ''}",
                    Claim.FOUND,
                    partial(_cause, world="contention 3 %", blocks=blocks),
                    trials=100,
                    bar=0.9,
                )
                for blocks in (1, 5)
            ),
            *(
                Situation(
                    f"a lock lets it use 1 of {cpus} CPUs, others some of the rest: others named",
                    Claim.FALSE,
                    partial(_beside_others, cpus=cpus, is_held_back=False),
                    trials=200,
                    before=before,
                )
                for cpus, before in ((2, "100 %"), (8, "100 %"))
            ),
            *(
                Situation(
                    f"others take 12 to 60 % of {cpus} CPUs that it could use: others named",
                    Claim.FOUND,
                    partial(_beside_others, cpus=cpus, is_held_back=True),
                    trials=200,
                    bar=0.9,
                    before=before,
                )
                for cpus, before in ((2, "99.5 %"), (8, "99.5 %"))
            ),
        ),
    ),
    Statistic(
        name="Prediction of a scaling curve",
        covers=(
            "steelyard.stats.scaling.prediction.Prediction",
            "steelyard.stats.scaling.prediction.SiblingWorth",
        ),
        about="`scale --predict`: a trial on more CPUs than were measured, or between the steps; noise 2 %."
        " The interval leaves room for what no reading shows, and is wider than noise alone asks for.",
        situations=(
            _prediction("64 CPUs from steps up to 32, contention 3 %", _HALF, 64, "contention 3 %"),
            _prediction(
                "64 CPUs from steps up to 32, contention 3 %, 1 block", _HALF, 64, "contention 3 %", blocks=1
            ),
            _prediction("64 CPUs from steps up to 32, linear", _HALF, 64, "linear"),
            _prediction("64 CPUs from steps up to 32, a peak at 31 CPUs", _HALF, 64, "a peak at 31 CPUs"),
            _prediction("24 CPUs from steps beside it, linear", _UP_TO_64, 24, "linear"),
            _prediction(
                "64 CPUs from steps up to 32, a hard limit at 8 CPUs", _HALF, 64, "a hard limit at 8 CPUs"
            ),
            _prediction(
                "64 CPUs, siblings worth 0.3, known from another machine's curve",
                _HALF,
                64,
                "siblings worth 0.3",
                topology=_SMT,
                has_other=True,
            ),
            Situation(
                "64 CPUs from the 32 cores, siblings unknown",
                Claim.SILENT,
                partial(_silent, world="siblings worth 0.3", cpus=_HALF, at=64, topology=_SMT),
                trials=50,
                quick=10,
                before="86 % too high",
            ),
            Situation(
                "64 CPUs from the first node's 32",
                Claim.SILENT,
                partial(_silent, world="a NUMA step of -30 %", cpus=_HALF, at=64, topology=_NODES),
                trials=50,
            ),
        ),
    ),
)
