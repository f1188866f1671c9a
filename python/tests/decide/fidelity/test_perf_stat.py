"""Files of ``perf stat`` as workloads: plain, and by interval with windows."""

import math
from pathlib import Path

import pytest

from steelyard._base import SteelyardError
from steelyard.decide.fidelity.comparison import compare
from steelyard.decide.fidelity.of_counters import of_perf_stat

PLAIN = """
 Performance counter stats for 'system wide':

    80,000,000,000      cycles
    96,000,000,000      instructions
       240,000,000      cache-misses
           120,000      context-switches
             3,000      page-faults

      10.000000000 seconds time elapsed
"""
TOP_DOWN = """
 Performance counter stats for 'system wide':

   100,000,000,000      slots
    25,000,000,000      topdown-retiring
     5,000,000,000      topdown-bad-spec
    30,000,000,000      topdown-fe-bound
    40,000,000,000      topdown-be-bound
                 0      INT_MISC.UOP_DROPPING

      10.000000000 seconds time elapsed
"""


def intervals(path: Path, ipc: float, windows: int = 12) -> Path:
    """Write what ``perf stat -I 1000 -x,`` prints."""
    rows = []
    for at in range(1, windows + 1):
        cycles = 8_000_000_000 + 50_000_000 * (at % 5)
        instructions = int(cycles * ipc * (1 + 0.01 * (at % 3 - 1)))
        rows += [
            f"{at}.000000000,{cycles},,cycles,1000000000,100.00,,",
            f"{at}.000000000,{instructions},,instructions,1000000000,100.00,,",
        ]
    path.write_text("\n".join(rows) + "\n")
    return path


def test_counts_become_metrics(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(PLAIN)
    found = of_perf_stat(path)
    assert found.metrics["ipc"].value == pytest.approx(1.2)
    assert found.metrics["context_switches_per_s"].value == pytest.approx(12_000)
    assert found.metrics["page_faults_per_s"].value == pytest.approx(300)
    assert found.why_missing("throughput_per_s") == "perf stat counts no requests"
    assert found.why_missing("memory_bytes_per_s")


def test_top_down_events_become_shares(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TOP_DOWN)
    found = of_perf_stat(path)
    names = ("retiring_ratio", "bad_speculation_ratio", "frontend_ratio", "backend_ratio")
    assert [found.metrics[name].value for name in names] == pytest.approx([0.25, 0.05, 0.3, 0.4], abs=0.005)


def test_intervals_have_an_interval(tmp_path: Path) -> None:
    a, b = (of_perf_stat(intervals(tmp_path / f"{ipc}.csv", ipc)) for ipc in (1.2, 1.5))
    found = compare(a, b).metric("ipc")
    assert found.distance == pytest.approx(0.223, abs=0.005)
    assert found.low is not None
    assert found.high is not None
    assert 0.2 < found.low < 0.2231 < found.high < 0.25
    assert found.is_distinguishable


def test_what_is_no_perf_stat_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("nothing of the kind\n")
    with pytest.raises(SteelyardError):
        of_perf_stat(path)


def rocksdb(path: Path, instructions: int, cycles: int) -> Path:
    """Write the counts that were published of db_bench readrandom, 300 s."""
    path.write_text(
        "\n Performance counter stats for './db_bench':\n\n"
        f"{instructions:>22,}      instructions\n{cycles:>22,}      cycles\n\n"
        "     300.000000000 seconds time elapsed\n"
    )
    return path


def test_contention_is_a_distance_in_ipc(tmp_path: Path) -> None:
    """1 and 160 threads around one mutex: clocks per instruction grow 20.9 times."""
    one = of_perf_stat(rocksdb(tmp_path / "1.txt", 3_129_398_329_928, 1_136_230_674_488))
    many = of_perf_stat(rocksdb(tmp_path / "160.txt", 22_625_805_888_251, 171_717_420_118_090))
    found = compare(many, one).metric("ipc")
    assert found.b == pytest.approx(1 / 0.363083, rel=1e-5)
    assert found.a == pytest.approx(1 / 7.589450, rel=1e-5)
    assert found.distance == pytest.approx(math.log(20.9), abs=0.002)
    assert found.no_interval == "A: one value; B: one value"
    fixed = of_perf_stat(rocksdb(tmp_path / "fixed.txt", 194_183_272_380_812, 151_013_619_154_778))
    assert compare(fixed, one).overall.distance < 0.3 * compare(many, one).overall.distance
