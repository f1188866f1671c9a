"""Suites of several members: what their directory says, whatever becomes of a member."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, RecordError, UsageError
from steelyard.bench import declaration, runs
from steelyard.bench.launch import execute
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest
from steelyard.bench.suites import suite as suites
from steelyard.cli.main import invoke
from steelyard.decide import weigh
from steelyard.decide.baseline import build
from steelyard.records import Level, Machine, Run, RunStatus, Suite, read
from tests.bench import sample_benchmarks
from tests.bench.conftest import until
from tests.bench.sample_benchmarks import QUICK_WORDS, QUICKLY

PACKAGE = Path(declaration.__file__).parents[2]


@pytest.fixture(autouse=True)
def three(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)


def launch(tmp_path, **chosen):
    repeat = int(chosen.pop("repeat", 1))
    request = RunRequest(name="sample", chosen=chosen, repeat=repeat, hooks=QUICKLY, out=tmp_path / "runs")
    return execute(request, progress=Silence())


def states(suite):
    return {
        member.benchmark: [str(run.level or run.status) for run in member.runs] for member in suite.members
    }


def test_a_suite_is_a_directory_of_whole_runs(tmp_path):
    launched = launch(tmp_path)
    assert launched.suite.parent == tmp_path / "runs"
    suite, found = suites.load(launched.suite)
    assert (suite.status, suite.status_reason, suite.end_ns is not None) == (RunStatus.COMPLETE, None, True)
    assert (suite.suite, suite.tier, suite.repeats) == ("sample", "quick", 1)
    assert [member.benchmark for member in suite.members] == ["spin", "scripted", "nap"]
    assert [member.metric for member in suite.members] == ["turns_per_s", "turns_per_s", "nap_ns"]
    for folder, run in found:
        assert folder.parent == launched.suite
        assert (run.suite, run.status) == ("sample", RunStatus.COMPLETE)
        # A member is a run like any other: it can be found, and shown, alone.
        assert runs.find(run.run_id, tmp_path / "runs") == folder
        assert runs.load(folder).metrics
    assert suite.command[:3] == ["steelyard", "run", "sample"]
    assert runs.find("latest", tmp_path / "runs") == launched.suite
    assert suites.is_suite(runs.find(suite.suite_id[:20], tmp_path / "runs"))
    assert [directory for directory, _ in runs.listing(tmp_path / "runs")] == [folder for folder, _ in found]


@pytest.mark.parametrize(
    ("behaviour", "state", "reason"),
    [
        ("fail", ["incomplete"], "scripted has no result: scripted would not start"),
        ("lack", ["incomplete"], "scripted has no result: the executable steelyard-absent is not here"),
        ("refuse", [], "scripted was not run: there is no such device"),
    ],
)
def test_a_member_that_fails_leaves_the_others_alone(tmp_path, behaviour, state, reason):
    launched = launch(tmp_path, behaviour=behaviour)
    suite, _ = suites.load(launched.suite)
    assert states(suite)["scripted"] == state
    assert len(states(suite)["spin"]) == len(states(suite)["nap"]) == 1
    assert all(
        run.status is RunStatus.COMPLETE for run in (suite.members[0].runs[0], suite.members[2].runs[0])
    )
    assert suite.status is RunStatus.INCOMPLETE
    assert reason in suite.status_reason
    assert len(launched.attempts) == (2 if behaviour == "refuse" else 3)


def test_repeats_of_a_suite_take_turns(tmp_path):
    launched = launch(tmp_path, repeat=2)
    assert [attempt.run.benchmark for attempt in launched.attempts] == ["spin", "scripted", "nap"] * 2
    suite, _ = suites.load(launched.suite)
    assert [[run.index for run in member.runs] for member in suite.members] == [[1, 2]] * 3
    assert suite.command[3:5] == ["--repeat", "2"]


def test_a_suite_without_a_single_member_that_can_start_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_benchmarks, "SPIN", replace(sample_benchmarks.SPIN, suites=()))
    monkeypatch.setattr(sample_benchmarks, "NAP", replace(sample_benchmarks.NAP, suites=()))
    with pytest.raises(EnvironmentLacksError, match="there is no such device"):
        launch(tmp_path, behaviour="refuse")
    assert not (tmp_path / "runs").exists()


def test_a_wrong_setting_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(UsageError, match="behaviour=blue: allowed is"):
        launch(tmp_path, behaviour="blue")
    with pytest.raises(UsageError, match="sample has no parameter 'behavior', did you mean behaviour"):
        launch(tmp_path, behavior="fail")
    assert not (tmp_path / "runs").exists()


def test_a_setting_for_one_member_wins_over_that_for_all(tmp_path):
    launched = launch(tmp_path, seed="3", **{"nap.seed": "4"})
    suite, found = suites.load(launched.suite)
    assert {run.benchmark: run.parameters["seed"].value for _, run in found} == {
        "spin": 3,
        "scripted": 3,
        "nap": 4,
    }
    assert suite.command[3:7] == ["--set", "seed=3", "--set", "nap.seed=4"]
    [nap] = [run for _, run in found if run.benchmark == "nap"]
    assert nap.command == ["steelyard", "run", "nap", "--tier", "quick", "--set", "seed=4", *nap.command[7:]]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nip.nap_s", "nip.nap_s: sample has no benchmark 'nip', did you mean nap?"),
        ("nap.nap", "nap has no parameter 'nap', did you mean nap_s?"),
        ("nap.behaviour", "nap has no parameter 'behaviour'"),
    ],
)
def test_a_setting_for_a_member_that_has_none_is_refused(tmp_path, name, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        launch(tmp_path, **{name: "1"})


def test_a_lost_member_is_no_result(tmp_path):
    launched = launch(tmp_path)
    [spin] = [attempt.directory for attempt in launched.attempts if attempt.run.benchmark == "spin"]
    shutil.rmtree(spin)
    suite, found = suites.load(launched.suite)
    assert len(found) == 2
    assert suite.status is RunStatus.INCOMPLETE
    assert f"spin has no result: the run's directory {spin.name} is not here" in suite.status_reason


def reference(launched, without=()):
    pairs = [
        (attempt.run, read(Machine, attempt.directory / "machine.json"))
        for attempt in launched.attempts
        if attempt.run.benchmark not in without
    ]
    return build(
        pairs,
        name="desk",
        title="a desk",
        provenance="measured in a test",
        metrics={run.benchmark: declaration.find(run.benchmark).headline[0] for run, _ in pairs},
        allow_suspect=True,
    )


def weighed(launched, baseline):
    suite, found = suites.load(launched.suite)
    by_benchmark = {}
    for _, run in found:
        by_benchmark.setdefault(run.benchmark, []).append(run)
    return weigh(suite, by_benchmark, baseline)


def test_the_overall_score_is_the_geometric_mean_of_the_members(tmp_path):
    launched = launch(tmp_path)
    baseline = reference(launched)
    for one, factor in zip(baseline.results, (0.5, 2.0, 8.0), strict=True):
        object.__setattr__(one, "value", one.value * factor)
    suite, _ = weighed(launched, baseline)
    # More is better for the first two, less for the last: 2, 1/2 and 8.
    assert [member.score for member in suite.members] == pytest.approx([2.0, 0.5, 8.0])
    assert suite.overall.score == pytest.approx(2.0)
    assert suite.overall.baseline_title == "a desk"
    assert suite.overall.withheld is None


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("invalid", "scripted (invalid: behaviour)"),
        ("fail", "scripted (no result: scripted would not start)"),
        ("refuse", "scripted (not run: there is no such device)"),
    ],
)
def test_the_overall_score_is_withheld_when_a_member_has_none(tmp_path, behaviour, reason):
    baseline = reference(launch(tmp_path / "before"))
    suite, _ = weighed(launch(tmp_path, behaviour=behaviour), baseline)
    assert suite.overall.score is None
    assert reason in suite.overall.withheld
    assert [member.score is not None for member in suite.members] == [True, False, True]


def test_a_suspect_member_is_scored_and_shown(tmp_path):
    baseline = reference(launch(tmp_path / "before"))
    suite, _ = weighed(launch(tmp_path, behaviour="suspect"), baseline)
    assert "scripted" in suite.overall.suspect
    # The behaviour was set by the command, and the baseline's was not: the two runs are not alike.
    assert suite.overall.score is None
    assert "parameter behaviour is suspect (set)" in suite.overall.withheld


def test_a_baseline_without_a_member_says_so(tmp_path):
    launched = launch(tmp_path)
    suite, _ = weighed(launched, reference(launched, without=["nap"]))
    assert suite.overall.withheld == "withheld: no score for nap (baseline desk has nap in no tier)"
    suite, _ = weighed(launched, None)
    assert suite.overall.withheld.startswith("withheld: no score for spin (no baseline")


def test_an_invalid_repeat_is_left_out_and_the_rest_is_scored(tmp_path):
    launched = launch(tmp_path, repeat=2)
    baseline = reference(launched)
    suite, found = suites.load(launched.suite)
    mine = [run for _, run in found if run.benchmark == "spin"]
    broken = mine[0].model_copy(
        update={"verdict": mine[0].verdict.model_copy(update={"level": Level.INVALID})}
    )
    members = suite.model_copy(update={"members": suite.members[:1]})
    scored, _ = weigh(members, {"spin": [broken, mine[1]]}, baseline)
    assert scored.members[0].value == mine[1].metrics["turns_per_s"].value
    assert scored.overall.score is not None


def command(tmp_path, *arguments):
    return [
        sys.executable,
        *(
            "-m",
            "tests.bench.sample_benchmarks",
            str(tmp_path / "site"),
            "run",
            "sample",
            "--json",
            "--out",
            str(tmp_path / "runs"),
        ),
        *(*QUICK_WORDS, *arguments),
    ]


def environment():
    return {**os.environ, "PYTHONPATH": str(PACKAGE)}


def nap_began(out):
    try:
        [path] = out.glob("*/*-nap-quick-*/run.json")
        return "measure" in path.read_text() and "sleeper" in path.read_text()
    except (ValueError, OSError):
        return False


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_suite_that_is_killed_is_visible_as_incomplete(tmp_path, sent):
    out = tmp_path / "runs"
    process = subprocess.Popen(
        command(tmp_path, "--set", "nap_s=60"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=PACKAGE,
    )
    try:
        until(lambda: nap_began(out))
        assert suites.load(next(out.glob("*/suite.json")).parent)[0].status is RunStatus.RUNNING
        process.send_signal(sent)
        stdout, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    directory = next(out.glob("*/suite.json")).parent
    suite, _ = suites.load(directory)
    assert suite.status is RunStatus.INCOMPLETE
    assert suite.overall is None or suite.overall.score is None
    if sent is signal.SIGKILL:
        assert read(Suite, directory / "suite.json").status is RunStatus.RUNNING
        assert "was killed while nap was to run" in suite.status_reason
    else:
        assert f"stopped by {sent.name}" in suite.status_reason
        assert process.returncode == 4
        assert json.loads(stdout)["suite"]["status"] == "incomplete"
        assert stderr.count("steelyard: ") == 1
    assert states(suite)["nap"] == ["incomplete"]
    assert states(suite)["spin"] != ["incomplete"]
    # A sleeper that outlived its suite would be an orphan.
    until(lambda: not any("time.sleep(60" in one for one in commands()))


def commands():
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [("valid", 0), ("suspect", 0), ("invalid", 1), ("fail", 4), ("lack", 3), ("refuse", 3)],
)
def test_the_exit_code_is_that_of_the_worst_member(tmp_path, behaviour, code, capsys):
    out = str(tmp_path / "runs")
    arguments = [*QUICK_WORDS, "--out", out, "--set", f"behaviour={behaviour}"]
    assert invoke(["run", "sample", "--json", *arguments]) == code
    said = capsys.readouterr()
    document = json.loads(said.out)
    errors = [line for line in said.err.splitlines() if line.startswith("steelyard: ")]
    assert len(errors) == (1 if code > 1 else 0)
    suite = document["suite"]
    assert suite["status"] == ("complete" if code < 3 else "incomplete")
    assert [member["benchmark"] for member in suite["members"]] == ["spin", "scripted", "nap"]
    assert os.path.exists(suite["report"])
    assert all(os.path.exists(path) for path in suite["reports"].values())
    # What was shown is what was written, and what is shown again.
    again = json.loads((Path(suite["directory"]) / "suite.json").read_text())
    assert again["overall"] == suite["overall"]
    if behaviour in ("suspect", "fail"):
        shown = invoke(["report", suite["suite_id"], "--json", "--runs", out])
        assert shown == (0 if code == 0 else 1)
        assert json.loads(capsys.readouterr().out)["members"] == suite["members"]


def test_the_terminal_shows_every_member_and_why(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    out = str(tmp_path / "runs")
    assert invoke(["run", "sample", "--out", out, *QUICK_WORDS, "--set", "behaviour=invalid"]) == 1
    said = capsys.readouterr().out
    for word in (
        "suite sample",
        "No overall score",
        "Withheld: no score for spin",
        "2 of 3 members have a result; ",
        "scripted is invalid",
        "expected",
        "spin",
        "nap",
        "turns/s",
        "invalid",
        "as it was asked to be",
    ):
        assert word in said
    assert "report: " in said
    assert invoke(["list", "runs", "--runs", out]) == 0
    listed = [
        line for line in capsys.readouterr().out.splitlines() if "-quick-" in line or "-sample-" in line
    ]
    assert len(listed) == 4
    assert sum(line.startswith("  ") for line in listed) == 3
    assert invoke(["score", "latest", "--runs", out]) == 1
    assert "overall withheld: no score for spin" in capsys.readouterr().out
    assert invoke(["score", "latest", "--json", "--runs", out]) == 1
    assert json.loads(capsys.readouterr().out)["overall"]["score"] is None


def test_a_suite_in_another_folder_takes_its_members_pages_along(tmp_path, capsys):
    out = tmp_path / "runs"
    assert invoke(["run", "sample", "--json", "--out", str(out)]) == 0
    suite = json.loads(capsys.readouterr().out)["suite"]
    elsewhere = tmp_path / "pages"
    assert (
        invoke(
            [
                "report",
                suite["suite_id"],
                "--json",
                "--runs",
                str(out),
                "--report",
                str(elsewhere / "report.html"),
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert Path(found["report"]) == elsewhere / "report.html"
    for run_id, page in found["reports"].items():
        assert Path(page) == elsewhere / run_id / "report.html"
        assert f'href="{run_id}/report.html"' in (elsewhere / "report.html").read_text()


def test_a_manifest_that_cannot_be_read_is_listed_with_the_reason(tmp_path, capsys):
    launched = launch(tmp_path)
    (launched.suite / "suite.json").write_text('{"kind": "suite", "schema_version": "9.0"}')
    with pytest.raises(RecordError, match=r"9\.0"):
        suites.load(launched.suite)
    assert invoke(["list", "runs", "--json", "--runs", str(tmp_path / "runs")]) == 0
    [listed] = json.loads(capsys.readouterr().out)["suite_runs"]
    assert listed["status"] == "unreadable"
    assert isinstance(launched.attempts[0].run, Run)
