"""Results of ``fleet numa`` as sections of a page and of the terminal.

In: `NumaAnswer`. Out: an `Answer`: the spread of scores, figures by score, effects.

Not here: finding it (``fleet.numa.locality``), writing the page (``page``).
"""

from __future__ import annotations

from steelyard.fleet.numa.locality import (
    FEW,
    LEAST_USE,
    LOAD_BINS,
    METRICS,
    SHOWN_SCORE,
    Binned,
    Locality,
    NumaAnswer,
)
from steelyard.report import format as fmt
from steelyard.report.answer import (
    Answer,
    Cell,
    Chart,
    Column,
    Figure,
    Notes,
    Section,
    Series,
    Table,
    Tile,
    table,
    written,
)

_ROLES = ("blue", "red", "green", "purple", "orange", "sky", "ink", "yellow")
_JOBS = 6

_FIGURES = METRICS | {"latency_p99": "p99 latency"}
"""Short, so that a terminal of 80 columns has room for the ratio and its caution."""


def numa(answer: NumaAnswer) -> Answer:
    """Return everything that ``fleet numa`` says."""
    subline = fmt.plain(
        f"{fmt.count(answer.samples)} samples with a score, {fmt.count(answer.machines)} machines,"
        f" {answer.days[0].date} to {answer.days[-1].date}. A score of 1 is all local."
    )
    return Answer(
        "NUMA locality",
        _heading(answer),
        _sections(answer),
        answer,
        (subline,),
        _cautions(answer),
        _tiles(answer),
    )


def _heading(answer: NumaAnswer) -> str:
    """Return the answer in one line: the largest increase in CPI whose interval excludes none."""
    clear = [
        locality
        for locality in answer.effects
        if locality.metric == "cpi" and locality.effect.low is not None and locality.effect.low > 0
    ]
    if not clear:
        return "No job shows a higher CPI with remote memory"
    worst = max(clear, key=lambda locality: locality.effect.value)
    ratio = worst.effect.at(1 - SHOWN_SCORE)[0]
    return f"{worst.job}: {ratio:.2f}x the CPI at a score of {SHOWN_SCORE}"


def _cautions(answer: NumaAnswer) -> list[str]:
    """Return the warnings of the page."""
    misled = [locality for locality in answer.effects if locality.disagreement]
    if not misled:
        return []
    names = ", ".join(f"{locality.job} ({METRICS[locality.metric]})" for locality in misled[:5])
    more = f" and {len(misled) - 5} more" if len(misled) > 5 else ""
    return [f"Raw and adjusted comparisons disagree for {names}{more}: use the adjusted ones."]


def _tiles(answer: NumaAnswer) -> list[Tile]:
    """Return the main figures."""
    last = answer.days[-1].samples
    local = last[-1] / sum(last) if sum(last) else None
    return [
        Tile("samples with a score", fmt.count(answer.samples), str(answer.samples)),
        Tile("in the best bin", fmt.quantity(local, "ratio"), note=f"of {answer.days[-1].date}"),
        Tile("jobs with a known effect on CPI", str(len(_clear(answer, "cpi")))),
        Tile(
            "where raw samples mislead",
            str(sum(bool(locality.disagreement) for locality in answer.effects)),
        ),
    ]


def _clear(answer: NumaAnswer, metric: str) -> list[Locality]:
    return [
        locality
        for locality in answer.effects
        if locality.metric == metric
        and locality.effect.low is not None
        and locality.effect.high is not None
        and (locality.effect.low > 0 or locality.effect.high < 0)
    ]


def _sections(answer: NumaAnswer) -> list[Section]:
    """Return the page."""
    charts = [_by_score(answer, metric) for metric in METRICS]
    notes = Notes(tuple(f"{name}: {why}" for name, why in answer.missing.items()), "Missing data")
    return [
        Section("effects", "Remote memory", (_effect_chart(answer), _effects(answer)), intro=_intro()),
        Section(
            "scores",
            "Figures by score",
            tuple(charts),
            intro="Each job's mean in a score bin over its own in its best bin on the same platform; whiskers"
            f" are one standard deviation of all jobs. Bins of fewer than {FEW} samples are left out.",
            grid=True,
        ),
        Section("days", "Scores over days", (_days(answer), _day_table(answer))),
        Section("data", "Data", (notes,)),
    ]


def _intro() -> str:
    return (
        f"How many times its value at a score of 1 a figure has at {SHOWN_SCORE}, compared among samples of"
        f" the same job, platform and load of the machine (in steps of {1 / LOAD_BINS:.1%}; for CPU"
        " utilisation the hour of the day, since load is made of it). Intervals (95%) take machines as the"
        f" independent draws. CPI counts from {LEAST_USE} CPU-s/s. The raw ratio and correlation"
        " ignore load. CPU utilisation follows what users ask for; CPU time per request is the sounder one."
    )


def _at_half(locality: Locality) -> Figure:
    return Figure(*locality.effect.at(1 - SHOWN_SCORE))


def _effects(answer: NumaAnswer) -> Table:
    rows = []
    for locality in answer.effects:
        raw = None if locality.raw_effect is None else locality.raw_effect.at(1 - SHOWN_SCORE)[0]
        note = locality.disagreement or locality.effect.reason
        rows.append(
            (
                locality.job,
                _FIGURES[locality.metric],
                _at_half(locality),
                raw,
                None
                if locality.raw_correlation is None
                else written(f"{locality.raw_correlation:+.2f}", locality.raw_correlation),
                locality.effect.samples,
                locality.effect.machines,
                Cell(note, level="suspect" if locality.disagreement else None, is_text=True),
            )
        )
    columns = (
        Column("job"),
        Column("figure", is_text=True),
        Column(f"at {SHOWN_SCORE} over 1"),
        Column("raw ratio", rank=1),
        Column("raw r", rank=2),
        Column("samples", rank=2),
        Column("machines", rank=1),
        Column("caution", is_text=True, is_answer=True),
    )
    return table(columns, rows)


def _effect_chart(answer: NumaAnswer) -> Chart:
    of_cpi = sorted(
        (locality for locality in answer.effects if locality.metric == "cpi"),
        key=lambda locality: -locality.effect.value,
    )[:30]
    ends = [locality.effect.at(1 - SHOWN_SCORE) for locality in of_cpi]
    raw = [
        None if locality.raw_effect is None else locality.raw_effect.at(1 - SHOWN_SCORE)[0]
        for locality in of_cpi
    ]
    names = [locality.job for locality in of_cpi]
    return Chart(
        "effects",
        f"CPI at a score of {SHOWN_SCORE} over CPI at 1",
        (
            Series(
                "within platform and load",
                names,
                [ratio for ratio, _, _ in ends],
                "points",
                low=[low for _, low, _ in ends],
                high=[high for _, _, high in ends],
                size=9,
            ),
            Series("raw", names, raw, "points", "red", size=7),
        ),
        x_kind="name",
        y_title="times",
        height=380,
        missing="" if of_cpi else "no job has CPI at different scores",
    )


def _by_score(answer: NumaAnswer, metric: str) -> Chart:
    figures = [figure for figure in answer.figures if figure.metric == metric]
    middle = [(at + 0.5) / answer.score_bins for at in range(answer.score_bins)]
    title = f"{METRICS[metric][:1].upper()}{METRICS[metric][1:]}"
    if not figures:
        return Chart(f"score-{metric}", title, (), missing="no job exports it at different scores")
    strongest = {
        locality.job: abs(locality.effect.value) for locality in answer.effects if locality.metric == metric
    }
    shown = sorted(figures, key=lambda figure: (-strongest.get(figure.job, 0.0), figure.job))[:_JOBS]
    together = _together(figures, answer.score_bins)
    lines = [
        Series(
            "all jobs",
            middle,
            [None if mean is None else mean for mean, _ in together],
            "points",
            "ink",
            low=[None if mean is None or sd is None else mean - sd for mean, sd in together],
            high=[None if mean is None or sd is None else mean + sd for mean, sd in together],
            size=9,
        )
    ]
    if len(figures) > 1:
        lines += [
            Series(figure.job, middle, list(figure.ratio), "line", _ROLES[at % len(_ROLES)])
            for at, figure in enumerate(shown)
        ]
    return Chart(
        f"score-{metric}", title, tuple(lines), x_title="NUMA score", y_title="normalised", x_range=(0.0, 1.0)
    )


def _together(figures: list[Binned], bins: int) -> list[tuple[float | None, float | None]]:
    """Return mean and deviation of all jobs together in each bin."""
    made: list[tuple[float | None, float | None]] = []
    for at in range(bins):
        parts = [
            (figure.samples[at], figure.ratio[at] or 0.0, figure.sd[at] or 0.0)
            for figure in figures
            if figure.samples[at]
        ]
        count = sum(n for n, _, _ in parts)
        if not count:
            made.append((None, None))
            continue
        mean = sum(n * m for n, m, _ in parts) / count
        spread = sum((n - 1) * sd**2 + n * (m - mean) ** 2 for n, m, sd in parts) / max(1, count - 1)
        made.append((mean, spread**0.5))
    return made


def _days(answer: NumaAnswer) -> Chart:
    totals = [sum(day.samples) for day in answer.days]
    used = [at for at in range(answer.score_bins) if any(day.samples[at] for day in answer.days)]
    roles = ("red", "orange", "yellow", "purple", "sky", "blue", "green", "ink")
    return Chart(
        "days",
        "Share of samples in each range of scores, by day",
        tuple(
            Series(
                _range(at, answer.score_bins),
                [day.date for day in answer.days],
                [
                    day.samples[at] / total if total else None
                    for day, total in zip(answer.days, totals, strict=True)
                ],
                "bar",
                roles[number * len(roles) // max(1, len(used))],
            )
            for number, at in enumerate(used)
        ),
        x_kind="name",
        y_unit="ratio",
        y_range=(0.0, 1.0),
        y_title="share of samples",
        stacked=True,
        height=400,
    )


def _range(at: int, bins: int) -> str:
    return f"{at / bins:.2g} to {(at + 1) / bins:.2g}"


def _day_table(answer: NumaAnswer) -> Table:
    used = [at for at in range(answer.score_bins) if any(day.samples[at] for day in answer.days)]
    columns = (
        Column("day"),
        Column("samples", rank=1),
        *(Column(_range(at, answer.score_bins), "ratio") for at in used),
    )
    rows = []
    for day in answer.days:
        total = sum(day.samples)
        rows.append((day.date, total, *(day.samples[at] / total for at in used)))
    return table(columns, rows)
