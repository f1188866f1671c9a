"""From a request to placements: what was asked, and what the kernel refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError, UsageError
from steelyard.bench.placement import Placement
from steelyard.bench.placement import request as placing
from steelyard.benchmarks.feed.benchmark import FeedSim
from steelyard.benchmarks.tao.benchmark import TaoBench
from steelyard.benchmarks.tax.benchmark import TaxBench
from steelyard.records import Machine, read
from tests.bench.placement.layouts import GIB, layout_of

TWO_NODES = layout_of(packages=2, cores=8, threads=2, memory_bytes=4 * GIB)


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a steelyard-exec that the kernel does not let bind memory, as in containers."""
    script = tmp_path / "steelyard-exec"
    script.write_text(
        "#!/bin/sh\necho 'steelyard-exec: cannot bind memory to NUMA nodes 0,1: denied' >&2\nexit 125\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(placing, "executable", lambda name: script)


def test_each_benchmark_has_its_number_of_instances_or_what_was_asked() -> None:
    assert len(placing.placement_of(TaoBench, TWO_NODES, {}).instances) == 2
    assert len(placing.placement_of(FeedSim, TWO_NODES, {"instances": "4"}).instances) == 4
    assert placing.placement_of(TaxBench, TWO_NODES, {}).instances == ()
    unbound = placing.placement_of(TaoBench, TWO_NODES, {"memory_binding": "none"})
    assert {one.memory_nodes for one in unbound.instances} == {()}


@pytest.mark.usefixtures("refused")
def test_what_the_kernel_does_not_bind_is_not_bound_and_said() -> None:
    placement = placing.as_allowed(placing.placement_of(TaoBench, TWO_NODES, {}), is_asked=False)
    assert {one.memory_nodes for one in placement.instances} == {()}
    assert placement.notes == ("memory is not bound to nodes: cannot bind memory to NUMA nodes 0,1: denied",)


@pytest.mark.usefixtures("refused")
def test_a_binding_that_was_asked_for_is_not_dropped() -> None:
    placement = placing.placement_of(TaoBench, TWO_NODES, {})
    with pytest.raises(EnvironmentLacksError, match="denied"):
        placing.as_allowed(placement, is_asked=True)


@pytest.mark.usefixtures("refused")
def test_where_nothing_is_bound_nothing_is_tried() -> None:
    placement = placing.placement_of(TaoBench, layout_of(cores=2), {})
    assert placing.as_allowed(placement, is_asked=True) == placement


def test_a_placement_is_in_the_record_of_a_run() -> None:
    cpus = placing.record_of(placing.placement_of(TaoBench, TWO_NODES, {}))
    assert [(one.server, one.load, one.memory_nodes) for one in cpus.instances] == [
        ("0-3,16-19", "4-7,20-23", "0"),
        ("8-11,24-27", "12-15,28-31", "1"),
    ]
    assert (cpus.server, cpus.load) == ("0-3,8-11,16-19,24-27", "4-7,12-15,20-23,28-31")
    assert placing.record_of(Placement((0,), ())).load is None


def test_bound_servers_take_no_more_memory_than_their_node_has() -> None:
    machine = read(Machine, Path(__file__).parents[3] / "schemas" / "golden" / "machine.json")
    placement = placing.placement_of(TaoBench, TWO_NODES, {})
    full = TaoBench.suggest({}, machine=machine, tier="full", placement=placement)
    assert full["memory"] == 2 * (3 * GIB)
    with pytest.raises(UsageError, match="its NUMA node has"):
        TaoBench.suggest({"memory": 9 * GIB}, machine=machine, tier="full", placement=placement)


def test_this_machines_layout_is_that_of_the_affinity() -> None:
    assert placing.live_layout().cpus == tuple(sorted(os.sched_getaffinity(0)))
