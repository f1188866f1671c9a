"""The page of a fleet query in a real browser: everything drawn, nothing fetched, names from outside stay
text.
"""

import io
import re
from pathlib import Path

import pytest
from markupsafe import escape
from playwright.sync_api import Browser
from rich.console import Console

from steelyard._base import WorkloadFailedError
from steelyard.report.answer import (
    Answer,
    Band,
    Cell,
    Chart,
    Column,
    Figure,
    Fragment,
    Heat,
    Mark,
    Notes,
    Paragraph,
    Section,
    Series,
    Tile,
    store_notes,
    table,
)
from steelyard.report.answer.page import render, write_page
from steelyard.report.answer.terminal import terminal
from steelyard.report.assets import Assets
from tests.report.test_browser import HOSTILE, opened


def _sections() -> list[Section]:
    figures = table(
        (
            Column("job"),
            Column("share", "ratio"),
            Column("CPI"),
            Column("note", is_text=True),
            Column("bytes", "bytes"),
        ),
        [
            (HOSTILE, 0.25, Figure(1.5, 1.25, 1.75), Cell("suspect", level="suspect"), 1 << 30),
            ("search\x1b[31m", None, Figure(), Figure(missing="no counters on its machines"), 0),
        ],
        title=f"Jobs {HOSTILE}",
        caption="Two jobs.",
    )
    hours = [1_763_700_000 + 3600 * at for at in range(6)]
    time = Chart(
        "time",
        "CPI over time",
        (
            Series(HOSTILE, hours, [1.0, 1.2, None, 1.4, 1.2, 1.1], low=[0.9] * 6, high=[1.5] * 6),
            Series("usage", hours, [0.5] * 6, "step", "red"),
        ),
        x_kind="time",
        marks=(Mark("y", 1.3, "threshold"),),
        bands=(Band(hours[2], hours[3], HOSTILE, "red"),),
    )
    bars = Chart(
        "bars",
        "Shares",
        (
            Series(
                "A",
                [HOSTILE, "b"],
                [0.5, 0.25],
                "bar",
                low=[0.4, 0.2],
                high=[0.6, 0.3],
                labels=[HOSTILE, "b"],
            ),
        ),
        x_kind="name",
        y_unit="ratio",
        horizontal=True,
    )
    points = Chart(
        "points",
        "Points",
        (
            Series("p", [1.0, 10.0, 100.0], [1.0, 2.0, 4.0], "points"),
            Series("fit", [1.0, 100.0], [1.0, 4.0], dash="dot"),
        ),
        x_log=True,
        y_log=True,
        marks=(Mark("x", 10.0, "ten"),),
    )
    heat = Heat(
        "heat",
        "Pairs",
        [HOSTILE, "b"],
        ["a", "b"],
        [[1.0, None], [1.2, 0.9]],
        middle=1.0,
        cells=[["1.0", ""], ["1.2", "0.9"]],
    )
    empty = Chart("empty", "Latency", (), missing=f"no job exports it {HOSTILE}")
    return [
        Section("first", f"First {HOSTILE}", (figures, time, bars), intro=HOSTILE),
        Section(
            "second",
            "Second",
            (
                points,
                heat,
                empty,
                Paragraph(HOSTILE, "suspect"),
                store_notes([HOSTILE], {"CPI": "no counters"}),
            ),
            grid=True,
        ),
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_is_drawn_and_nothing_from_outside_runs(
    browser: Browser, tmp_path: Path, scheme: str
) -> None:
    path = write_page(
        tmp_path / "deep" / "fleet top.html",
        Answer(
            f"Top {HOSTILE}",
            HOSTILE,
            _sections(),
            lines=[HOSTILE],
            level="suspect",
            verdict=HOSTILE,
            cautions=[HOSTILE],
            tiles=[Tile("jobs", "2", note=HOSTILE)],
            command=f"steelyard fleet top {HOSTILE}",
        ),
    )
    with opened(browser, path, color_scheme=scheme) as (page, said, asked):
        assert said == []
        assert asked == [path.as_uri()]
        assert page.evaluate("window.hacked") is None
        assert page.locator("main img").count() == 0
        assert page.locator(".js-plotly-plot").count() == 4
        assert page.locator("#chart-time .errorbar, #chart-time path.js-fill").count() >= 1
        assert page.locator("#chart-bars .bars path").count() >= 2
        assert page.locator("#chart-bars .errorbar").count() == 2
        assert page.locator("#chart-points .points path").count() >= 3
        assert page.locator("#chart-heat .hm image").count() == 1
        words = page.locator("main").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        ink = page.evaluate("getComputedStyle(document.querySelector('#chart-time .xtick text')).fill")
    assert words.count("<script>window.hacked=1</script>") >= 6
    assert f"Latency no job exports it {HOSTILE}" in words
    assert "1.50 (1.25 to 1.75)" in words
    assert ink == ("rgb(86, 96, 110)" if scheme == "light" else "rgb(163, 173, 186)")


def test_missing_is_a_dash_with_its_reason_and_zero_is_zero() -> None:
    text = render(Answer("Top", "", _sections()))
    assert 'title="no counters on its machines"' in text
    assert re.search(r"<td[^>]*>0</td>|<td[^>]*>0.B</td>", text)
    assert text.count(">–</td>") == 3


def test_nanoseconds_are_drawn_in_units_that_people_read() -> None:
    line = Series("p99", [1, 2], [4e6, None], low=[3e6, None], high=[5e6, None])
    spec = Chart(
        "c", "Latency", (line,), y_unit="ns", y_range=(0, 6e6), marks=(Mark("y", 2e6, "bound"),)
    ).spec()
    assert (spec["yUnit"], spec["yRange"], spec["marks"][0]["at"]) == ("s", [0, 0.006], 0.002)
    (series,) = spec["series"]
    assert [series[name] for name in ("y", "low", "high")] == [[0.004, None], [0.003, None], [0.005, None]]


def test_terminal_shows_tables_and_obeys_no_name() -> None:
    out = io.StringIO()
    Console(file=out, width=160, force_terminal=False).print(
        terminal(Answer("Jobs", "Two [bold]jobs[/bold]", _sections()))
    )
    shown = out.getvalue()
    assert "Two [bold]jobs[/bold]" in shown
    assert "\x1b" not in shown
    assert "1.50 (1.25 to 1.75)" in shown
    assert "Put aside: <script>" in shown


def test_long_tables_are_cut_in_the_terminal_only() -> None:
    section = Section("s", "S", (table(("name", Column("n")), [(f"job-{at}", at) for at in range(100)]),))
    out = io.StringIO()
    Console(file=out, width=80).print(terminal(Answer("T", "", [section], rows=10)))
    assert "rows: --json has all" in out.getvalue()
    assert "job-99" in render(Answer("T", "", [section]))


def test_a_narrow_terminal_keeps_what_matters_and_names_the_rest() -> None:
    columns = (
        "job",
        Column("samples", rank=2),
        Column("unknown"),
        Column("nothing", is_text=True),
        Column("usage", rank=1),
        Column("threshold"),
    )
    rows = [("j" * 28, 1_234_567, None, "", 0.123456, 1.5)]
    section = Section("s", "S", (table(columns, rows),))

    def shown(width: int) -> str:
        out = io.StringIO()
        Console(file=out, width=width).print(terminal(Answer("T", "", [section])))
        return out.getvalue()

    narrow = shown(40)
    assert "1.50" in narrow
    assert "no room here for: samples; unknown; usage" in "".join(narrow.split("\n"))
    middle = shown(58)
    assert middle.index("usage") < middle.index("threshold"), "columns keep their order"
    assert "no room here for: unknown" in middle
    assert "no room" not in shown(80)
    assert "nothing" not in shown(200)


def test_fragments_get_the_nonce_and_ids_are_unique() -> None:
    seen: list[Assets] = []

    def make(assets: Assets) -> str:
        seen.append(assets)
        return f'<p class="ours">ours</p>{assets.script("flame.js", flame="x")}'

    text = render(Answer("T", "", [Section("s", "S", (Fragment(make),))]))
    policy = seen[0].policy
    assert "script-src 'nonce-" in policy
    assert escape(policy) in text
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert f'<p class="ours">ours</p><script nonce="{nonce}" data-flame="x">' in text
    chart = Chart("one", "One", (Series("a", [1.0], [1.0]),))
    with pytest.raises(ValueError, match="same id"):
        render(Answer("T", "", [Section("s", "S", (chart, chart))]))


def test_rows_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="2 cells under 1 columns"):
        table(("a",), [("b", "c")])


def test_more_problems_than_a_page_holds_are_counted() -> None:
    notes = store_notes([f"file {at}" for at in range(30)], most=5)
    assert len(notes.items) == 6
    assert "25 more files" in notes.items[-1]
    assert store_notes([]) == Notes((), "Skipped data")


def test_a_page_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkloadFailedError, match="cannot be written"):
        write_page(tmp_path / "file" / "page.html", Answer("T", "", []))
