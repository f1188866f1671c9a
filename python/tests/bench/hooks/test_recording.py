"""What is counted and sampled beside real runs, each side for itself and in the measure phase only."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard import telemetry
from steelyard._base import UsageError
from steelyard.analyze.profiles.folded import read_folded
from steelyard.analyze.profiles.profile import weigh
from steelyard.bench import hook
from steelyard.bench.children import process_cpu_s
from steelyard.bench.hooks.perf import FILE
from steelyard.machine import attempts
from steelyard.records import Level, RunStatus
from steelyard.report.bench.sides import side_lines, side_sections
from steelyard.report.model import gather
from tests.bench.conftest import BUSY, Runner

PROGRAM = {"profile.folded": "[steelyard-cache]", "profile-load.folded": "[steelyard-load]"}


@pytest.fixture(autouse=True)
def software_events():
    """Where not even the kernel's own events can be counted there is nothing to test."""
    refusal = attempts.counter_of_all_processes()
    if refusal is not None:
        pytest.skip(f"this user cannot count on all CPUs: {refusal.text}")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """A run that has ended, for those who only look at it."""
    folder = tmp_path_factory.mktemp("tao")
    made = Runner(folder / "runs", folder / "state").start(settings=("measure=3", "connections=64", BUSY))
    made.finish()
    return made


def test_a_run_of_tao_counts_and_samples_both_sides(live):
    run, folder = live.run(), live.directory
    assert run.status is RunStatus.COMPLETE
    for name, program in PROGRAM.items():
        profile = read_folded(folder / name)
        functions = [key for key in weigh(profile).keys if key.startswith(program[1:-1].replace("-", "_"))]
        assert profile.total > 5
        assert functions, f"{name} has no function of {program}"
        other = next(each for each in PROGRAM.values() if each != program)
        assert other not in (folder / name).read_text()
    assert not (folder / "profile-all.folded").exists()
    about = run.hooks["profile"]
    # At 99 a second, and no sample before or after the phase.
    cpus = len(os.sched_getaffinity(0))
    assert 20 < about["server_samples"] + about["load_samples"] <= 99 * 3.3 * cpus
    cpus = {side: run.hooks["counters"][side] for side in ("server", "load")}
    assert not set(cpus["server"]) & set(cpus["load"])
    begin, end = next((p.begin_ns, p.end_ns) for p in run.phases if p.name == "measure")
    with telemetry.open_recording(folder / "counters") as recording:
        rates = recording.rates("counters", begin, end)
        assert {entity.entity["entity"] for entity in rates.entities} >= {*cpus["server"], *cpus["load"]}
        # Counting began when the warm-up was over: at most the second in which the load turns to measuring.
        assert recording.metadata.begin_ns > begin - 3_000_000_000


def test_their_cost_is_measured_and_is_the_runs_own(live):
    run = live.run()
    for name in ("probe", "counters", "profile"):
        about = run.hooks[name]
        assert 0 < about["cpu_s"] < 1
        assert about["cpu_ratio"] == pytest.approx(about["cpu_s"] / 3 / (os.cpu_count() or 1), rel=0.05)
    foreign = next((check for check in run.verdict.checks if check.id == "foreign-load"), None)
    assert foreign is None or "steelyard-p" not in foreign.claim
    assert [check.claim for check in run.verdict.checks if check.id == "hook"] == []


def test_the_report_has_both_sides_and_one_line_of_what_is_missing(live):
    data = gather(live.directory)
    try:
        sections = {section.anchor: section for section in side_sections(data)}
        table = sections["counted"].tables[0]
        assert [column.name for column in table.columns[:3]] == ["figure", "server", "load"]
        rows = {row[0].text: row for row in table.rows}
        assert rows["context switches"][1].text != rows["context switches"][2].text
        captions = [each.title for each in sections["profile"].tables]
        assert captions == ["Hot functions of the server", "Hot functions of the load"]
        assert all(len(each.rows) <= 15 for each in sections["profile"].tables)
        lines = dict(side_lines(data))
        assert {"server CPUs", "load CPUs", "server hot", "load hot"} <= lines.keys()
        assert "(whatever ran on them)" in lines["server CPUs"]
        lacking = [
            name for name in ("counters", "topdown") if {"missing", "reduced"} & set(data.run.hooks[name])
        ]
        assert ("not recorded" in lines) == bool(lacking)
        assert "Recording took" in sections["counted"].intro
        # What one hook took is missing: no sum of the others stands for all.
        about = {**data.run.hooks["profile"], "cpu_s": None, "cpu_ratio": None, "cpu_missing": "why"}
        run = data.run.model_copy(update={"hooks": {**data.run.hooks, "profile": about}})
        intro = next(s.intro for s in side_sections(replace(data, run=run)) if s.anchor == "counted")
        assert intro.endswith("What recording took is not known: why.")
        assert "Recording took" not in intro
    finally:
        data.close()
    page = (live.directory / "report.html").read_text()
    assert 'id="counted"' in page
    assert "Hot functions of the load" in page


def test_processes_are_counted_where_it_is_asked_for(runner):
    live = runner.start("--hook", "counters:scope=process", settings=("measure=2",))
    live.finish()
    run = live.run()
    assert run.hooks["counters"]["scope"] == "process"
    data = gather(live.directory)
    try:
        server, load = data.conditions.counters, data.conditions.load_counters
        assert (server.scope, load.scope) == ("process", "process")
        for use in (server, load):
            assert 0.005 < use.law.used_cpus.value <= len(os.sched_getaffinity(0))
            assert use.metrics["context_switches_per_s"].value > 0
    finally:
        data.close()


def test_perf_looks_at_the_servers_and_hooks_that_are_turned_off_record_nothing(runner):
    names = ("counters", "topdown", "profile")
    off = [word for name in names for word in ("--hook", f"{name}:enabled=false")]
    live = runner.start(*off, "--hook", 'perf:args="stat -e context-switches"')
    live.finish()
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    assert {run.hooks[name]["missing"] for name in names} == {"turned off (enabled=false)"}
    assert not list(live.directory.glob("profile*")) + list(live.directory.glob("counters*"))
    assert [check.claim for check in run.verdict.checks if check.id == "hook"] == []
    assert run.artifacts["perf"] == FILE
    assert "context-switches" in (live.directory / FILE).read_text()
    assert str(run.hooks["perf"]["command"]).endswith("-e context-switches")
    # Of the server, which has ended since, and of nothing else.
    server = next(process.pid for process in run.processes if process.name == "server")
    named = str(run.hooks["perf"]["command"]).split(" -p ")[1].split()[0].split(",")
    assert all(int(pid) > server for pid in named)


@pytest.mark.parametrize(
    ("args", "path", "message", "hint"),
    [
        ("stat -e context-switches", "/nowhere", "perf is not installed", "apt install linux-perf"),
        ("stat -e no-such-event", None, "perf stat ended with code", ""),
    ],
)
def test_perf_that_is_absent_or_fails_is_a_problem_and_the_run_goes_on(
    runner, monkeypatch, args, path, message, hint
):
    if path is not None:
        monkeypatch.setenv("PATH", path)
    live = runner.start("--hook", f'perf:args="{args}"')
    live.finish()
    run = live.run()
    assert run.status is RunStatus.COMPLETE
    [check] = [check for check in run.verdict.checks if check.id == "hook"]
    assert check.level is Level.SUSPECT
    assert message in check.claim
    assert hint in check.claim


@pytest.mark.parametrize("args", ["", "--version", "-e cycles"])
def test_perf_needs_a_subcommand(args):
    with pytest.raises(UsageError):
        hook.create([f'perf:args="{args}"'])


def test_a_busy_process_is_seen_to_use_its_time():
    before = process_cpu_s(os.getpid())
    sum(range(3_000_000))
    assert 0.005 < process_cpu_s(os.getpid()) - before < 10
    assert process_cpu_s(2**22 + 1) is None


def test_run_json_stays_plain(live):
    """What hooks record is JSON of values that other programs read without Steelyard."""
    raw = json.loads((live.directory / "run.json").read_text())
    assert isinstance(raw["hooks"]["counters"]["server"], list)
    assert Path(live.directory / raw["artifacts"]["profile_folded"]).is_file()
