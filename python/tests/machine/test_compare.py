"""What differs between machines, and in which order."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard import records
from steelyard._base import schemas_dir
from steelyard.machine import compare_machines, snapshot
from steelyard.machine.checks.registry import all_rules, check
from steelyard.machine.compare import MachineComparison
from steelyard.machine.features import Effect, features
from steelyard.machine.snapshot import null_paths
from steelyard.records import Clock, Machine

from .trees import ARCHIVES, recorded

GOLDEN = records.read(Machine, schemas_dir() / "golden" / "machine.json")
CLOCK = Clock(monotonic_ns=1, realtime_ns=2)


def altered(machine: Machine = GOLDEN, **parts: dict[str, object]) -> Machine:
    """Return the machine with fields of its parts changed."""
    changed = {
        name: getattr(machine, name).model_copy(update=values)
        if isinstance(values, dict) and name != "missing"
        else values
        for name, values in parts.items()
    }
    return machine.model_copy(update=changed)


def only(comparison: MachineComparison) -> list[tuple[str, object, object]]:
    return [(one.key, one.a, one.b) for one in comparison.differences]


def test_a_machine_does_not_differ_from_itself() -> None:
    found = compare_machines(GOLDEN, GOLDEN)
    assert (found.differences, found.not_comparable) == ([], [])
    assert found.is_same
    assert found.same > 40


def test_differences_are_ranked_by_effect_and_distance() -> None:
    other = altered(
        cpu={"governor": "powersave", "governors": {"powersave": 384}, "quota_cpus": 12.0, "boost": False},
        memory={"total_bytes": GOLDEN.memory.total_bytes // 4, "transparent_huge_pages": "always"},
        kernel={"boot_id": "another", "sysctl": {"kernel.numa_balancing": "0"}},
    )
    found = compare_machines(GOLDEN, other)
    assert [one.key for one in found.differences] == [
        "cpu.quota_cpus",
        "memory.total_bytes",
        "cpu.boost",
        "cpu.governors",
        "memory.transparent_huge_pages",
        "kernel.sysctl.kernel.numa_balancing",
        "kernel.boot_id",
    ]
    assert found.differences[1].ratio == pytest.approx(0.25)
    assert all(one.why for one in found.differences)
    for one, following in pairwise(found.differences):
        assert one.effect >= following.effect
    assert not found.is_same


def test_another_boot_alone_moves_no_result() -> None:
    found = compare_machines(GOLDEN, altered(kernel={"boot_id": "another"}))
    assert only(found) == [("kernel.boot_id", GOLDEN.kernel.boot_id, "another")]
    assert found.is_same


def test_smt_is_named_as_such() -> None:
    off = altered(cpu={"threads_per_core": 1, "logical_cpus": 192, "usable_cpus": 192})
    found = compare_machines(GOLDEN, off)
    assert ("cpu.threads_per_core", "2 threads per core", "off") in only(found)
    assert found.differences[0].effect is Effect.DECISIVE


def test_near_numbers_weigh_less_and_noise_nothing() -> None:
    slower = altered(cpu={"frequency_max_hz": 4_400_000_000})
    (one,) = compare_machines(GOLDEN, slower).differences
    assert one.effect is Effect.SOME
    half = altered(cpu={"frequency_max_hz": 2_250_000_000})
    assert compare_machines(GOLDEN, half).differences[0].effect is Effect.LARGE
    reserved = altered(memory={"total_bytes": int(GOLDEN.memory.total_bytes * 0.99)})
    assert compare_machines(GOLDEN, reserved).differences == []
    calm = altered(cpu={"steal_ratio": 0.005})
    assert compare_machines(GOLDEN, calm).differences == []
    stolen = altered(cpu={"steal_ratio": 0.05})
    assert only(compare_machines(GOLDEN, stolen)) == [("cpu.steal_ratio", 0.0, 0.05)]


def test_an_absent_value_is_no_difference() -> None:
    silent = altered(cpu={"boost": None}).model_copy(update={"missing": {"cpu.boost": "nobody knows"}})
    found = compare_machines(GOLDEN, silent)
    assert found.differences == []
    (one,) = found.not_comparable
    assert (one.key, one.a, one.b, one.reason) == ("cpu.boost", True, None, "nobody knows")


def test_a_record_of_the_first_version_is_compared_by_what_it_has() -> None:
    old = GOLDEN.model_dump()
    for name in ("pci_devices", "interrupts", "resctrl", "firmware"):
        del old[name]
    for name in ("offline_cpus", "governors", "idle_states", "performance_monitors", "frequency_limit_hz"):
        del old["cpu"][name]
    for name in ("dimms", "huge_page_pools", "swap_used_bytes"):
        del old["memory"][name]
    first = Machine.model_validate(old | {"schema_version": "1.0"})
    found = compare_machines(first, GOLDEN)
    assert found.differences == []
    reasons = {one.key: one.reason for one in found.not_comparable}
    assert reasons["cpu.offline"] == "its record (version 1.0) has no such field"


def test_devices_that_one_machine_lacks_are_listed_once() -> None:
    (disk,) = GOLDEN.disks
    other = GOLDEN.model_copy(update={"disks": [disk.model_copy(update={"name": "sda"})], "interfaces": []})
    found = compare_machines(GOLDEN, other)
    assert only(found) == [
        ("disks.nvme0n1", disk.model, "none"),
        ("disks.sda", "none", disk.model),
        ("interfaces.eth0", "mlx5_core", "none"),
        ("interfaces.lo", "present", "none"),
    ]
    assert found.not_comparable == []


SCALARS = st.none() | st.booleans() | st.integers(0, 1 << 60) | st.text(max_size=8)


@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("boost", "governor", "frequency_max_hz", "smt"), SCALARS)
    ),
    st.fixed_dictionaries({}, optional=dict.fromkeys(("transparent_huge_pages", "limit_bytes"), SCALARS)),
)
def test_comparison_is_symmetric(cpu: dict[str, object], memory: dict[str, object]) -> None:
    other = altered(cpu=cpu, memory=memory)
    there, back = compare_machines(GOLDEN, other), compare_machines(other, GOLDEN)
    assert {(key, b, a) for key, a, b in only(there)} == set(only(back))
    assert {one.key for one in there.not_comparable} == {one.key for one in back.not_comparable}
    assert there.same == back.same


def test_every_feature_has_a_reason_and_a_key_of_its_own() -> None:
    found = list(features(GOLDEN))
    assert len({one.key for one in found}) == len(found)
    assert all(one.why and one.noun for one in found)


@pytest.mark.parametrize("name", ARCHIVES or ["none"])
def test_every_recorded_machine_loads_diffs_and_checks(name: str) -> None:
    machine = snapshot(recorded(name), clock=CLOCK)
    assert machine.cpu.logical_cpus > 1
    assert set(null_paths(machine)) <= set(machine.missing)
    assert records.parse(Machine, machine.model_dump_json(), where=name) == machine
    assert compare_machines(machine, machine).differences == []
    apart = compare_machines(GOLDEN, machine)
    assert apart.differences[0].effect is Effect.DECISIVE
    assert all(one.reason for one in apart.not_comparable)
    answers = check(machine, all_rules())
    assert all(one.finding.claim for one in answers)


CHECKS = [
    ("16amd64-4n4c-cgroup-distance-merge", {"huge-pages-idle", "swap", "cpu-affinity"}),
    ("20em64t-hybrid-1p6c2t+2ca4co1t", {"cores-differ", "swap"}),
    ("40intel64-4n10c+pci-conflicts", {"throttled", "swap", "deep-idle", "disk-rotates"}),
    ("48amd64-4pa2n6c-sparse", {"numa-uneven"}),
    ("8em64t-2s2ca2c", {"numa-hidden", "swap"}),
    ("offline-cpu0-node0", {"offline-cpus", "swap"}),
    ("256ia64-64n2s2c", {"swap"}),
    ("128arm-2pa2n8cluster4co", set()),
]


@pytest.mark.parametrize(("name", "objecting"), CHECKS, ids=[name for name, _ in CHECKS])
def test_what_is_wrong_with_recorded_machines(name: str, objecting: set[str]) -> None:
    answers = check(snapshot(recorded(name)), all_rules())
    assert {one.rule.id for one in answers if one.objects} == objecting


def test_details_that_recordings_tell() -> None:
    xeon = snapshot(recorded("32em64t-2n8c+dax+nvme+mic+dimms"))
    populated = [one for one in xeon.memory.dimms if one.size_bytes]
    # hwloc's own output of this recording: 24 slots, 8 modules of 4 GiB.
    assert (len(xeon.memory.dimms), len(populated)) == (24, 8)
    assert {(one.size_bytes, one.type, one.part) for one in populated} == {
        (4 << 30, "DDR3", "HMT351R7CFR8C-PB")
    }
    assert [state.exit_latency_ns for state in xeon.cpu.idle_states] == [0, 3000, 93_000, 93_000]
    assert (xeon.firmware.vendor, xeon.firmware.product) == ("Dell", "DCS8000Z")
    assert {device.type for device in xeon.pci_devices} == {"storage", "network", "display"}
    cached = snapshot(recorded("memorysidecaches"))
    assert [node.side_caches[0].size_bytes for node in cached.numa_nodes if node.side_caches] == [
        96 << 30
    ] * 4
    assert cached.kernel.release == "5.3.0-rc7"
    assert snapshot(recorded("offline-cpu0-node0")).cpu.offline_cpus == "0-3,21-23"


def test_a_folder_is_not_asked_of_this_machine(tmp_path: Path) -> None:
    empty = snapshot(tmp_path, clock=CLOCK)
    assert empty.interrupts is None
    assert empty.cpu.performance_monitors == []
    assert compare_machines(empty, GOLDEN).differences != []
    assert {one.key for one in compare_machines(empty, GOLDEN).differences} <= {
        "cpu.quota_cpus",
        "disks.nvme0n1",
        "interfaces.eth0",
        "interfaces.lo",
    }
