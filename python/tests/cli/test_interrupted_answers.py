"""An interrupt in any phase of commands that read, compute and answer: one line, and nothing half-done."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard._base import schemas_dir
from steelyard.cli import main
from steelyard.cli.main import invoke
from tests.cli.suites import write_suite
from tests.fleet import half_empty
from tests.folded import folded
from tests.interrupting import invoke_interrupted, moments_of, spread
from tests.report.runs import write_run
from tests.tune.machines import make_machine

INTERRUPTED = (4, "steelyard: interrupted\n")
MOMENTS = 6
"""Of each command: its first function, its last, and others between them."""

GOLDEN = schemas_dir() / "golden"
STACKS = {"db;main [db];get [db]": 500, "db;main [db];get [db];memcpy [libc.so.6]": 300}
CURVES = "size,replicate,rate\n" + "".join(
    f"{size},{run},{size * 10 + run}\n" for size in (1, 2) for run in range(6)
)
SCENARIOS = "scenario,co_runner,replicate,metric\n" + "".join(
    f"{scenario},,{run},{100 - 5 * scenario + run * 0.1}\n" for scenario in (1, 2, 3) for run in range(6)
)
SCALE = "cpus,ops_per_s\n1,100\n2,190\n4,350\n8,600\n"
MAPPING = """
[columns]
machine = "host"
platform = { value = "p" }
job = "job"
task = { value = "0" }
job_class = { value = "batch" }
window_start_unix_s = "t"
window_s = { value = 60.0 }
cpu_s = "cpu"
"""
SAMPLES = "host,job,t,cpu\n" + "".join(f"m{at % 3},j,{1_767_268_800 + 60 * at},{at}\n" for at in range(30))


def runs(folder: Path) -> None:
    for index, name in enumerate(("a", "b"), start=1):
        write_run(folder / "runs" / name, index=index, count=2, without=("telemetry", "cache_stats"))


def suites(folder: Path) -> None:
    for name in ("a", "b"):
        write_suite(folder / "runs" / name, ("tao", "feed"))


def golden(name: str) -> Callable[[Path], None]:
    def copy(folder: Path) -> None:
        (folder / "runs" / "a").mkdir(parents=True)
        shutil.copyfile(GOLDEN / name, folder / "runs" / "a" / name)

    return copy


def profiles(folder: Path) -> None:
    for name in ("a.folded", "b.folded"):
        folded(folder, STACKS, "# event: cpu-clock\n", name)


def text(name: str, content: str) -> Callable[[Path], None]:
    return lambda folder: [(folder / name).write_text(content), None][1]


def store(folder: Path) -> None:
    half_empty.make(folder / "store", half_empty.Shape(tables=frozenset({"task_samples", "machine_samples"})))


def samples(folder: Path) -> None:
    (folder / "samples.csv").write_text(SAMPLES)
    (folder / "mapping.toml").write_text(MAPPING)


PAGE = ["--report", "page.html"]
MACHINE = str(GOLDEN / "machine.json")
ANSWERS: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "list": (runs, ["list", "--json"]),
    "score": (runs, ["score", "a", "--json"]),
    "score of a suite": (suites, ["score", "a", "--json"]),
    "report": (runs, ["report", "a", "--json", *PAGE]),
    "compare": (runs, ["compare", "a", "b", "--json", *PAGE]),
    "compare suites": (suites, ["compare", "a", "b", "--json", *PAGE]),
    "matrix of a suite": (suites, ["characterize", "--suite", "runs/a", "--json", *PAGE]),
    "experiment": (golden("experiment.json"), ["experiment", "runs/a", "--json", *PAGE]),
    "experiment from curves": (
        text("curves.csv", CURVES),
        ["experiment", "--from", "curves.csv", "--json", *PAGE],
    ),
    "scale from a curve": (text("curve.csv", SCALE), ["scale", "--from", "curve.csv", "--json", *PAGE]),
    "numa experiment from figures": (
        text("figures.csv", SCENARIOS),
        ["numa", "experiment", "--from", "figures.csv", "--json", *PAGE],
    ),
    "numa map": (runs, ["numa", "map", "--machine", MACHINE, "--json"]),
    "machine diff": (runs, ["machine", "diff", MACHINE, MACHINE, "--json"]),
    "machine counters": (runs, ["machine", "counters", MACHINE, "--json"]),
    "profile show": (profiles, ["profile", "show", "a.folded", "--json", *PAGE]),
    "profile diff": (profiles, ["profile", "diff", "a.folded", "b.folded", "--json", *PAGE]),
    "profile export": (profiles, ["profile", "export", "a.folded", "--as", "speedscope"]),
    "colocation": (golden("colocation.json"), ["report", "a", "--json", *PAGE]),
    "tune show": (golden("tuning.json"), ["tune", "show", "runs/a", "--json"]),
    "tune list": (
        lambda folder: make_machine(folder / "machine"),
        ["tune", "list", "--root", "machine", "--json"],
    ),
    "install": (runs, ["install"]),
    "fleet check": (store, ["fleet", "check", "--store", "store", "--json"]),
}
"""Each with what it reads. Queries of a fleet are in ``bench/test_interrupted_phases.py``."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path / "stacks"))
    return tmp_path


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_interrupted_answer_is_whole_or_not_there(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, words = ANSWERS[name]
    prepare(here)
    before = files(here)
    # First for what is kept from one call to the next, and is not done again.
    assert invoke(words) in (0, 1), capsys.readouterr().err
    capsys.readouterr()
    _, moments = moments_of(words)
    said = capsys.readouterr()
    made = files(here) - before
    reached = 0
    for moment in spread(moments, MOMENTS):
        for path in made:
            path.unlink(missing_ok=True)
        code, is_reached = invoke_interrupted(moment, words)
        out, err = capsys.readouterr()
        reached += is_reached
        assert (code, err) == (INTERRUPTED if is_reached else (code, "")), moment
        assert code in (0, 1, 4), moment
        assert len(out) in (0, len(said.out)) or json.loads(out), moment
        assert files(here) - before <= made, moment
        assert all("</html>" in path.read_text() for path in made if path.suffix == ".html" and path.exists())
    assert reached >= MOMENTS // 2


CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "import": (
        samples,
        ["fleet", "import", "csv", "samples.csv", "--mapping", "mapping.toml", "--store", "store"],
    ),
    "compact": (store, ["fleet", "compact", "--store", "store"]),
    "expire": (
        store,
        ["fleet", "expire", "--keep-days", "1", "--today", "2026-01-03", "--store", "store"],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_interrupted_change_of_a_store_is_finished_by_the_next(
    name: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare, words = CHANGES[name]
    for which in ("first", "plain"):
        (here / which).mkdir()
        prepare(here / which)
    place = words.index("--store") + 1
    (here / "samples.csv").write_text(SAMPLES)
    (here / "mapping.toml").write_text(MAPPING)

    def on(which: str) -> list[str]:
        return [*words[:place], f"{which}/store", *words[place + 1 :]]

    assert invoke(on("first")) == 0, capsys.readouterr().err
    _, moments = moments_of(on("plain"))
    capsys.readouterr()
    reached = 0
    for number, moment in enumerate(spread(moments, MOMENTS)):
        which = f"{number}"
        (here / which).mkdir()
        prepare(here / which)
        code, is_reached = invoke_interrupted(moment, on(which))
        reached += is_reached
        assert (code, capsys.readouterr().err) == (INTERRUPTED if is_reached else (0, "")), moment
        assert not [path for path in (here / which).rglob("*") if "partial" in path.name], moment
        assert invoke(on(which)) == 0
        assert rows(here / which, capsys) == rows(here / "plain", capsys), moment
    assert reached >= MOMENTS // 2


def rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> object:
    """Return what a store holds, as its check reports it, where nothing is wrong with it."""
    capsys.readouterr()
    assert invoke(["fleet", "check", "--store", str(folder / "store"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    return {name: table["rows"] for name, table in document["tables"].items()}


def test_an_interrupted_simulation_leaves_no_store_that_looks_whole(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fleet", "simulate", "--machines", "3", "--days", "1", "--step-s", "1800", "--store"]
    assert invoke([*words, "first"]) == 0
    _, moments = moments_of([*words, "plain"])
    for number, moment in enumerate(spread(moments, MOMENTS)):
        capsys.readouterr()
        code, is_reached = invoke_interrupted(moment, [*words, f"{number}"])
        assert (code, capsys.readouterr().err) == (INTERRUPTED if is_reached else (0, "")), moment
        left = here / f"{number}"
        assert not [path for path in left.rglob("*") if "partial" in path.name], moment
        # The truth is written last: with it, all is there.
        if (left / "truth.json").exists():
            tables = {path.name for path in (here / "plain").iterdir()}
            assert {path.name for path in left.iterdir()} == tables, moment


def test_an_interrupt_before_the_command_is_no_traceback(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def whole(arguments: list[str]) -> int:
        monkeypatch.setattr(sys, "argv", ["steelyard", *arguments])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return int(str(ended.value.code))

    assert invoke_interrupted("steelyard.cli.main:invoke", ["list", "--json"], run=whole) == (4, True)
    assert capsys.readouterr().err == INTERRUPTED[1]
