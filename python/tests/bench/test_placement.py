import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.bench.placement import Placement, cores, format_cpu_list, parse_cpu_list, place

cpu_sets = st.sets(st.integers(min_value=0, max_value=300), min_size=1)


@given(cpu_sets)
def test_cpu_lists_survive_being_written_and_read(cpus):
    assert parse_cpu_list(format_cpu_list(sorted(cpus))) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1,,2", "0x1", "99999999", "1;2"])
def test_other_texts_are_no_cpu_lists(text):
    with pytest.raises(UsageError):
        parse_cpu_list(text)


@given(cpu_sets, st.floats(min_value=0.01, max_value=0.99), st.integers(min_value=1, max_value=4))
def test_two_cpus_or_more_are_split_without_overlap_or_rest(cpus, load_ratio, threads):
    ordered = sorted(cpus)
    by_core = [tuple(ordered[i : i + threads]) for i in range(0, len(ordered), threads)]
    placement = place(by_core, load_ratio=load_ratio)
    if len(ordered) == 1:
        assert placement.shared
        return
    assert not placement.shared
    assert sorted(placement.server + placement.load) == ordered
    assert placement.server
    assert placement.load
    if len(by_core) > 1:
        on_both = [
            core for core in by_core if set(core) & set(placement.server) and set(core) & set(placement.load)
        ]
        assert not on_both


def test_the_load_gets_about_the_share_that_it_needs():
    placement = place([(cpu,) for cpu in range(72)], load_ratio=1 / 3)
    assert len(placement.load) == 24


def test_a_side_that_was_asked_for_leaves_the_rest_to_the_other():
    assert place([(0,), (1,), (2,)], load_ratio=0.3, server=[2]).load == (0, 1)
    assert place([(0,), (1,), (2,)], load_ratio=0.3, load=[0]).server == (1, 2)
    assert place([(0,), (1,)], load_ratio=0.3, server=[0, 1]).shared


def test_cpus_that_are_not_there_are_refused():
    with pytest.raises(UsageError, match="CPU 7 is not usable"):
        place([(0,), (1,)], load_ratio=0.3, server=[7])


def test_cores_are_read_from_the_topology(tmp_path):
    for cpu, siblings in {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}.items():
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    assert cores([0, 1, 2, 3], tmp_path) == [(0, 2), (1, 3)]
    # A thread whose sibling is not usable is a core of its own, as is one without topology.
    assert cores([0, 1, 9], tmp_path) == [(0,), (1,), (9,)]


def test_without_a_load_the_servers_have_every_cpu_or_those_that_were_asked_for():
    by_core = [(0, 2), (1, 3)]
    assert place(by_core, load_ratio=0) == Placement((0, 1, 2, 3), ())
    assert place(by_core, load_ratio=0, server=[3, 1], load=[0]) == Placement((1, 3), ())
    assert not place(by_core, load_ratio=0).shared
