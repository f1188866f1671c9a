"""An interrupt in any command: an exit code, no traceback, nothing left behind, no half result."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from steelyard.bench import runs
from steelyard.cli.main import invoke
from steelyard.records import RunStatus
from tests.bench.conftest import LONG_WARMUP, MARK, marked, until
from tests.report.runs import write_run

PACKAGE = Path(runs.__file__).parents[2]
START = (
    "import faulthandler, signal; faulthandler.register(signal.SIGUSR1, all_threads=True);"
    "from steelyard.cli.start import main; main()"
)
"""The command, which says where it is when it is asked by SIGUSR1."""


class Command:
    """A `steelyard` command whose processes can be found."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.mark = uuid.uuid4().hex
        state = str(folder / "state")
        environment = {**os.environ, MARK: self.mark, "PYTHONPATH": str(PACKAGE), "XDG_STATE_HOME": state}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def others(self) -> dict[int, str]:
        """Return its processes but itself."""
        return {pid: line for pid, line in marked(self.mark).items() if pid != self.process.pid}

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end, which leaves nothing behind; one that does not end says where it is."""
        try:
            out, err = self.process.communicate(timeout=100)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            self.process.kill()
            pytest.fail("it did not end: " + self.process.communicate()[1])
        until(lambda: not self.others())
        assert "Traceback" not in err
        return self.process.returncode, out, err


@pytest.fixture
def start(tmp_path: Path) -> "Iterator[type[Command]]":
    made: list[Command] = []

    def begin(*arguments: str) -> Command:
        made.append(Command(tmp_path, *arguments))
        return made[-1]

    yield begin  # type: ignore[misc]
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_characterization_stops_in_order(sent, start, tmp_path):
    command = start("characterize", "--hz", "0", "--duration", "0", "--", "sleep", "100")
    until(lambda: any("sleep 100" in line for line in command.others().values()), 60)
    command.process.send_signal(sent)
    code, _, err = command.finish()
    assert code == 4
    assert f"stopped by {sent.name}" in err
    ((_, run),) = runs.listing(tmp_path / "runs")
    assert run.status is RunStatus.INCOMPLETE
    assert run.metrics == {}


def is_load(line: str) -> bool:
    """Tell the load of a run from the load that only checks its arguments, before there is a run."""
    return "steelyard-load" in line and "--check" not in line


def test_a_second_interrupt_ends_a_run_at_once(start, tmp_path):
    chosen = [word for text in ("memory=8MiB", *LONG_WARMUP) for word in ("--set", text)]
    command = start("run", "tao", "--tier", "smoke", *chosen)
    until(lambda: any(is_load(line) for line in command.others().values()), 60)
    command.interrupt()
    # Before the first has had its effect or after: the end is the same but for what is said.
    command.interrupt()
    code, _, err = command.finish()
    assert code == 4, err
    ((_, run),) = runs.listing(tmp_path / "runs")
    assert run.status is RunStatus.INCOMPLETE
    assert run.metrics == {}


def test_an_interrupted_recording_keeps_what_it_has_or_nothing(start, tmp_path):
    command = start("profile", "record", "--out", "profile", "--no-report", "--", "sleep", "100")
    until(lambda: any(line.startswith("sleep 100") for line in command.others().values()), 60)
    command.interrupt()
    code, _, _ = command.finish()
    assert code in (0, 1, 4)
    left = [path.name for path in tmp_path.iterdir() if path.name != "state"]
    assert left in ([], ["profile"])


@pytest.mark.parametrize("arguments", [["list"], ["report", "run"], ["doctor"]], ids=" ".join)
@pytest.mark.parametrize("after_s", [0.1, 0.6])
def test_an_interrupt_at_any_moment_is_no_traceback(arguments, after_s, start, tmp_path):
    if arguments[0] == "report":
        write_run(tmp_path / "runs" / "run", without=("telemetry", "cache_stats"))
    command = start(*arguments)
    time.sleep(after_s)
    command.interrupt()
    out, err = command.process.communicate(timeout=100)
    # Before our first line runs, the interpreter is loading its own modules and complains in its own way.
    assert "steelyard" not in err.replace("steelyard: interrupted", "")
    assert command.process.returncode in (0, 1, 3, 4, -signal.SIGINT)
    assert command.process.returncode != 0 or out
    assert not command.others()


SWALLOWED = """
import signal, sys, time, weakref
from steelyard.cli import main

class Thing:
    pass

def invoke(arguments):
    # What a callback raises is printed and goes no further.
    thing = Thing()
    callback = weakref.ref(thing, lambda _: signal.raise_signal(getattr(signal, sys.argv[1])))
    del thing
    for _ in range(600):
        time.sleep(0.1)
    return 0

main.parser_of = lambda name: lambda *words, **more: invoke(words)
main.main()
"""


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_a_callback_swallows_comes_once_more(sent):
    """As that of a module's lock does while modules are loaded."""
    done = subprocess.run([sys.executable, "-c", SWALLOWED, sent], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (4, "steelyard: interrupted\n")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet") / "store"
    arguments = ["--machines", "6", "--jobs", "12", "--days", "1", "--step-s", "600", "--files", "machine"]
    assert invoke(["fleet", "simulate", "--store", str(folder), *arguments]) == 0
    return folder


def rows(store: Path) -> int:
    with duckdb.connect() as engine:
        ((count,),) = engine.execute(f"select count(*) from '{store}/task_samples/**/*.parquet'").fetchall()
    return int(count)


@pytest.mark.parametrize("after_s", [0.7, 1.5])
def test_an_interrupted_compaction_loses_and_doubles_nothing(after_s, start, store, tmp_path):
    copy = tmp_path / "store"
    shutil.copytree(store, copy)
    before = rows(copy)
    command = start("fleet", "compact", "--store", str(copy))
    time.sleep(after_s)
    command.interrupt()
    code, _, _ = command.finish()
    assert code in (0, 4, -signal.SIGINT)
    # The next compaction ends what was begun.
    assert invoke(["fleet", "compact", "--store", str(copy)]) == 0
    assert rows(copy) == before


@pytest.mark.parametrize("after_s", [0.5, 1.0, 1.5])
def test_an_interrupted_query_is_no_half_answer(after_s, start, store):
    query = ["cpi", "incidents", "--specs", "computed", "--min-tasks", "2", "--min-samples", "10", "--json"]
    command = start("fleet", *query, "--store", str(store))
    time.sleep(after_s)
    command.interrupt()
    code, out, _ = command.finish()
    assert code in (0, 4, -signal.SIGINT)
    # An interrupt may come after the answer was printed.
    if out or code == 0:
        assert json.loads(out)["engine"] == "duckdb"


def test_an_interrupted_suite_begins_no_further_member(start, tmp_path):
    command = start("run", "smoke")
    until(lambda: any(is_load(line) for line in command.others().values()), 60)
    command.interrupt()
    code, _, err = command.finish()
    assert code == 4
    assert "stopped by SIGINT" in err
    ((_, run),) = runs.listing(tmp_path / "runs")
    assert run.status is RunStatus.INCOMPLETE
    (suite,) = runs.suites(tmp_path / "runs")
    assert json.loads((suite / "suite.json").read_text())["status"] == "incomplete"
