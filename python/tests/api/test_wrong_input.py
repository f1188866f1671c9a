"""What does not fit a function is one error with a hint, in Python's terms."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import steelyard
from steelyard._base import ResultSaysNoError, UsageError, command_text
from tests.calling import call
from tests.fleet.simulated import simulated_store
from tests.report.pages_of_answers import GOLDEN
from tests.report.runs import write_run

wrong: Any = steelyard
"""The package, of which a checker does not know the types."""
HELP = "help({}) says what it takes"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "run-1")
    (folder / "experiment-1").mkdir()
    shutil.copy(GOLDEN / "experiment.json", folder / "experiment-1" / "experiment.json")
    (folder / "two.csv").write_text("machine,cpus,a_per_s,b_per_s\nx,4,1000,20\ny,8,1900,30\n")
    return folder


@pytest.fixture(scope="module")
def store() -> Iterator[steelyard.FleetStore]:
    url = simulated_store(machines=12, days=1, platforms=2, clusters=1, step_s=120)
    with steelyard.open_store(url) as made:
        yield made


@pytest.mark.parametrize(
    ("call_it", "said", "hint"),
    [
        (lambda: wrong.this_machine(foo=1), "this_machine() has no option 'foo'", "its options: none"),
        (lambda: wrong.run("tao", settings="memory=1"),
         "run() takes a dict as settings, not 'memory=1'", HELP.format("run")),
        (lambda: wrong.run("tao", repeat="x"), "run() takes a whole number as repeat, not 'x'",
         HELP.format("run")),
        (lambda: wrong.run("tao", tier=5), "run() takes a text as tier, not 5", HELP.format("run")),
        (lambda: wrong.run("tao", hooks=5), "run() takes texts as hooks, not 5", HELP.format("run")),
        (lambda: wrong.run("tao", out=None), "run() takes a path as out, not None", HELP.format("run")),
        (lambda: wrong.run(None), "run() takes a text as name, not None", HELP.format("run")),
        (lambda: wrong.read(None), "read() takes a path as path, not None", HELP.format("read")),
        (lambda: wrong.read(3), "read() takes a path as path, not 3", HELP.format("read")),
        (lambda: wrong.read("x", runs=None), "read() takes a path as runs, not None",
         HELP.format("read")),
        (lambda: wrong.compare("x", pd.DataFrame()), "compare() takes a path as b, not a DataFrame",
         HELP.format("compare")),
        (lambda: wrong.open_store(None), "open_store() takes a path as url, not None",
         HELP.format("open_store")),
        (lambda: wrong.choose(pd.DataFrame({"a": range(99)})),
         "choose() takes paths, or what read() returned, not a DataFrame",
         "write a table to a CSV file, and give its path"),
        (lambda: wrong.size(["a.csv", "b.csv"]),
         "size() takes paths, or what read() returned, not a list", "size(*paths)"),
        (lambda: wrong.project(None, target="x"),
         "project() takes paths, or what read() returned, not None",
         "write a table to a CSV file, and give its path"),
        (lambda: wrong.score(pd.DataFrame()),
         "score() takes paths, or what read() returned, not a DataFrame",
         "write a table to a CSV file, and give its path"),
        (lambda: wrong.size(curves=pd.DataFrame({"cpus": [1]})), "curves: not a list but a DataFrame",
         None),
        (lambda: wrong.choose(columns=pd.DataFrame()), "columns: a DataFrame is no text or number", None),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_one_line(call_it: Any, said: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        call_it()
    assert (caught.value.message, caught.value.hint) == (said, hint)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("top", {"rows": "x"}, "rows: 'x' is no number"),
        ("top", {"rows": 0}, "rows: 0 is outside 1.."),
        ("top", {"rows": -5}, "rows: -5 is outside 1.."),
        ("top", {"rows": 2.5}, "rows: '2.5' is no number"),
        ("top", {"rows": True}, "rows: True is no number"),
        ("top", {"rows": None}, "rows: None is no number"),
        ("top", {"by": 3}, "by: 3 is no text"),
        ("top", {"by": "colour"}, "by"),
        ("top", {"job": 7}, "job: 7 is no list of texts"),
        ("top", {"rules": 7}, "rules: 7 is no path"),
        ("cpi_specs", {"gev": "no"}, "gev: 'no' is neither True nor False"),
        ("cpi_specs", {"write": 1}, "write: 1 is neither True nor False"),
    ],
)
def test_options_of_queries_have_the_bounds_of_the_command_line(
    name: str, options: dict[str, Any], said: str, store: steelyard.FleetStore
) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(store, name)(**options)
    assert said in caught.value.message


def test_options_of_queries_may_be_one_text_or_none(store: steelyard.FleetStore) -> None:
    assert store.top(by="job", job=None, rows=2).figures()
    jobs = [one.row.split(",")[0] for one in store.top(by="job").figures()]
    assert {one.row.split(",")[0] for one in store.top(by="job", job=jobs[0]).figures()} <= set(jobs)


def test_a_store_and_its_answers_say_where_they_are_from(store: steelyard.FleetStore) -> None:
    assert repr(store) == f"<FleetStore {store.url}, duckdb>"
    for found, words in (
        (store.top(by="job", rows=3), ["top", "--store", store.url, "--by", "job", "--rows", "3"]),
        (store.cpi_specs(gev=False), ["cpi", "specs", "--store", store.url, "--no-gev"]),
        (store.cpi_incidents(each=True), ["cpi", "incidents", "--store", store.url, "--all"]),
        (
            store.diff(a="to=2026-03-02T12:00", b="from=2026-03-02T12:00"),
            ["diff", "to=2026-03-02T12:00", "from=2026-03-02T12:00", "--store", store.url],
        ),
    ):
        assert found.answer.command == command_text(["steelyard", "fleet", *words])
        assert call("fleet", *words, "--json").returncode in (0, 1)
    with steelyard.open_store(store.url, first="2026-03-02") as some:
        assert some.top(rows=1).answer.command.endswith("--from 2026-03-02 --rows 1")


def test_hints_are_in_terms_of_python(out: Path) -> None:
    with pytest.raises(ResultSaysNoError) as caught:
        steelyard.read(out / "experiment-1").findings()
    assert caught.value.hint == "figures() has the figures of any folder"
    with pytest.raises(UsageError) as many:
        steelyard.size(out / "two.csv", rate=1e5)
    assert "--" not in f"{many.value.message} {many.value.hint}"
    assert str(many.value.hint).startswith("workload=NAME")


def test_an_experiment_is_compared_with_nothing(out: Path) -> None:
    with pytest.raises(UsageError, match="is no run but of the kind experiment") as caught:
        steelyard.compare("run-1", "experiment-1", runs=out)
    assert caught.value.hint == "read('experiment-1') shows it"
