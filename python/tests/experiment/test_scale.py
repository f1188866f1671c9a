"""Scaling curves of real programs: contended and not, steps by CPU, faults, going on, curves from files."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from steelyard.experiment.cpu_time import cpu_ticks
from tests.calling import call
from tests.cli.test_documents import hold
from tests.experiment.test_scale_guide import FILES

STEELYARD = Path(sys.executable).with_name("steelyard")
USABLE = sorted(os.sched_getaffinity(0))
GOLDEN = Path(__file__).resolve().parents[3] / "schemas" / "golden"


def scale(folder: Path, *words: str, codes: tuple[int, ...] = (0, 1)) -> dict[str, Any]:
    """Run ``steelyard scale`` with ``--json``; return its document."""
    at = words.index("--") if "--" in words else len(words)
    done = call("scale", *words[:at], "--json", "--out", str(folder), *words[at:])
    assert done.returncode in codes, done.stderr + done.stdout
    document: dict[str, Any] = json.loads(done.stdout)
    hold(document)
    return document


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program that counts with threads: all in one place, or each in its own."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = tmp_path_factory.mktemp("programs") / "counter"
    program.with_suffix(".c").write_text(FILES["counter.c"])
    flags = ["-O2", "-g", "-fno-omit-frame-pointer", "-pthread"]
    subprocess.run(
        [compiler, *flags, str(program.with_suffix(".c")), "-o", str(program)], check=True, timeout=60
    )
    return program


def test_a_contended_counter_costs_more_cpu_time_than_one_of_each_thread(
    counter: Path, tmp_path: Path
) -> None:
    if len(USABLE) < 2:
        pytest.skip("a counter is contended on two CPUs")
    words = ["--steps", "1,2", "--blocks", "3", "--metric", r"rate=(\S+) operations/s"]
    page = tmp_path / "page.html"
    cost, grown = {}, {}
    for kind in ("shared", "own"):
        command = ["--", str(counter), kind, "{cpus}", "0.5"]
        document = scale(tmp_path / kind, "--report", str(page), *words, *command)
        assert [step["cpus"] for step in document["steps"]] == [1, 2]
        # Neighbours take CPUs from both alike: CPU time for an operation is the program's own.
        terms = {term["name"]: term["factor"]["value"] for term in document["loss"]["terms"]}
        cost[kind] = document["loss"]["factor"]["value"] / terms["CPU use"]
        functions = {one["function"]: one for one in document["functions"]}
        grown[kind] = functions[f"count_{kind}"]
        # Neighbours that come and go leave no model at all, which is also a reason.
        reason = document["law"]["contention"]["reason"]
        assert reason.startswith(("2 steps cannot determine", "no model fits"))
        assert not any(step["lost"] for step in document["steps"])
        record = json.loads((Path(document["source"]) / "experiment.json").read_text())
        assert len(record["trials"]) == 6
        wanted = {"elapsed_s", "cpu_s", "idle_ratio"}
        assert all(wanted <= trial["readings"].keys() for trial in record["trials"])
        assert "Scaling" in page.read_text()
    assert cost["shared"] > 1.2 * cost["own"]
    # Beside neighbours half a second leaves a dozen samples: a share is known as well as these tell.
    ((low,), (high,)) = (grown["shared"][key].values() for key in ("before", "after"))
    assert high > 0.6
    assert high > low - grown["shared"]["noise_ratio"]["value"]


def test_a_program_that_waits_cannot_use_the_machine(tmp_path: Path) -> None:
    if len(USABLE) < 2:
        pytest.skip("it takes two CPUs")
    program = "import time;time.sleep(0.3);print('rate 100')"
    words = ["--steps", "1,2", "--blocks", "2", "--no-profile", "--metric", r"rate=rate (\d+)"]
    document = scale(tmp_path, *words, "--", sys.executable, "-c", program)
    (limit,) = document["limits"]
    # Neighbours may have taken the time in which the program left CPUs idle.
    assert limit["id"] in ("idle", "others", "busy")
    assert limit["claim"].startswith("throughput is flat from 1 to 2 CPUs")
    assert document["functions_missing"] == "no stacks were sampled at the step of 1"


def test_each_trial_has_the_cpus_of_its_step_and_nothing_else(tmp_path: Path) -> None:
    program = "import os;print('cpus', *sorted(os.sched_getaffinity(0)));print('rate', {cpus})"
    words = [
        "--blocks",
        "2",
        "--no-profile",
        "--metric",
        r"rate=rate (\d+)",
        "--reading",
        r"operations=rate (\d+)",
    ]
    document = scale(tmp_path, *words, "--", sys.executable, "-c", program)
    assert [step["ops_per_s"] for step in document["steps"]] == [step["cpus"] for step in document["steps"]]
    assert document["steps"][-1]["cpus"] == len(USABLE)
    record = json.loads((Path(document["source"]) / "experiment.json").read_text())
    assert record["factor"] == "cpus"
    for arm in record["arms"]:
        text = (Path(document["source"]) / "logs" / f"0000-{arm['name']}.log").read_text()
        seen = text.splitlines()[0].removeprefix("cpus ").split()
        assert len(seen) == int(arm["name"])
        assert set(map(int, seen)) <= set(USABLE)
    assert all(trial["readings"]["operations"] == int(trial["arm"]) for trial in record["trials"])
    # The same folder again, and as an experiment.
    again = json.loads(call("scale", document["source"], "--json").stdout)
    assert again["steps"] == document["steps"]


def test_any_number_of_the_output_is_shown_by_step(tmp_path: Path) -> None:
    program = "print('rate', {cpus});print('depth', 7 * {cpus});print('wait 3');print('errors 0')"
    words = ["--blocks", "2", "--steps", "1", "--no-profile", "--metric", r"rate=rate (\d+)"]
    words += ["--reading", r"queue depth=depth (\d+)", "--reading", r"latency_p99_us=wait (\d+)"]
    words += ["--reading", r"faults=errors (\d+)"]
    document = scale(tmp_path, *words, "--", sys.executable, "-c", program, codes=(0, 1))
    assert document["steps"][0]["readings"]["queue depth"] == 7
    assert document["steps"][0]["readings"]["latency_p99_ns"] == 3000
    assert document["steps"][0]["readings"]["faults"] == 0
    shown = call("scale", document["source"], "--format", "csv").stdout
    (first,) = csv.DictReader(shown.splitlines())
    assert (first["CPUs"], first["queue depth"]) == ("1", "7")


def test_a_curve_that_was_killed_goes_on(tmp_path: Path) -> None:
    program = (
        "import pathlib,sys,time;p=pathlib.Path(sys.argv[1]);n=p/'count';"
        "k=int(n.read_text()) if n.exists() else 0;n.write_text(str(k+1));"
        "k==2 and not (p/'go').exists() and time.sleep(60);print('rate 5')"
    )
    words = ["--blocks", "3", "--no-profile", "--seed", "3", "--metric", r"rate=rate (\d+)"]
    command = [sys.executable, "-c", program, str(tmp_path)]
    process = subprocess.Popen(
        [str(STEELYARD), "scale", "--out", str(tmp_path / "runs"), *words, "--", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while not ((tmp_path / "count").exists() and (tmp_path / "count").read_text() == "3"):
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    (folder,) = (tmp_path / "runs").iterdir()
    (tmp_path / "go").touch()
    refused = call("experiment", "--resume", str(folder))
    assert refused.returncode == 2
    assert "is a scaling curve" in refused.stderr
    refused = call("scale", "--resume", str(folder), "--steps", "1")
    assert "--resume goes on as it began: it takes no --steps" in refused.stderr
    # That no stacks are sampled was said at the beginning.
    document = scale(tmp_path, "--resume", str(folder))
    assert not any("profile" in note for note in document["notes"])
    assert document["status"] == "complete"
    assert all(len(step["by_block"]) == 3 for step in document["steps"])


def test_a_curve_measured_elsewhere_is_read_with_its_profiles(tmp_path: Path) -> None:
    steps = (1, 1000, 0.5), (2, 1900, 0.53), (4, 3300, 0.6), (8, 4700, 0.85), (16, 4900, 1.6), (32, 3900, 4)
    lines = ["cpus,ops_per_s,operations,instructions,cycles"]
    lines += [f"{n},{rate},{rate * 10},{rate * 20_000},{rate * 20_000 * cpi}" for n, rate, cpi in steps]
    (tmp_path / "curve.csv").write_text("\n".join(lines) + "\n")
    for name, spin in (("low", 5), ("high", 80)):
        lines = ["# Samples: 61K of event 'cycles'", "# Overhead  Command  Shared Object  Symbol"]
        lines += [f"    {spin}.00%  demo  demo  [.] lock_slow", f"    {95 - spin}.00%  demo  demo  [.] work"]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    words = ["--from", str(tmp_path / "curve.csv"), "--report", str(tmp_path / "page.html")]
    words += ["--profile-low", str(tmp_path / "low.txt"), "--profile-high", str(tmp_path / "high.txt")]
    document = scale(tmp_path, *words)
    assert document["functions"][0]["function"] == "lock_slow"
    assert document["loss"]["cause"].startswith("each instruction takes more clock cycles")
    assert 8 <= document["law"]["peak"]["value"] <= 20
    assert document["limits"][0]["claim"].startswith(
        "throughput grows by 4.3% only from 8 to 16 CPUs, and falls from 16 to 32"
    )
    done = call("scale", *words)
    assert "function that grew most: lock_slow, from 5.00% to 80.00% of cycles" in done.stdout
    assert "2,000.00" in done.stdout
    assert "lock_slow" in (tmp_path / "page.html").read_text()


def test_other_numbers_of_cpus_are_predicted_in_every_medium(tmp_path: Path) -> None:
    lines = ["cpus,ops_per_s,threads_per_core,cores,block"]
    lines += [
        f"{n},{1000 * n / (1 + 0.01 * n) * (1 + 0.004 * block)},2,16,{block}"
        for n in (1, 2, 4, 8)
        for block in range(3)
    ]
    (tmp_path / "curve.csv").write_text("\n".join(lines) + "\n")
    words = ["--from", str(tmp_path / "curve.csv"), "--predict", "32", "--predict", "16", "--predict", "6"]
    document = scale(tmp_path, *words, "--report", str(tmp_path / "page.html"))
    assert [one["cpus"] for one in document["predictions"]] == [6, 16, 32]
    inside, cores, siblings = document["predictions"]
    assert inside["low"] < 1000 * 6 / 1.06 < inside["high"]
    assert cores["low"] < 1000 * 16 / 1.16 < cores["high"]
    assert siblings["ops_per_s"] is None
    assert siblings["reason"].startswith("CPUs beyond 16 are siblings")
    assert document["model"]["kind"] == "law"
    assert document["model"]["cores"] == 16
    prediction = scale(tmp_path, *words, "--sibling-worth", "0.25")["predictions"][-1]
    assert prediction["ops_per_s"] == pytest.approx(1.25 * cores["ops_per_s"])
    for medium in ("table", "jsonl"):
        done = call("scale", *words, "--format", medium)
        assert "CPUs beyond 16 are siblings" in done.stdout
    assert "Predicted throughput of a trial" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name what to scale"),
        (["--from", "nowhere.csv", "--sibling-worth", "0.3"], "are for --predict"),
        (["--predict", "4", "--siblings-of", "nowhere.csv", "--", "true"], "nowhere.csv: No such file"),
        (
            ["--predict", "4", "--siblings-of", "a.csv", "--sibling-worth", "0.3", "--", "true"],
            "both say what siblings are worth",
        ),
        (["--from", "nowhere.csv"], "nowhere.csv: No such file"),
        (["--from", "nowhere.csv", "tao"], "--from reads a curve"),
        (["--profile-low", "a"], "belong together"),
        (["--resume", "nowhere"], "nowhere holds no experiment"),
        (["--resume", "nowhere", "tao"], "nowhere holds no experiment"),
        (["--steps", "1,two", "--", "true"], "not numbers of CPUs"),
        (["--steps", "0", "--", "true"], "CPUs are usable here"),
        (["--steps", "1,100000", "--", "true"], "CPUs are usable here"),
        (["tao", "--set", "memorie={cpus}"], "tao has no parameter 'memorie'"),
        (["tao", "--reading", "operations=(x)"], "--reading takes numbers from the output of a command"),
        (["--reading", "=(x)", "--", "true"], "write it as NAME=REGEX"),
        (["--reading", "a=(x)", "--reading", "a=(y)", "--", "true"], "--reading a: it is there already"),
        (["--reading", "operations=x", "--", "true"], "has 0 groups, one is needed"),
        (["--set", "a=1", "--", "true"], "--set, --hook and --tier are for a benchmark"),
        (["--metric", "speed", "--", "true"], "a command has elapsed_s and cpu_s"),
        (["--", "no-such-program"], "no-such-program: no such program"),
        (["--blocks", "1", "--steps", "1", "--", "false"], "exited with code 1"),
    ],
)
def test_what_is_no_curve_is_refused_in_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    done = call("scale", "--out", str(tmp_path / "runs"), *words, folder=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_malformed_profile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("cpus,ops_per_s\n1,100\n2,150\n")
    (tmp_path / "noise").write_bytes(bytes(range(256)) * 20)
    words = ["--from", "curve.csv", "--profile-low", "noise", "--profile-high", "noise"]
    done = call("scale", *words, folder=tmp_path)
    assert done.returncode == 2
    assert "noise" in done.stderr
    assert "Traceback" not in done.stderr


def test_idle_time_is_read_of_the_cpus_that_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    stat = tmp_path / "proc" / "stat"
    stat.write_text(
        "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 0 10 70 10 0 0 0 5 0\ncpu1 50 0 50 0 0 0 0 0 50 0\nintr 1\n"
    )
    before = cpu_ticks([0], tmp_path)
    assert (before.idle, before.total) == (80, 100)
    assert cpu_ticks([0, 1], tmp_path).total == 200
    stat.write_text("cpu0 85 0 10 80 25 0 0 0 5 0\n")
    assert cpu_ticks([0], tmp_path).idle_ratio_since(before) == pytest.approx(0.25)
    assert before.idle_ratio_since(before) is None
    assert cpu_ticks([0], tmp_path / "nowhere").idle_ratio_since(cpu_ticks([0], tmp_path / "nowhere")) is None


def test_a_benchmark_finds_only_the_cpus_of_its_step(tmp_path: Path) -> None:
    settings = ["measure=1", "warmup_min=0.5", "warmup_max=0.5", "memory=16MiB", "connections={cpus}"]
    words = ["tao", "--tier", "smoke", "--steps", "1", "--blocks", "1"]
    words += [word for setting in settings for word in ("--set", setting)]
    # A busy machine may make the run invalid; where it ran is recorded all the same.
    document = scale(tmp_path, *words)
    (step,) = document["steps"]
    assert document["law"] is None or document["law"]["contention"]["value"] is None
    folder = Path(document["source"])
    (trial,) = json.loads((folder / "experiment.json").read_text())["trials"]
    run = json.loads((folder / "runs" / trial["run_id"] / "run.json").read_text())
    assert run["cpus"]["server"] == run["cpus"]["load"] == step["listed"] == str(USABLE[0])
    assert run["parameters"]["connections"]["value"] == 1
    assert trial["readings"]["latency_p99_ns"] > 0
    assert 0 <= trial["readings"]["idle_ratio"] <= 1
    assert trial["readings"]["cpu_s"] <= trial["readings"]["elapsed_s"] * 1.1
    assert trial["readings"]["operations"] > 0
    assert {"instructions", "cycles"} <= trial["readings"].keys() | trial["missing"].keys()
