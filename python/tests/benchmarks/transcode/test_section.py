"""The page of video transcoding: charts and tables from a record."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.sync_api import Browser

from steelyard.benchmarks.transcode.record import TranscodeResult
from steelyard.benchmarks.transcode.section import sections
from steelyard.records import write
from steelyard.report import html
from steelyard.report.answer import Chart, Section
from tests.benchmarks.transcode.test_transcode import kind, result
from tests.report.runs import write_run


def made(folder: Path, record: TranscodeResult | None) -> dict[str, Section]:
    """Return the sections of ``record`` by anchor."""
    if record is not None:
        write(record, folder / "transcode.json")
    data = SimpleNamespace(folder=folder)
    return {section.anchor: section for section in sections(data)}  # type: ignore[arg-type]


RECORD = result(
    kind(),
    kind(quality="slow", time_ns=4_000_000_000, psnr_y_db=43.0, sha256=["aa", "bb"]),
    kind(encoder="libaom", jobs=0, frames=0, pixels=0, psnr_y_db=None, missing="no job was completed"),
)


def test_charts_have_a_line_per_encoder(tmp_path: Path) -> None:
    found = made(tmp_path, RECORD)
    speed, size = found["encoders"].charts
    assert isinstance(speed, Chart)
    assert isinstance(size, Chart)
    (line,) = speed.series
    assert line.name == "x264"
    # Four CPUs, 1000 pixels in 0.5 s and in 2 s.
    assert line.x == pytest.approx((8000, 2000))
    assert line.y == (40.0, 43.0)
    assert size.series[0].x == pytest.approx((0.4, 0.4))


def test_tables_say_what_is_missing_and_what_differs(tmp_path: Path) -> None:
    found = made(tmp_path, RECORD)
    rows = {row[0].text + " " + row[1].text: row for row in found["encoders"].tables[0].rows}
    assert rows["x264 slow"][2].text == ""
    assert rows["x264 fast"][2].text == "-preset faster"
    assert (rows["libaom fast"][3].text, rows["libaom fast"][3].raw) == ("–", "no job was completed")
    slow = found["combinations"].tables[0].rows[1]
    assert slow[-1].level == "invalid"
    assert "2 different streams" in slow[-1].raw
    assert found["clips"].tables[0].rows[0][1].text == "320x180"


def test_a_run_without_a_record_says_so(tmp_path: Path) -> None:
    (section,) = made(tmp_path, None).values()
    assert section.charts[0].missing


def test_the_page_draws_speeds_on_a_logarithmic_axis(tmp_path: Path, browser: Browser) -> None:
    folder = write_run(tmp_path / "run", changes={"benchmark": "transcode"})
    write(RECORD, folder / "transcode.json")
    page = browser.new_page()
    page.goto(html.write(folder).as_uri())
    for anchor, kind_of_axis in (("speed-quality", "log"), ("size-quality", "linear")):
        plot = page.locator(f"#chart-{anchor} .js-plotly-plot, #chart-{anchor}.js-plotly-plot").first
        plot.scroll_into_view_if_needed()
        page.wait_for_function(
            "([anchor, kind]) => [...document.querySelectorAll(`#chart-${anchor}, #chart-${anchor} *`)]"
            ".some((one) => one._fullLayout && one._fullLayout.xaxis.type === kind)",
            arg=[anchor, kind_of_axis],
        )
    page.close()
