"""Placements as pictures."""

from __future__ import annotations

from rich.console import Console

from steelyard.bench.placement import Needs, place
from steelyard.machine.layout import Layout
from steelyard.report.placement import letters, render_placement
from tests.bench.placement.layouts import layout_of


def lines_of(machine: Layout, needs: Needs) -> list[str]:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(render_placement("tao", machine, place(machine, needs)))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_384_cpus_are_two_boxes_of_cores_by_cache() -> None:
    lines = lines_of(layout_of(packages=2, caches=12, cores=8, threads=2), Needs(0.5, 72))
    assert max(map(len, lines)) <= 80
    assert lines[0] == "tao: 4 instances on 192 CPUs; load on 192 CPUs; one letter is a core of 2 CPUs"
    assert lines[1].startswith("┌─ node 0, 192 CPUs, 64.0 GiB ─")
    assert "AAAAAAAA BBBBBBBB AAAAAAAA BBBBBBBB" in lines[2]
    assert sum(line.startswith("┌") for line in lines) == 2
    assert len(lines) < 40


def test_many_nodes_are_a_row_each() -> None:
    lines = lines_of(layout_of(packages=40, cores=4), Needs(0.5, 72))
    assert lines[1] == "node 0, 4 CPUs, 64.0 GiB   AAaa"
    assert lines[27] == "node 26, 4 CPUs, 64.0 GiB  AAaa"


def test_idle_cores_and_cores_of_both_sides_are_marked() -> None:
    machine = layout_of(cores=4, threads=2)
    placement = place(machine, Needs(0.5, 72), server=[0], load=[4, 1])
    assert "".join(letters(machine, placement).values()) == "*a.."
