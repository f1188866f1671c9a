"""Groups found in recorded core-to-core matrices, and in none."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.analyze.health.core_clusters import clusters
from tests import health_samples as samples


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        # Two sockets of cores with two threads each: the coarse level is sockets, the fine one cores.
        ("xeon-e5-2690-2s", [2, 16]),
        ("xeon-x5650-2s-westmere", [2, 12]),
        # One socket: cores only.
        ("xeon-gold-6242-1s", [16]),
    ],
)
def test_recorded_machines_part_into_their_sockets_and_cores(name: str, groups: list[int]) -> None:
    matrix = samples.recorded_matrix(name)
    found = clusters(matrix)
    assert [len(level.groups) for level in found.levels] == groups
    threads = found.levels[-1].groups
    assert all(len(group) == 2 and group[1] - group[0] == len(matrix) // 2 for group in threads)
    assert sorted(found.order) == list(range(len(matrix)))
    # Each group stands together in the order.
    place = {cpu: index for index, cpu in enumerate(found.order)}
    for level in found.levels:
        for group in level.groups:
            places = sorted(place[cpu] for cpu in group)
            assert places[-1] - places[0] == len(group) - 1
        assert level.between_ns > 1.5 * level.within_ns


def test_cpus_that_are_alike_have_no_groups() -> None:
    draw = random.Random(4)
    times = samples.matrix(24, lambda a, b: 0.0)
    for a in range(24):
        for b in range(a):
            times[a][b] = times[b][a] = 40 * draw.lognormvariate(0, 0.05)
    assert clusters(times).levels == []


def test_small_and_broken_matrices() -> None:
    assert clusters([]).order == []
    assert clusters([[None, 3.0], [3.0, None]]).order == [0, 1]
    with pytest.raises(ValueError, match="missing"):
        clusters([[None, None, 1.0], [None, None, 1.0], [1.0, 1.0, None]])
    with pytest.raises(ValueError, match="square"):
        clusters([[None, 1.0]])


@given(st.integers(2, 5), st.integers(2, 5), st.floats(2.0, 20.0), st.integers(0, 1000))
def test_planted_groups_are_found(groups: int, size: int, ratio: float, seed: int) -> None:
    members = [index % groups for index in range(groups * size)]
    random.Random(seed).shuffle(members)
    near = 30.0
    times = samples.matrix(len(members), lambda a, b: near if members[a] == members[b] else near * ratio)
    (level,) = clusters(times).levels
    assert len(level.groups) == groups
    assert all(len({members[cpu] for cpu in group}) == 1 for group in level.groups)
