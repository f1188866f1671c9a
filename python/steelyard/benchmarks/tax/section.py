"""What a page shows of the datacenter tax: categories with bars, and every benchmark with its interval.

In: the run's ``tax.json``. Out: sections with tables; bars need no script.

Not here: how the figures were made (``crates/tax``), and their scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from steelyard._base import SteelyardError
from steelyard.decide.score import Score
from steelyard.records import TaxBenchmark, TaxMeasure, TaxResult, TaxScore, read
from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Section, Table, absent, grid, measured
from steelyard.stats.intervals import geometric_mean

if TYPE_CHECKING:
    from steelyard.report.model import ReportData

_NONE = Cell("–")


def sections(data: "ReportData") -> list[Section]:
    """Return the sections of a run of the tax, or the reason why its record cannot be read."""
    try:
        result = read(TaxResult, data.folder / "tax.json")
    except SteelyardError as error:
        reason = error.message.replace(f"{data.folder}/", "")
        return [Section("benchmarks", "Benchmarks", (absent("tax", "Benchmarks", reason),))]
    parts = data.score.parts if isinstance(data.score, Score) else {}
    return [_categories(result, parts), _benchmarks(result)]


def _categories(result: TaxResult, parts: Mapping[str, float]) -> Section:
    names = sorted({row.category for row in result.benchmarks})
    return Section(
        "categories",
        "Categories",
        (
            grid(
                (
                    "category",
                    "benchmarks",
                    "all cores",
                    "interval",
                    "score",
                    "one core",
                    "interval",
                    "scaling",
                    "",
                ),
                tuple(_category(name, result, parts.get(f"{name}_per_s")) for name in names),
            ),
        ),
        "Operations per second, the geometric mean over a category's benchmarks. Only their ratio to another"
        " machine's means anything: the score is that to the baseline, on all cores. Scaling is what all"
        " cores do over one core times their number, of the benchmarks that run on one core too (their"
        " number follows where some need more): the bar is full at 100 %.",
    )


def _category(name: str, result: TaxResult, score: float | None) -> tuple[Cell, ...]:
    rows = [row for row in result.benchmarks if row.category == name]
    # Some can be measured on many cores only: they say nothing of scaling.
    compared = [row.scaling_ratio for row in rows if row.scaling_ratio is not None]
    scaling = geometric_mean(compared)
    some = "" if len(compared) == len(rows) else f" ({len(compared)} of {len(rows)})"
    return (
        Cell(name),
        Cell(str(len(rows))),
        *_category_rate(name, result.score_all),
        _NONE if score is None else measured(score, "ratio", text=f"{fmt.significant(score)}×"),
        *_category_rate(name, result.score_one),
        _NONE
        if scaling is None
        else measured(scaling, "ratio", text=f"{fmt.quantity(scaling, 'ratio')}{some}"),
        _NONE if scaling is None else Cell("", bar=scaling),
    )


def _category_rate(name: str, score: TaxScore | None) -> tuple[Cell, Cell]:
    part = score.categories.get(name) if score is not None else None
    if part is None:
        return _NONE, _NONE
    rate = measured(part.rate_per_s, "1/s")
    return rate, _interval(part.rate_per_s, part.interval_low_per_s, part.interval_high_per_s, "1/s")


def _interval(value: float, low: float | None, high: float | None, unit: str) -> Cell:
    """Return an interval as the distances of its ends from the value, in percent."""
    if low is None or high is None:
        return Cell("–", "too few rounds for an interval")
    below, above = 100 * (low / value - 1), 100 * (high / value - 1)
    text = f"{below:+.1f} {above:+.1f} %".replace("-", "−")
    return measured(None, unit, text=text, raw=f"{low} to {high} {unit}", low=low, high=high)


def _benchmarks(result: TaxResult) -> Section:
    return Section(
        "benchmarks",
        "Benchmarks",
        (
            *tuple(
                _table(name, [row for row in result.benchmarks if row.category == name])
                for name in sorted({row.category for row in result.benchmarks})
            ),
        ),
        f"Time of one operation on one core: the {_quantile(result.settings.quantile)} over"
        f" {result.rounds} rounds, with its {result.settings.confidence:.0%} interval. An interval wider than"
        f" {result.settings.wide_bound_ratio:.0%} is marked. Disturbed are batches in which something else"
        " had the CPU; they are part of the figures.",
    )


def _quantile(quantile: float) -> str:
    names = {0.25: "lower quartile", 0.5: "median"}
    return names.get(quantile, f"{quantile:.0%} quantile")


def _table(category: str, rows: Sequence[TaxBenchmark]) -> Table:
    packed = any(row.compressed_ratio is not None for row in rows)
    columns = [
        "benchmark",
        "one core",
        "interval",
        "rate",
        "all cores",
        "interval",
        "rate",
        "scaling",
        "disturbed",
    ]
    if packed:
        columns.append("size after")
    return grid(tuple(columns), tuple(_row(row, packed=packed) for row in rows), category)


def _row(row: TaxBenchmark, *, packed: bool) -> tuple[Cell, ...]:
    size = (
        "" if row.bytes_per_operation is None else f", {fmt.quantity(row.bytes_per_operation, 'bytes')} each"
    )
    measures = [measure for measure in (row.one, row.all) if measure is not None]
    batches = sum(measure.batches for measure in measures)
    disturbed = sum(measure.disturbed for measure in measures)
    share = Cell("–", "it waits itself, so that its switches are its own") if row.waits else _NONE
    if batches and not row.waits:
        share = measured(disturbed / batches, "ratio", raw=f"{disturbed} of {batches} batches")
    cells = [Cell(row.name, f"{row.operation}{size}")]
    cells += [*_measure(row.one, row.missing), *_measure(row.all, row.missing)]
    if row.scaling_ratio is None:
        cells += [_NONE, share]
    else:
        cells += [measured(row.scaling_ratio, "ratio"), share]
    if packed:
        ratio = row.compressed_ratio
        cells.append(_NONE if ratio is None else measured(ratio, "ratio"))
    return tuple(cells)


def _measure(measure: TaxMeasure | None, missing: str | None) -> tuple[Cell, Cell, Cell]:
    if measure is None:
        return Cell("–", missing or "not requested"), _NONE, _NONE
    interval = _interval(measure.time_ns, measure.interval_low_ns, measure.interval_high_ns, "ns")
    if measure.wide:
        interval = replace(interval, raw=f"{interval.raw}: wide", level="suspect")
    if measure.rate_bytes_per_s is not None:
        rate = measured(measure.rate_bytes_per_s, "bytes/s")
    else:
        rate = measured(measure.rate_per_s, "1/s")
    return measured(measure.time_ns, "ns"), interval, rate
