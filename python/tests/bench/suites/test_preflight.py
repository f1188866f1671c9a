"""What a suite will take: estimates by settings, times of earlier runs, and what will not fit."""

import json
import re
import shutil

import pytest

from steelyard import machine as machines
from steelyard._base import EnvironmentLacksError
from steelyard.bench.footprint import SPREAD, Disk, Footprint, misfit, work_span_s
from steelyard.bench.launch import execute, plan
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest
from steelyard.bench.suites import preflight
from steelyard.bench.suites import suite as suites
from steelyard.cli.main import invoke
from steelyard.report.bench.preflight import notes, span
from tests.bench import sample_benchmarks
from tests.bench.sample_benchmarks import QUICK_WORDS, QUICKLY


@pytest.fixture(autouse=True)
def three(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)


@pytest.fixture(scope="module")
def machine():
    return machines.snapshot()


def look(tmp_path, machine, **chosen):
    request = RunRequest(name="sample", chosen=chosen, out=tmp_path / "runs")
    return preflight.look("sample", 1, plan(request, machine), machine, request.out)


def by_name(found):
    return {member.benchmark: member for member in found.members}


def test_without_a_run_the_settings_say_how_long(tmp_path, machine):
    found = look(tmp_path, machine)
    scripted = by_name(found)["scripted"]
    assert (scripted.time_least_s, scripted.time_most_s, scripted.untimed) == (1.0, 2.0, "a rest")
    assert (scripted.past_runs, scripted.misfit, scripted.memory_bytes) == (0, None, 1 << 20)
    # `spin` has no setting of a usual name, and states nothing: unknown, not 0.
    assert by_name(found)["spin"].time_least_s is None
    assert found.time_least_s == 1.0
    assert found.time_most_s is None
    assert not (tmp_path / "runs").exists()


def test_earlier_runs_on_this_machine_say_it_better(tmp_path, machine):
    out = tmp_path / "runs"
    launched = execute(
        RunRequest(name="sample", chosen={"nap_s": "0.3"}, hooks=QUICKLY, out=out), progress=Silence()
    )
    [nap] = [attempt for attempt in launched.attempts if attempt.run.benchmark == "nap"]
    member = by_name(look(tmp_path, machine, nap_s="0.3"))["nap"]
    assert member.past_runs == 1
    assert member.time_least_s == member.time_most_s == preflight.time_s(nap.run)
    assert 0.3 <= member.time_least_s < 30
    # Other settings take another time, and another machine does too.
    assert by_name(look(tmp_path, machine, nap_s="0.4"))["nap"].past_runs == 0
    path = nap.directory / "machine.json"
    record = json.loads(path.read_text())
    record["cpu"]["model"] = "another"
    path.write_text(json.dumps(record))
    assert by_name(look(tmp_path, machine, nap_s="0.3"))["nap"].past_runs == 0


def test_what_needs_more_than_there_is_does_not_run(tmp_path, machine):
    member = by_name(look(tmp_path, machine, takes="900TiB"))["scripted"]
    assert re.fullmatch(r"it needs 943718400 MiB of memory, and .* \d+ MiB", member.misfit)
    footprint = Footprint(
        disks=(Disk(1 << 60, tmp_path), Disk(1 << 60, tmp_path / "deeper", "make it smaller"))
    )
    message, hint = misfit(footprint, machine, tmp_path)
    # Both folders are on one disk: their sizes are added up.
    assert f"it needs {(2 << 60) >> 20} MiB of disk, and {tmp_path} has" in message
    assert hint == "make it smaller"
    assert misfit(Footprint(), machine, tmp_path) is None


def test_what_members_leave_is_not_there_for_those_after_them(tmp_path, machine, monkeypatch):
    """Each fits alone, and all of them together do not."""
    free = shutil.disk_usage(tmp_path).free
    keeps = Disk(int(0.6 * free), tmp_path / "prepared", "make it smaller", stays=True)
    passes = Disk(int(0.3 * free), smaller="choose another disk")
    for sample, disk in ((sample_benchmarks.Spin, keeps), (sample_benchmarks.Nap, passes)):
        states = classmethod(lambda cls, settings, *, placement, disk=disk: Footprint(disks=(disk,)))
        monkeypatch.setattr(sample, "footprint", states)
    asked = Disk(int(0.6 * free), smaller="takes=0")
    states = classmethod(lambda cls, settings, *, placement: Footprint(disks=(asked,)))
    monkeypatch.setattr(sample_benchmarks.Scripted, "footprint", states)
    found = look(tmp_path, machine)
    members = by_name(found)
    assert members["spin"].misfit is None
    message = members["scripted"].misfit
    assert (
        f"needs {asked.size_bytes >> 20} MiB of disk beside {keeps.size_bytes >> 20} MiB that members"
        in message
    )
    # What will not be run leaves nothing either.
    assert members["nap"].misfit is None
    assert found.stays_bytes == keeps.size_bytes
    assert found.disk_most_bytes == keeps.size_bytes + passes.size_bytes
    [line] = [line for line in notes(found) if line.startswith("disk: ")]
    assert "kept for later runs" in line


@pytest.mark.parametrize(
    ("name", "elsewhere"),
    [("nutch", "cluster"), ("bayes", "cluster"), ("spark", "master"), ("als", "master")],
)
def test_jobs_have_a_time_before_their_first_run(name, elsewhere, tmp_path, machine, monkeypatch):
    monkeypatch.setenv("STEELYARD_STACKS", str(tmp_path / "stacks"))
    quick, full = (
        plan(RunRequest(name=name, tier=tier, out=tmp_path / "runs"), machine)[0]
        for tier in ("quick", "full")
    )
    assert 5 < quick.footprint.least_s < quick.footprint.most_s < 3600
    assert quick.footprint.untimed == ""
    assert full.footprint.least_s > 5 * quick.footprint.least_s
    # How fast another cluster is, nobody knows here.
    settings = {**quick.settings, elsewhere: "yarn"}
    footprint = quick.benchmark.footprint(settings, placement=quick.placement)
    assert (footprint.least_s, footprint.most_s) == (None, None)
    assert footprint.untimed


def test_work_of_known_amount_takes_less_on_more_cpus():
    assert work_span_s(10.0, 120.0, 2) == (70.0 / SPREAD, 70.0 * SPREAD)
    least_s, most_s = work_span_s(10.0, 120.0, 12)
    assert least_s < 20.0 < most_s


def test_the_limit_of_a_cgroup_is_the_memory_there_is(machine, tmp_path):
    memory = machine.memory.model_copy(update={"limit_bytes": 64 << 20})
    limited = machine.model_copy(update={"memory": memory})
    message, _ = misfit(Footprint(memory_bytes=65 << 20), limited, tmp_path)
    assert message == "it needs 65 MiB of memory, and the cgroup's limit is 64 MiB"
    assert misfit(Footprint(memory_bytes=64 << 20), limited, tmp_path) is None
    assert look(tmp_path, limited).memory_is_limited


def test_a_member_that_cannot_fit_is_skipped_and_the_suite_says_so(tmp_path, capsys):
    out = str(tmp_path / "runs")
    assert invoke(["run", "sample", *QUICK_WORDS, "--set", "takes=900TiB", "--out", out]) == 3
    said = capsys.readouterr()
    assert said.err.index("sample quick: 2 of 3 members will run") < said.err.index("spin: run 1 of 2")
    assert "scripted will not run: it needs 943718400 MiB of memory" in said.err
    [path] = (tmp_path / "runs").glob("*/suite.json")
    suite, runs = suites.load(path.parent)
    assert [run.benchmark for _, run in runs] == ["spin", "nap"]
    assert "scripted was not run: scripted: it needs 943718400 MiB of memory" in suite.status_reason
    with pytest.raises(EnvironmentLacksError, match="943718400 MiB"):
        execute(RunRequest(name="scripted", chosen={"takes": "900TiB"}, out=tmp_path), progress=Silence())


def test_preflight_prints_and_runs_nothing(tmp_path, capsys):
    out = str(tmp_path / "runs")
    assert invoke(["run", "sample", "--preflight", "--out", out]) == 0
    said = capsys.readouterr().out
    assert "sample quick: 3 of 3 members will run" in said
    assert "scripted: the time leaves out a rest" in said
    assert invoke(["run", "sample", "--preflight", "--json", "--set", "behaviour=refuse", "--out", out]) == 1
    document = json.loads(capsys.readouterr().out)
    misfits = {member["benchmark"]: (member["misfit"], member["hint"]) for member in document["members"]}
    assert misfits["scripted"] == ("there is no such device", "attach one")
    assert not (tmp_path / "runs").exists()


def test_spans_say_what_is_known(tmp_path, machine):
    assert span(60.0, 60.0) == "60.0 s"
    assert span(60.0, 150.0) == "60.0 s to 2 min 30 s"
    assert span(60.0, None) == "at least 60.0 s"
    assert any(line.startswith("time: at least 1.00 s in all") for line in notes(look(tmp_path, machine)))
