"""Recordings of the hooks `counters` and `topdown` on a processor with counters: figures of each side."""

from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.analyze.counters.choice import choose, shared_metrics
from steelyard.analyze.counters.iron_law import Meanwhile
from steelyard.analyze.counters.sides import OF_MACHINE, uses_by_side
from steelyard.analyze.facts.cpus import Cpus, CpuSetUse, CpuUse
from steelyard.analyze.facts.span import Span
from steelyard.analyze.values import Quantity
from steelyard.records import Run, read
from tests.analyze.counters.test_choice import INTEL, machine
from tests.analyze.counters.test_use import GOLDEN, SECOND
from tests.telemetry.recordings import table_of, write_recording
from tests.telemetry.test_counters import rows

MACHINE = machine("GenuineIntel-6-6A-6", INTEL, logical_cpus=4, threads_per_core=1, cores=4)
SIDES = {"server": ["cpu0", "cpu1", "cpu2"], "load": ["cpu3"]}
WINDOWS = 10


def a_run(**hooks: object) -> Run:
    return read(Run, GOLDEN).model_copy(update={"hooks": hooks, "metrics": {}})


def meanwhile(seconds: int = WINDOWS) -> Meanwhile:
    def of(name: str, cpus: tuple[int, ...], busy: float) -> CpuSetUse:
        return CpuSetUse(name, cpus, CpuUse({"user": busy * 0.75, "system": busy * 0.25, "idle": 1 - busy}))

    return Meanwhile(
        Span(0, seconds * SECOND),
        Cpus(
            all=of("all", (0, 1, 2, 3), 0.7),
            server=of("server", (0, 1, 2), 0.8),
            load=of("load", (3,), 0.4),
        ),
    )


def counted(
    event: str, per_s: int, entity: str, *, pmu: str = "cpu", scope: str = "cpu"
) -> list[dict[str, object]]:
    readings = [(second * per_s, second * SECOND, second * SECOND) for second in range(WINDOWS + 1)]
    return rows(event, list(readings), pmu=pmu, scope=scope, entity=entity)


def recording(folder: Path, found: list[dict[str, object]]) -> None:
    write_recording(folder, {"counters": table_of("counters", found)})


def record_counters(folder: Path, scope: str = "cpu", names: dict[str, list[str]] = SIDES) -> None:
    """Server: 2e9 clocks and 3e9 instructions a second and CPU; load: 1e9 and 0.5e9."""
    found = []
    for side, (cycles, instructions) in {"server": (2, 3), "load": (1, 0.5)}.items():
        for entity in names[side]:
            found += counted("CPU_CLK_UNHALTED.THREAD", int(cycles * 1e9), entity, scope=scope)
            found += counted("INST_RETIRED.ANY", int(instructions * 1e9), entity, scope=scope)
            found += counted("BR_MISP_RETIRED.ALL_BRANCHES", 3_000_000, entity, scope=scope)
    recording(folder / "counters", found)


def test_each_side_has_its_own_law(tmp_path: Path) -> None:
    record_counters(tmp_path)
    run = a_run(counters={"scope": "cpu", **SIDES})
    uses = uses_by_side(
        tmp_path, run, meanwhile(), machine=MACHINE, operations=Quantity(WINDOWS * 90_000.0, "1")
    )
    server, load = uses["server"], uses["load"]
    assert server.law.ipc.value == pytest.approx(1.5)
    assert load.law.ipc.value == pytest.approx(0.5)
    assert server.law.cycles_per_s.value == pytest.approx(6e9)
    assert server.law.path_length.value == pytest.approx(9e9 / 90_000)
    assert load.law.path_length.value == pytest.approx(0.5e9 / 90_000)
    assert server.metrics["branch_mpki"].value == pytest.approx(1.0)
    assert load.metrics["branch_mpki"].value == pytest.approx(6.0)
    # CPU time of its own CPUs only: 0.8 of three, 0.4 of one.
    assert server.law.used_cpus.value == pytest.approx(2.4)
    assert load.law.used_cpus.value == pytest.approx(0.4)
    assert server.law.frequency_hz.value == pytest.approx(2.5e9)
    assert server.split is not None
    assert server.split.user_ratio == pytest.approx(0.6)


def test_only_windows_of_the_measure_phase_count(tmp_path: Path) -> None:
    record_counters(tmp_path)
    part = replace(meanwhile(), span=Span(SECOND * 5 // 2 + 1, 7 * SECOND))
    use = uses_by_side(tmp_path, a_run(counters=SIDES), part, machine=MACHINE)["server"]
    assert use.duration_s == pytest.approx(4.0)
    assert use.events.values["inst_retired.any"] == pytest.approx(4 * 9e9)


def test_processes_are_separated_where_cpus_are_shared(tmp_path: Path) -> None:
    names = {"server": ["100", "101"], "load": ["200"]}
    record_counters(tmp_path, "process", names)
    uses = uses_by_side(tmp_path, a_run(counters={"scope": "process", **names}), meanwhile(), machine=MACHINE)
    assert uses["server"].scope == "process"
    assert uses["server"].law.cycles_per_s.value == pytest.approx(4e9)
    assert uses["load"].law.cycles_per_s.value == pytest.approx(1e9)


def test_top_down_is_taken_from_its_own_recording(tmp_path: Path) -> None:
    record_counters(tmp_path)
    shares = {
        "topdown-retiring": 0.4,
        "topdown-bad-spec": 0.1,
        "topdown-fe-bound": 0.2,
        "topdown-be-bound": 0.3,
    }
    planned = [event.name for event in choose(MACHINE, "cpu", ["topdown"]).plan.events]
    assert set(shares) <= set(planned)
    found = []
    for entity in SIDES["server"]:
        for event in planned:
            share = shares.get(event, 1.0 if event == "TOPDOWN.SLOTS" else 0.01)
            found += counted(event, int(share * 1e10), entity)
    recording(tmp_path / "topdown", found)
    run = a_run(counters=SIDES, topdown=SIDES)
    uses = uses_by_side(tmp_path, run, meanwhile(), machine=MACHINE)
    tree = uses["server"].top_down
    assert tree is not None
    assert tree.node("retiring").ratio == pytest.approx(0.4)
    # Ice Lake's formula adds five slots for each clock of recovery.
    assert tree.node("backend_bound").ratio == pytest.approx(0.3 + 5 * 0.01)
    assert uses["load"].top_down is None
    assert uses["load"].top_down_missing == "no event was counted"


def test_why_there_is_no_tree_is_what_the_hook_said(tmp_path: Path) -> None:
    record_counters(tmp_path)
    reason = "the hypervisor (KVM) offers no counters of the processor"
    run = a_run(counters=SIDES, topdown={"missing": reason})
    uses = uses_by_side(tmp_path, run, meanwhile(), machine=MACHINE)
    assert uses["server"].top_down is None
    assert uses["server"].top_down_missing == reason


def test_what_cpus_share_stands_with_both_sides(tmp_path: Path) -> None:
    record_counters(tmp_path)
    found = counted("UNC_M_CAS_COUNT.RD", 100_000_000, "", pmu="uncore_imc_0", scope="system")
    found += counted("UNC_M_CAS_COUNT.WR", 50_000_000, "", pmu="uncore_imc_0", scope="system")
    recording(tmp_path / "counters-machine", found)
    uses = uses_by_side(tmp_path, a_run(counters=SIDES), meanwhile(), machine=MACHINE)
    for use in uses.values():
        traffic = use.metrics["memory_bytes_per_s"]
        assert traffic.value == pytest.approx(150_000_000 * 64)
        assert traffic.meaning.endswith(OF_MACHINE)
    # Nobody's IPC is the whole machine's.
    assert uses["load"].metrics["ipc"].value == pytest.approx(0.5)


def test_why_nothing_of_the_whole_machine_was_counted_is_what_the_hook_said(tmp_path: Path) -> None:
    record_counters(tmp_path)
    run = a_run(counters={**SIDES, "machine_missing": "PMU uncore_imc_0 is in use"})
    use = uses_by_side(tmp_path, run, meanwhile(), machine=MACHINE)["server"]
    assert use.metrics["memory_bytes_per_s"].value is None
    assert use.metrics["memory_bytes_per_s"].missing == "PMU uncore_imc_0 is in use"
    assert use.law.ipc.value == pytest.approx(1.5)


def test_only_counters_that_cores_share_are_of_the_machine() -> None:
    assert set(shared_metrics(MACHINE)) == {
        "memory_read_bytes_per_s",
        "memory_write_bytes_per_s",
        "memory_bytes_per_s",
        "package_power_w",
        "dram_power_w",
    }
    assert shared_metrics(machine("AuthenticAMD-25-11-1", ["software"])) == []


def test_a_damaged_recording_costs_its_side_only(tmp_path: Path) -> None:
    record_counters(tmp_path)
    (tmp_path / "topdown").mkdir()
    (tmp_path / "topdown" / "telemetry.json").write_text("{")
    uses = uses_by_side(tmp_path, a_run(counters=SIDES, topdown=SIDES), meanwhile(), machine=MACHINE)
    assert uses["server"].law.ipc.value == pytest.approx(1.5)
    assert uses["server"].top_down_missing
    assert uses_by_side(tmp_path, a_run(), meanwhile(), machine=MACHINE) == {}
    assert uses_by_side(tmp_path / "nowhere", a_run(counters=SIDES), meanwhile(), machine=MACHINE) == {}
