"""Whole runs that end well: what they leave, and what readers make of it."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest

from steelyard._base import RecordError, UsageError
from steelyard.bench import runs
from steelyard.bench.clock import SystemClock
from steelyard.bench.launch import execute, repeat_seed
from steelyard.bench.manifest import Manifest, this_process
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest
from steelyard.records import Clock, Cpus, Level, LoadResult, RunStatus, Series, read
from tests.bench.conftest import BUSY
from tests.web.serving import many_runs

SETTLED = {
    "memory": "8MiB",
    "warmup_min": "1",
    "warmup_max": "20",
    "window": "0.1",
    "measure": "1",
    "connections": "16",
}


def checks(run):
    return {check.id: check for check in run.verdict.checks}


def test_one_run_from_the_command_line(runner):
    live = runner.start(settings=("warmup_min=1", "warmup_max=20", "connections=16", BUSY))
    code, stdout, stderr = live.finish()
    assert code in (0, 1), stderr
    document = json.loads(stdout)
    run = live.run()
    shown = document["runs"][0]
    assert shown["run_id"] == run.run_id
    assert shown["directory"] == str(live.directory)
    assert shown["status"] == "complete"
    assert shown["verdict"]["level"] == str(run.verdict.level)
    assert code == (1 if run.verdict.level is Level.INVALID else 0)
    assert os.path.exists(shown["report"])
    assert document["series"]["tao"]["runs"] == 1

    assert [phase.name for phase in run.phases] == ["install", "start", "warmup", "measure", "drain"]
    for before, after in zip(run.phases, run.phases[1:], strict=False):
        assert before.end_ns == after.begin_ns
    measure = next(phase for phase in run.phases if phase.name == "measure")
    load = read(LoadResult, live.directory / "load.json")
    assert (measure.begin_ns, measure.end_ns) == (load.begin_ns, load.end_ns)
    assert [process.exit_code for process in run.processes] == [0] * len(run.processes)

    # The number of keys was chosen for a hit ratio of 0.9 from a model of the server's memory. A server that
    # starves beside other work has not evicted as much yet, and hits more.
    assert 0.88 <= run.metrics["hit_ratio"].value <= 0.97
    assert run.metrics["requests_per_s"].value == load.throughput_per_s
    paths = run.metrics["fast_requests_per_s"].value + run.metrics["slow_requests_per_s"].value
    assert paths == pytest.approx(load.throughput_per_s, rel=0.15)
    assert run.metrics["stored_bytes"].value <= 8 << 20
    # One second may hold too few requests for the last percentile.
    missing = {name: metric.missing for name, metric in run.metrics.items() if metric.value is None}
    assert set(missing) <= {"response_p9999_ns", "service_p9999_ns"}
    assert set(missing.values()) <= {"too few requests"}
    assert checks(run)["errors"].level is Level.VALID
    assert checks(run)["telemetry"].level is Level.VALID
    for role, file in run.artifacts.items():
        assert (live.directory / file).exists(), role
    assert not (live.directory / ".ballast").exists()
    seed = run.parameters["seed"].value
    assert run.command[-2:] == ["--set", f"seed={seed}"]


@pytest.mark.slow
def test_several_servers_are_weighed_as_one(runner):
    live = runner.start("--repeat", "2", settings=("instances=2", "memory=16MiB"))
    code, stdout, stderr = live.finish(60)
    assert code in (0, 1), stderr
    document = json.loads(stdout)
    assert [one["series"]["index"] for one in document["runs"]] == [1, 2]
    assert len({one["series"]["id"] for one in document["runs"]}) == 1
    found = [runs.load(path.parent) for path in sorted(runner.out.glob("*/run.json"))]
    assert len({run.parameters["seed"].value for run in found}) == 2
    for run in found:
        folder = runner.out / run.run_id
        parts = [read(LoadResult, folder / f"load-{number}.json") for number in (1, 2)]
        whole = read(LoadResult, folder / "load.json")
        assert whole.requests.completed == sum(part.requests.completed for part in parts)
        total = sum(part.throughput_per_s for part in parts)
        assert run.metrics["requests_per_s"].value == pytest.approx(total)
        medians = [part.latency.response.p50_ns for part in parts]
        assert min(medians) <= run.metrics["response_p50_ns"].value <= max(medians)
        assert run.metrics["stored_bytes"].value <= 16 << 20
        names = {one.name for one in run.processes if not one.name.startswith("hook-")}
        assert names == {"server", "server-2", "load", "load-2", "probe"}


@dataclasses.dataclass
class SteppedClock(SystemClock):
    """A machine whose date is set back by an hour between its first and its last reading."""

    begun: bool = False

    def now(self):
        moment = super().now()
        shift = -3600 * 10**9 if self.begun else 0
        self.begun = True
        return Clock(monotonic_ns=moment.monotonic_ns, realtime_ns=moment.realtime_ns + shift)


def test_a_clock_that_is_set_during_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    clock = SteppedClock()
    request = RunRequest(
        name="tao", tier="smoke", chosen={**SETTLED, "warmup_max": "1", "rate": "1000"}, out=tmp_path / "runs"
    )
    [attempt] = execute(request, progress=Silence(), clock=_FromStart(clock)).attempts
    assert attempt.error is None
    found = checks(attempt.run)["clock"]
    assert found.level is Level.SUSPECT
    assert found.value == pytest.approx(-3600, abs=1)
    # Durations come from the other clock: a laden machine ends a phase late, but by no hour.
    measure = next(phase for phase in attempt.run.phases if phase.name == "measure")
    assert 0.99 < (measure.end_ns - measure.begin_ns) / 1e9 < 60


class _FromStart(SystemClock):
    """Steps after the manifest was begun: the name of the folder and the manifest read the clock before."""

    def __init__(self, clock):
        self._clock = clock
        self._readings = 0

    def now(self):
        self._readings += 1
        self._clock.begun = self._readings > 2
        return self._clock.now()


def test_seeds_of_repeats_differ_and_the_first_can_be_repeated():
    seeds = [repeat_seed(42, index) for index in range(1, 101)]
    assert seeds[0] == 42
    assert len(set(seeds)) == 100
    assert max(seeds) < 2**53
    assert seeds == [repeat_seed(42, index) for index in range(1, 101)]


@pytest.fixture
def manifest(tmp_path):
    directory = tmp_path / "runs" / "20260101-000000-000-tao-smoke-aaaa"
    directory.mkdir(parents=True)
    return Manifest.create(
        directory,
        SystemClock(),
        benchmark="tao",
        suite=None,
        tier="smoke",
        series=Series(id="s", index=1, count=1),
        version="0",
        command=["steelyard"],
        parameters={},
        cpus=Cpus(),
    )


def test_a_run_under_way_is_running(manifest):
    manifest.begin_phase("start")
    assert runs.load(manifest.directory).status is RunStatus.RUNNING


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"start_ticks": 1}, "was killed in phase warmup"),
        ({"pid": 2**22 + 1}, "was killed in phase warmup"),
        ({"boot_id": "another", "hostname": "far"}, "was under way in phase warmup when far rebooted"),
    ],
)
def test_a_run_whose_orchestrator_is_gone_is_incomplete(manifest, changes, reason):
    manifest.begin_phase("start")
    manifest.begin_phase("warmup")
    manifest.change(orchestrator=this_process().model_copy(update=changes))
    run = runs.load(manifest.directory)
    assert run.status is RunStatus.INCOMPLETE
    assert reason in run.status_reason


def test_a_run_is_found_by_path_id_beginning_and_as_the_latest(manifest):
    out, directory = manifest.directory.parent, manifest.directory
    later = out / "20270101-000000-000-tao-smoke-bbbb"
    shutil.copytree(directory, later)
    assert runs.find(str(directory), out) == directory
    assert runs.find(str(directory / "run.json"), out) == directory
    assert runs.find(directory.name, out) == directory
    assert runs.find("2026", out) == directory
    assert runs.find("latest", out) == later
    for name in ("20", "nothing", ""):
        with pytest.raises(UsageError) as refused:
            runs.find(name, out)
        assert refused.value.hint


def test_an_unreadable_manifest_is_listed_with_the_reason(manifest):
    out = manifest.directory.parent
    (out / "other").mkdir()
    (out / "other" / "run.json").write_text('{"kind": "run", "schema_version": "9.0"}')
    listed = dict(runs.listing(out))
    assert listed[manifest.directory].run_id == manifest.directory.name
    assert isinstance(listed[out / "other"], RecordError)
    assert "9.0" in listed[out / "other"].message


def test_a_failed_run_keeps_no_result_and_its_last_phase_open(manifest):
    manifest.begin_phase("measure")
    manifest.fail("the server was killed")
    run = runs.load(manifest.directory)
    assert (run.status, run.status_reason) == (RunStatus.INCOMPLETE, "the server was killed")
    assert run.phases[-1].end_ns is None
    assert list(manifest.directory.iterdir()) == [manifest.directory / "run.json"]


def test_the_latest_is_the_run_that_began_last(tmp_path: Path) -> None:
    many_runs(tmp_path, 40)
    # The first of them is the newest, whatever the names say; text about times is no time.
    newest = tmp_path / "tao-000000"
    assert runs.find("latest", tmp_path) == newest
    renamed = newest.rename(tmp_path / "aaa")
    record = json.loads((renamed / "run.json").read_text())
    record["tags"] = ['"realtime_ns": 1'] * 1000
    (renamed / "run.json").write_text(json.dumps(record))
    assert runs.find("latest", tmp_path) == renamed
    # Of a record that says nothing, when it was written.
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "run.json").write_text("{")
    os.utime(broken / "run.json", (1, 1))
    assert runs.find("latest", tmp_path) == renamed
    os.utime(broken / "run.json", (4e9, 4e9))
    assert runs.find("latest", tmp_path) == broken
