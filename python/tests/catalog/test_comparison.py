"""What is known of the noise of runs comes from earlier sessions of the same machine."""

import json
from pathlib import Path
from random import Random

import pytest

from steelyard.catalog.comparison import comparison_of
from steelyard.catalog.folder import Catalog, Settings
from steelyard.catalog.index import Index
from steelyard.report.answer import Answer
from steelyard.report.compare.several import NOISE
from tests.report.runs import load_result, run_record
from tests.web.serving import at_time

DAY_NS = 86_400_000_000_000
HOUR_NS = 3_600_000_000_000
BASE = run_record(load_result(), Path("tao"))
RANDOM = Random(5)


def write(folder: Path, name: str, at_ns: int, *, host: str | None = "a", cpus: int = 2) -> None:
    """Write a run, begun so long after the first."""
    run = at_time(BASE, BASE.clock.realtime_ns + at_ns, name)
    value = (run.metrics["requests_per_s"].value or 0) * RANDOM.gauss(1, 0.01)
    metrics = run.metrics | {
        "requests_per_s": run.metrics["requests_per_s"].model_copy(update={"value": value})
    }
    orchestrator = run.orchestrator.model_copy(update={"hostname": host})
    run = run.model_copy(update={"metrics": metrics, "orchestrator": orchestrator})
    (folder / name).mkdir()
    (folder / name / "run.json").write_text(run.model_dump_json())
    machine = {"cpu": {"model": "EPYC", "logical_cpus": cpus}, "kernel": {"release": "6.9.1"}}
    (folder / name / "machine.json").write_text(json.dumps(machine))


def compared(folder: Path, *paths: str, given: Path | None = None) -> Answer:
    catalog = Catalog(Settings(folder, given=given), Index(folder, Path(":memory:")))
    catalog.index.refresh()
    try:
        return comparison_of(catalog, paths)
    finally:
        catalog.close()


def sessions(said: Answer) -> int:
    """Return of how many sessions the noise is known, 0 where it is not."""
    intro = next(section.intro for section in said.sections if section.anchor == "runs")
    count = intro.partition(" earlier sessions")[0]
    return int(count) if count.isdigit() else 0


def test_many_newer_runs_of_another_host_do_not_hide_earlier_sessions(tmp_path: Path) -> None:
    for at in range(20):
        write(tmp_path, f"a{at:02}", at * DAY_NS)
    for at in range(130):
        write(tmp_path, f"b{at:03}", 30 * DAY_NS + at * HOUR_NS, host="b")
    said = compared(tmp_path, "a18", "a19")
    assert sessions(said) == 12
    assert any(
        column.name == NOISE for section in said.sections for one in section.tables for column in one.columns
    )


def test_later_runs_say_nothing_of_earlier_ones(tmp_path: Path) -> None:
    for at in range(8):
        write(tmp_path, f"a{at}", at * DAY_NS)
    assert sessions(compared(tmp_path, "a4", "a5")) == 4
    assert sessions(compared(tmp_path, "a0", "a7")) == 0
    assert "3 earlier ones" in next(
        s.intro for s in compared(tmp_path, "a0", "a7").sections if s.anchor == "runs"
    )


@pytest.mark.parametrize("host", ["a", None])
def test_a_machine_of_another_size_is_another_machine(tmp_path: Path, host: str | None) -> None:
    for at in range(5):
        write(tmp_path, f"large{at}", at * DAY_NS, host=host, cpus=8)
    for at in range(2):
        write(tmp_path, f"small{at}", (5 + at) * DAY_NS, host=host)
    assert sessions(compared(tmp_path, "small0", "small1")) == 0
    assert sessions(compared(tmp_path, "large3", "large4")) == 3


def test_a_session_is_the_runs_of_one_day(tmp_path: Path) -> None:
    begin_ns = -(BASE.clock.realtime_ns % DAY_NS)
    for day in range(4):
        for at in range(3):
            write(tmp_path, f"a{day}{at}", begin_ns + day * DAY_NS + at * HOUR_NS)
    # The first of the last day is of the session that is compared.
    assert sessions(compared(tmp_path, "a31", "a32")) == 3
    assert sessions(compared(tmp_path, "a21", "a22")) == 0


@pytest.mark.parametrize(
    ("given", "shown"),
    [("my runs", "'my runs'"), ("data/runs", "data/runs"), ("/data/runs", "records"), (None, "records")],
)
def test_the_command_names_the_folder_and_what_it_does_not_read(
    tmp_path: Path, given: str | None, shown: str
) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    for at in range(6):
        write(folder, f"a{at}", at * DAY_NS)
    said = compared(folder, "a4", "a5", given=Path(given) if given else None)
    assert said.command == f"steelyard compare a4 a5 --runs {shown}"
    assert any("The command reads the two runs alone" in line for line in said.lines)
    assert not any("The command" in line for line in compared(folder, "a0", "a1").lines)


def judged(folder: Path, name: str, level: str, seed: int) -> None:
    """Give a run a verdict and a seed."""
    record = json.loads((folder / name / "run.json").read_text())
    record["verdict"]["level"] = level
    record["verdict"]["checks"] = [{"id": "errors", "level": level, "claim": "all requests failed"}]
    record["parameters"]["seed"] = {"value": seed, "unit": None, "source": "machine"}
    (folder / name / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("second", "says"), [("invalid", "None of them has a result"), ("suspect", "Only B has a result")]
)
def test_runs_without_a_result_are_counted(tmp_path: Path, second: str, says: str) -> None:
    for at, level in enumerate(("invalid", second)):
        write(tmp_path, f"a{at}", at * DAY_NS)
        judged(tmp_path, f"a{at}", level, seed=at)
    said = compared(tmp_path, "a0", "a1")
    assert said.heading.startswith(says)
    # A seed is drawn anew for each run.
    assert not [line for line in said.lines if "seed" in line]
    rows = [row for section in said.sections for one in section.tables for row in one.rows]
    assert not [row for row in rows if any("seed" in str(cell) for cell in row)]
