"""Real programs, each held back by something else, and what `steelyard characterize` says of them."""

import io
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import SteelyardError, executable
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.rules.disk import FULL_RATIO, LARGE_BYTES
from steelyard.analyze.rules.profiles import SAMPLES
from steelyard.cli.main import invoke
from steelyard.machine import snapshot
from steelyard.records import Run, RunStatus, read
from tests.bench.conftest import MARK, marked, until

PROGRAMS = Path(__file__).parent / "programs"
SECONDS = "1.5"
"""How long each program works: fifteen looks at its threads, and 150 samples of a busy CPU."""
LOOK_S = 0.1
"""Time between two looks."""


@pytest.fixture(autouse=True)
def _executables() -> None:
    for name in ("steelyard-exec", "steelyard-probe"):
        executable(name)


def profiler() -> bool:
    """Return whether profiles can be made here."""
    try:
        executable("steelyard-profile")
    except SteelyardError:
        return False
    return True


@dataclass
class Caller:
    """Calls the command in this process, which has loaded everything already, and takes what it says."""

    out: Path

    def __call__(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """Return exit code, document and standard error."""
        said, complained = io.StringIO(), io.StringIO()
        with redirect_stdout(said), redirect_stderr(complained):
            code = invoke(["characterize", "--json", "--out", str(self.out), *arguments])
        assert "Traceback" not in complained.getvalue()
        return code, json.loads(said.getvalue()) if said.getvalue() else {}, complained.getvalue()

    def describe(self, name: str, *arguments: str) -> dict[str, Any]:
        """Characterize a test program for a moment; return the document.

        What neighbours take makes a characterization suspect, never invalid: it ends with 0 beside them, too.
        """
        program = [sys.executable, str(PROGRAMS / name), SECONDS, *arguments]
        code, document, said = self("--duration", "10s", "--", *program)
        assert code == 0, said
        assert Path(document["report"]).is_file()
        return document


@pytest.fixture
def characterize(tmp_path: Path) -> Caller:
    return Caller(tmp_path / "runs")


@pytest.fixture(scope="module")
def cpu_bound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The document of a program that computes, which several tests look at."""
    return Caller(tmp_path_factory.mktemp("cpu-bound")).describe("cpu_bound.py")


def parts(document: dict[str, Any]) -> list[str]:
    return [point["part"] for point in document["pressure_points"] if point["finding"] is not None]


def findings(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {finding["id"]: finding for finding in document["findings"]}


def test_a_cpu_bound_program(cpu_bound: dict[str, Any]) -> None:
    found = findings(cpu_bound).keys()
    bound = found & {"one-thread", "cpu-bound"}
    # Neighbours may leave it so little CPU time that it has no finding of its own.
    assert bound or "cpus-taken" in found
    if bound:
        assert "cpu" in parts(cpu_bound)
        assert cpu_bound["program"]["busiest_wanted_ratio"]["value"] > 0.9
    assert "lock-contention" not in found


def test_a_program_bound_by_memory_bandwidth(tmp_path: Path, characterize: Caller) -> None:
    if not profiler():
        pytest.skip("there is no steelyard-profile: nothing else tells copies without counters")
    largest = max((cache.size_bytes for cache in snapshot().cpu.caches), default=32 << 20)
    # Both arrays are in memory before it is looked at: on a virtual machine whose memory was never used, the
    # first touch of a gigabyte takes longer than all the copies.
    command = [sys.executable, str(PROGRAMS / "memory_bound.py"), str(min(512 << 20, 3 * largest))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            # As long as it takes to get samples enough for the rules: neighbours may leave it little.
            for seconds in (float(SECONDS), 6.0, 30.0):
                code, document, said = characterize(
                    "--duration", f"{seconds}s", "--hz", "499", "--pid", str(program.pid)
                )
                folded = Path(document["directory"]) / "profile.folded"
                if folded.exists() and read_folded(folded).total > 2 * SAMPLES:
                    break
        finally:
            program.kill()
    assert code == 0, said
    found = findings(document)["memory-copies"]
    assert "probably" in found["claim"]
    assert found["sure"] is False
    assert "dram_bandwidth" in parts(document)


def test_a_disk_bound_program(tmp_path: Path, characterize: Caller) -> None:
    document = characterize.describe("disk_bound.py", str(tmp_path / "file"), str(1 << 20))
    found = findings(document)["waits-for-disk"]
    evidence = {row["metric"].split(" ", 1)[-1]: row["value"] for row in found["evidence"]}
    # Small operations of neighbours on the same disk pull the mean size down: then latency is its limit.
    is_full = evidence["mean size"] >= LARGE_BYTES and evidence["busy"] >= FULL_RATIO
    limit = "disk_bandwidth" if is_full else "disk_latency"
    assert limit in parts(document)


@contextmanager
def limited_link(megabits: int) -> Iterator[tuple[str, str]]:
    """A namespace behind a link with a token bucket: its name and the address to send to."""
    tag = uuid.uuid4().hex[:6]
    space, near, far = f"syn{tag}", f"syn{tag}", f"syf{tag}"
    address = f"10.213.{int(tag[:2], 16)}"

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    made = False
    try:
        ip("netns", "add", space)
        made = True
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", space)
        ip("addr", "add", f"{address}.1/30", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", space, "addr", "add", f"{address}.2/30", "dev", far)
        ip("-n", space, "link", "set", far, "up")
        limit = ["rate", f"{megabits}mbit", "burst", "64kb", "latency", "200ms"]
        subprocess.run(["tc", "qdisc", "add", "dev", near, "root", "tbf", *limit], check=True)
        yield space, f"{address}.2"
    finally:
        subprocess.run(["ip", "link", "del", near], check=False, capture_output=True)
        if made:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def test_a_network_bound_program(tmp_path: Path, characterize: Caller) -> None:
    if os.geteuid() != 0:
        pytest.skip("namespaces and limits need root")
    # So slow that the queue lasts while both ends wait for a CPU on a busy machine.
    with limited_link(20) as (space, address):
        sink = subprocess.Popen(
            ["ip", "netns", "exec", space, sys.executable, str(PROGRAMS / "sink.py"), address],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert sink.stdout is not None
            port = sink.stdout.readline().strip()
            document = characterize.describe("network_bound.py", address, port)
        finally:
            sink.kill()
            sink.communicate()
    (limit,) = (one for one in document["limits"] if one["kind"] == "tbf")
    assert limit["limit_bytes_per_s"] == 2.5e6
    # Among many neighbours both ends wait for a CPU instead, and the link rests.
    used = limit["sent_bytes_per_s"] / limit["limit_bytes_per_s"]
    assert used > 0.3
    assert ("link-limited" in findings(document)) == (used >= 0.8)
    assert "network" in parts(document)
    assert document["program"]["waits"]["network"] > 0.3


def test_a_lock_contended_program(tmp_path: Path, characterize: Caller) -> None:
    document = characterize.describe("lock_contended.py", "4")
    found = findings(document)
    assert "lock-contention" in found
    assert "locks" in parts(document)
    assert "oversubscribed" not in found
    assert "likely" in found["lock-contention"]["claim"]


def test_an_oversubscribed_program(tmp_path: Path, characterize: Caller) -> None:
    count = len(os.sched_getaffinity(0))
    document = characterize.describe("oversubscribed.py", str(3 * count))
    assert "oversubscribed" in findings(document)
    assert {"scheduler", "cpu"} <= set(parts(document))


def test_a_run_leaves_what_any_run_leaves(cpu_bound: dict[str, Any]) -> None:
    folder = Path(cpu_bound["directory"])
    run = read(Run, folder / "run.json")
    assert run.status is RunStatus.COMPLETE
    assert run.verdict is not None
    assert {check.id for check in run.verdict.checks} >= {"length", "program", "telemetry"}
    left = ("telemetry/telemetry.json", "target/telemetry.json", "shaping.json", "report.html")
    for name in ("machine.json", *left):
        assert (folder / name).is_file(), name
    watch = run.hooks["watch"]
    assert isinstance(watch, dict)
    assert int(str(watch["looks"])) > 5
    used_s, elapsed_s = (run.metrics[name].value for name in ("cpu_time_s", "elapsed_s"))
    assert used_s is not None
    assert elapsed_s is not None
    # One thread and its supervisor; how much of a CPU they got is for the machine to say.
    assert 0 < used_s < elapsed_s + LOOK_S
    assert 0 < float(str(watch["cpu_s"])) < elapsed_s
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert measure.end_ns is not None
    # How much longer than its 1.5 s the program takes is for the machine to say.
    assert measure.end_ns - measure.begin_ns > 1.4e9
    if not profiler():
        assert "steelyard-profile" in cpu_bound["missing"]["profile"]
    elif (folder / "profile.folded").is_file():
        assert 'id="chart-times"' in (folder / "report.html").read_text()


def test_performance_events_are_counted_beside_a_command(cpu_bound: dict[str, Any]) -> None:
    counters = cpu_bound["counters"]
    why_not = counters["missing"] or ""
    if "perf_event_paranoid" in why_not or "not permitted" in why_not:
        pytest.skip(f"the kernel does not let its events be counted: {why_not}")
    assert (counters["source"], counters["scope"]) == ("steelyard-probe", "process")
    assert counters["duration_s"] > 0
    metrics = counters["metrics"]
    counted_s = metrics["cpus_used"]["value"] * counters["duration_s"]
    whole_s, elapsed_s = (cpu_bound["metrics"][name]["value"] for name in ("cpu_time_s", "elapsed_s"))
    # It has one thread: what it used while nobody counted is no more than that time was long. Neighbours make
    # the program slow and the counting begin late; neither changes this.
    assert counted_s <= whole_s + LOOK_S
    assert counted_s >= whole_s - (elapsed_s - counters["duration_s"]) - LOOK_S
    for name in ("context_switches_per_s", "page_faults_per_s"):
        assert metrics[name]["value"] is not None, metrics[name]
    law = counters["iron_law"]
    ipc = law["ipc"]
    if ipc["value"] is None:
        # Why the machine has none, and not only that there was none.
        assert "among the events" not in ipc["missing"], ipc
        assert metrics["ipc"]["missing"] == ipc["missing"]
    else:
        assert 0.05 < ipc["value"] < 10


def test_activity_is_shown_by_value(cpu_bound: dict[str, Any]) -> None:
    found = {each["name"]: each for each in cpu_bound["histograms"]}
    assert found["runnable"]["low"] >= 1, "the program itself ran at every reading"
    assert found["user"]["mean"] > 0.2
    assert found["interrupts"]["high"] > 0
    for each in found.values():
        assert sum(each["counts"]) == each["readings"] >= 5, each
    assert 'id="vmstat"' in Path(cpu_bound["report"]).read_text()


def test_counting_can_be_left_out(characterize: Caller) -> None:
    code, document, said = characterize("--no-counters", "--hz", "0", "--", "sleep", "0.2")
    assert code in (0, 1), said
    assert document["counters"]["source"] is None
    assert not (Path(document["directory"]) / "counters").exists()


def test_nothing_of_a_command_outlives_its_time(
    characterize: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    code, document, said = characterize(
        "--duration", "0.5s", "--hz", "0", "--", "sh", "-c", "sleep 100 & sleep 100"
    )
    assert code == 0, said
    assert marked(mark) == {}
    assert "mostly-asleep" in findings(document)
    run = json.loads((Path(document["directory"]) / "run.json").read_text())
    (cut,) = [check["claim"] for check in run["verdict"]["checks"] if check["id"] == "cut"]
    assert cut.endswith("before its own end; --duration 0 measures until it ends")


def test_a_program_that_is_cut_used_no_more_than_the_time_measured(characterize: Caller) -> None:
    # It goes on after the phase while profiler and counters end, which took 0.3 s here with the profile.
    cpu_bound = str(PROGRAMS / "cpu_bound.py")
    code, document, said = characterize("--duration", "1s", "--", sys.executable, cpu_bound, "100")
    assert code in (0, 1), said
    run = json.loads((Path(document["directory"]) / "run.json").read_text())
    used, elapsed = (run["metrics"][name]["value"] for name in ("cpu_time_s", "elapsed_s"))
    assert 0 < used <= elapsed


def test_a_program_that_ran_before_is_never_ended(characterize: Caller) -> None:
    program = subprocess.Popen([sys.executable, str(PROGRAMS / "cpu_bound.py"), "100"])
    try:
        code, document, said = characterize("--duration", "1.1s", "--hz", "0", "--pid", str(program.pid))
        assert code == 0, said
        assert program.poll() is None
        # How much of a CPU it gets in a second, and what that second says, is a matter of its neighbours.
        assert document["program"]["cpus"]["value"] > 0
    finally:
        program.kill()
        program.wait()


def test_a_program_that_fails_is_reported_with_its_last_words(characterize: Caller) -> None:
    script = "import sys, time; time.sleep(0.4); print('no more', file=sys.stderr); sys.exit(3)"
    code, document, _ = characterize("--hz", "0", "--", sys.executable, "-c", script)
    assert code == 4
    check = next(one for one in document["verdict"]["checks"] if one["id"] == "program")
    assert "exited with code 3" in check["claim"]
    assert "no more" in check["claim"]
    assert document["report"] is not None


def test_a_flood_of_output_is_no_load(characterize: Caller) -> None:
    code, document, said = characterize(
        "--duration", "0.5s", "--hz", "0", "--", "sh", "-c", "head -c 20000000 /dev/zero; cat"
    )
    assert code == 0, said
    assert (Path(document["directory"]) / "logs" / "program.log").stat().st_size == 20_000_000


def test_killed_it_leaves_nothing_running(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "steelyard.cli.main", "characterize", "--out", str(tmp_path), "--"]
    process = subprocess.Popen(
        [*command, "sleep", "100"],
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: any("sleep 100" in line for line in marked(mark).values()))
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not marked(mark))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--", "no-such-program-here"], "there is no such command"),
        (["--pid", "4194304"], "there is no such process"),
        (["--cgroup", "/no/such/group"], "there is no such cgroup"),
        (["--all", "--", "true"], "--all profiles the whole machine"),
        (["--pid", "1", "--cgroup", "/x"], "give one of"),
        (["--duration", "soon", "--", "true"], "duration=soon"),
        (["--duration", "0"], "the machine does not end"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(
    tmp_path: Path, characterize: Caller, arguments: list[str], said: str
) -> None:
    code, _, stderr = characterize(*arguments)
    assert code == 2
    lines = [line for line in stderr.splitlines() if line.startswith("steelyard:")]
    assert len(lines) == 1
    assert said in lines[0]
    assert not list(tmp_path.iterdir())
