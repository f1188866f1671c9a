"""Maps and scores of recorded machines: what runs there is made up, their nodes are their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from steelyard._base import EnvironmentLacksError, UsageError, executable
from steelyard._base.documents import as_document
from steelyard.cli.main import invoke
from steelyard.machine.snapshot import snapshot
from steelyard.numa import NumaMap, ScoreRequest, map_of, measure
from steelyard.numa.map import Bandwidth, bandwidth_distances
from steelyard.numa.score import locality_scores
from steelyard.records import HealthResult, Machine, NumaScore, parse, read
from steelyard.report.answer.terminal import terminal
from steelyard.report.numa import map_answer, score_answer
from tests.machine.trees import ARCHIVES, recorded, write_tree

GOLDEN = Path(__file__).resolve().parents[3] / "schemas" / "golden"
BARCELONA = "10 20 20 30\n20 10 30 20\n20 30 10 20\n30 20 20 10\n"

# Nodes and lowest score, from the distances in the recordings; None where these are not whole.
MACHINES = {
    "128arm-2pa2n8cluster4co": (4, 10 / 33),
    "16amd64-4n4c-cgroup-distance-merge": (4, 10 / 20),
    "20em64t-hybrid-1p6c2t+2ca4co1t": (1, 1.0),
    "256ia64-64n2s2c": (64, 10 / 34),
    "32em64t-2n8c+dax+nvme+mic+dimms": (2, 10 / 21),
    "32intel64-2p8co2t+8ve": (2, 10 / 21),
    "40intel64-4n10c+pci-conflicts": (4, 10 / 20),
    "48amd64-4pa2n6c-sparse": (8, 10 / 22),
    "64amd64-4s2n4ca2co": (8, 10 / 22),
    "8em64t-2s2ca2c": (1, 1.0),
    "memorysidecaches": (4, 10 / 21),
    "offline-cpu0-node0": (1, None),
}


def text_of(renderable: object, width: int = 100) -> str:
    """Return what a terminal would show."""
    console = Console(width=width)
    with console.capture() as shown:
        console.print(renderable)
    return shown.get()


def first_cpus(numa_map: NumaMap) -> list[int | None]:
    """Return the first CPU of each node."""
    return [int(node.cpus.replace("-", ",").split(",")[0]) if node.cpus else None for node in numa_map.nodes]


def with_processes(tree: Path, root: Path, placements: dict[int, tuple[int, dict[int, int]]]) -> Path:
    """Return a root with the nodes of ``tree`` and processes: id -> CPU it ran on, node -> pages."""
    (root / "sys/devices/system").mkdir(parents=True)
    (root / "sys/devices/system/node").symlink_to(tree / "sys/devices/system/node")
    for pid, (cpu, pages) in placements.items():
        fields = ["0"] * 49
        fields[14 - 4], fields[20 - 4], fields[39 - 4] = "100", "1", str(cpu)
        counts = " ".join(f"N{node}={count}" for node, count in pages.items())
        files = {
            f"proc/{pid}/stat": f"{pid} (job) S {' '.join(fields)}\n",
            f"proc/{pid}/schedstat": "1000000000 5 7\n",
            f"proc/{pid}/numa_maps": f"7f00 default anon=1 {counts} kernelpagesize_kB=4\n",
        }
        write_tree(root, files)
    return root


def scores_of(record: NumaScore) -> dict[int | None, float | None]:
    return {row.pid: row.score for row in record.subjects}


def test_every_recorded_machine_is_among_those_expected() -> None:
    if not ARCHIVES:
        pytest.skip("no recorded machines")
    assert set(ARCHIVES) == MACHINES.keys()


@pytest.mark.parametrize("name", MACHINES)
def test_maps_of_recorded_machines(name: str) -> None:
    numa_map = map_of(snapshot(recorded(name)))
    nodes, lowest = MACHINES[name]
    assert len(numa_map.nodes) == nodes
    span = (numa_map.score_min, numa_map.score_max)
    if lowest is None:
        assert span == (None, None)
        assert numa_map.missing["distances"] == "the kernel reports distances to 2 nodes and shows 1"
    else:
        assert span == (pytest.approx(lowest), 1.0)
    assert json.loads(json.dumps(as_document(numa_map)))["score_min"] == span[0]
    shown = text_of(terminal(map_answer(numa_map)))
    assert ("every score is 1." in shown) == (nodes == 1)


@pytest.mark.parametrize("name", MACHINES)
def test_scores_on_recorded_machines(name: str, tmp_path: Path) -> None:
    tree = recorded(name)
    numa_map = map_of(snapshot(tree))
    ids, cpus = numa_map.ids, first_cpus(numa_map)
    last = len(ids) - 1
    assert cpus[0] is not None
    farthest = 0 if numa_map.distances is None else int(np.argmax(numa_map.distances[0]))
    spread = dict.fromkeys(ids, 7)
    root = with_processes(
        tree,
        tmp_path,
        {
            10: (cpus[0], {ids[0]: 50}),
            11: (cpus[0], {ids[farthest]: 50}),
            12: (cpus[last] or cpus[0], spread),
        },
    )
    record = measure(ScoreRequest(everything=True, duration="0", pages=True, root=root))
    assert [node.id for node in record.nodes] == ids
    scores = scores_of(record)
    assert scores[10] == 1
    if numa_map.distances is None:
        assert scores == {10: 1, 11: 1, 12: 1}
        return
    assert scores[11] == pytest.approx(10 / numa_map.distances[0][farthest])
    cpu = np.eye(len(ids))[last]
    assert scores[12] == pytest.approx(float(locality_scores(cpu, [7] * len(ids), numa_map.distances)))
    for row in record.subjects:
        # What the record says of placement gives the record's score.
        again = locality_scores(
            row.cpu_seconds_per_node or [], row.memory_bytes_per_node or [], numa_map.distances
        )
        assert row.score == pytest.approx(float(again), abs=1e-12)
        assert row.cpu_basis == "lifetime"


def test_barcelona_with_the_papers_distances(tmp_path: Path) -> None:
    tree = recorded("16amd64-4n4c-cgroup-distance-merge")
    placements = {10 + node: (0, {node: 9}) for node in range(4)}
    root = with_processes(tree, tmp_path / "root", placements)
    table = tmp_path / "paper"
    table.write_text(BARCELONA)
    record = measure(ScoreRequest(everything=True, duration="0", distances=str(table), root=root))
    assert record.distance_source == "given"
    assert scores_of(record) == {10: 1, 11: 0.5, 12: 0.5, 13: pytest.approx(1 / 3)}


def test_nodes_whose_numbers_have_gaps(tmp_path: Path) -> None:
    tree = recorded("48amd64-4pa2n6c-sparse")
    root = with_processes(tree, tmp_path, {10: (18, {73: 5}), 11: (18, {33: 1, 3: 4})})
    record = measure(ScoreRequest(pids=[10, 11], duration="0", root=root))
    assert [node.id for node in record.nodes] == [0, 1, 2, 33, 34, 45, 72, 73]
    far, unknown = record.subjects
    assert far.score == pytest.approx(10 / 22)
    assert far.cpu_seconds_per_node == [0, 0, 0, 1, 0, 0, 0, 0]
    assert far.memory_bytes_per_node == [0] * 7 + [5 * 4096]
    assert unknown.score is None
    assert unknown.missing == "16384 bytes are on nodes without distances in /sys"


def test_latencies_that_the_firmware_leaves_out_are_no_distances(tmp_path: Path) -> None:
    # This one has the files of HMAT, with zeros in them.
    tree = recorded("memorysidecaches")
    cpus = first_cpus(map_of(snapshot(tree)))
    assert cpus[0] is not None
    root = with_processes(tree, tmp_path, {10: (cpus[0], {2: 5})})
    by_slit = measure(ScoreRequest(pids=[10], duration="0", root=root))
    assert by_slit.subjects[0].score == pytest.approx(10 / 11)
    with pytest.raises(EnvironmentLacksError, match="no HMAT"):
        measure(ScoreRequest(pids=[10], duration="0", root=root, distances="hmat"))


def test_measured_bandwidth_stands_beside_distances_and_can_take_their_place() -> None:
    health = read(HealthResult, GOLDEN / "health_result.json")
    machine = read(Machine, GOLDEN / "machine.json")
    ids = [node.id for node in health.machine.nodes]
    nodes = [
        machine.numa_nodes[0].model_copy(
            update={"id": node.id, "cpus": node.cpus, "distances": node.distances}
        )
        for node in health.machine.nodes
    ]
    numa_map = map_of(machine.model_copy(update={"numa_nodes": nodes}), health)
    assert any(node.latency_ns for node in numa_map.nodes)
    assert all(pair[0] in ids for pair in numa_map.read_bytes_per_s)
    rates = [Bandwidth(i, j, 1e9 * (3 if i == j else 1)) for i in ids for j in ids]
    filled = NumaMap(numa_map.nodes, numa_map.distances, rates)
    table = bandwidth_distances(filled)
    assert table[0][0] == pytest.approx(1 / 3)
    holes = NumaMap(numa_map.nodes, numa_map.distances, [])
    if any(node.cpu_count for node in numa_map.nodes):
        with pytest.raises(UsageError, match="every pair"):
            bandwidth_distances(holes)
    assert "Measured read bandwidth" in text_of(terminal(map_answer(filled)))


def test_names_from_anybody_are_shown_as_they_are_but_harmless(tmp_path: Path) -> None:
    root = with_processes(recorded("32intel64-2p8co2t+8ve"), tmp_path, {10: (0, {0: 1}), 11: (0, {1: 1})})
    stat = (root / "proc/11/stat").read_text()
    (root / "proc/11/stat").write_text(stat.replace("(job)", "([red]x\x1b[2J)y)"))
    record = measure(ScoreRequest(pids=[10, 11], duration="0", root=root))
    shown = text_of(terminal(score_answer(record, limit=5)))
    assert "[red]x" in shown
    assert "\x1b[2J" not in shown
    assert shown.index("0.476*") < shown.index("1.000*"), "the lowest first"


def test_hostile_files_end_in_a_reason(tmp_path: Path) -> None:
    root = with_processes(
        recorded("32intel64-2p8co2t+8ve"), tmp_path, {pid: (0, {0: 1}) for pid in range(10, 16)}
    )
    maps = {
        10: b"\0" * 5000,
        11: b"7f " * 400_000,
        12: b"7f default N0=99999999999999999999999 kernelpagesize_kB=4\n",
        13: b"7f default N0=18446744073709551615 N1=18446744073709551615 kernelpagesize_kB=4\n",
        14: b"",
    }
    for pid, text in maps.items():
        (root / f"proc/{pid}/numa_maps").write_bytes(text)
    (root / "proc/15/stat").write_bytes(b"15 (x")
    record = measure(ScoreRequest(everything=True, duration="0", root=root))
    by_pid = {row.pid: row for row in record.subjects}
    no_memory = "it has no memory on any node (a zombie, or exiting)"
    assert [by_pid[pid].missing for pid in (10, 11, 12, 14)] == [no_memory] * 4
    # Both sums stand at what 64 bits can hold: halves.
    assert by_pid[13].score == pytest.approx(0.5 + 0.5 * 10 / 21)
    assert by_pid[15].score is None


def test_a_machine_without_nodes_lacks_something(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "proc").mkdir()
    assert invoke(["numa", "map", "--machine", str(tmp_path)]) == 3
    assert invoke(["numa", "score", "--all", "--root", str(tmp_path)]) == 3
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["steelyard"] * 2


def test_this_machine_live(capsys: pytest.CaptureFixture[str]) -> None:
    own = str(os.getpid())
    assert invoke(["numa", "score", own, "--pages", "--duration", "50ms", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    (row,) = record["subjects"]
    assert 0 < row["score"] <= 1
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    assert sum(row["memory_bytes_per_node"]) == pytest.approx(resident, rel=0.1)
    assert sum(row["cpu_seconds_per_node"]) > 0
    assert invoke(["numa", "score", "--duration", "0", "--rows", "3"]) == 0
    # In a container with process ids of its own there are none.
    shown = "kernel thread" in capsys.readouterr().out
    assert shown == (Path("/proc/2/comm").is_file() and Path("/proc/2/comm").read_text() == "kthreadd\n")
    assert invoke(["numa", "map"]) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user wants root")
def test_without_root_cpu_time_is_shown_and_memory_has_a_reason() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        program = shutil.copy(executable("steelyard-probe"), folder)
        # Others may read a tree that is written here, which a recorded one's folder does not let them.
        files = {f"node{node}/distance": "10 21\n" if node == 0 else "21 10\n" for node in (0, 1)}
        files |= {f"node{node}/cpulist": f"{node}\n" for node in (0, 1)}
        tree = write_tree(
            folder / "tree", {f"sys/devices/system/node/{name}": text for name, text in files.items()}
        )
        root = with_processes(tree, folder / "root", {11: (0, {1: 1})})
        (root / "proc/11/numa_maps").chmod(0o600)
        command = [str(program), "numa", "--pid", "11", "--duration", "0", "--json", "--root", str(root)]
        done = subprocess.run(command, capture_output=True, check=True, user=65534, group=65534)
    (row,) = parse(NumaScore, done.stdout, where="probe").subjects
    assert row.score is None
    assert row.missing == "another user's process: run as root, or with CAP_SYS_PTRACE"
    assert row.cpu_seconds_per_node == [1, 0]
    assert row.memory_bytes_per_node is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--pid", "999999999"], "no process"),
        (["--pid", "0"], "pid"),
        (["--cgroup", "/no/such"], "no control group"),
        (["--all", "--pid", "1"], "exclude each other"),
        (["--distances", "/no/such"], "No such file"),
        (["--duration", "soon"], "not a duration"),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["numa", "score", *arguments]) == 2
    stderr = capsys.readouterr().err
    assert said in stderr
    assert stderr.count("\n") == 1
