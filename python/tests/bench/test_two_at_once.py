"""Two commands that write into one folder at the same time: neither loses, mixes nor shows half a result."""

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

from steelyard.bench import runs
from steelyard.bench.suites import suite as suites
from steelyard.fleet.store.store import open_store
from steelyard.records import RunStatus
from steelyard.telemetry.engine import fetch_rows
from tests.bench.conftest import MARK, SHORT, marked, until
from tests.bench.sample_benchmarks import QUICK_WORDS

PACKAGE = Path(runs.__file__).parents[2]


def start(
    mark: str, state: Path, *arguments: str, module: str = "steelyard.cli.main"
) -> "subprocess.Popen[str]":
    """Start one `steelyard` command whose processes can be found by ``mark``."""
    environment = {**os.environ, MARK: mark, "PYTHONPATH": str(PACKAGE), "XDG_STATE_HOME": str(state)}
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=PACKAGE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def run_command(out: Path) -> list[str]:
    """A short run of tao into ``out``."""
    chosen = [word for text in SHORT for word in ("--set", text)]
    return ["run", "tao", "--tier", "smoke", "--json", *chosen, "--out", str(out)]


def test_two_runs_in_one_folder_are_two_whole_runs(tmp_path: Path) -> None:
    out, mark = tmp_path / "runs", uuid.uuid4().hex
    both = [start(mark, tmp_path / "state", *run_command(out)) for _ in range(2)]
    try:
        until(lambda: len(list(out.glob("*/run.json"))) == 2)
        # Whoever looks meanwhile sees both, and no result before there is one.
        for _, run in runs.listing(out):
            assert not isinstance(run, Exception)
            assert run.status in (RunStatus.RUNNING, RunStatus.COMPLETE)
            assert run.status is RunStatus.COMPLETE or run.metrics == {}
        said = [one.communicate(timeout=90) for one in both]
    finally:
        for one in both:
            if one.poll() is None:
                one.kill()
                one.communicate()
    until(lambda: not marked(mark))
    shown = []
    for one, (stdout, stderr) in zip(both, said, strict=True):
        assert one.returncode in (0, 1), stderr
        assert "Traceback" not in stderr
        shown += json.loads(stdout)["runs"]
    found = {directory.name: run for directory, run in runs.listing(out)}
    assert {one["run_id"] for one in shown} == set(found)
    assert len(found) == 2
    ports = set()
    for name, run in found.items():
        assert not isinstance(run, Exception)
        assert run.run_id == name
        assert run.status is RunStatus.COMPLETE
        assert run.verdict is not None
        assert all((out / name / file).exists() for file in run.artifacts.values())
        (server,) = (one for one in run.processes if one.name == "server")
        ports.add(next(word for word in server.command if word.isdigit() and int(word) > 1023))
    assert len(ports) == 2
    assert sorted(path.name for path in out.iterdir()) == sorted(found)


def finish(both: "list[subprocess.Popen[str]]") -> list[tuple[str, str]]:
    """Wait for the ends of commands; return what they said."""
    try:
        return [one.communicate(timeout=200) for one in both]
    finally:
        for one in both:
            if one.poll() is None:
                one.kill()
                one.communicate()


def test_two_suites_in_one_folder_are_two_whole_suites(tmp_path: Path) -> None:
    out, mark = tmp_path / "runs", uuid.uuid4().hex
    words = ["run", "sample", "--repeat", "2", *QUICK_WORDS, "--json", "--out", str(out)]
    module = "tests.bench.sample_benchmarks"
    both = [
        start(mark, tmp_path / "state", str(tmp_path / f"site{number}"), *words, module=module)
        for number in range(2)
    ]
    shown = []
    for one, (stdout, stderr) in zip(both, finish(both), strict=True):
        assert one.returncode == 0, stderr
        shown.append(json.loads(stdout)["suite"]["suite_id"])
    found = runs.suites(out)
    assert {directory.name for directory in found} == set(shown)
    assert len(found) == 2
    for directory in found:
        suite, members = suites.load(directory)
        assert suite.status is RunStatus.COMPLETE
        assert len(members) == 6
        assert {run.run_id for _, run in members} == {run.run_id for one in suite.members for run in one.runs}
    assert sorted(path.name for path in out.iterdir()) == sorted(shown)


def test_two_simulations_into_one_store_are_one_of_them(tmp_path: Path) -> None:
    store, mark = tmp_path / "store", uuid.uuid4().hex
    words = ["fleet", "simulate", "--store", str(store), "--machines", "6", "--days", "1", "--step-s", "600"]
    both = [start(mark, tmp_path / "state", *words, "--seed", str(seed)) for seed in (1, 2)]
    said = finish(both)
    assert sorted(one.returncode for one in both) == [0, 2], said
    for one, (_, stderr) in zip(both, said, strict=True):
        if one.returncode == 2:
            assert re.search("another command is writing there|holds a simulated fleet already", stderr)
            assert stderr.count("\n") == 1
    truth = json.loads((store / "truth.json").read_text())
    with open_store(str(store)) as opened:
        tasks = fetch_rows(opened.table("task_samples").agg(rows=opened.table("task_samples").count()))
    assert truth["rows"]["task_samples"] == tasks[0]["rows"]
    assert not list(store.glob(".*"))
