"""From a perf stat file in a run's folder to the iron law and the top-down tree: the published cases, and
what must not be concluded."""

from pathlib import Path

import pytest

from steelyard._base import UsageError
from steelyard.analyze.counters.events import canonical, counts_of, whole_of
from steelyard.analyze.counters.figures import dram_bytes_per_s, kernel_ratio, series_of_ipc
from steelyard.analyze.counters.iron_law import Meanwhile, difference
from steelyard.analyze.counters.topdown_choice import choose_model
from steelyard.analyze.counters.topdown_models import ICE_LAKE, SAPPHIRE_RAPIDS, ZEN_4, ZEN_5
from steelyard.analyze.counters.use import FOLDER, HOOK, CounterUse, counter_use
from steelyard.analyze.facts.cpus import Cpus, CpuSetUse, CpuUse
from steelyard.analyze.facts.span import Span
from steelyard.analyze.values import Quantity
from steelyard.records import Machine, Run, read
from steelyard.telemetry.counters import CounterSeries, EventSeries
from steelyard.telemetry.perf_stat.output import parse_perf_stat
from tests.report.runs import machine_record

GOLDEN = Path(__file__).resolve().parents[4] / "schemas" / "golden" / "run.json"
SECOND = 1_000_000_000


def a_run(about: dict[str, object] | None, *, command: list[str] | None = None) -> Run:
    run = read(Run, GOLDEN)
    hooks = {} if about is None else {HOOK: {"perf.csv": about}}
    return run.model_copy(
        update={"hooks": hooks, "metrics": {}, "command": command or ["steelyard", "characterize"]}
    )


def meanwhile(seconds: float = 300.0, *, busy: float = 0.4, cpus: int = 32) -> Meanwhile:
    use = CpuUse({"user": busy * 0.9, "system": busy * 0.1, "idle": 1 - busy})
    cpu_set = CpuSetUse("all", tuple(range(cpus)), use)
    return Meanwhile(Span(0, int(seconds * SECOND)), Cpus(all=cpu_set, server=cpu_set))


def use_of(
    folder: Path,
    text: str,
    *,
    operations: float | None = None,
    seconds: float = 300.0,
    machine: Machine | None = None,
    is_of_run: bool = True,
    command: list[str] | None = None,
) -> CounterUse:
    (folder / FOLDER).mkdir(exist_ok=True)
    (folder / FOLDER / "1-perf.csv").write_text(text)
    return counter_use(
        folder,
        a_run({"file": "1-perf.csv", "is_of_run": is_of_run}, command=command),
        meanwhile(seconds),
        machine=machine or machine_record(32),
        operations=None if operations is None else Quantity(operations, "1"),
    )


ROCKSDB = [
    ("before", 1, 3129398329928, 1510002999, "2072.445109", 1136230674488, "0.363083"),
    ("before", 160, 22625805888251, 11125908840, "2033.614172", 171717420118090, "7.589450"),
    ("after", 1, 3259113189316, 1588156999, "2052.135394", 1124524900793, "0.345040"),
    ("after", 160, 194183272380812, 97151942840, "1998.758509", 151013619154778, "0.777686"),
]


@pytest.mark.parametrize(("case", "threads", "instructions", "operations", "path", "cycles", "cpi"), ROCKSDB)
@pytest.mark.parametrize("form", ["csv", "json", "plain"])
def test_the_published_counts_of_rocksdb_through_a_file_of_perf(
    tmp_path: Path,
    form: str,
    case: str,
    threads: int,
    instructions: int,
    operations: int,
    path: str,
    cycles: int,
    cpi: str,
) -> None:
    """Chow et al., "Industry Perspectives": path length and CPI to the printed digits."""
    text = {
        "csv": f"{instructions},,instructions,1,100.00,,\n{cycles},,cycles,1,100.00,,\n",
        "json": f'{{"counter-value" : "{instructions}.000000", "event" : "instructions"}}\n'
        f'{{"counter-value" : "{cycles}.000000", "event" : "cycles"}}\n',
        "plain": f"\n Performance counter stats for 'db_bench':\n\n {instructions:,}      instructions\n"
        f" {cycles:,}      cycles\n\n   300.000000000 seconds time elapsed\n",
    }[form]
    law = use_of(tmp_path, text, operations=operations).law
    assert law.path_length.value is not None
    assert law.cpi.value is not None
    assert f"{law.path_length.value:.6f}" == path
    assert f"{law.cpi.value:.6f}" == cpi
    assert law.ops_per_s.value == pytest.approx(operations / 300)


def test_the_loss_of_160_threads_is_contention(tmp_path: Path) -> None:
    laws = []
    for number in (0, 1):
        _, _, instructions, operations, _, cycles, _ = ROCKSDB[number]
        text = f"{instructions},,instructions,1,100.00,,\n{cycles},,cycles,1,100.00,,\n"
        laws.append(use_of(tmp_path, text, operations=operations).law)
    found = difference(*laws)
    assert found.main is not None
    terms = {term.name: term for term in found.terms}
    # Clocks rise 151-fold, CPI 20.9-fold, and path length hardly moves.
    assert terms["clocks per second"].change_ratio.value == pytest.approx(150.13, abs=0.01)
    ipc = terms["IPC"].factor.value
    assert ipc is not None
    assert 1 / ipc == pytest.approx(20.9, abs=0.05)
    assert terms["path length"].change_ratio.value == pytest.approx(-0.0187, abs=1e-4)


def test_smt_on_and_off_are_not_compared_silently(tmp_path: Path) -> None:
    machine = machine_record(16)
    off = machine.model_copy(
        update={"cpu": machine.cpu.model_copy(update={"threads_per_core": 1, "cores": 16})}
    )
    on = machine.model_copy(
        update={"cpu": machine.cpu.model_copy(update={"threads_per_core": 2, "cores": 16})}
    )
    one = use_of(tmp_path, "96e9,,instructions,1,100.00,,\n48e9,,cycles,1,100.00,,\n", seconds=1, machine=off)
    two = use_of(tmp_path, "110e9,,instructions,1,100.00,,\n96e9,,cycles,1,100.00,,\n", seconds=1, machine=on)
    assert one.law.ipc.value == pytest.approx(2.0)
    assert two.law.ipc.value == pytest.approx(1.1458, abs=1e-4)
    with pytest.raises(UsageError, match="SMT"):
        difference(one.law, two.law)
    # By core, half of the clocks at least, and as many as were counted at most.
    assert (two.law.core_ipc.low, two.law.core_ipc.high) == pytest.approx((110 / 96, 110 / 48))
    counted = "48e9,,CPU_CLK_UNHALTED.DISTRIBUTED,1,100.00,,\n"
    exact = use_of(
        tmp_path, "110e9,,instructions,1,100.00,,\n96e9,,cycles,1,100.00,,\n" + counted, seconds=1, machine=on
    )
    assert exact.law.core_ipc.low == exact.law.core_ipc.high == pytest.approx(2.2917, abs=1e-4)


def test_counts_of_another_time_divide_no_operations(tmp_path: Path) -> None:
    text = "10,,instructions,1,100.00,,\n5,,cycles,1,100.00,,\n"
    use = use_of(tmp_path, text, operations=100, is_of_run=False)
    assert use.law.ipc.value == 2.0
    assert use.law.path_length.value is None
    assert "another" in (use.law.path_length.missing or "")
    assert use.law.cycles_per_s.value is None
    assert any("before the run" in caution for caution in use.cautions)


def test_a_count_that_is_a_little_shorter_leaves_the_rate_of_operations(tmp_path: Path) -> None:
    """Counts of 95 % of the phase have 95 % of its operations: their rate is the phase's."""
    text = (
        "\n Performance counter stats for 'x':\n\n 10 instructions\n\n   9.500000000 seconds time elapsed\n"
    )
    law = use_of(tmp_path, text, operations=1000, seconds=10).law
    assert law.ops_per_s.value == pytest.approx(100.0)
    assert law.path_length.value == pytest.approx(10 / 950)


def test_a_longer_count_divides_rates(tmp_path: Path) -> None:
    text = (
        "\n Performance counter stats for 'x':\n\n 4,000      instructions\n 2,000      cycles\n\n"
        "   20.000000000 seconds time elapsed\n"
    )
    use = use_of(tmp_path, text, operations=100, seconds=10)
    assert use.law.ops_per_s.value == 10.0
    assert use.law.path_length.value == 20.0
    assert any("rates are divided" in caution for caution in use.cautions)


def test_modes_are_not_mixed(tmp_path: Path) -> None:
    user = "10,,instructions:u,1,100.00,,\n"
    mixed = use_of(tmp_path, user + "5,,cycles,1,100.00,,\n")
    assert mixed.law.ipc.value is None
    assert "different modes" in (mixed.law.ipc.missing or "")
    both = use_of(tmp_path, user + "5,,cycles:u,1,100.00,,\n")
    assert both.law.ipc.value == 2.0
    assert any("user mode only" in caution for caution in both.cautions)
    split = use_of(tmp_path, user + "10,,instructions:k,1,100.00,,\n5,,cycles,1,100.00,,\n")
    assert kernel_ratio(split).value == 0.5
    assert kernel_ratio(both).value is None


def test_the_kernel_alone_never_stands_for_the_whole(tmp_path: Path) -> None:
    use = use_of(tmp_path, "10,,instructions:k,1,100.00,,\n5,,cycles:k,1,100.00,,\n")
    assert use.law.ipc.value is None


def test_what_was_counted_too_seldom_is_withheld_with_its_reason(tmp_path: Path) -> None:
    use = use_of(tmp_path, "10,,instructions,1,5.00,,\n5,,cycles,1,50.00,,\n")
    assert use.law.ipc.value is None
    assert "5.0 % of the time" in (use.law.ipc.missing or "")
    assert use.law.cycles_per_s.value is not None


def test_a_machine_without_counters_says_so_for_each_term(tmp_path: Path) -> None:
    text = "<not supported>,,instructions,0,100.00,,\n<not supported>,,cycles,0,100.00,,\n5,,cs,1,100.00,,\n"
    use = use_of(tmp_path, text, operations=300)
    assert use.law.ops_per_s.value == 1.0
    for term in (use.law.ipc, use.law.cycles_per_s, use.law.path_length):
        assert term.value is None
        assert "not supported (perf)" in (term.missing or "")
    assert use.top_down is None
    none = counter_use(tmp_path, a_run(None), meanwhile())
    assert none.source is None
    assert "--perf-stat" in (none.law.ipc.missing or "")
    # How much of the machine was used needs no counters.
    assert none.split is not None
    assert none.split.total_ratio == pytest.approx(0.4)


@pytest.mark.parametrize("content", ["", "not perf\n", "\x00" * 100])
def test_a_file_that_is_damaged_costs_its_counts_only(tmp_path: Path, content: str) -> None:
    use = use_of(tmp_path, content)
    assert use.source is None
    assert "no output of perf stat" in (use.missing or "")


def test_a_manifest_names_no_file_outside_of_its_run(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("5,,instructions,1,100.00,,\n")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("../../secret.csv", str(secret), "..", ""):
        found = counter_use(folder, a_run({"file": name}), meanwhile())
        assert found.source is None, name


ICICLE = """ Performance counter stats for 'x':
   1,000,000,000      slots
     400,000,000      topdown-retiring
     100,000,000      topdown-bad-spec
     200,000,000      topdown-fe-bound
     300,000,000      topdown-be-bound
     100,000,000      topdown-heavy-ops
      80,000,000      topdown-br-mispredict
     150,000,000      topdown-fetch-lat
     200,000,000      topdown-mem-bound
       1,000,000      INT_MISC.UOP_DROPPING
"""


def test_the_tree_of_a_processor_with_the_metrics_register(tmp_path: Path) -> None:
    tree = use_of(tmp_path, ICICLE).top_down
    assert tree is not None
    assert tree.model.startswith("Intel Sapphire Rapids")
    assert tree.node("retiring").ratio == pytest.approx(0.4)
    assert tree.node("frontend_bound").ratio == pytest.approx(0.199)
    assert tree.node("memory_bound").ratio == pytest.approx(0.2)
    assert tree.node("core_bound").ratio == pytest.approx(0.1)
    # Without what the register counts wrongly, the front end is withheld, and bounded by the others.
    partial = use_of(tmp_path, ICICLE.replace("INT_MISC.UOP_DROPPING", "other")).top_down
    assert partial is not None
    front = partial.node("frontend_bound")
    assert front.ratio is None
    assert front.high == pytest.approx(0.3)


def test_models_by_events_and_names() -> None:
    named = machine_record(32)

    def called(name: str) -> Machine:
        return named.model_copy(update={"cpu": named.cpu.model_copy(update={"model": name})})

    register = ["topdown-retiring", "topdown.slots"]
    assert choose_model(None, [*register, "topdown-mem-bound"]) is SAPPHIRE_RAPIDS
    assert choose_model(called("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz"), register) is ICE_LAKE
    assert choose_model(None, [*register, "int_misc.recovery_cycles,cmask=1,edge"]) is ICE_LAKE
    slots = ["de_no_dispatch_per_slot.no_ops_from_frontend"]
    assert choose_model(called("AMD EPYC 9654 96-Core Processor"), slots) is ZEN_4
    assert choose_model(called("AMD EPYC 9755 128-Core Processor"), slots) is ZEN_5
    skylake = choose_model(None, ["uops_retired.retire_slots", "int_misc.recovery_cycles_any"])
    assert not isinstance(skylake, str)
    assert "SMT on" in skylake.name
    assert isinstance(choose_model(called("mystery"), ["stall_slot"]), str)
    assert not isinstance(choose_model(called("Neoverse-N2"), ["stall_slot"]), str)
    assert isinstance(choose_model(None, ["cycles"]), str)


def test_counts_by_cpu_add_up_and_those_by_cgroup_do_not() -> None:
    by_cpu = parse_perf_stat(
        "CPU0,10,,cycles,1,100.00,,\nCPU1,20,,cycles,1,50.00,,\nCPU0,7,,unc_m_cas_count.rd,1,100.00,,\n"
        "CPU0,1,,x,1,100.00,,\nCPU1,<not counted>,,x,0,0.00,,\n"
    )
    whole = whole_of(by_cpu.series)
    assert not isinstance(whole, str)
    counts = counts_of(whole)
    assert counts.values == {"cycles": 30.0, "unc_m_cas_count.rd": 7.0}
    assert counts.coverage["cycles"] == 0.5
    assert "never got a counter" in counts.missing["x"]
    groups = parse_perf_stat("10,,cycles,/,1,100.00,,\n5,,cycles,/a,1,100.00,,\n").series
    assert isinstance(whole_of(groups), str)
    chosen = whole_of(groups, cgroup="/a")
    assert not isinstance(chosen, str)
    assert counts_of(chosen).values == {"cycles": 5.0}
    by_folder = whole_of(groups, cgroup="/sys/fs/cgroup/unified/a")
    assert not isinstance(by_folder, str)
    assert counts_of(by_folder).values == {"cycles": 5.0}
    assert isinstance(whole_of(groups, cgroup="/sys/fs/cgroup/b"), str)


def test_entities_that_are_read_one_after_the_other_add_up() -> None:
    def of(entity: str, late_ns: int, *, skips: int = 0) -> CounterSeries:
        ends = [at * SECOND + late_ns for at in range(1, 6)][skips:]
        counts = EventSeries(tuple(100.0 * at for at in range(1, 6))[skips:], (1.0,) * len(ends))
        return CounterSeries("cpu", entity, ends, {"cycles": counts}, {}, skips * SECOND + late_ns)

    whole = whole_of([of("cpu0", 0), of("cpu1", 40), of("cpu2", 90)])
    assert not isinstance(whole, str)
    assert whole.events["cycles"].count == (300.0, 600.0, 900.0, 1200.0, 1500.0)
    assert whole.time_ns[0] == SECOND + 90
    assert whole.begin_ns == 90
    # The phase began between two of them: the window that one lacks is none of both.
    cut = whole_of([of("cpu0", 0, skips=1), of("cpu1", 40)])
    assert not isinstance(cut, str)
    assert cut.events["cycles"].count == (400.0, 600.0, 800.0, 1000.0)
    assert cut.begin_ns == SECOND + 40


def test_cores_of_two_kinds_add_up() -> None:
    found = parse_perf_stat("10,,cpu_core/cycles/,1,100.00,,\n5,,cpu_atom/cycles/,1,100.00,,\n")
    assert counts_of(found.series[0]).values == {"cycles": 15.0}
    assert canonical("cpu_atom/cycles/u") == ("cycles", "cpu_atom", "u")


def test_intervals_give_a_line_and_their_sum(tmp_path: Path) -> None:
    rows = "".join(
        f"     {second}.000000000,{1000 * second},,instructions,1,100.00,,\n"
        f"     {second}.000000000,1000,,cycles,1,100.00,,\n"
        for second in (1, 2, 3)
    )
    use = use_of(tmp_path, rows, seconds=3)
    assert series_of_ipc(use) == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
    assert use.law.ipc.value == 2.0
    assert use.law.cycles_per_s.value == 1000.0


def test_memory_traffic_needs_both_directions(tmp_path: Path) -> None:
    read_only = "100,MiB,unc_m_cas_count.rd,1,100.00,,\n"
    assert dram_bytes_per_s(use_of(tmp_path, read_only)).value is None
    both = use_of(
        tmp_path, read_only + "200,MiB,unc_m_cas_count.wr,1,100.00,,\n2e9,ns,duration_time,1,100.00,,\n"
    )
    assert dram_bytes_per_s(both).value == pytest.approx(150 * (1 << 20))
