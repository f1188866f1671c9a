"""Response curves: the knee of a sweep, on a terminal, on the page and in the document."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.experiment.test_curves import answers, experiment
from tests.experiment.test_experiment import COUNT, record, steelyard


def curve(path: Path, levels: list[str], rates: list[float], *, noise: float = 0.005) -> str:
    """Write the trials of eight blocks, with the same noise each time."""
    generator = random.Random(4)
    rows = ["level,replicate,rate,p99_ns"]
    for block in range(8):
        for level, rate in zip(levels, rates, strict=True):
            rows.append(
                f"{level},{block},{rate * generator.gauss(1, noise)},{1e9 / rate * generator.gauss(1, noise)}"
            )
    path.write_text("\n".join(rows))
    return str(path)


def test_a_curve_that_flattens_has_its_knee_there(tmp_path: Path) -> None:
    heaps = [f"{size}MiB" for size in (500, 600, 700, 800, 900, 1000)]
    file = curve(tmp_path / "heap.csv", heaps, [100, 120, 140, 142, 143, 143])
    page = tmp_path / "page.html"
    found = answers("--from", file, "--report", str(page))["response"]
    assert (found["unit"], found["knee"]["is_log"]) == ("bytes", False)
    low, at, high = (found["knee"][name] / 2**20 for name in ("low", "at", "high"))
    assert 690 < low <= at <= high < 730
    assert found["knee"]["before"] > 4 * abs(found["knee"]["after"])
    assert [one["level"] / 2**20 for one in found["levels"]] == [500, 600, 700, 800, 900, 1000]
    assert found["levels"][0]["beside"]["p99_ns"] == pytest.approx(1e7, rel=0.02)
    shown = experiment("--from", file).stdout
    assert "knee at 7" in shown
    assert "where the curve flattens" in shown
    assert "10.0 ms" in shown
    assert "knee at 7" in page.read_text()
    assert "p99_ns over level" in page.read_text()


def test_arms_with_the_same_answer_share_a_sentence(tmp_path: Path) -> None:
    file = curve(tmp_path / "curve.csv", ["1", "2", "3", "4"], [100, 120, 140, 80])
    page = tmp_path / "page.html"
    lines = experiment("--from", file, "--report", str(page)).stdout.splitlines()
    assert lines[:2] == ["2 and 3 are better than 1", "4 is worse than 1"]
    for line in lines[:2]:
        assert line in page.read_text()


@pytest.mark.parametrize(
    ("levels", "rates", "reason"),
    [
        (["1", "2", "3", "4", "5", "6"], [100, 110, 120, 130, 140, 150], "it may be a straight line"),
        (["1", "2", "3", "4", "5", "6"], [100, 120, 140, 155, 170, 185], "it bends only a little"),
        (["1", "2", "3", "4"], [100, 120, 140, 140], "fewer than 5 levels"),
    ],
)
def test_a_curve_without_a_knee_says_why(
    tmp_path: Path, levels: list[str], rates: list[float], reason: str
) -> None:
    file = curve(tmp_path / "curve.csv", levels, rates)
    knee = answers("--from", file)["response"]["knee"]
    assert knee["at"] is None
    assert knee["reason"].startswith(reason)
    assert f"no knee: {reason}" in experiment("--from", file).stdout


@pytest.mark.parametrize(
    ("rates", "is_log"), [([10, 20, 30, 40, 40, 40, 40], True), ([10, 20, 40, 80, 80, 80, 80], False)]
)
def test_doubling_levels_bend_on_the_axis_that_fits(tmp_path: Path, rates: list[float], is_log: bool) -> None:
    levels = [str(2**power) for power in range(7)]
    knee = answers("--from", curve(tmp_path / "c.csv", levels, rates))["response"]["knee"]
    assert (knee["is_log"], knee["is_gradual"], knee["side"]) == (is_log, False, None)
    assert 7 < knee["low"] <= knee["at"] <= knee["high"] < 9


@pytest.mark.parametrize("power", [0.7, 1])
def test_doubling_levels_without_a_knee_have_none(tmp_path: Path, power: float) -> None:
    levels = [2**each for each in range(7)]
    file = curve(tmp_path / "c.csv", [str(one) for one in levels], [one**power for one in levels])
    assert answers("--from", file)["response"]["knee"]["at"] is None


@pytest.mark.parametrize(("corner", "words"), [(1.8, "knee 2 or below (1 to 2"), (7.4, "knee 7 or above (")])
def test_a_knee_that_no_reading_encloses_is_said_to_be_outside(
    tmp_path: Path, corner: float, words: str
) -> None:
    levels = [str(level) for level in range(1, 9)]
    rates = [10 - max(level - corner, 0) for level in range(1, 9)]
    file = curve(tmp_path / "c.csv", levels, rates, noise=0.002)
    knee = answers("--from", file)["response"]["knee"]
    assert knee["low"] <= corner <= knee["high"]
    assert words in experiment("--from", file).stdout


def test_a_curve_without_a_corner_bends_gradually(tmp_path: Path) -> None:
    levels = [2**each for each in range(7)]
    names = [str(one) for one in levels]
    near = curve(tmp_path / "near.csv", names, [(one**-4 + 8**-4) ** -0.25 for one in levels])
    knee = answers("--from", near)["response"]["knee"]
    assert knee["is_gradual"]
    assert 7 < knee["at"] < 11
    assert "flattens gradually, without a corner" in " ".join(experiment("--from", near).stdout.split())
    # Serial work of 5 %: concave over the levels, convex over their logarithm, nowhere more than elsewhere.
    law = curve(tmp_path / "law.csv", names, [one / (1 + 0.05 * (one - 1)) for one in levels])
    assert "no knee: it bends gradually" in experiment("--from", law).stdout


def test_levels_that_are_no_numbers_are_no_curve(tmp_path: Path) -> None:
    file = curve(tmp_path / "c.csv", ["gzip", "zstd", "lz4"], [1, 2, 3])
    assert answers("--from", file)["response"] is None
    assert "knee" not in experiment("--from", file).stdout


def test_a_sweep_goes_on_until_its_knee_can_be_asked_for(tmp_path: Path) -> None:
    program = (
        f"{COUNT};n=float(sys.argv[2]);u=random.Random(k).uniform;print('rate', 100*min(n,4)*u(.999,1.001))"
    )
    words = ["--seed", "1", "--metric", r"rate=rate (\S+)", "--least-effect", "5%", "--blocks", "12"]
    command = [sys.executable, "-c", program, str(tmp_path / "count"), "{n}"]
    document = steelyard(tmp_path / "runs", *words, "--sweep", "n=1,2,3,4,6,8", "--", *command)
    # Every arm has its answer at the first look, after five blocks; a knee needs six.
    assert document["status_reason"] == "decided"
    assert {answer["blocks"] for answer in document["answers"]} == {5}
    assert len(record(document)["trials"]) == 6 * 6
    assert document["response"]["knee"]["at"] == pytest.approx(4, rel=0.1)
    (tmp_path / "count").unlink()
    # Three levels have none: they end when they are known.
    few = steelyard(tmp_path / "few", *words, "--sweep", "n=1,2,3", "--", *command)
    assert {answer["blocks"] for answer in few["answers"]} == {5}
    assert len(record(few)["trials"]) == 5 * 3


def test_a_command_that_prints_its_p99_has_it_over_the_levels(tmp_path: Path) -> None:
    program = (
        f"{COUNT};n=float(sys.argv[2]);u=random.Random(k).uniform;"
        "print('rate', 100*n*u(.99,1.01));print('p99', 5*n*u(.99,1.01));print('rss', 7)"
    )
    words = ["--metric", r"rate=rate (\S+)", "--reading", r"latency_p99=p99 (\S+)", "--seed", "1"]
    words += ["--reading", r"rss=rss (\S+)", "--blocks", "4", "--least-effect", "5%", "--sweep", "n=1,2,3"]
    command = [sys.executable, "-c", program, str(tmp_path / "count"), "{n}"]
    document = steelyard(tmp_path / "runs", *words, "--", *command)
    levels = document["response"]["levels"]
    beside = [level["beside"] for level in levels]
    assert [list(each) for each in beside] == [["latency_p99"]] * 3
    assert [each["latency_p99"] for each in beside] == [pytest.approx(5 * n, rel=0.02) for n in (1, 2, 3)]
    assert all(trial["readings"]["rss"] == 7 for trial in record(document)["trials"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--reading", "p99"], "--reading p99: write it as NAME=REGEX"),
        (["--reading", "p99=x"], "has 0 groups, one is needed"),
        (["--reading", "cpu_s=(1)"], "--reading cpu_s: it is there already"),
    ],
)
def test_readings_that_do_not_fit_are_refused(words: list[str], message: str) -> None:
    done = experiment("--a", "true", "--b", "false", *words)
    assert done.returncode == 2
    assert message in done.stderr
