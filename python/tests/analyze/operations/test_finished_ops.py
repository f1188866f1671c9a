"""The diagnosis of RocksDB's `FinishedOps` from two `perf report` excerpts and the counts of the runs.

The excerpts stand in the industry document beside this repository; a report of our own, of a made-up program
with the same disease, is always tested.
"""

import re
from pathlib import Path

import pytest

from steelyard.analyze.counters.iron_law import Counts, iron_law
from steelyard.analyze.counters.smt import SmtMode
from steelyard.analyze.profiles.hot_functions import FunctionShares, diagnose
from steelyard.analyze.profiles.perf_report import PerfReport, parse_perf_report

SEEDS = Path(__file__).resolve().parents[5] / "shared" / "seeds"


def excerpts() -> tuple[PerfReport, PerfReport]:
    """Return the document's two reports: 1 and 160 threads."""
    files = sorted(SEEDS.glob("003_*.txt")) if SEEDS.is_dir() else []
    if not files:
        pytest.skip(f"the industry document with the two reports is not in {SEEDS}")
    # The document was converted from slides: underscores are escaped, and one listing kept its line numbers.
    text = files[0].read_text().replace("\\_", "_")
    found = []
    for caption in ("1 thread, data collected by perf-record", "160 threads, data collected by perf-record"):
        slide = text.split(caption, 1)[1]
        slide = slide[: slide.index("./benchmark.sh readrandom")]
        [report] = parse_perf_report(re.sub(r"(?m)^\d+ (?=#|\d+\.\d+%)", "", slide))
        found.append(report)
    return found[0], found[1]


BEFORE = Counts(3129398329928, 1136230674488, 1510002999, 300, threads=1, smt=SmtMode(2))
AFTER = Counts(22625805888251, 171717420118090, 11125908840, 300.024, threads=160, smt=SmtMode(2))


def test_facts_finished_ops_is_named_first_from_the_two_reports_and_counts() -> None:
    one, many = excerpts()
    assert one.events == many.events == ("cycles", "instructions")
    assert one.unread == many.unread == 0
    found = diagnose(
        FunctionShares.of_report(one), FunctionShares.of_report(many), iron_law(BEFORE), iron_law(AFTER)
    )
    first = found.functions[0]
    assert first.function == "rocksdb::Stats::FinishedOps"
    assert (first.before["instructions"], first.after["instructions"]) == pytest.approx((0.0394, 0.8667))
    assert (first.before["cycles"], first.after["cycles"]) == pytest.approx((0.0326, 0.8710))
    assert first.share_of_change.value == pytest.approx(0.914, abs=0.001)
    assert "3.94 % -> 86.67 % of instructions" in found.claim
    assert (
        "mostly more clocks per instruction, because of contention or stalls: path length -1.9 %, CPI 20.9x"
        in found.claim
    )


def test_facts_finished_ops_is_named_first_without_counts_and_by_either_event() -> None:
    one, many = (FunctionShares.of_report(report) for report in excerpts())
    for event in ("cycles", "instructions"):
        found = diagnose(one, many, event=event)
        assert found.functions[0].function == "rocksdb::Stats::FinishedOps"
        assert found.functions[0].added_cycles_per_op.missing


QUIET = """
# To display the perf.data header info, please use --header/--header-only options.
#
# Samples: 10K of event 'cycles'
# Event count (approx.): 31245678901
#
# Overhead  Command  Shared Object      Symbol
# ........  .......  .................  ...............................
#
    40.00%  ledger   ledger             [.] Ledger::apply(Entry const&)
    25.00%  ledger   libc.so.6          [.] __memmove_avx_unaligned_erms
    12.50%  ledger   ledger             [.] Counter::add
     7.50%  ledger   [kernel.kallsyms]  [k] copy_user_generic
     5.00%  cat      [unknown]          [.] 0x00007f5ae4c56240
"""
BUSY = """
# Samples: 40K of event 'cycles'
#
# Overhead  Command  Shared Object      Symbol
# ........  .......  .................  ...............................
#
    76.00%  ledger   ledger             [.] Counter::add
            |
            |--60.00%--main
            ---start_thread
     8.00%  ledger   ledger             [.] Ledger::apply(Entry const&)
     6.00%  ledger   [kernel.kallsyms]  [k] futex_wake
     5.00%  ledger   libc.so.6          [.] __memmove_avx_unaligned_erms
"""


def test_a_made_up_contended_counter_is_named_first() -> None:
    [quiet], [busy] = parse_perf_report(QUIET), parse_perf_report(BUSY)
    assert (quiet.samples, busy.samples) == (10_000, 40_000)
    assert quiet.event_count == 31245678901
    found = diagnose(
        FunctionShares.of_report(quiet),
        FunctionShares.of_report(busy),
        iron_law(Counts(1000e6, 500e6, 1e6, 10)),
        iron_law(Counts(4000e6, 10_000e6, 4e6, 10)),
    )
    # Clocks per operation went from 500 to 2500; the counter from 62.5 to 1900 of them.
    first, second = found.functions[:2]
    assert first.function == "Counter::add"
    assert first.added_cycles_per_op.value == pytest.approx(1837.5)
    assert first.share_of_change.value == pytest.approx(1837.5 / 2000)
    assert first.noise_ratio.value == pytest.approx(1.96 * (0.125 * 0.875 / 10e3 + 0.76 * 0.24 / 40e3) ** 0.5)
    # Not listed before: it had 5 % of 500 clocks at the most, so that it added at least 125 of its 150.
    assert second.function == "futex_wake"
    assert second.added_cycles_per_op.value == pytest.approx(125)
    assert "contention or stalls" in found.cause
    # What lost share without getting cheaper is not blamed: 40 % of 500 is 8 % of 2500.
    applied = next(each for each in found.functions if each.function.startswith("Ledger"))
    assert applied.added_cycles_per_op.value == pytest.approx(0)


def test_the_way_back_names_what_got_cheaper() -> None:
    [quiet], [busy] = parse_perf_report(QUIET), parse_perf_report(BUSY)
    found = diagnose(
        FunctionShares.of_report(busy),
        FunctionShares.of_report(quiet),
        iron_law(Counts(4000e6, 10_000e6, 4e6, 10)),
        iron_law(Counts(1000e6, 500e6, 1e6, 10)),
    )
    assert found.functions[0].function == "Counter::add"
    assert found.functions[0].added_cycles_per_op.value == pytest.approx(-1837.5)
    assert found.cause.startswith("mostly fewer clocks per instruction")


def test_more_instructions_for_an_operation_are_extra_work() -> None:
    shares = FunctionShares.of_samples({"a": 900, "b": 100})
    found = diagnose(
        shares,
        FunctionShares.of_samples({"a": 450, "b": 550}),
        iron_law(Counts(100e6, 100e6, 1e6, 1)),
        iron_law(Counts(200e6, 202e6, 1e6, 1)),
    )
    assert found.functions[0].function == "b"
    assert found.cause.startswith("mostly more instructions per operation")
    total = sum(change.share_of_change.value or 0 for change in found.functions)
    assert total == pytest.approx(1)


def test_profiles_of_different_events_do_not_compare() -> None:
    cycles, faults = (FunctionShares.of_samples({"a": 1}, event) for event in ("cycles", "faults"))
    with pytest.raises(ValueError, match="no event in common"):
        diagnose(cycles, faults)
    with pytest.raises(ValueError, match="not sampled in both"):
        diagnose(cycles, cycles, event="faults")
