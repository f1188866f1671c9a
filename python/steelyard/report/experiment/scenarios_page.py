"""The page of a NUMA experiment: verdicts, the published figures' bars, every comparison, the proof.

In: the record and its verdicts. Out: the path of the page. Not here: the terminal (``scenarios``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steelyard._base import command_text
from steelyard.experiment.numa.production import Agreement
from steelyard.experiment.numa.scenarios import SOLO
from steelyard.experiment.numa.verdict import Matters, Verdict
from steelyard.fleet.numa.locality import METRICS, Locality
from steelyard.records.experiment import Experiment
from steelyard.report.experiment.page import LEVELS
from steelyard.report.experiment.scenarios import cost_text, headline, pair_text, production_line, proof
from steelyard.report.experiment.table import notes
from steelyard.report.fleet.content import (
    Cell,
    Chart,
    Column,
    Mark,
    Paragraph,
    Section,
    Series,
    Table,
    table,
)
from steelyard.report.fleet.page import write_page

_ROLES = {1: "blue", 2: "orange", 3: "green"}
_PLACES = {1: "all local, on one node", 2: "half local, on two nodes", 3: "all remote, on one node"}


def write_scenarios(
    path: Path,
    experiment: Experiment,
    verdicts: Sequence[Verdict],
    locality: Locality | None = None,
    agreements: Sequence[Agreement] = (),
) -> Path:
    """Write the page to ``path``. Raises WorkloadFailedError when it cannot be written."""
    answers = [pair.answer for verdict in verdicts for pair in verdict.pairs.values()]
    sections = [
        Section("scenarios", "Performance by scenario", (_chart(experiment, verdicts), _places(verdicts))),
        Section("pairs", "Compared", (_pairs(verdicts),)),
        Section("proof", "Read back", (_proof(experiment, verdicts),)),
    ]
    if locality is not None:
        sections.insert(1, _production(locality, agreements))
    words = experiment.command if experiment.benchmark is None else [experiment.benchmark]
    return write_page(
        path,
        "NUMA experiment",
        tuple(sections),
        heading="; ".join(headline(verdict) for verdict in verdicts),
        subline=f"{experiment.metric.name}; intervals of {experiment.plan.confidence:.0%},"
        " all pairs together",
        eyebrow=" ".join(words)[:80],
        cautions=notes(experiment, answers),
        command=command_text(experiment.command),
        source="experiment.json",
    )


def _chart(experiment: Experiment, verdicts: Sequence[Verdict]) -> Chart:
    titles = [verdict.cluster.title for verdict in verdicts]
    return Chart(
        id="scenarios",
        title="Performance over that of scenario 1 alone",
        series=tuple(
            Series(
                name=f"{number}, {number + len(SOLO)}: {_PLACES[number]}",
                x=titles,
                y=[verdict.bars.get(number) for verdict in verdicts],
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


def _places(verdicts: Sequence[Verdict]) -> Table:
    rows = []
    for verdict in verdicts:
        best = verdict.best
        rows.append(
            (
                verdict.cluster.title,
                Cell(
                    str(verdict.matters),
                    level="suspect" if verdict.matters is Matters.UNDECIDED else "valid",
                ),
                Cell("" if best is None else f"{best.scenario}: {best.where}", is_text=True),
                Cell("" if best is None else best.command or "", is_text=True),
            )
        )
    columns = (
        Column("beside", is_text=True),
        Column("matters more", is_answer=True),
        Column("best scenario", is_text=True),
        Column("command", is_text=True),
    )
    return table(columns, rows)


def _pairs(verdicts: Sequence[Verdict]) -> Table:
    rows = [
        (
            f"{pair.arm} over {pair.base}",
            Cell(str(pair.outcome), level=LEVELS[pair.outcome]),
            Cell(pair_text(pair)),
            pair.answer.blocks,
            Cell("decides" if key == verdict.deciding else "", is_text=True),
        )
        for verdict in verdicts
        for key, pair in verdict.pairs.items()
    ]
    columns = (
        Column("scenarios", is_text=True),
        Column("outcome", is_answer=True),
        Column("performance"),
        Column("blocks"),
        Column("", is_text=True),
    )
    return table(columns, rows)


def _proof(experiment: Experiment, verdicts: Sequence[Verdict]) -> Table:
    rows = [
        (
            arm.name,
            Cell(arm.placement.cpus, is_text=True),
            Cell(arm.placement.memory_nodes),
            Cell(proof(experiment.trials, arm.name), is_text=True),
        )
        for verdict in verdicts
        for _, arm in sorted(verdict.cluster.arms.items())
        if arm.placement is not None
    ]
    columns = (
        Column("scenario", is_text=True),
        Column("CPUs", is_text=True),
        Column("memory node"),
        Column("read back from the kernel", is_text=True),
    )
    return table(columns, rows)


def _production(locality: Locality, agreements: Sequence[Agreement]) -> Section:
    rows = [
        (
            str(each.scenario),
            Cell(f"{each.score:.2f}", repr(each.score)),
            Cell(cost_text(each.production)),
            Cell(cost_text(each.laboratory)),
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
        Column(f"production: {METRICS[locality.metric]}"),
        Column("laboratory: cost"),
        Column("together", is_answer=True),
        Column("", is_text=True),
    )
    intro = Paragraph(production_line(locality, agreements))
    return Section("production", "Production", (intro, table(columns, rows)))
