"""An interrupt in each phase of fleet queries, of a health check and of a suite: at a call, not at a time."""

import json
from pathlib import Path

import pytest

from steelyard.bench import runs
from steelyard.bench.health import check as health
from steelyard.bench.suites import suite as suites
from steelyard.cli.main import invoke
from steelyard.records import RunStatus
from tests.bench import sample_benchmarks
from tests.fleet.half_empty import make
from tests.fleet.test_half_empty import QUERIES, SHAPES
from tests.interrupting import invoke_interrupted

INTERRUPTED = (4, "", "steelyard: interrupted\n")


def half_written(folder: Path) -> list[str]:
    """Return the files below ``folder`` that were never finished."""
    return [path.name for path in folder.rglob("*") if "partial" in path.name]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make(tmp_path_factory.mktemp("fleet") / "store", SHAPES["several of all"])


OPENING = ("steelyard.fleet.store.store:open_store", "steelyard.fleet.store.listing:list_table")
ANSWERING = ("steelyard.telemetry.engine:fetch_deferred", "steelyard.cli.output:print_json")


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_a_fleet_answers_whole_or_not_at_all(name, store, capsys):
    words = ["fleet", *QUERIES[name], "--store", store, "--json"]
    reached = 0
    for moment in (*OPENING, *ANSWERING):
        code, is_reached = invoke_interrupted(moment, words)
        out, err = capsys.readouterr()
        reached += is_reached
        if is_reached:
            assert (code, out, err) == INTERRUPTED, moment
        else:
            # Too few rows are reported before anything is computed.
            assert code in (0, 1, 3), moment
            assert "internal" not in err, moment
    assert reached >= 2
    assert half_written(Path(store.removeprefix("file://"))) == []


def test_an_interrupted_page_of_a_query_is_no_page(store, capsys, tmp_path):
    page = tmp_path / "page.html"
    words = ["fleet", *QUERIES["cpi specs of few"], "--store", store, "--report", str(page)]
    code, is_reached = invoke_interrupted("steelyard._base.writing:replace", words)
    assert is_reached
    assert (code, *capsys.readouterr())[::2] == INTERRUPTED[::2]
    assert list(tmp_path.iterdir()) == []


CHECK = ["health", "--quick", "--part", "core_to_core", "--accept"]


@pytest.mark.parametrize(
    ("moment", "call"),
    [
        ("steelyard.bench.health.check:new_folder", 1),
        ("steelyard.bench.health.check:measure", 1),
        ("steelyard.records.io:fsync", 1),
        ("steelyard.bench.health.check:_follow", 1),
        ("steelyard.bench.health.check:stop", 1),
        ("steelyard.bench.health.judging:judged", 1),
        ("steelyard._base.writing:replace", 2),
        ("steelyard.report.answer.page:write_page", 1),
        ("steelyard.cli.output:print_json", 1),
    ],
)
def test_an_interrupted_health_check_counts_whole_or_not_at_all(moment, call, capsys, tmp_path):
    code, is_reached = invoke_interrupted(moment, [*CHECK, "--json", "--out", str(tmp_path)], call=call)
    assert is_reached
    assert (code, *capsys.readouterr())[:2] == INTERRUPTED[:2]
    assert half_written(tmp_path) == []
    has_counted = moment.rpartition(":")[2] in ("write_page", "print_json")
    checks = health.history(tmp_path, health.machine_identity(), mode="quick")
    assert len(checks) == has_counted


@pytest.fixture
def sample(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)
    return ["run", "sample", *sample_benchmarks.QUICK_WORDS, "--out", str(tmp_path / "runs"), "--json"]


@pytest.mark.parametrize(
    ("moment", "call"),
    [
        ("steelyard.bench.launch:make_run_folder", 1),
        ("steelyard.records.io:fsync", 1),
        ("steelyard.bench.launch:make_run_folder", 2),
        *((f"tests.bench.sample_benchmarks:{phase}", 1) for phase in ("install", "start", "warm_up")),
        *((f"tests.bench.sample_benchmarks:{phase}", 2) for phase in ("measure", "drain", "collect")),
        ("steelyard.bench.suites.suite:finish", 1),
    ],
)
def test_an_interrupted_suite_has_no_half_result(moment, call, sample, capsys, tmp_path):
    code, is_reached = invoke_interrupted(moment, sample, call=call)
    _, err = capsys.readouterr()
    assert is_reached
    assert code == 4 or moment.endswith("finish")
    assert "Traceback" not in err
    assert half_written(tmp_path / "runs") == []
    for _, run in runs.listing(tmp_path / "runs"):
        assert run.status in (RunStatus.COMPLETE, RunStatus.INCOMPLETE)
        assert run.status is RunStatus.COMPLETE or run.metrics == {}
    for directory in runs.suites(tmp_path / "runs"):
        suite, _ = suites.load(directory)
        # Of this process, which lives on: a suite that it left behind would be shown as running.
        assert suite.status in (RunStatus.COMPLETE, RunStatus.INCOMPLETE)
        assert (suite.status is RunStatus.COMPLETE) == moment.endswith("finish")


@pytest.mark.parametrize(
    "moment", ["steelyard.report.folders.scores:weighed", "steelyard.report.html:write_data"]
)
def test_a_suite_that_is_interrupted_while_it_is_shown_keeps_its_results(moment, sample, capsys, tmp_path):
    code, is_reached = invoke_interrupted(moment, sample)
    capsys.readouterr()
    assert is_reached
    assert code == 4
    assert half_written(tmp_path / "runs") == []
    (directory,) = runs.suites(tmp_path / "runs")
    suite, found = suites.load(directory)
    assert suite.status is RunStatus.COMPLETE
    assert all(run.status is RunStatus.COMPLETE for _, run in found)
    assert invoke(["report", str(directory), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)
