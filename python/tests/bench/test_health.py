"""Health checks on disk: what counts as earlier, what a wrong end says, plans for recorded machines."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from steelyard._base import EnvironmentLacksError, UsageError, WorkloadFailedError, executable
from steelyard.analyze.health.comparison import compare
from steelyard.bench.health import check as health
from steelyard.bench.progress import Silence
from steelyard.records import HealthResult, write
from tests import health_samples as samples
from tests.machine.trees import recorded, write_tree


def _store(folder: Path, result: HealthResult, *, accepted: bool = False, judged: bool = True) -> None:
    folder.mkdir(parents=True)
    write(result, folder / health.RESULT)
    if judged:
        health.save_comparison(folder, compare(result, [], against="nothing"), accepted=accepted)


def test_only_good_checks_of_this_mode_count(tmp_path: Path) -> None:
    base = tmp_path / health.FOLDER / "abc"
    good = samples.quiet(samples.golden())
    busy = samples.golden()
    assert max(one.foreign_busy_ratio or 0 for one in busy.conditions.values()) > 0.1
    full = good.model_copy(update={"settings": good.settings.model_copy(update={"mode": "full"})})
    _store(base / "1-good", good)
    _store(base / "2-busy", busy)
    _store(base / "3-busy-accepted", busy, accepted=True)
    _store(base / "4-full", full)
    _store(base / "5-killed", good, judged=False)
    (base / "6-broken").mkdir()
    (base / "6-broken" / health.COMPARISON).write_text("{}")
    (base / "7-garbled").mkdir()
    (base / "7-garbled" / health.COMPARISON).write_text("not JSON")
    found = health.history(tmp_path, "abc", mode="quick")
    assert [check.folder.name for check in found] == ["1-good", "3-busy-accepted"]
    assert health.history(tmp_path, "other", mode="quick") == []


def test_folders_of_one_second_do_not_meet(tmp_path: Path) -> None:
    made = {health.new_folder(tmp_path, "abc") for _ in range(3)}
    assert len(made) == 3
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentLacksError, match="cannot be made"):
        health.new_folder(tmp_path / "file", "abc")


def test_identity_is_that_of_the_machine(tmp_path: Path) -> None:
    one = write_tree(tmp_path / "one", {"etc/machine-id": "0123\n"})
    same = write_tree(tmp_path / "same", {"etc/machine-id": "0123"})
    other = write_tree(tmp_path / "other", {"etc/machine-id": "4567"})
    assert health.machine_identity(one) == health.machine_identity(same) != health.machine_identity(other)
    assert "0123" not in health.machine_identity(one)


def test_baseline_is_a_file_or_a_folder(tmp_path: Path) -> None:
    _store(tmp_path / "check", samples.golden())
    for path in (tmp_path / "check", tmp_path / "check" / health.RESULT):
        assert health.find_baseline(path).result == samples.golden()
    with pytest.raises(UsageError, match=r"has no health\.json"):
        health.find_baseline(tmp_path)


def test_one_part_is_measured_and_stored(tmp_path: Path) -> None:
    check = health.measure(tmp_path, quick=True, progress=Silence(), parts=["core_to_core"])
    assert check.result.settings.parts == ["core_to_core"]
    assert check.result.missing["disk"].startswith("not requested")
    part = check.result.core_to_core
    assert (part is None) == ("core_to_core" in check.result.missing)
    if part is not None:
        assert len(part.median_ns) == len(part.cpus)
        assert all(part.median_ns[row][row] is None for row in range(len(part.cpus)))
        assert part.median_ns[0][1] == part.median_ns[1][0]
        assert 1 < (part.median_ns[0][1] or 0) < 1e6
    assert check.machine is not None
    assert (tmp_path / health.MACHINE).is_file()


def test_a_wrong_part_and_a_device_are_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not one of memory_latency"):
        health.measure(tmp_path, quick=True, progress=Silence(), parts=["memory"])
    with pytest.raises(UsageError, match="not a folder"):
        health.measure(tmp_path, quick=True, progress=Silence(), parts=["disk"], directory=Path("/dev/null"))


def test_a_program_that_fails_is_a_failed_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "steelyard-tax").write_text("#!/bin/sh\necho 'steelyard-tax: memory is on fire' >&2\nexit 4\n")
    (fake / "steelyard-tax").chmod(0o755)
    (fake / "steelyard-exec").symlink_to(executable("steelyard-exec"))
    monkeypatch.setenv("STEELYARD_BIN_DIR", str(fake))
    with pytest.raises(WorkloadFailedError, match="ended early: memory is on fire"):
        health.measure(tmp_path, quick=True, progress=Silence())
    assert not (tmp_path / health.RESULT).exists()


def _plan(root: Path) -> dict[str, Any]:
    command = [str(executable("steelyard-tax")), "health", "--plan", "--root", str(root)]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


@pytest.mark.parametrize(
    ("name", "nodes", "cpus"),
    [
        ("16amd64-4n4c-cgroup-distance-merge", 4, 16),
        ("64amd64-4s2n4ca2co", 8, 64),
        ("40intel64-4n10c+pci-conflicts", 4, 40),
        ("128arm-2pa2n8cluster4co", 4, 128),
    ],
)
def test_recorded_machines_get_every_pair_of_nodes(name: str, nodes: int, cpus: int) -> None:
    plan = _plan(recorded(name))
    pairs = [(pair["cpu_node"], pair["memory_node"]) for pair in plan["memory_bandwidth"]["pairs"]]
    ids = [node["id"] for node in plan["machine"]["nodes"]]
    assert len(ids) == nodes
    assert pairs == [(one, other) for one in ids for other in ids]
    assert sum(pair["threads"] for pair in plan["memory_bandwidth"]["pairs"]) == cpus * nodes
    lines = plan["core_to_core"]
    measured = min(cpus, 64)
    assert lines["pairs"] == measured * (measured - 1) // 2
    assert (lines["sample"] is None) == (cpus <= 64)
    sets = plan["memory_latency"]["working_set_bytes"]
    assert sets[0] == 4096
    assert sets == sorted(sets)
    caches = plan["machine"]["caches"]
    assert plan["memory_latency"]["missing"] or sets[-1] >= 4 * caches[-1]["size_bytes"]


def test_memory_without_cpus_is_used_from_every_node(tmp_path: Path) -> None:
    node = "sys/devices/system/node/node"
    memory = "Node 0 MemTotal: 67108864 kB\nNode 0 MemFree: 66000000 kB"
    root = write_tree(
        tmp_path,
        {
            "sys/devices/system/cpu/online": "0-3",
            f"{node}0/cpulist": "0-1",
            f"{node}0/meminfo": memory,
            f"{node}1/cpulist": "2-3",
            f"{node}1/meminfo": "Node 1 MemTotal: 0 kB\nNode 1 MemFree: 0 kB",
            f"{node}2/cpulist": "",
            f"{node}2/meminfo": memory,
        },
    )
    pairs = _plan(root)["memory_bandwidth"]["pairs"]
    assert [(pair["cpu_node"], pair["memory_node"]) for pair in pairs] == [(0, 0), (0, 2), (1, 0), (1, 2)]


def test_a_root_is_for_plans_only() -> None:
    command = [str(executable("steelyard-tax")), "health", "--root", "/nowhere"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--plan" in done.stderr
