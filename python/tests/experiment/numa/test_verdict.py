"""Verdicts from published figures and from figures with known truth, and agreement with production."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import UsageError
from steelyard.experiment.numa.figures import read_figures
from steelyard.experiment.numa.production import Agrees, Cost, compare
from tests.calling import call
from tests.cli.test_documents import hold

CLUSTER_DOCS = {1: 1.0, 2: 0.985, 3: 0.88}
"""Alone, as published: 1 to 2 % less with half of its memory remote, 12 % with all (Figure 10)."""


def write(
    path: Path,
    clusters: Mapping[str, Mapping[int, float]],
    *,
    noise: float = 0.003,
    blocks: int = 8,
    inverse: bool = False,
) -> Path:
    """Write figures with these means; the name of a cluster is its co-runner, empty alone."""
    draw = random.Random(11)
    lines = ["scenario,co_runner,replicate,metric"]
    for block in range(blocks):
        level = draw.uniform(90, 110)
        for co_runner, means in clusters.items():
            for scenario, mean in means.items():
                value = level * mean * math.exp(draw.gauss(0, noise))
                lines.append(f"{scenario},{co_runner},{block},{1 / value if inverse else value:.9g}")
    path.write_text("\n".join(lines) + "\n")
    return path


def show(path: Path, *words: str, code: int | None = 0) -> dict[str, Any]:
    done = call("numa", "experiment", "--from", str(path), "--json", *words)
    assert code in (None, done.returncode), done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    hold(document)
    return document


def cluster(document: Mapping[str, Any], at: int = 0) -> Any:
    return document["clusters"][at]


@pytest.mark.parametrize("inverse", [False, True])
def test_published_figures_of_cluster_docs(tmp_path: Path, inverse: bool) -> None:
    path = write(tmp_path / "docs.csv", {"": CLUSTER_DOCS}, inverse=inverse)
    document = show(path, *(["--lower-is-better"] if inverse else []))
    found = cluster(document)
    assert found["matters"] == "locality"
    assert found["best"]["scenario"] == 1
    assert found["without_local"] == 2
    assert [bar["ratio"] for bar in found["bars"]] == pytest.approx([1, 0.985, 0.88], rel=0.01)
    (remote,) = [pair for pair in found["pairs"] if (pair["base"], pair["arm"]) == ("1", "3")]
    assert remote["low"] < 0.88 < remote["high"] < 0.9
    # The effect is not linear in the share of remote memory: half of it costs far less than half of 12 %.
    (half,) = [pair for pair in found["pairs"] if (pair["base"], pair["arm"]) == ("1", "2")]
    assert 0.975 < half["low"] < half["high"] < 0.995


def test_threads_that_share_a_cache_prefer_one_node_even_a_remote_one(tmp_path: Path) -> None:
    # As Bigtable: all remote beats half remote.
    found = cluster(show(write(tmp_path / "bigtable.csv", {"": {1: 1.0, 2: 0.92, 3: 0.95}})))
    assert (found["matters"], found["best"]["scenario"], found["without_local"]) == ("cache sharing", 1, 3)
    assert [pair["is_deciding"] for pair in found["pairs"]] == [False, False, True]


def test_the_best_scenario_changes_with_the_co_runner(tmp_path: Path) -> None:
    # As search-frontend-render: scenario 1 alone, scenario 5 beside others.
    figures = {
        "": {1: 1.0, 2: 0.95, 3: 0.9},
        "bigtable": {4: 0.85, 5: 0.9, 6: 0.8},
        "frontend-render": {4: 0.97, 5: 0.92, 6: 0.88},
    }
    path = write(tmp_path / "render.csv", figures)
    page = tmp_path / "page.html"
    document = show(path, "--report", str(page))
    said = [(each["matters"], each["best"]["scenario"]) for each in document["clusters"]]
    assert said == [("locality", 1), ("cache sharing", 5), ("locality", 4)]
    assert [bar["arm"] for bar in cluster(document, 1)["bars"]] == ["4 bigtable", "5 bigtable", "6 bigtable"]
    # Bars are over scenario 1 alone, as published.
    assert cluster(document, 1)["bars"][0]["ratio"] == pytest.approx(0.85, rel=0.01)
    text = page.read_text()
    assert "beside bigtable" in text
    assert "normalised performance" in text


@pytest.mark.parametrize(
    ("means", "matters", "best"),
    [
        ({1: 1.0, 2: 1.0, 3: 1.0}, "neither", 1),
        ({1: 1.0, 2: 0.95, 3: 0.95}, "locality", 1),
        ({1: 1.0, 2: 1.0, 3: 0.9}, "locality", 1),
        ({1: 1.0, 2: 0.95, 3: 1.05}, "something else", 3),
    ],
)
def test_other_answers(tmp_path: Path, means: dict[int, float], matters: str, best: int) -> None:
    path = write(tmp_path / "figures.csv", {"": means}, noise=0.001, blocks=12)
    found = cluster(show(path))
    assert (found["matters"], found["best"]["scenario"]) == (matters, best)


def test_noise_leaves_it_undecided_and_says_how_many_blocks_would_do(tmp_path: Path) -> None:
    path = write(tmp_path / "noise.csv", {"": {1: 1.0, 2: 0.99, 3: 0.98}}, noise=0.1)
    found = cluster(show(path, code=1))
    assert (found["matters"], found["best"]) == ("undecided", None)
    assert all(pair["blocks_needed"] > 8 for pair in found["pairs"])


def test_figures_without_replicates_are_bars_without_a_verdict(tmp_path: Path) -> None:
    path = write(tmp_path / "one.csv", {"": CLUSTER_DOCS}, noise=0.0, blocks=1)
    found = cluster(show(path, code=1))
    assert [bar["ratio"] for bar in found["bars"]] == pytest.approx([1, 0.985, 0.88])
    assert found["matters"] == "undecided"
    assert all(pair["reason"] == "fewer than 4 blocks" for pair in found["pairs"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no column scenario"),
        ("scenario,replicate\n1,1\n", "it has 0 columns of a metric"),
        ("scenario,replicate,a,b\n1,1,2,3\n", "it has 2 columns of a metric"),
        ("scenario,replicate,a\n7,1,2\n", ":2: '7' is no scenario"),
        ("scenario,replicate,a\n1,,2\n", ":2: the replicate is empty"),
        ("scenario,replicate,a\n1,1,fast\n", ":2: a 'fast' is no positive number"),
        ("scenario,replicate,a\n1,1,nan\n", ":2: a 'nan' is no positive number"),
        ("scenario,replicate,a\n1,1,-1\n", ":2: a '-1' is no positive number"),
        ("scenario,replicate,a\n1,1,1\n1,1,2\n", ":3: scenario 1 has two values in replicate 1"),
        ("scenario,replicate,a\n2,1,1\n", "it has no scenario 1"),
        ("scenario,co_runner,replicate,a\n1,x,1,1\n", ":2: scenario 1 has no co-runner"),
        ('scenario,replicate,a\n1,1,"1\n', "unexpected end of data"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "figures.csv"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_figures(path)
    assert str(path) in caught.value.message
    assert message in caught.value.message


def test_an_empty_field_is_a_missing_value(tmp_path: Path) -> None:
    path = tmp_path / "figures.csv"
    path.write_text("scenario,replicate,rate\n1,a,5\n1,b,\n4,a,6\n")
    figures = read_figures(path)
    assert figures.metric == "rate"
    assert [(trial.arm, trial.block, trial.value) for trial in figures.trials] == [
        ("1", 0, 5.0),
        ("1", 1, None),
        ("4", 0, 6.0),
    ]
    assert figures.trials[1].reason == "the file has no value"


def agreement(production: Cost, laboratory: Cost) -> tuple[Agrees, str]:
    found = compare(production, laboratory, scenario=3, score=0.5, least_effect_ratio=0.01)
    return found.agrees, found.why


PRODUCTION = Cost(1.029, 1.022, 1.036)
"""As published: local placement gains 2.9 % in production; its interval is ours."""


@pytest.mark.parametrize(
    ("laboratory", "agrees", "why"),
    [
        (Cost(1 / 0.88, 1.13, 1.143), Agrees.AGREE, "costs in both, more in the laboratory"),
        (Cost(1 / 0.985, 1.01, 1.0205), Agrees.AGREE, "costs in both, less in the laboratory"),
        (Cost(1.03, 1.02, 1.04), Agrees.AGREE, "by amounts that chance may part"),
        (Cost(0.95, 0.94, 0.96), Agrees.DISAGREE, "a gain"),
        (Cost(1.0, 0.995, 1.005), Agrees.DISAGREE, "costs more in production"),
        (Cost(1.0, 0.9, 1.11), Agrees.UNDECIDED, "the intervals allow both"),
        (Cost(1.0, None, None), Agrees.UNDECIDED, "no interval"),
    ],
)
def test_production_beside_laboratory(laboratory: Cost, agrees: Agrees, why: str) -> None:
    found = agreement(PRODUCTION, laboratory)
    assert found[0] is agrees
    assert why in found[1]


def test_two_that_show_nothing_agree() -> None:
    nothing = Cost(1.0, 0.995, 1.005)
    assert agreement(nothing, nothing)[0] is Agrees.AGREE


def test_the_quotient_is_as_wide_as_both_together() -> None:
    found = compare(
        Cost(1.0, math.exp(-0.03), math.exp(0.03)),
        Cost(math.exp(0.1), math.exp(0.06), math.exp(0.14)),
        scenario=3,
        score=0.5,
        least_effect_ratio=0.01,
    )
    assert found.low is not None
    assert found.high is not None
    assert math.log(found.ratio) == pytest.approx(0.1)
    assert [math.log(found.low), math.log(found.high)] == pytest.approx([0.05, 0.15])
