"""Going on with a suite that was really killed: what stays, what runs again, what is refused."""

import json
import signal
import subprocess
from pathlib import Path

import pytest

import steelyard
from steelyard._base import UsageError
from steelyard.bench import declaration, runs
from steelyard.bench.launch import execute, request_of
from steelyard.bench.progress import Silence
from steelyard.bench.request import RunRequest
from steelyard.bench.suites import suite as suites
from steelyard.cli.main import invoke
from steelyard.records import RunStatus, Suite, read, write
from tests.bench import sample_benchmarks
from tests.bench.conftest import until
from tests.bench.sample_benchmarks import QUICKLY
from tests.bench.suites.test_suites import command, environment, nap_began

PACKAGE = Path(declaration.__file__).parents[2]


@pytest.fixture(autouse=True)
def three(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)


def killed(tmp_path, sent, *arguments):
    """Kill a suite in its third member, and return its directory."""
    out = tmp_path / "runs"
    process = subprocess.Popen(
        command(tmp_path, "--set", "nap_s=3", *arguments),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=PACKAGE,
    )
    try:
        until(lambda: nap_began(out))
        process.send_signal(sent)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    return next(out.glob("*/suite.json")).parent, said


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_suite_goes_on_where_it_was(tmp_path, sent, capsys):
    directory, said = killed(tmp_path, sent)
    if sent is signal.SIGINT:
        assert f"steelyard run --resume {directory}" in said
    before = {run.benchmark: folder for folder, run in suites.load(directory)[1]}
    kept = {name: (before[name] / "run.json").read_bytes() for name in ("spin", "scripted")}
    [cut] = [run for _, run in suites.load(directory)[1] if run.benchmark == "nap"]
    assert suites.load(directory)[0].status is RunStatus.INCOMPLETE

    assert invoke(["run", "--json", "--resume", directory.name, "--out", str(tmp_path / "runs")]) == 0
    document = json.loads(capsys.readouterr().out)["suite"]
    suite, found = suites.load(directory)
    assert document["status"] == "complete"
    assert (suite.status, suite.status_reason, len(suite.resumed)) == (RunStatus.COMPLETE, None, 1)
    assert suite.end_ns >= suite.resumed[0].monotonic_ns
    assert [len(member.runs) for member in suite.members] == [1, 1, 1]
    assert {run.status for _, run in found} == {RunStatus.COMPLETE}
    # What had a result is untouched; what was cut off was made again, with its settings and its seed.
    assert {name: (before[name] / "run.json").read_bytes() for name in kept} == kept
    [again] = [run for _, run in found if run.benchmark == "nap"]
    assert again.run_id != cut.run_id
    assert again.parameters == cut.parameters
    assert again.parameters["nap_s"].value == 3.0
    assert len({run.series.id for _, run in found}) == 1
    assert (directory / "interrupted" / before["nap"].name / "logs").is_dir()
    # One report over all of them.
    page = (directory / "report.html").read_text()
    assert all(f'href="{folder.name}/report.html"' in page for folder, _ in found)
    assert "resumed" in page
    with pytest.raises(UsageError, match="is complete"):
        request_of(RunRequest(), (), directory)


def test_repeats_keep_their_seeds(tmp_path):
    whole = execute(
        RunRequest(name="sample", repeat=2, hooks=QUICKLY, out=tmp_path / "runs"), progress=Silence()
    )
    seeds = {
        (run.benchmark, run.series.index): run.parameters["seed"].value for _, run in loaded(whole.suite)
    }
    # As if the machine had died in the second `scripted`.
    for folder, run in loaded(whole.suite):
        if (run.benchmark, run.series.index) in (("scripted", 2), ("nap", 2)):
            write(run.model_copy(update={"status": RunStatus.RUNNING, "verdict": None}), folder / "run.json")
            kill(folder, runs.load, "run.json")
    kill(whole.suite, lambda folder: read(Suite, folder / "suite.json"), "suite.json")
    resumed = execute(request_of(RunRequest(), (), whole.suite), progress=Silence())
    assert len(resumed.attempts) == 6
    suite, found = suites.load(whole.suite)
    assert suite.status is RunStatus.COMPLETE
    assert {(run.benchmark, run.series.index): run.parameters["seed"].value for _, run in found} == seeds


def loaded(directory):
    return suites.load(directory)[1]


def kill(folder, load, name):
    """Say that the process that drove it ran in another boot."""
    record = json.loads((folder / name).read_text())
    record["status"], record["status_reason"], record["end_ns"] = "running", None, None
    record["orchestrator"]["boot_id"] = "00000000-0000-4000-8000-000000000000"
    if name == "run.json":
        del record["end_ns"]
    (folder / name).write_text(json.dumps(record))


def incomplete(tmp_path, **chosen):
    """Return a suite that a reboot cut off after its first member."""
    launched = execute(
        RunRequest(name="sample", chosen=chosen, hooks=QUICKLY, out=tmp_path / "runs"), progress=Silence()
    )
    for folder, run in loaded(launched.suite):
        if run.benchmark != "spin":
            kill(folder, runs.load, "run.json")
    kill(launched.suite, None, "suite.json")
    return launched.suite


def test_what_would_mix_results_is_refused_in_one_line(tmp_path, capsys, monkeypatch):
    directory = incomplete(tmp_path, spin_s="0.06")
    files = sorted(path.name for path in directory.iterdir())

    def refused(*arguments):
        assert invoke(["run", *arguments, "--resume", str(directory)]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert sorted(path.name for path in directory.iterdir()) == files
        return said[0]

    assert "as it began: it takes no other benchmark or command" in refused("dcperf")
    assert "as it began: it takes no --set" in refused("--set", "spin_s=1")
    assert "as it began: it takes no --tier" in refused("sample", "--tier", "full")
    assert "as it began: it takes no --repeat" in refused("--repeat", "3")
    [spin] = directory.glob("*-spin-*")
    record = json.loads((spin / "machine.json").read_text())
    record["cpu"]["model"] = "another"
    (spin / "machine.json").rename(spin / "kept.json")
    (spin / "machine.json").write_text(json.dumps(record))
    assert "spin ran on another machine: processor another, and here" in refused()
    (spin / "kept.json").rename(spin / "machine.json")
    run = (spin / "run.json").read_text()
    (spin / "run.json").write_text(run.replace('"value": 0.06', '"value": 0.07'))
    assert "spin ran with spin_s=0.07, and now has spin_s=0.06" in refused()
    (spin / "run.json").write_text(run)
    with monkeypatch.context() as patched:
        patched.setattr(steelyard, "__version__", "9.9")
        assert "it ran with Steelyard" in refused()
    assert invoke(["run", "sample", "--resume", str(directory)]) == 0


def test_a_suite_that_still_runs_is_left_alone(tmp_path):
    directory = incomplete(tmp_path)
    record = json.loads((directory / "suite.json").read_text())
    record["orchestrator"] = read(Suite, directory / "suite.json").orchestrator.model_dump(mode="json")
    from steelyard.bench.manifest import this_process

    record["orchestrator"] = this_process().model_dump(mode="json")
    (directory / "suite.json").write_text(json.dumps(record))
    with pytest.raises(UsageError, match="is still running, in process"):
        request_of(RunRequest(), (), directory)
    with pytest.raises(UsageError, match="is no suite"):
        request_of(RunRequest(), (), next(directory.glob("*-spin-*")))
