"""Runs whose measure phase has parts: a row for each, with what the machine did in it."""

import json
import shutil

import pytest

from steelyard.records import LoadResult, Phase, read, write
from steelyard.report.bench.steps import load_sections_by_step, steps_section
from steelyard.report.model import gather
from steelyard.report.page import answer
from tests.report.runs import write_run

SECOND = 10**9


@pytest.fixture
def folder(tmp_path):
    """Return a run of two steps: the first half of its measure phase and the second."""
    folder = tmp_path / "run-1"
    write_run(folder)
    document = json.loads((folder / "run.json").read_text())
    measure = next(phase for phase in document["phases"] if phase["name"] == "measure")
    middle = (measure["begin_ns"] + measure["end_ns"]) // 2
    steps = [("push", measure["begin_ns"], middle), ("pop", middle, measure["end_ns"])]
    document["steps"] = [
        Phase(name=name, begin_ns=begin, end_ns=end).model_dump() for name, begin, end in steps
    ]
    (folder / "run.json").write_text(json.dumps(document))
    shutil.copy(folder / "load.json", folder / "load-push.json")
    load = read(LoadResult, folder / "load.json")
    faster = load.model_copy(update={"throughput_per_s": load.throughput_per_s * 2})
    write(faster, folder / "load-pop.json")
    (folder / "load.json").unlink()
    return folder


def sections_of(folder, make):
    data = gather(folder)
    try:
        return make(data)
    finally:
        data.close()


def test_each_step_has_a_row_of_what_the_machine_did(folder):
    (section,) = sections_of(folder, steps_section)
    (table,) = section.tables
    assert [row[0].text for row in table.rows] == ["push", "pop"]
    busy = [column.name for column in table.columns].index("CPU busy")
    assert all(row[busy].text.endswith("%") for row in table.rows)
    # What no source recorded is a dash, not 0.
    disks = [column.name for column in table.columns].index("disks")
    assert {row[disks].text for row in table.rows} <= {"–"} or all(row[disks].raw for row in table.rows)


def test_loads_of_steps_are_not_added_up(folder):
    over_time, latency = sections_of(folder, load_sections_by_step)
    (chart,) = over_time.charts
    assert [trace.name for trace in chart.traces] == ["push", "pop"]
    (table,) = latency.tables
    first, second = (row[1] for row in table.rows)
    assert float(second.raw.split()[0]) == pytest.approx(2 * float(first.raw.split()[0]))


def test_a_step_without_a_load_is_left_out(folder):
    (folder / "load-pop.json").write_text("{")
    over_time, _ = sections_of(folder, load_sections_by_step)
    assert [trace.name for trace in over_time.charts[0].traces] == ["push"]
    (folder / "load-push.json").unlink()
    (only,) = sections_of(folder, load_sections_by_step)
    assert only.charts[0].missing == "no step had a load"


def test_the_page_has_the_steps_and_no_table_of_one_load(folder):
    page = sections_of(folder, answer)
    assert [one.title for one in page.sections if one.anchor == "steps"] == ["Steps of the measure phase"]
    (latency,) = [one for one in page.sections if one.anchor == "percentiles"]
    assert len(latency.charts) == 1
    assert latency.tables == ()


def test_a_run_without_steps_has_no_such_section(tmp_path):
    write_run(tmp_path / "run-1")
    assert sections_of(tmp_path / "run-1", steps_section) == []
