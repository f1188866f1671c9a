"""The benchmark of Redis: the commands of a real server, their data, and what the steps say."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from steelyard._base import WorkloadFailedError, executable, workloads_dir
from steelyard.bench.load.hosts import LoadHosts
from steelyard.bench.parameters import Settings
from steelyard.bench.placement import InstancePlace, Placement
from steelyard.bench.stack.processor import CpuTime, cpu_time
from steelyard.benchmarks.redis.benchmark import COMMANDS, PARAMETERS, RedisBench, mix
from steelyard.benchmarks.redis.client import ask, peak_bytes
from steelyard.benchmarks.redis.declaration import DECLARATION
from steelyard.benchmarks.redis.memory import (
    EMPTY_BYTES,
    FASTEST_PER_S,
    MEMORY_RATIO,
    REQUEST_BYTES,
    needed_bytes,
)
from steelyard.benchmarks.redis.metrics import _lists_lasted
from steelyard.benchmarks.redis.steps import SPARE, VALUES_PER_LIST, Step, lists_for, own_cpu_s
from steelyard.records import Level, LoadOperations, LoadResult, Machine, RunStatus, read
from tests.executables.backends import redis


@pytest.mark.parametrize("command", COMMANDS)
def test_a_real_server_executes_each_command(command, tmp_path):
    with redis(tmp_path) as server:
        line = [
            *(
                str(executable("steelyard-load")),
                "--protocol",
                "redis",
                "--target",
                f"127.0.0.1:{server.port}",
            ),
            *("--mix", str(mix(command)), "--keys", "50", "--duration", "300ms", "--warmup", "0s"),
            *("--connections", "2", "--json"),
        ]
        if "fill" in mix(command).read_text():
            line += ["--prefill"]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    result = json.loads(done.stdout)
    assert result["requests"]["errors"] == 0, result["requests"]
    assert result["operations"][command]["completed"] > 0
    if command == "zrange":
        # 100 members of about 19 bytes, each with its length in front.
        assert result["received_bytes"] / result["requests"]["completed"] > 1500


def test_lists_outlast_the_step():
    lists = lists_for(1_000_000, 1, 0.1)
    assert SPARE * 1_000_000 <= lists * VALUES_PER_LIST < SPARE * 1_000_000 + VALUES_PER_LIST
    assert lists_for(1_000_000, 4, 0.1) == pytest.approx(lists / 4, rel=0.01)
    assert lists_for(0, 1, 2.0) * VALUES_PER_LIST >= 2 * FASTEST_PER_S
    text = mix("lpop").read_text()
    assert text.count("{value:") == VALUES_PER_LIST


@pytest.mark.parametrize(("hits", "level"), [(1000, Level.VALID), (920, Level.SUSPECT), (700, Level.INVALID)])
def test_popping_empty_lists_is_noticed(hits, level):
    golden = read(LoadResult, Path(workloads_dir().parent / "schemas/golden/load_result.json"))
    operation = LoadOperations(completed=1000, hits=hits, misses=1000 - hits, response=None)
    load = golden.model_copy(update={"operations": {"lpop": operation}})
    assert _lists_lasted(step("lpop", [load])).level is level


def step(command, loads, begin=0.0, end=0.0, loads_s=0.0):
    return Step(command, 0, 10**9, loads, CpuTime(begin, 0), CpuTime(end, 0), loads_s)


def test_what_fills_between_steps_is_the_runs_own():
    golden = read(LoadResult, Path(workloads_dir().parent / "schemas/golden/load_result.json"))
    load = golden.model_copy(update={"cpu": golden.cpu.model_copy(update={"user_s": 1.0, "system_s": 3.0})})
    # Servers took 5 s each in the steps and 2 s between them; the second load filled for 2 s.
    steps = [step("lpush", [load], 1.0, 6.0, 7.0), step("lpop", [load], 8.0, 13.0, 6.0)]
    assert steps[1].servers.total_s == 5.0
    assert own_cpu_s(steps, LoadHosts.of({})) == 12.0 + 4.0 + 6.0


def settings_on(memory_bytes, tier="full", **chosen):
    golden = read(Machine, Path(workloads_dir().parent / "schemas/golden/machine.json"))
    memory = golden.memory.model_copy(update={"total_bytes": memory_bytes, "limit_bytes": None})
    machine = golden.model_copy(update={"memory": memory})
    instances = tuple(InstancePlace(number, (number - 1,), (number + 1,)) for number in (1, 2))
    place = Placement((0, 1), (2, 3), instances)

    def suggest(given):
        return {
            "seed": 1,
            **RedisBench.suggest(given, machine=machine, tier=tier, placement=place),
        }

    settings = Settings.resolve(PARAMETERS, chosen, suggest, owner="redis")
    return settings, RedisBench.footprint(settings, placement=place)


@pytest.mark.parametrize("chosen", [{}, {"profile": "stock"}, {"depth": "16"}])
def test_the_data_fit_into_the_memory(chosen):
    settings, footprint = settings_on(4 << 30, **chosen)
    assert footprint.memory_bytes <= MEMORY_RATIO * (4 << 30) * 1.001
    assert 1.0 <= settings.number("measure") < 600
    # Where there is enough, the tier says how long.
    settings, footprint = settings_on(256 << 30)
    assert settings.number("measure") == 600
    _, longer = settings_on(256 << 30, measure="1200")
    assert longer.memory_bytes > 1.9 * footprint.memory_bytes
    assert settings_on(256 << 30, profile="stock")[1].disk_bytes > 1 << 30
    assert footprint.disk_bytes is None


def test_what_is_stated_is_more_than_a_request_leaves(tmp_path):
    """Of every command that stores, against a real server."""
    for command, kept in (("lpush", 1), ("zadd", 1), ("sadd", 1), ("lpop", VALUES_PER_LIST / SPARE)):
        with redis(tmp_path) as server:
            target = f"127.0.0.1:{server.port}"
            empty = peak_bytes(target)
            line = [
                *(str(executable("steelyard-load")), "--protocol", "redis", "--target", target, "--json"),
                *("--mix", str(mix(command)), "--duration", "1s", "--warmup", "0s", "--connections", "20"),
            ]
            line += ["--prefill", "--keys", "3000"] if command == "lpop" else []
            done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
            stored = 3000 if command == "lpop" else json.loads(done.stdout)["requests"]["completed"]
            assert stored > 1000
            # Lists and sets of their own take some megabytes, whatever is in them.
            assert peak_bytes(target) - empty < EMPTY_BYTES / 4 + REQUEST_BYTES * stored * kept
            assert ask(target, "FLUSHALL", "SYNC") == "OK"
            assert ask(target, "DBSIZE") == "0"


def test_what_a_server_refuses_is_named(tmp_path):
    with redis(tmp_path) as server:
        target = f"127.0.0.1:{server.port}"
        with pytest.raises(WorkloadFailedError, match=r"refuses NONSENSE: ERR unknown command"):
            ask(target, "NONSENSE")
    with pytest.raises(WorkloadFailedError, match="does not answer PING"):
        ask(target, "PING")


def test_profiles_say_the_reason_of_each_setting():
    for name in ("stock", "tuned"):
        lines = (workloads_dir() / "redis" / f"{name}.conf").read_text().splitlines()
        assert lines[0].startswith(f"# Profile {name}")
        assert any(not line.startswith("#") for line in lines)


def test_cpu_time_counts_what_lives_below_a_supervisor(tmp_path):
    busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ninput()\n"
    command = [str(executable("steelyard-exec")), "--die-with-parent", "--", "python3", "-c", busy]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        while cpu_time([process.pid]).total_s < 0.25:
            assert process.poll() is None
        process.stdin.write(b"\n")
        process.stdin.close()
        assert process.wait(20) == 0
    assert cpu_time([process.pid]) == CpuTime(0.0, 0.0)


def test_the_declaration_scores_every_command():
    assert {f"{command}_per_s" for command in COMMANDS} == set(DECLARATION.parts)


@pytest.mark.slow
def test_a_smoke_run_measures_every_command(runner):
    live = runner.start("--tier", "smoke", settings=("profile=stock",), benchmark="redis")
    code, output, errors = live.finish(300)
    # Other work on the machine makes the verdict invalid: that is 1.
    assert code in (0, 1), errors
    run = live.run()
    assert [step.name for step in run.steps] == list(COMMANDS)
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert measure.begin_ns == run.steps[0].begin_ns
    assert measure.end_ns == run.steps[-1].end_ns
    for command in COMMANDS:
        assert run.metrics[f"{command}_per_s"].value
    assert run.metrics["errors"].value == 0
    assert run.metrics["server_cpu_ratio"].value
    checks = {check.id: check for check in run.verdict.checks}
    assert checks["empty-lists"].level is Level.VALID
    # Nothing of the data stays, though this profile writes snapshots.
    assert not list(live.directory.rglob("*.rdb"))
    assert not list(live.directory.glob("data*"))
    settings = {name: parameter.value for name, parameter in run.parameters.items()}
    step_s = settings["measure"] / len(COMMANDS) + settings["warmup"]
    assert 1 << 20 < run.metrics["memory_peak_bytes"].value < needed_bytes(settings, step_s)
    assert json.loads(output)["runs"][0]["run_id"] == run.run_id
    assert (live.directory / "report.html").is_file()


@pytest.mark.slow
def test_a_server_that_is_killed_makes_the_run_incomplete(runner):
    live = runner.start("--tier", "quick", benchmark="redis")
    live.until(lambda: live.in_phase("measure"), 120.0)
    os.kill(live.until(lambda: live.pid_of("server")), signal.SIGKILL)
    assert live.finish(60)[0] == 4
    assert "server was killed by SIGKILL in phase measure" in live.complaint()
    run = live.run()
    assert run.status is RunStatus.INCOMPLETE
    assert run.metrics == {}
