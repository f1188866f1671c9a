"""The iron law against every published case, to the printed digits, and its algebra against any counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard._base import UsageError
from steelyard.analyze.counters.iron_law import (
    Counts,
    IronLaw,
    Meanwhile,
    counts_of_phase,
    difference,
    iron_law,
    work_per_cpu_second,
    work_per_joule,
)
from steelyard.analyze.counters.smt import SmtMode
from steelyard.analyze.facts.cpus import Cpus, CpuSetUse, CpuUse
from steelyard.analyze.facts.span import Span
from steelyard.analyze.values import Quantity
from tests.report.runs import machine_record

# Version and threads: instructions, transactions, path length, cycles, CPI, us/op, ops/s, total time.
ROCKSDB = {
    ("before", 1): "3129398329928 1510002999 2072.445109 1136230674488 0.363083 0.199 5033342 300.000",
    ("before", 160): "22625805888251 11125908840 2033.614172 171717420118090 7.589450 4.314 37083372 300.024",
    ("after", 1): "3259113189316 1588156999 2052.135394 1124524900793 0.345040 0.189 5293853 300.000",
    (
        "after",
        160,
    ): "194183272380812 97151942840 1998.758509 151013619154778 0.777686 0.494 323795384 300.041",
}
DB_BENCH_S = 300
"""Every thread of db_bench ran for this long by its own clock; the total time is first start to last end."""


def rocksdb(version: str, threads: int) -> IronLaw:
    instructions, transactions, _, cycles, _, _, ops_per_s, _ = ROCKSDB[version, threads].split()
    return iron_law(
        Counts(
            instructions=int(instructions),
            cycles=int(cycles),
            operations=int(transactions),
            # The document prints the time to 1 ms; its own ops/s gives it to the digits that ops/s has.
            duration_s=int(transactions) / int(ops_per_s),
            threads=threads,
            thread_s=threads * DB_BENCH_S,
            smt=SmtMode(2),
        )
    )


def value(quantity: Quantity) -> float:
    assert quantity.value is not None, quantity.missing
    return quantity.value


@pytest.mark.parametrize(("version", "threads"), ROCKSDB)
def test_facts_rocksdb_readrandom_table(version: str, threads: int) -> None:
    _, transactions, path_length, _, cpi, us_per_op, ops_per_s, total_s = ROCKSDB[version, threads].split()
    law = rocksdb(version, threads)
    assert f"{value(law.path_length):.6f}" == path_length
    assert f"{value(law.cpi):.6f}" == cpi
    assert f"{value(law.op_time_s) * 1e6:.3f}" == us_per_op
    assert f"{value(law.ops_per_s):.0f}" == ops_per_s
    # The time that ops/s was taken over is the printed one, so ops/s is not just what was put in.
    assert f"{int(transactions) / value(law.ops_per_s):.3f}" == total_s


def test_facts_rocksdb_the_loss_is_contention_and_not_extra_work() -> None:
    found = difference(rocksdb("before", 1), rocksdb("before", 160))
    clocks, ipc, path = found.terms
    assert (clocks.name, ipc.name, path.name) == ("clocks per second", "IPC", "path length")
    assert f"{value(path.change_ratio) * 100:.1f}" == "-1.9"
    assert f"{1 / value(ipc.factor):.1f}" == "20.9"
    assert value(ipc.share) < 0 < value(path.share) < 0.02
    assert found.caveat is None


def test_facts_rocksdb_the_fix_gives_8_73x_and_all_of_it_is_ipc() -> None:
    found = difference(rocksdb("before", 160), rocksdb("after", 160))
    assert f"{value(found.ratio):.2f}" == "8.73"
    assert found.main is not None
    assert found.main.name == "IPC"
    assert value(found.main.share) > 1
    assert math.fsum(value(term.share) for term in found.terms) == pytest.approx(1)


SMT_OFF = Counts(96e9, 48e9, 1000, 1, smt=SmtMode(1), core_cycles_at_most=16 * 3.0e9)
SMT_ON = Counts(110e9, 96e9, 1200, 1, smt=SmtMode(2), core_cycles_at_most=16 * 3.0e9)


def test_facts_smt_uplift_table() -> None:
    off, on = iron_law(SMT_OFF), iron_law(SMT_ON)
    assert (f"{value(off.ipc):.2f}", f"{value(off.cpi):.2f}") == ("2.00", "0.50")
    assert (f"{value(on.ipc):.2f}", f"{value(on.cpi):.2f}") == ("1.15", "0.87")
    assert f"{(value(on.ops_per_s) / value(off.ops_per_s) - 1) * 100:.0f}" == "20"


def test_facts_ipc_of_smt_on_and_off_is_never_compared_silently() -> None:
    off, on = iron_law(SMT_OFF), iron_law(SMT_ON)
    with pytest.raises(UsageError, match="does not compare across SMT modes") as refused:
        difference(off, on)
    assert refused.value.hint is not None
    assert "per core" in refused.value.hint
    # By core the same counts say: the core does 15 % more a clock, and each operation takes 4.5 % fewer.
    found = difference(off, on, per_core=True)
    clocks, ipc, path = found.terms
    assert value(clocks.factor) == pytest.approx(1.0)
    assert value(ipc.factor) == pytest.approx(110 / 96)
    assert value(path.factor) == pytest.approx(96 * 1.2 / 110)
    assert value(found.ratio) == pytest.approx(1.2)


def test_per_core_is_refused_where_the_clocks_of_cores_are_not_known() -> None:
    half_busy = iron_law(Counts(50e9, 40e9, 1000, 1, smt=SmtMode(2)))
    with pytest.raises(UsageError, match="be between"):
        difference(half_busy, half_busy, per_core=True)
    counted = iron_law(Counts(50e9, 40e9, 1000, 1, smt=SmtMode(2), core_cycles=25e9))
    assert value(difference(counted, counted, per_core=True).ratio) == 1


def test_an_unknown_smt_mode_is_a_caveat() -> None:
    known, unknown = iron_law(SMT_OFF), iron_law(Counts(96e9, 48e9, 1000, 1))
    caveat = difference(known, unknown).caveat
    assert caveat is not None
    assert "not known" in caveat


# Columns: threads a core, Mops, utilisation in percent, cycles/s, instructions/s, CPI.
SPECJBB = {
    "one thread": (1, 1.199, 50.16, 80.256e9, 75.8e9, "1.06"),
    "both": (2, 1.235, 98.59, 157.744e9, 78.4e9, "2.01"),
}


@pytest.mark.parametrize("case", SPECJBB)
def test_facts_specjbb2005_table(case: str) -> None:
    used, mops, utilisation, cycles, instructions, cpi = SPECJBB[case]
    law = iron_law(
        Counts(
            instructions,
            cycles,
            mops * 1e6,
            duration_s=1,
            cpu_s=64 * utilisation / 100,
            smt=SmtMode(2, used),
            core_cycles_at_most=32 * 2.5e9,
        )
    )
    assert f"{value(law.cpi):.2f}" == cpi
    assert f"{value(law.frequency_hz) / 1e9:.1f}" == "2.5"
    assert value(law.used_cpus) / 64 * 100 == pytest.approx(utilisation)
    # A core's IPC hardly differs between the two, while a thread's halves.
    assert value(law.core_ipc.quantity) == pytest.approx(0.96, abs=0.03)


def test_missing_counters_leave_out_their_terms_with_a_reason_and_no_others() -> None:
    reason = "this guest's hypervisor offers no counters"
    law = iron_law(Counts(None, None, 5000, 10, missing={"instructions": reason, "cycles": reason}))
    assert value(law.ops_per_s) == 500
    assert law.ipc == Quantity(None, "1", reason)
    assert law.path_length.missing == reason
    assert law.core_ipc.missing == reason
    found = difference(law, law)
    assert value(found.ratio) == 1
    assert [term.factor.missing for term in found.terms] == [reason, reason, reason]
    assert found.main is None


def test_a_count_of_zero_is_missing_and_nothing_is_divided_by_it() -> None:
    law = iron_law(Counts(0, 10, 0, 10))
    assert law.path_length.value is None
    assert law.ops_per_s.missing == "operations counted as 0"


def test_clocks_split_into_cpus_and_frequency_where_cpu_time_is_known() -> None:
    before = iron_law(Counts(10e9, 10e9, 1e6, 1, cpu_s=4, smt=SmtMode(1)))
    after = iron_law(Counts(20e9, 20e9, 2e6, 1, cpu_s=10, smt=SmtMode(1)))
    names = {term.name: value(term.factor) for term in difference(before, after).terms}
    assert names == pytest.approx({"CPUs used": 2.5, "frequency": 0.8, "IPC": 1.0, "path length": 1.0})
    assert value(work_per_cpu_second(before)) == 250_000
    assert value(work_per_joule(before, Quantity(50.0, "w"))) == 20_000
    assert work_per_joule(before, Quantity(None, "w", "no RAPL")).missing == "no RAPL"


def test_counts_of_a_phase_are_its_time_cpu_time_and_mode_beside_the_operations() -> None:
    use = CpuUse({"user": 0.5, "system": 0.2, "steal": 0.1, "idle": 0.2})
    cpus = Cpus(server=CpuSetUse("server", (0, 1, 2, 3), use))
    phase = Meanwhile(Span(0, 10 * 10**9), cpus, Quantity(3e9, "hz"))
    blind = iron_law(counts_of_phase(phase, 1e6, machine=machine_record(8), missing={"cycles": "no PMU"}))
    assert value(blind.used_cpus) == pytest.approx(2.8)
    assert value(work_per_cpu_second(blind)) == pytest.approx(1e6 / 28)
    assert (blind.ipc.missing, blind.cycles_per_s.missing) == ("no counters were read", "no PMU")
    counters: dict[str, float | None] = {"instructions": 90e9, "cycles": 84e9}
    seen = iron_law(counts_of_phase(phase, 1e6, machine=machine_record(4), counters=counters))
    assert value(seen.frequency_hz) == pytest.approx(3e9)
    # Two cores at 3 GHz for 10 s have at most 60e9 clocks, and 84e9 of threads are at least 42e9 of cores.
    assert (seen.core_ipc.low, seen.core_ipc.high) == pytest.approx((1.5, 90 / 42))
    # Four of eight CPUs may be four cores.
    some = iron_law(counts_of_phase(phase, 1e6, machine=machine_record(8), counters=counters))
    assert (some.core_ipc.low, some.core_ipc.high) == pytest.approx((90 / 84, 90 / 42))
    unread = iron_law(counts_of_phase(Meanwhile(Span(0, 10**9)), None))
    assert unread.used_cpus.missing == "not recorded"
    assert unread.smt is None


def test_runs_that_hardly_differ_have_no_shares() -> None:
    law = iron_law(SMT_OFF)
    assert {term.share.value for term in difference(law, law).terms} == {None}


def test_a_count_that_is_not_a_count_is_refused() -> None:
    for wrong in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="finite and not negative"):
            Counts(wrong, 1, 1, 1)


amounts = st.floats(min_value=1, max_value=1e18)


@given(amounts, amounts, amounts, st.floats(min_value=0.01, max_value=1e6))
def test_the_law_holds_for_any_counts(ins: float, cycles: float, ops: float, seconds: float) -> None:
    law = iron_law(Counts(ins, cycles, ops, seconds))
    product = value(law.cycles_per_s) * value(law.ipc) / value(law.path_length)
    assert product == pytest.approx(value(law.ops_per_s), rel=1e-12)
    assert value(law.cycles_per_op) == pytest.approx(value(law.cpi) * value(law.path_length), rel=1e-12)


@given(st.tuples(amounts, amounts, amounts), st.tuples(amounts, amounts, amounts))
def test_factors_multiply_to_the_ratio_and_shares_sum_to_one(
    first: tuple[float, float, float], second: tuple[float, float, float]
) -> None:
    mode = SmtMode(1)
    found = difference(iron_law(Counts(*first, 10, smt=mode)), iron_law(Counts(*second, 10, smt=mode)))
    assert math.prod(value(term.factor) for term in found.terms) == pytest.approx(
        value(found.ratio), rel=1e-9
    )
    shares = [term.share.value for term in found.terms]
    if None not in shares:
        assert math.fsum(share for share in shares if share is not None) == pytest.approx(1, abs=1e-6)
