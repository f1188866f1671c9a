"""Scores inside emulated machines with several NUMA nodes: programs bound to nodes, under a real kernel.

QEMU boots the distribution's kernel with an initial file system of two programs: ``numa_machine/init.c``,
which places memory and CPU time as a test says, and ``steelyard-probe``, the one that is under test
everywhere else, with the libraries that it needs. QEMU emulates where nodes are, not how long memory takes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from steelyard.numa.score import locality_scores
from steelyard.records import NumaScore, NumaSubject, parse

from .boot import archive, file_system, needs, run, two_nodes

INIT = Path(__file__).parent / "init.c"
MIB = 1 << 20
SIZE = 48 * MIB


@dataclass(frozen=True)
class Program:
    """What runs in the machine: on these CPUs in turn, with memory as (node, bytes, whether of huge
    pages)."""

    name: str
    cpus: tuple[int, ...]
    memory: tuple[tuple[int, int, bool], ...]
    sleeps: bool = False

    def __str__(self) -> str:
        cpus = ", ".join(map(str, (*self.cpus, -1)))
        memory = ", ".join(f"{{{node}, {size}UL, {int(huge)}}}" for node, size, huge in self.memory)
        return f'{{"{self.name}", {{{cpus}}}, {{{memory}}}, {int(self.sleeps)}}}'


@dataclass
class Scores:
    """What the probe said inside of the machine."""

    process: NumaScore
    cgroup: NumaScore
    hmat: NumaScore | None
    """Of processes, by latencies of the firmware."""
    names: dict[int, str] = field(default_factory=dict)

    def rows(self) -> Iterable[tuple[str, NumaSubject]]:
        """Yield name and row of each program, as process and as control group."""
        yield from self.processes(self.process)
        for row in self.cgroup.subjects:
            yield row.name, row

    def processes(self, record: NumaScore) -> Iterable[tuple[str, NumaSubject]]:
        """Yield name and row of each program in a record of processes."""
        for row in record.subjects:
            assert row.pid is not None
            yield self.names[row.pid], row


def boot(folder: Path, machine: list[str], programs: list[Program], *, options: str = "") -> Scores:
    """Boot a machine, let it score the programs, and return what it said."""
    places = folder / "places.h"
    places.write_text(f"#define PLACES {', '.join(map(str, programs))}\n")
    reason = needs()
    if reason is not None:
        pytest.skip(reason)
    image = file_system(folder, INIT, "steelyard-probe", ["-include", str(places)])
    lines = run(machine, image, options=options)
    said = dict(lines)
    assert {"process", "cgroup"} <= said.keys(), lines
    return Scores(
        process=parse(NumaScore, said["process"], where="the machine"),
        cgroup=parse(NumaScore, said["cgroup"], where="the machine"),
        hmat=parse(NumaScore, said["hmat"], where="the machine") if "hmat" in said else None,
        names={int(value): name for name, value in lines if value.isdigit()},
    )


def check_formula(scores: Scores) -> None:
    """Hold each score against the formula over what its row says of placement."""
    for record in filter(None, (scores.process, scores.cgroup, scores.hmat)):
        distances = [node.distances for node in record.nodes]
        for row in record.subjects:
            assert row.score is not None, row
            assert row.cpu_seconds_per_node is not None
            assert row.memory_bytes_per_node is not None
            again = locality_scores(row.cpu_seconds_per_node, row.memory_bytes_per_node, distances)
            assert row.score == pytest.approx(float(again), abs=1e-12)


@pytest.mark.slow
def test_two_nodes_score_as_programs_are_placed(tmp_path: Path) -> None:
    mean = (1 + 10 / 21) / 2
    wanted = {
        "local": 1.0,
        "remote": 10 / 21,
        "half": mean,
        "huge": mean,
        "moving": None,
        "asleep": 10 / 21,
    }
    scores = boot(
        tmp_path,
        two_nodes(),
        [
            Program("local", (0,), ((0, SIZE, False),)),
            Program("remote", (0,), ((1, SIZE, False),)),
            Program("half", (0,), ((0, SIZE, False), (1, SIZE, False))),
            # Of huge pages on one node, of base pages on the other: a huge page counts by its size.
            Program("huge", (2,), ((1, 14 * MIB, True), (0, 14 * MIB, False))),
            Program("moving", (1, 3), ((0, SIZE, False),)),
            Program("asleep", (3,), ((0, SIZE, False),), sleeps=True),
        ],
    )
    assert [node.distances for node in scores.process.nodes] == [[10, 21], [21, 10]]
    assert [node.cpus for node in scores.process.nodes] == ["0-1", "2-3"]
    check_formula(scores)
    seen = set()
    for name, row in scores.rows():
        if name == "moving":
            # How long it has which CPU is for the machine below to say; the formula holds for it.
            assert row.cpu_seconds_per_node is not None
            assert all(row.cpu_seconds_per_node), row
            assert 10 / 21 < (row.score or 0.0) < 1, row
        else:
            # Some pages of a program are where the kernel put them.
            assert row.score == pytest.approx(wanted[name], abs=0.01), row
        assert row.cpu_basis == ("lifetime" if name == "asleep" else "window"), row
        huge = [0, 14 * MIB] if name == "huge" else [0, 0]
        assert row.huge_bytes_per_node == huge, row
        seen.add((name, row.subject))
    assert len(seen) == 2 * len(wanted)
    assert {row.memory_source for _, row in scores.rows()} == {"numa_maps", "memory.numa_stat"}


@pytest.mark.slow
def test_four_nodes_in_a_square_and_memory_behind_latencies_of_hmat(tmp_path: Path) -> None:
    # The paper's Barcelona, whose last node here has memory alone: HMAT says how far that is from node 0.
    square = [[10, 20, 20, 30], [20, 10, 30, 20], [20, 30, 10, 20], [30, 20, 20, 10]]
    machine = ["-machine", "q35,hmat=on", "-smp", "3,sockets=3", "-m", "1280M"]
    for node in range(4):
        cpus = "initiator=0" if node == 3 else f"cpus={node}"
        machine += ["-object", f"memory-backend-ram,id=m{node},size=320M"]
        machine += ["-numa", f"node,nodeid={node},memdev=m{node},{cpus}"]
    for node in range(4):
        machine += [
            argument
            for other in range(4)
            if other != node
            for argument in ("-numa", f"dist,src={node},dst={other},val={square[node][other]}")
        ]
    for source, target, latency in ((0, 0, 100), (1, 1, 100), (2, 2, 100), (0, 3, 400)):
        pair = f"initiator={source},target={target}"
        machine += [
            "-numa",
            f"hmat-lb,{pair},hierarchy=memory,data-type=access-latency,latency={latency}",
            "-numa",
            f"hmat-lb,{pair},hierarchy=memory,data-type=access-bandwidth,bandwidth=10G",
        ]
    programs = [
        Program("local", (0,), ((0, SIZE, False),)),
        Program("near", (0,), ((1, SIZE, False),)),
        Program("far", (1,), ((2, SIZE, False),)),
        Program("only", (0,), ((3, SIZE, False),)),
    ]
    scores = boot(tmp_path, machine, programs, options="distances=hmat")
    assert [node.distances for node in scores.process.nodes] == square
    check_formula(scores)
    wanted = {"local": 1.0, "near": 0.5, "far": 1 / 3, "only": 1 / 3}
    for name, row in scores.rows():
        assert row.score == pytest.approx(wanted[name], abs=0.01), row
    assert scores.hmat is not None
    assert scores.hmat.distance_source == "hmat"
    for name, row in scores.processes(scores.hmat):
        assert row.score == pytest.approx((wanted | {"only": 0.25})[name], abs=0.01), row


def test_archive_is_one_that_others_read(tmp_path: Path) -> None:
    if shutil.which("cpio") is None:
        pytest.skip("cpio is not installed")
    image = archive({"init": b"text", "lib/x/y": os.urandom(1001)})
    listed = subprocess.run(["cpio", "-t"], input=image, capture_output=True, check=True).stdout
    assert json.dumps(sorted(listed.decode().split())) == json.dumps(["init", "lib", "lib/x", "lib/x/y"])
