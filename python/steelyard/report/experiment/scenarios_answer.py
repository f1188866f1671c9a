"""The answer of ``steelyard numa experiment``: verdicts, the published figures' bars, every comparison.

In: the record and its verdicts. Out: an `Answer`. Not here: its words (``scenarios``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steelyard._base import command_text
from steelyard.experiment.answers import values_by_arm
from steelyard.experiment.numa.production import Agreement, Cost
from steelyard.experiment.numa.scenarios import SOLO
from steelyard.experiment.numa.verdict import Verdict, is_decided
from steelyard.fleet.numa.locality import METRICS, Locality
from steelyard.records.experiment import Experiment
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Cell,
    Chart,
    Column,
    Mark,
    Paragraph,
    Section,
    Series,
    Table,
    table,
    written,
)
from steelyard.report.experiment.answer import LEVELS, changed
from steelyard.report.experiment.scenarios import cost_text, headline, pair_text, production_line, proof
from steelyard.report.experiment.words import notes

_ROLES = {1: "blue", 2: "orange", 3: "green"}
_PLACES = {1: "all local, on one node", 2: "half local, on two nodes", 3: "all remote, on one node"}


def answer(
    experiment: Experiment,
    verdicts: Sequence[Verdict],
    locality: Locality | None = None,
    agreements: Sequence[Agreement] = (),
) -> Answer:
    """Return the answer; ``locality`` is a job's of a fleet, which ``agreements`` compare with it."""
    answers = [pair.answer for verdict in verdicts for pair in verdict.pairs]
    sections = [
        Section(
            "scenarios",
            "Performance by scenario",
            (_chart(experiment, verdicts), _bars(experiment, verdicts)),
        ),
        Section("pairs", "Compared", (_pairs(verdicts),)),
    ]
    if locality is not None:
        sections.insert(1, _production(locality, agreements))
    words = experiment.command if experiment.benchmark is None else [experiment.benchmark]
    look = (
        "hold at all looks" if any(one.holds_at_every_look for one in answers) else "for one look, at the end"
    )
    first, *others = (headline(verdict) for verdict in verdicts)
    return Answer(
        "NUMA experiment",
        first,
        tuple(sections),
        lines=(
            *others,
            *(line for verdict in verdicts for line in _best(verdict)),
            f"{experiment.metric.name}; intervals of {experiment.plan.confidence:.0%}, all pairs together, "
            + look,
        ),
        says_no=not is_decided(verdicts) or any(each.agrees != "agree" for each in agreements),
        eyebrow=" ".join(words)[:80],
        cautions=notes(experiment, answers),
        command=command_text(experiment.command),
        command_title="Measured by",
        source="experiment.json",
    )


def _best(verdict: Verdict) -> Iterator[str]:
    """Yield the placement to take over, and its commands."""
    beside = verdict.cluster.title
    best = verdict.best
    if best is not None:
        yield f"{beside}: take scenario {best.scenario}: {best.where}"
        yield from (command for command in (best.command, best.co_runner_command) if command is not None)
    if verdict.without_local is not None:
        yield f"{beside}: where memory cannot all be local, take scenario {verdict.without_local}"


def _chart(experiment: Experiment, verdicts: Sequence[Verdict]) -> Chart:
    titles = [verdict.cluster.title for verdict in verdicts]
    return Chart(
        id="scenarios",
        title="Performance over that of scenario 1 alone",
        series=tuple(
            Series(
                name=f"{number}, {number + len(SOLO)}: {_PLACES[number]}",
                x=titles,
                y=[verdict.bar_of(number) for verdict in verdicts],
                kind="bar",
                role=_ROLES[number],
            )
            for number in SOLO
        ),
        x_kind="name",
        y_title="normalised performance",
        from_zero=True,
        marks=(Mark("y", 1.0, role="ink"),),
        note=f"More is better, whichever way {experiment.metric.name} counts; intervals are in the table.",
    )


def _pairs(verdicts: Sequence[Verdict]) -> Table:
    rows = [
        (
            f"{pair.arm} over {pair.base}",
            Cell(str(pair.outcome), level=LEVELS[pair.outcome]),
            changed(pair_text(pair), pair.ratio, pair.low, pair.high),
            pair.answer.blocks,
            Cell("yes" if pair.is_deciding else "", is_text=True),
        )
        for verdict in verdicts
        for pair in verdict.pairs
    ]
    columns = (
        Column("scenarios", is_text=True),
        Column("outcome", is_text=True, is_answer=True),
        Column("performance", "ratio"),
        Column("blocks"),
        Column("decides", is_text=True),
    )
    return table(columns, rows)


def _bars(experiment: Experiment, verdicts: Sequence[Verdict]) -> Table:
    """Return performance over that of scenario 1 alone: the published figures as a table."""
    values = values_by_arm(experiment)
    columns = (
        Column("scenario", is_text=True),
        Column("CPUs", is_text=True, rank=1),
        Column("memory", is_text=True, rank=1),
        Column("local", "ratio"),
        Column("caches", rank=2),
        Column("trials", rank=2),
        Column("performance", is_answer=True),
        Column("read back", is_text=True),
    )
    rows = []
    for verdict in verdicts:
        for number, arm in sorted(verdict.cluster.arms.items()):
            place, ratio = arm.placement, verdict.bar_of(number)
            if place is None:
                continue
            rows.append(
                (
                    arm.name,
                    place.cpus or fmt.MISSING,
                    f"node {place.memory_nodes}" if place.memory_nodes else fmt.MISSING,
                    place.local_ratio,
                    place.caches,
                    len(values[arm.name]),
                    None if ratio is None else written(f"{ratio:.3f}", ratio),
                    proof(experiment.trials, arm.name),
                )
            )
    return table(columns, rows)


def _production(locality: Locality, agreements: Sequence[Agreement]) -> Section:
    rows = [
        (
            str(each.scenario),
            written(f"{each.score:.2f}", each.score),
            _cost(each.production),
            _cost(each.laboratory),
            _cost(Cost(each.ratio, each.low, each.high)),
            Cell(
                str(each.agrees), level={"agree": "valid", "disagree": "invalid"}.get(each.agrees, "suspect")
            ),
            Cell(each.why, is_text=True),
        )
        for each in agreements
    ]
    columns = (
        Column("scenario", is_text=True),
        Column("score"),
        Column(f"production: {METRICS[locality.metric]}", "ratio"),
        Column("laboratory: cost", "ratio"),
        Column("laboratory over production", "ratio"),
        Column("together", is_answer=True),
        Column("why", is_text=True, rank=2),
    )
    intro = Paragraph(production_line(locality, agreements))
    return Section("production", "Production", (intro, table(columns, rows)))


def _cost(cost: Cost) -> Cell:
    return changed(cost_text(cost), cost.ratio, cost.low, cost.high)
