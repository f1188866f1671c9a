"""What the hooks start on processors that are not here: plans, scopes and command lines, nothing is run."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steelyard._base import WorkloadFailedError
from steelyard.bench import hook
from steelyard.machine import attempts
from steelyard.machine.attempts import Refusal
from steelyard.records import CounterPlan, Machine, read
from tests.analyze.counters.test_choice import INTEL, machine

REFUSED = Refusal(13, "Permission denied")
ICE_LAKE = machine("GenuineIntel-6-6A-6", INTEL)
GUEST = machine("GenuineIntel-6-6A-6", ["software"]).model_copy(update={"hypervisor": "KVM"})


@dataclass
class Started:
    """A process that was asked for."""

    name: str
    command: list[str]
    pid: int = 0


@dataclass
class Context:
    """A run just before its measure phase: this process serves, and nothing is started."""

    directory: Path
    machine: Machine
    server_cpus: tuple[int, ...] = (0, 1)
    load_cpus: tuple[int, ...] = (2, 3)
    tier: str = "smoke"
    recorded: dict[str, object] = field(default_factory=dict)
    started: list[Started] = field(default_factory=list)

    def record(self, key, value):
        self.recorded[key] = value

    def processes_of(self, side):
        return {"server": os.getpid()} if side == "server" else {"load": os.getppid()}

    def start_process(self, name, command, *, grace_s=None, may_end=False):
        self.started.append(Started(name, list(command)))
        return self.started[-1]

    def has_ended(self, process):
        return True

    def interrupt_process(self, process):
        pass

    def wait(self, seconds):
        pass

    def wait_process(self, process, timeout_s):
        raise WorkloadFailedError(f"{process.name} took longer than {timeout_s:g} s")

    def words(self, flag):
        """The values of a flag in all commands."""
        pairs = [(a, b) for one in self.started for a, b in zip(one.command, one.command[1:], strict=False)]
        return [value for name, value in pairs if name == flag]


def begun(context, request):
    """Have the hook of ``request`` begin."""
    made = dict(hook.create([request]))
    made[request.partition(":")[0]].before_measure(context)
    return context


def plan_of(context, name):
    return {event.name: event for event in read(CounterPlan, context.directory / f"{name}-plan.json").events}


@pytest.fixture
def allowed(monkeypatch):
    """All CPUs may be counted, whoever runs the test."""
    monkeypatch.setattr(attempts, "counter_of_all_processes", lambda: None)


def test_cpus_of_both_sides_are_counted_and_what_they_share(tmp_path, allowed):
    context = begun(Context(tmp_path, ICE_LAKE), "counters")
    assert context.recorded["scope"] == "cpu"
    assert context.recorded["server"] == ["cpu0", "cpu1"]
    assert context.recorded["load"] == ["cpu2", "cpu3"]
    assert context.words("--counter-scope") == ["cpu", "system"]
    assert context.words("--counter-target") == []
    core, shared = plan_of(context, "counters"), plan_of(context, "counters-machine")
    assert {"INST_RETIRED.ANY", "CPU_CLK_UNHALTED.THREAD", "BR_MISP_RETIRED.ALL_BRANCHES"} <= core.keys()
    assert not any(event.pmu.startswith("uncore") for event in core.values())
    assert "TOPDOWN.SLOTS" not in core
    assert {"UNC_M_CAS_COUNT.RD", "UNC_M_CAS_COUNT.WR"} <= shared.keys()
    assert "reduced" not in context.recorded


def test_top_down_has_a_recording_of_its_own(tmp_path, allowed):
    context = begun(Context(tmp_path, ICE_LAKE), "topdown")
    assert [Path(word).name for word in context.words("--out")] == ["topdown"]
    planned = plan_of(context, "topdown")
    assert {"TOPDOWN.SLOTS", "topdown-retiring"} <= planned.keys()
    assert "INST_RETIRED.ANY" not in planned


@pytest.mark.parametrize("why", ["shared CPUs", "no rights"])
def test_processes_are_counted_where_cpus_cannot_be(tmp_path, monkeypatch, why):
    refusal = REFUSED if why == "no rights" else None
    monkeypatch.setattr(attempts, "counter_of_all_processes", lambda: refusal)
    load_cpus = (1, 2) if why == "shared CPUs" else (2, 3)
    context = begun(Context(tmp_path, ICE_LAKE, load_cpus=load_cpus), "counters")
    assert context.recorded["scope"] == "process"
    assert str(os.getpid()) in context.recorded["server"]
    assert str(os.getppid()) in context.recorded["load"]
    assert set(context.recorded["server"]) <= set(context.words("--counter-target"))
    # Who may not count all CPUs may not count what they share.
    assert ("system" in context.words("--counter-scope")) == (why == "shared CPUs")


def test_a_guest_counts_software_events_and_says_why(tmp_path, allowed):
    context = begun(Context(tmp_path, GUEST), "counters")
    reason = "the hypervisor (KVM) offers no counters of the processor"
    assert context.recorded["reduced"] == f"software events only: {reason}"
    assert {event.pmu for event in plan_of(context, "counters").values()} == {"software"}
    assert len(context.started) == 1
    tree = begun(Context(tmp_path, GUEST), "topdown")
    assert tree.recorded["missing"] == reason
    assert tree.started == []


def test_a_guest_that_lists_energy_counters_without_events_counts_none(tmp_path, allowed):
    listed = machine("GenuineIntel-6-CF-2", ["msr", "power", "software"]).model_copy(
        update={"hypervisor": "KVM"}
    )
    context = begun(Context(tmp_path, listed), "counters")
    assert context.words("--counter-scope") == ["cpu"]


def test_own_processes_are_sampled_where_others_may_not_be(tmp_path, monkeypatch):
    monkeypatch.setattr(attempts, "counter_of_all_processes", lambda: REFUSED)
    context = begun(Context(tmp_path, GUEST), "profile")
    assert context.recorded["scope"] == "process"
    assert {str(os.getpid()), str(os.getppid())} <= set(context.words("--pid"))
    monkeypatch.setattr(attempts, "counter_of_all_processes", lambda: None)
    context = begun(Context(tmp_path, GUEST), "profile:hz=49")
    assert "--all" in context.started[0].command
    assert context.words("--pid") == []
    assert context.words("--hz") == ["49"]
    assert context.words("--descendants-of") == [str(os.getpid())]


@pytest.mark.parametrize("name", ["counters", "profile"])
def test_a_recorder_that_does_not_end_costs_what_it_recorded_and_is_no_problem(tmp_path, allowed, name):
    context = Context(tmp_path, GUEST)
    recorder = dict(hook.create([name]))[name]
    recorder.before_measure(context)
    recorder.after_measure(context)
    assert context.recorded["missing"].startswith(f"hook-{name} took longer than")


def test_each_recording_that_failed_has_its_own_reason(tmp_path, allowed):
    context = Context(tmp_path, ICE_LAKE)
    recorder = dict(hook.create(["counters"]))["counters"]
    recorder.before_measure(context)
    recorder.after_measure(context)
    assert context.recorded["missing"].startswith("hook-counters took longer than")
    assert context.recorded["machine_missing"].startswith("hook-counters-machine took longer than")


def test_what_perf_is_given_stays_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    context = begun(Context(tmp_path, GUEST), 'perf:args="record -a -g -o mine.data"')
    assert context.started[0].command == ["/usr/bin/perf", "record", "-a", "-g", "-o", "mine.data"]


def test_without_the_probe_the_reason_is_recorded(tmp_path, allowed, monkeypatch):
    monkeypatch.setenv("STEELYARD_BIN_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    context = begun(Context(tmp_path, ICE_LAKE), "counters")
    assert "steelyard-probe" in json.dumps(context.recorded["missing"])
    assert context.started == []
