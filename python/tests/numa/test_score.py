"""The score as a function: by hand, by the paper, and by its properties."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from steelyard._base import schemas_dir
from steelyard.numa.distances import locality_ratios
from steelyard.numa.score import locality_scores

VECTORS = json.loads((schemas_dir() / "golden" / "numa_vectors.json").read_text())["vectors"]
BARCELONA = [[10, 20, 20, 30], [20, 10, 30, 20], [20, 30, 10, 20], [30, 20, 20, 10]]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_vectors_of_both_planes(vector: dict[str, list[float]]) -> None:
    numerator, denominator = vector["score"]
    found = locality_scores(vector["cpu"], vector["memory"], vector["distances"])
    assert found == pytest.approx(numerator / denominator, abs=1e-12)


def test_barcelona_with_the_papers_distances_spans_a_third_to_one() -> None:
    nodes = np.eye(4)
    scores = [float(locality_scores(cpu, memory, BARCELONA)) for cpu, memory in product(nodes, nodes)]
    assert min(scores) == pytest.approx(0.33, abs=0.005)
    assert sorted({round(score, 12) for score in scores}) == [round(1 / 3, 12), 0.5, 1.0]


@pytest.mark.parametrize(
    ("scenario", "cpu", "memory", "local_ratio"),
    [
        (1, [6, 0], [1, 0], 1.0),
        (2, [3, 3], [1, 0], 0.5),
        (3, [6, 0], [0, 1], 0.0),
        # The co-runner has its own score: it changes nothing of X's.
        (4, [6, 0], [1, 0], 1.0),
        (5, [3, 3], [1, 0], 0.5),
        (6, [6, 0], [0, 1], 0.0),
    ],
)
def test_load_test_scenarios_have_the_papers_shares_of_local_accesses(
    scenario: int, cpu: list[float], memory: list[float], local_ratio: float
) -> None:
    remote = 1.73
    score = float(locality_scores(cpu, memory, [[1, remote], [remote, 1]]))
    # Of two nodes, the score is the local share and the rest at the ratio of latencies.
    assert (score - 1 / remote) / (1 - 1 / remote) == pytest.approx(local_ratio, abs=1e-12), scenario


def test_many_tasks_at_once_are_each_task_alone() -> None:
    random = np.random.default_rng(5)
    cpu, memory = random.exponential(size=(2, 3, 200, 4))
    at_once = locality_scores(cpu, memory, BARCELONA)
    assert at_once.shape == (3, 200)
    alone = [
        [float(locality_scores(c, m, BARCELONA)) for c, m in zip(*pair, strict=True)]
        for pair in zip(cpu, memory, strict=True)
    ]
    np.testing.assert_allclose(at_once, alone, rtol=1e-14)
    assert locality_scores([1, 0, 0, 0], memory, BARCELONA).shape == (3, 200)


def test_what_has_no_shares_has_no_score() -> None:
    cpu = [[1, 0], [0, 0], [1, 0], [np.nan, 1], [1, 1]]
    memory = [[1, 0], [1, 0], [0, 0], [1, 0], [0, 2]]
    scores = locality_scores(cpu, memory, [[10, 20], [20, 10]])
    np.testing.assert_allclose(scores, [1, np.nan, np.nan, np.nan, 0.75])


@pytest.mark.parametrize(
    ("cpu", "memory", "distances"),
    [
        ([1, -1], [1, 1], [[10, 20], [20, 10]]),
        ([1, np.inf], [1, 1], [[10, 20], [20, 10]]),
        ([1, 1, 1], [1, 1], [[10, 20], [20, 10]]),
        (1, [1, 1], [[10, 20], [20, 10]]),
        ([1, 1], [1, 1], [[10, 0], [20, 10]]),
        ([1, 1], [1, 1], [[10, 20]]),
        ([], [], np.empty((0, 0))),
    ],
)
def test_what_is_no_placement_is_refused(cpu: object, memory: object, distances: object) -> None:
    with pytest.raises(ValueError, match=r"amount|distance"):
        locality_scores(cpu, memory, distances)  # type: ignore[arg-type]


_AMOUNT = st.just(0.0) | st.floats(1e-9, 1e15)


@given(st.data(), st.integers(1, 8), st.floats(1e-3, 1e3))
def test_a_score_is_a_share_and_no_unit_matters(data: st.DataObject, nodes: int, scale: float) -> None:
    slit = data.draw(arrays.arrays(np.float64, (nodes, nodes), elements=st.integers(10, 254).map(float)))
    np.fill_diagonal(slit, 10)
    amounts = arrays.arrays(np.float64, nodes, elements=_AMOUNT).filter(lambda found: found.sum() > 0)
    cpu, memory = data.draw(amounts), data.draw(amounts)
    score = float(locality_scores(cpu, memory, slit))
    assert min(map(min, locality_ratios(slit))) - 1e-12 <= score <= 1
    assert float(locality_scores(cpu * scale, memory / scale, slit * scale)) == pytest.approx(score, rel=1e-9)
    alone = np.zeros(nodes)
    alone[-1] = 1
    assert float(locality_scores(alone, alone, slit)) == 1
