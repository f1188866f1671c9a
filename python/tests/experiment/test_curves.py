"""Values measured elsewhere: both shapes of files, what they say, and files that hold no experiment."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import UsageError
from steelyard.experiment.curves import read_curves
from tests.calling import call
from tests.cli.test_documents import hold


def experiment(*words: str) -> subprocess.CompletedProcess[str]:
    return call("experiment", *words)


def answers(*words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(experiment(*words, "--json").stdout)
    hold(document)
    return document


def wide(path: Path, *, seed: int = 2) -> Path:
    """Three heaps: throughput grows by a tenth and stays, latency falls by half."""
    noise = random.Random(seed)
    rows = ["heap_mb,replicate,throughput,p99_ms"]
    for heap, rate, latency in ((600, 100, 20), (700, 110, 10), (800, 110, 10)):
        for replicate in range(1, 13):
            rows.append(f"{heap},{replicate},{rate * noise.gauss(1, 0.005)},{latency * noise.gauss(1, 0.01)}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_file_of_trials_is_analysed_as_an_experiment_is(tmp_path: Path) -> None:
    file = wide(tmp_path / "curves.csv")
    document = answers("--from", str(file), "--least-effect", "2%")
    assert document["factor"] == "heap_mb"
    assert document["metric"]["name"] == "throughput"
    assert [(one["arm"], one["outcome"]) for one in document["answers"]] == [
        ("700", "better"),
        ("800", "better"),
    ]
    assert all(one["low"] < 1.1 < one["high"] for one in document["answers"])
    assert not document["answers"][0]["holds_at_every_look"]
    assert document["directory"] is None
    other = answers("--from", str(file), "--metric", "p99_ms", "--lower-is-better")
    assert {one["outcome"] for one in other["answers"]} == {"better"}
    assert other["answers"][0]["ratio"] == pytest.approx(0.5, rel=0.02)
    # Nothing was run, and nothing is recorded.
    assert [path.name for path in tmp_path.iterdir()] == ["curves.csv"]


def test_a_file_of_values_names_its_factor_and_metrics(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    rows = ["factor,level,replicate,metric,value"]
    for replicate in range(12, 0, -1):
        for level, value in (("64", 100 + replicate % 3), ("128", 50 + replicate % 2)):
            rows.append(f"memory,{level},{replicate},mpki,{value}")
            rows.append(f"memory,{level},{replicate},ipc,{1 / value}")
    file.write_text("\n".join(rows))
    curves = read_curves(file)
    assert (curves.factor, list(curves.arms), list(curves.metrics)) == (
        "memory",
        ["64", "128"],
        ["mpki", "ipc"],
    )
    # Replicate 1 is the first one, wherever it stands.
    assert curves.values[0, "64"] == {"mpki": 101.0, "ipc": pytest.approx(1 / 101)}
    assert answers("--from", str(file), "--lower-is-better")["answers"][0]["outcome"] == "better"


def test_names_of_replicates_are_no_order_in_time(tmp_path: Path) -> None:
    noise = random.Random(3)
    ratios = sorted(noise.gauss(0.9, 0.06) for _ in range(20))
    found = []
    for name, order in (("grows", range(20)), ("mixed", noise.sample(range(20), 20))):
        file = tmp_path / f"{name}.csv"
        rows = [f"{arm},host{place:02},{value}" for place, at in enumerate(order)
                for arm, value in (("old", 1.0), ("new", ratios[at]))]  # fmt: skip
        file.write_text("arm,replicate,cpi\n" + "\n".join(rows))
        found.append(answers("--from", str(file), "--lower-is-better")["answers"])
        assert "replicates have names, and so no order" in " ".join(
            experiment("--from", str(file)).stdout.split()
        )
    assert found[0] == found[1]
    assert found[0][0]["outcome"] == "better"
    # Who says when they were is believed: these grow with time.
    for head, name in (("replicate", "{}"), ("replicate", "2026-01-01T10:{:02}"), ("block", "host{}")):
        rows = [f"{arm},{name.format(at)},{value}" for at in range(20)
                for arm, value in (("old", 1.0), ("new", ratios[at]))]  # fmt: skip
        file.write_text(f"arm,{head},cpi\n" + "\n".join(rows))
        (answer,) = answers("--from", str(file), "--lower-is-better")["answers"]
        assert answer["outcome"] == "undecided"


def test_an_empty_value_is_a_trial_without_one(tmp_path: Path) -> None:
    file = tmp_path / "gaps.csv"
    noise = random.Random(2)
    values = [(arm, block, noise.gauss(100, 1)) for block in range(8) for arm in "ab"]
    lines = [f"{arm},{block},{'' if (arm, block) == ('b', 3) else value}" for arm, block, value in values]
    file.write_text("arm,block,rate\n" + "\n".join(lines))
    (answer,) = answers("--from", str(file))["answers"]
    assert answer["blocks"] == 7
    assert answer["lost"] == {"a": 0, "b": 1}


def test_numbers_whose_ratios_are_not_finite_are_lost_with_their_reason(tmp_path: Path) -> None:
    file = tmp_path / "far.csv"
    file.write_text("arm,block,rate,heap\na,1,1e308,3\na,2,2,5e-324\nb,1,3,nan\nb,2,1e-308,0\n")
    found = read_curves(file).trials("rate")
    assert {(one.arm, one.block): one.value for one in found} == {
        ("a", 0): None,
        ("a", 1): 2.0,
        ("b", 0): 3.0,
        ("b", 1): None,
    }
    reasons = [one.reason for one in found if one.reason]
    assert reasons == [
        f"the metric is {shown}: ratios need a positive number" for shown in ("1e+308", "1e-308")
    ]
    assert [one.readings for one in found if one.arm == "b"] == [{}, {"heap": 0.0}]
    assert [one.missing for one in found if one.block == 0 and one.arm == "b"] == [
        {"heap": "it is nan: figures are 0, or from 1e-100 to 1e100"}
    ]


def test_a_command_may_print_any_number(tmp_path: Path) -> None:
    program = "import sys; print('rate', 1e300 if sys.argv[1] == '2' else 5, 'heap', 1e200)"
    words = ["--sweep", "size=1,2", "--metric", r"rate=rate (\S+)", "--guard", r"heap=heap (\S+)=+5%"]
    words += ["--blocks", "4", "--to-the-end", "--out", str(tmp_path)]
    done = experiment(*words, "--", sys.executable, "-c", program, "{size}")
    assert done.returncode == 4, done.stderr
    (path,) = tmp_path.rglob("experiment.json")
    trials = json.loads(path.read_text())["trials"]
    lost = [one["reason"] for one in trials if one["arm"] == "2"]
    assert lost
    assert set(lost) == {"the metric is 1e+300: ratios need a positive number"}
    assert all("heap" in one["missing"] and "heap" not in one["readings"] for one in trials)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: needs columns for the arm, the replicate and a metric"),
        ("arm,block\na,1\n", "line 1: needs columns"),
        ("arm,rate\na,1\n", "line 1: needs columns"),
        ("arm,block,rate,rate\n", "line 1: columns need names that differ"),
        ("arm,block,rate\na,1,2\nb,1,fast\n", "line 3: 'fast' of rate is no number"),
        ("arm,block,rate\na,1,2\nb,1\n", "line 3: 2 values for 3 columns"),
        ("arm,block,rate\na,1,2\n,1,3\n", "line 3: no arm"),
        ("arm,block,rate\na,1,2\na,1,3\n", "line 3: a second value of 'rate' of a in block 1"),
        ("arm,block,rate\na,1,2\na,2,3\n", "1 arms in column 'arm', two are needed"),
        ('arm,block,rate\na,1,"2\n', "line 2: unexpected end of data"),
        ("factor,arm,block,metric,value\nx,a,1,m,2\ny,b,1,m,2\n", "factors x, y: one file holds one factor"),
    ],
)
def test_a_file_that_holds_no_experiment_is_refused_by_its_line(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "curves.csv"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"curves\.csv") as error:
        read_curves(file)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "nowhere.csv"], "nowhere.csv"),
        (["--from", "curves.csv", "--metric", "speed"], "curves.csv has no metric 'speed'"),
        (["tao", "--from", "curves.csv"], "--from takes what was measured"),
        (["--from", "curves.csv", "--sweep", "n=1,2"], "--from takes what was measured"),
    ],
)
def test_flags_that_do_not_fit_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    wide(tmp_path / "curves.csv")
    words = [str(tmp_path / word) if word == "curves.csv" else word for word in words]
    done = experiment(*words)
    assert done.returncode == 2
    assert message in done.stderr.replace(f"{tmp_path}/", "")
    assert "Traceback" not in done.stderr
