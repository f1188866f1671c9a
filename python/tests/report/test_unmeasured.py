"""Sections without rows of dashes: what is missing is one line with its reasons, and what is zero stays."""

import numpy as np

from steelyard.report import format as fmt
from steelyard.report.answer import Cell, Section, Timeline, Trace, absent, grid
from steelyard.report.format import MISSING
from steelyard.report.unmeasured import unmeasured, without_missing, zeros_together


def _row(name: str, value: str, reason: str = "", level: str | None = None) -> tuple[Cell, ...]:
    return (Cell(name), Cell(value, level=level), Cell(reason, is_text=True))


def test_rows_of_dashes_become_a_line_and_zeros_stay() -> None:
    chart = Timeline(
        "c", "Clocks", x=np.array([0.0, 1.0]), traces=(Trace("a", "total", np.array([0.0, 1.0])),)
    )
    section = Section(
        "s",
        "S",
        (
            chart,
            absent("power", "Power", "no RAPL"),
            grid(
                ("term", "value", "note"),
                (
                    _row("IPC", MISSING, "no counters"),
                    _row("faults", "0"),
                    _row("disk", MISSING, "the disk waits", level="suspect"),
                    _row("CPI", MISSING, "no counters"),
                ),
            ),
            grid(("term", "value", "note"), (_row("MPKI", MISSING, "no counters"),)),
        ),
        missing=(("bandwidth", "no counters"),),
    )
    left, missing = without_missing(section)
    assert [[row[0].text for row in table.rows] for table in left.tables] == [["faults", "disk"]]
    assert [one.id for one in left.charts] == ["c"]
    note = unmeasured(missing)
    assert note is not None
    assert note.summary == (
        "Not measured here: bandwidth, IPC, CPI and MPKI, because no counters; and 1 more for another reason."
    )
    assert note.reasons == (("no counters", "bandwidth, IPC, CPI, MPKI"), ("no RAPL", "Power"))


def test_a_column_that_nothing_fills_is_left_out() -> None:
    table = grid(("term", "value", "note"), (_row("faults", "0"), _row("switches", "12")))
    left, missing = without_missing(Section("s", "S", (table,)))
    assert [column.name for column in left.tables[0].columns] == ["term", "value"]
    assert missing == []
    assert unmeasured(missing) is None


def test_a_section_with_nothing_has_only_its_line() -> None:
    left, missing = without_missing(Section("s", "S", (grid(("a", "b", "c"), (_row("x", MISSING, "why"),)),)))
    assert left.tables == ()
    note = unmeasured(missing)
    assert note is not None
    assert (note.summary, note.reasons) == ("Not measured here: x, because why.", ())


def _counted(name: str, value: float) -> tuple[Cell, ...]:
    return (Cell(name), Cell(f"{value:g}/s", fmt.raw(value, "1/s")), Cell("", is_text=True))


def test_rows_of_zero_become_one_that_names_them() -> None:
    columns = ("figure", "value", "note")
    rows = [_counted(name, 0.0) for name in ("faults", "switches", "moves")]
    table = zeros_together(grid(columns, (rows[0], _counted("reads", 7.0), *rows[1:])), names=2)
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["reads", "7/s", ""],
        ["all zero", "0", "faults, switches, moves"],
    ]
    # Two are no longer than the row that would name them; what is missing is not zero.
    few = grid(columns, (*rows[:2], _row("IPC", MISSING, "no counters")))
    assert zeros_together(few, names=2) == few
    judged = grid(columns, tuple(_row(name, "0", level="valid") for name in "abc"))
    assert zeros_together(judged, names=2) == judged
