"""Results of ``fleet pressure`` and ``fleet pair`` as sections of a page and of the terminal.

In: `JobPressure`s, `PairAnswer`. Out: headings and `Section`s: the matrix of pressure points, the map of
slow-downs, verdicts.

Not here: finding it (``fleet.pressure``, ``fleet.placement.pair``), writing the page (``page``).
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.analyze.pressure.intensities import THRESHOLDS
from steelyard.fleet.placement.pair import (
    EVERY_PAIR_OF,
    LEAST_MACHINES,
    MAY,
    MUST_NOT,
    TOLERANCE,
    UNCLEAR,
    PairAnswer,
    Slowdown,
)
from steelyard.fleet.pressure import NEAR, RESOURCES, FleetPressure, JobPressure, Use
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Cell,
    Column,
    Figure,
    Heat,
    Notes,
    Paragraph,
    Section,
    Table,
    table,
    written,
)

_LEVELS = {MUST_NOT: "invalid", MAY: "valid", UNCLEAR: "suspect"}
_SLOWDOWNS = 60
_WORDS = {MUST_NOT: "must not share", MAY: "may share", UNCLEAR: "unclear"}


def pressure(jobs: Sequence[JobPressure]) -> Answer:
    """Return everything that ``fleet pressure`` says."""
    return Answer("Pressure points", _pressure_heading(jobs), _pressure_sections(jobs), FleetPressure(jobs))


def _pressure_heading(jobs: Sequence[JobPressure]) -> str:
    """Return the matrix in one line: how many jobs press on what."""
    counts = {name: sum(name in job.pressure_points for job in jobs) for name in RESOURCES}
    parts = [f"{RESOURCES[name]} {count}" for name, count in counts.items() if count]
    return (
        f"{fmt.several(len(jobs), 'job')}; pressure points: {', '.join(parts)}"
        if parts
        else f"{fmt.several(len(jobs), 'job')}, no limit known"
    )


def _pressure_sections(jobs: Sequence[JobPressure]) -> list[Section]:
    """Return the page of the pressure-point matrix."""
    missing = sorted({use.missing for job in jobs for use in job.resources.values() if use.missing})
    blocks = (_matrix(jobs), _pressure_table(jobs))
    made = [Section("matrix", "Pressure points", blocks, intro=_pressure_intro())]
    notes = Notes(tuple(missing), "Missing data")
    made.append(Section("data", "Data", (notes,)))
    return made


def _pressure_intro() -> str:
    bounds = ", ".join(f"{noun} {THRESHOLDS[name]:.0%}" for name, noun in RESOURCES.items())
    return (
        "Shares are of the machine's limit, by all tasks of the job on a machine, over its machine-minutes."
        " In thought a machine is filled with the job until a resource is at its threshold"
        f" ({bounds}): the one that lets it fit least often is a pressure point (●), as is any that lets it"
        f" fit at most {NEAR} times as often. DRAM bandwidth is that of last-level cache misses alone."
    )


def _matrix(jobs: Sequence[JobPressure]) -> Heat:
    def filled(job: JobPressure) -> list[float | None]:
        least = min((use.fits for use in job.resources.values() if use.fits is not None), default=None)
        return [
            None if use.fits is None or least is None else least / use.fits for use in job.resources.values()
        ]

    def label(job: JobPressure, use: Use) -> str:
        noun = RESOURCES[use.resource]
        if use.mean_ratio is None:
            return f"{job.job}, {use.missing}"
        return (
            f"{job.job}, {noun}: {use.mean_ratio:.2%} of the limit on average, most {use.max_ratio or 0:.1%}"
        )

    return Heat(
        "matrix",
        "Use of each resource relative to its threshold, on a machine filled with the job",
        list(RESOURCES.values()),
        [job.job for job in jobs],
        [filled(job) for job in jobs],
        unit="ratio",
        low=0.0,
        high=1.0,
        cells=[["●" if use.is_pressure else "" for use in job.resources.values()] for job in jobs],
        labels=[[label(job, use) for use in job.resources.values()] for job in jobs],
        note="100% is the threshold. Empty: not measured.",
    )


def _pressure_table(jobs: Sequence[JobPressure]) -> Table:
    columns: list[Column | str] = [Column("job"), Column("presses on", is_text=True)]
    columns += [Column(noun, "ratio", rank=1) for noun in RESOURCES.values()]
    columns += [Column("fits"), Column("past CPU threshold", "ratio"), Column("machines", rank=2)]
    rows = []
    for job in jobs:
        cells: list[object] = [job.job, ", ".join(RESOURCES[name] for name in job.pressure_points) or None]
        for use in job.resources.values():
            cells.append(Figure(missing=use.missing) if use.mean_ratio is None else use.mean_ratio)
        fits = min((use.fits for use in job.resources.values() if use.fits is not None), default=None)
        rows.append([*cells, fits, job.resources["cpu"].machine_past_threshold_ratio, job.machines])
    return table(
        columns,
        rows,
        caption="Fits: how many times the job's mean use of a machine fits below every threshold. Past the"
        " threshold: the share of its minutes in which its machines were, whoever used them.",
    )


def pair(answer: PairAnswer) -> Answer:
    """Return everything that ``fleet pair`` says."""
    return Answer("Pairs", _pair_heading(answer), _pair_sections(answer), answer, (_pair_subline(answer),))


def _pair_heading(answer: PairAnswer) -> str:
    """Return the verdicts in one line."""
    bad = [pair for pair in answer.pairs if pair.verdict == MUST_NOT]
    open_ = sum(pair.verdict == UNCLEAR for pair in answer.pairs)
    if not bad and open_:
        count = f"{open_:,} of {len(answer.pairs):,} are unclear"
        return f"No pair of jobs is shown to need separate machines; {count}"
    if not bad:
        return "No pair of jobs needs separate machines"
    worst = bad[0]
    more = f" and {len(bad) - 1} more pairs" if len(bad) > 1 else ""
    return f"{worst.first.job} and {worst.second.job}{more} must not share a machine"


def _pair_subline(answer: PairAnswer) -> str:
    """Return what was judged."""
    counts = {verdict: sum(pair.verdict == verdict for pair in answer.pairs) for verdict in _WORDS}
    summary = ", ".join(f"{count} {_WORDS[verdict]}" for verdict, count in counts.items())
    sentence = f"{len(answer.pairs):,} pairs of {len(answer.jobs):,} jobs: {summary}."
    if answer.pairs_not_seen:
        sentence += (
            f" {answer.pairs_not_seen:,} other pairs were never on one machine in the same minute: of up to"
            f" {EVERY_PAIR_OF} jobs (--job) every pair is answered."
        )
    return sentence


def _pair_sections(answer: PairAnswer) -> list[Section]:
    """Return the page of pairs."""
    skill = answer.prediction
    if skill.reason:
        note = Paragraph(f"No predictions: {skill.reason}.", "suspect")
    else:
        note = Paragraph(
            f"Pairs that were not seen together are predicted from where their jobs press, learnt from"
            f" {skill.observed_pairs} observed ones. Predicting each of these from the others explains"
            f" {skill.skill_ratio or 0:.0%} of their spread, with an error of ±{skill.error or 0:.2f}."
        )
    return [
        Section("pairs", "Pairs on one machine", (_verdicts(answer),), intro=_pair_intro()),
        Section("slowdowns", "Slow-downs", (_map(answer), note, _slowdowns(answer))),
    ]


def _pair_intro() -> str:
    return (
        "A job's CPI with the other on its machine over its CPI without, compared within the same platform"
        f" and load. A pair must not share where that is above {1 + TOLERANCE} and still a slow-down after"
        " Holm's correction over all pairs, or where both together pass a resource's threshold; it may where"
        f" the whole interval of both is below {1 + TOLERANCE}. With fewer than {LEAST_MACHINES} machines"
        " with or without the other it is not observed."
    )


def _verdicts(answer: PairAnswer) -> Table:
    rows = [
        (
            f"{pair.first.job} · {pair.second.job}",
            Cell(_WORDS[pair.verdict], level=_LEVELS[pair.verdict], is_text=True),
            Cell(pair.reason, is_text=True),
            _ratio(pair.first),
            _ratio(pair.second),
        )
        for pair in answer.pairs
    ]
    columns = (
        Column("jobs"),
        Column("verdict", is_text=True, is_answer=True),
        Column("why", is_text=True, rank=1),
        Column("CPI of the first"),
        Column("CPI of the second"),
    )
    return table(columns, rows)


def _ratio(slowdown: Slowdown) -> Cell:
    if slowdown.cpi_ratio is None:
        return Cell(fmt.MISSING, "neither observed nor predicted")
    mark = "*" if slowdown.source == "predicted" else ""
    raw = f"{slowdown.source}: {slowdown.cpi_ratio!r}"
    return Cell(f"{slowdown.cpi_ratio:.2f}x{mark}", raw, figure=Figure(slowdown.cpi_ratio))


def _map(answer: PairAnswer) -> Heat:
    of = {(slowdown.job, slowdown.beside): slowdown for slowdown in answer.slowdowns}

    def label(job: str, other: str) -> str:
        slowdown = of.get((job, other))
        if slowdown is None or slowdown.cpi_ratio is None:
            return f"{job} beside {other}: not known"
        low, high = slowdown.interval
        return f"{job} beside {other}, {slowdown.source}: {low or 0:.2f} to {high or 0:.2f}"

    def text(job: str, other: str) -> str:
        slowdown = of.get((job, other))
        if slowdown is None or slowdown.cpi_ratio is None:
            return ""
        return f"{slowdown.cpi_ratio:.2f}{'*' if slowdown.source == 'predicted' else ''}"

    jobs = list(answer.jobs)
    if len(jobs) > EVERY_PAIR_OF:
        worst = sorted(answer.slowdowns, key=lambda one: -(one.cpi_ratio or 0.0))
        named = dict.fromkeys(name for one in worst for name in (one.job, one.beside))
        jobs = sorted(list(named)[:EVERY_PAIR_OF])
    rows = [[of[j, k].cpi_ratio if (j, k) in of else None for k in jobs] for j in jobs]
    return Heat(
        "slowdowns",
        "CPI of a job (row) next to another (column), relative to its CPI without it",
        jobs,
        jobs,
        rows,
        middle=1.0,
        cells=[[text(j, k) for k in jobs] for j in jobs] if len(jobs) <= 20 else None,
        labels=[[label(j, k) for k in jobs] for j in jobs],
        x_title="beside",
        note="Predictions have a star. Empty: not measured."
        if any(slowdown.source == "predicted" for slowdown in answer.slowdowns)
        else "Empty: not known.",
        missing="" if len(jobs) > 1 else "there is one job only",
    )


def _slowdowns(answer: PairAnswer) -> Table:
    ranked = sorted(
        answer.slowdowns, key=lambda slowdown: (-(slowdown.cpi_ratio or 0.0), slowdown.job, slowdown.beside)
    )
    rows = [
        (
            slowdown.job,
            slowdown.beside,
            Figure(slowdown.cpi_ratio, *slowdown.interval),
            slowdown.source,
            None
            if slowdown.p_adjusted is None
            else written(f"{slowdown.p_adjusted:.2g}", slowdown.p_adjusted),
            slowdown.machines_with,
            slowdown.machines_without,
        )
        for slowdown in ranked[:_SLOWDOWNS]
    ]
    columns = (
        Column("job"),
        Column("beside", is_text=True),
        Column("CPI, times"),
        Column("source", is_text=True),
        Column("p, corrected"),
        Column("machines with"),
        Column("without"),
    )
    more = len(ranked) - len(rows)
    caption = (
        "Intervals (95%) are of each row alone; p is corrected for all rows, and cannot be small with few"
        " machines."
    )
    left = f" {more:,} more, all smaller: --json has them." if more > 0 else ""
    return table(columns, rows, caption=caption + left)
