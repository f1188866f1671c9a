"""Which runs the report of a run shows as its repeats: those of the same measurement, and no others."""

from pathlib import Path
from typing import Any

import pytest

from steelyard.records import Cpus, Metric, Orchestrator, Parameter, Run, RunStatus, Series, read, write
from steelyard.report import html, model, page
from steelyard.report.answer import Section
from tests.report.runs import write_run

FEED = {
    "benchmark": "feed",
    "metrics": {"requests_per_s_at_slo": Metric(value=39.5, unit="1/s", better="higher")},
}


def repeats(folder: Path) -> Section | None:
    data = model.gather(folder)
    try:
        return next((one for one in page.answer(data).sections if one.anchor == "repeats"), None)
    finally:
        data.close()


def test_a_member_of_a_suite_shows_its_own_figure(tmp_path: Path) -> None:
    """One command makes one series of all members: the median of two benchmarks is no figure at all."""
    tao = write_run(tmp_path / "tao-1")
    feed = write_run(tmp_path / "feed-1", changes=FEED)
    assert read(Run, tao / "run.json").series == read(Run, feed / "run.json").series
    assert repeats(tao) is None
    assert repeats(feed) is None
    for folder in (tao, feed):
        text = html.write(folder).read_text()
        assert 'id="repeats"' not in text
        assert "Median" not in text


def test_repeats_of_a_member_are_of_that_member(tmp_path: Path) -> None:
    for index in (1, 2):
        write_run(tmp_path / f"tao-{index}", index=index, count=2, scale=index)
        write_run(tmp_path / f"feed-{index}", index=index, count=2, changes=FEED)
    mine = [read(Run, tmp_path / f"tao-{index}" / "run.json") for index in (1, 2)]
    found = repeats(tmp_path / "tao-1")
    assert found is not None
    rows = found.tables[0].rows
    assert [row[0].href for row in rows] == ["", "../tao-2/report.html"]
    assert [float(row[2].raw.split()[0]) for row in rows] == [
        run.metrics["requests_per_s"].value for run in mine
    ]
    assert found.intro.replace("\u202f", " ").startswith("Median 177 k/s")


SETTINGS = {
    "depth": Parameter(value=1, source="set"),
    "seed": Parameter(value=5, source="machine"),
}
HOST = Orchestrator(pid=2**22 - 1, start_ticks=1, hostname="one", boot_id="b-1")


@pytest.mark.parametrize(
    ("changes", "is_repeat"),
    [
        ({}, True),
        ({"parameters": {**SETTINGS, "seed": Parameter(value=6, source="machine")}}, True),
        ({"metrics": {}, "verdict": None, "status": RunStatus.INCOMPLETE}, True),
        ({"benchmark": "feed"}, False),
        ({"tier": "standard"}, False),
        ({"suite": None}, False),
        ({"parameters": {**SETTINGS, "depth": Parameter(value=16, source="set")}}, False),
        ({"parameters": {"seed": SETTINGS["seed"]}}, False),
        ({"cpus": Cpus(server="0-1", load="0-1")}, False),
        ({"steelyard_version": "0.2.0"}, False),
        ({"orchestrator": HOST.model_copy(update={"hostname": "two"})}, False),
        ({"orchestrator": HOST.model_copy(update={"boot_id": "b-2"})}, False),
        ({"series": Series(id="another", index=2, count=2)}, False),
    ],
)
def test_a_repeat_is_of_the_same_measurement(
    tmp_path: Path, changes: dict[str, Any], is_repeat: bool
) -> None:
    same: dict[str, Any] = {"parameters": SETTINGS, "orchestrator": HOST}
    bare = ("load", "machine", "cache_stats", "telemetry")
    first = write_run(tmp_path / "first", index=1, count=2, without=bare, changes=same)
    second = write_run(tmp_path / "second", index=2, count=2, without=bare, changes=same)
    write(read(Run, second / "run.json").model_copy(update=changes), second / "run.json")
    found = model.siblings_of(first, read(Run, first / "run.json"))
    assert [one.folder.name for one in found] == (["first", "second"] if is_repeat else ["first"])
