"""When samples were taken, on the pages of profiles and of runs."""

import sys
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from steelyard._base import SteelyardError, executable
from steelyard.analyze.profiles.figures import read_profile
from steelyard.analyze.profiles.times import write_between
from steelyard.cli.main import invoke
from steelyard.report import html
from steelyard.report.characterize.page import sections
from steelyard.report.model import gather
from steelyard.report.profiles.time_chart import run_time_charts
from tests.report.runs import BEGIN, WARMUP_S, write_run
from tests.report.test_browser import opened
from tests.report.test_operations import write_operations
from tests.telemetry.recordings import SECOND

MEASURE_NS = BEGIN + WARMUP_S * SECOND
BUSY = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"


def with_samples(run: Path, seconds: int = 3) -> Path:
    """Leave a profile of ten samples a second, from half a second after the measure phase began."""
    (run / "profile.folded").write_text(f"# unit: samples\nserver;main [a] {10 * seconds}\n")
    first_ns = MEASURE_NS + SECOND // 2
    head = f"# ns since the first sample (CLOCK_MONOTONIC {first_ns}), number of its stack\n"
    rows = [f"{tenth * SECOND // 10} 0\n" for tenth in range(10 * seconds)]
    (run / "profile.times").write_text(head + "".join(rows))
    return run


def test_a_recording_of_the_profiler_has_the_chart(browser: Browser, tmp_path: Path) -> None:
    try:
        executable("steelyard-profile")
    except SteelyardError as error:
        pytest.skip(error.message)
    folder = tmp_path / "profile"
    code = invoke(["profile", "record", "--out", str(folder), "--", sys.executable, "-c", BUSY])
    if code == 3:
        pytest.skip("this machine does not allow sampling")
    assert code == 0
    with opened(browser, folder / "report.html") as (page, said, _):
        cells = page.evaluate("document.getElementById('chart-times').data[0].z")
        assert sum(map(sum, cells)) == read_profile(folder).profile.total  # type: ignore[union-attr]
        assert page.locator("#chart-times .hm image").count() == 1
        assert said == []


@pytest.mark.parametrize("kind", ["characterize", "run"])
def test_the_page_of_a_run_has_the_chart_beside_its_others(
    browser: Browser, tmp_path: Path, kind: str
) -> None:
    """On their axis, so that a zoom shows what the machine did meanwhile."""
    if kind == "run":
        run = write_run(tmp_path / "tao-1", changes={"hooks": {"profile": {"hz": 99}}})
    else:
        run = write_operations(tmp_path / "characterize")
    with opened(browser, html.write(with_samples(run))) as (page, said, _):
        x, z = page.evaluate("(data => [data.x, data.z])(document.getElementById('chart-times').data[0])")
        assert x == [1.0, 2.0, 3.0]
        assert [sum(column) for column in zip(*z, strict=True)] == [10, 10, 10]
        caption = page.inner_text("#figure-times")
        assert "--between counts from the first sample, here at 0.5 s" in caption
        ranges = page.evaluate(
            "['chart-times', 'chart-cpu-all'].map(id => document.getElementById(id)?.layout.xaxis.range)"
            ".filter(Boolean)"
        )
        assert all(one == ranges[0] for one in ranges)
        # The flame graph is there, and callers and callees of one of its functions.
        page.locator(".flame-view").focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowUp")
        assert page.inner_text(".flame-detail").startswith("main")
        page.keyboard.press("s")
        assert page.locator(".flame-reset").is_visible()
        assert said == []


def test_times_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    run = with_samples(write_operations(tmp_path / "characterize"))
    (run / "profile.times").write_text("# of another program\n1 0\n")
    data = gather(run)
    try:
        profile = next(section for section in sections(data) if section.anchor == "profile")
        (chart,) = run_time_charts(data.profile, data.zero_ns)
    finally:
        data.close()
    assert not chart.is_drawable
    assert chart.missing == "profile.times: does not say when its first sample was taken"
    assert "profile.times: does not say" in html.write(run).read_text()
    assert profile.tables, "the profile itself stands"


def test_a_profile_without_times_says_nothing_of_them(tmp_path: Path) -> None:
    run = with_samples(write_operations(tmp_path / "characterize"))
    (run / "profile.times").unlink()
    assert "Samples over time" not in html.write(run).read_text()


def test_a_span_of_a_run_is_cut_by_the_same_seconds(tmp_path: Path) -> None:
    run = with_samples(write_operations(tmp_path / "characterize"))
    assert write_between(run / "profile.folded", 1, 2.5, tmp_path / "part.folded") == 15
    times = read_profile(run).taken
    assert times is not None
    assert np.array_equal(times.elapsed_ns, np.arange(30) * (SECOND // 10))
