"""Differences of profiles: the published case, the published interval, and noise that is not change."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import fisher_exact

from steelyard.analyze.profiles.diff import (
    ALPHA,
    BLOCKS,
    RUNS,
    SAMPLES_BASIS,
    diff,
    fisher,
    judge,
    smallest_p,
)
from steelyard.analyze.profiles.profile import Profile
from steelyard.report.profiles.exports import folded
from tests.folded import profile

ONE_THREAD = {
    "rocksdb::DBImpl::GetImpl": 770,
    "rocksdb::Version::Get": 419,
    "rocksdb::Stats::FinishedOps": 394,
    "rocksdb::Benchmark::ReadRandom": 356,
    "rocksdb::GetContext::GetContext": 348,
    "rocksdb::ThreadLocalPtr::StaticMeta::CompareAndSwap": 204,
    "rocksdb::DBImpl::Get": 177,
    "rocksdb::ThreadLocalPtr::StaticMeta::Swap": 162,
    "rocksdb::MemTable::Get": 115,
    "rocksdb::MemTableListVersion::GetFromList": 101,
}
"""Self time in hundredths of a percent, from the reports of perf in Chow et al., "Software Performance
Analysis: Industry Perspectives"."""
MANY_THREADS = {
    "rocksdb::Stats::FinishedOps": 8667,
    "rocksdb::Version::Get": 209,
    "rocksdb::ThreadLocalPtr::StaticMeta::Swap": 158,
    "rocksdb::DBImpl::GetImpl": 164,
    "rocksdb::Benchmark::ReadRandom": 99,
    "rocksdb::GetContext::GetContext": 53,
    "rocksdb::DBImpl::Get": 41,
}


def _rocksdb(folder: Path, shares: dict[str, int]) -> Profile:
    stacks = {f"db_bench;main [db_bench];{name} [db_bench]": count for name, count in shares.items()}
    return profile(folder, {**stacks, "node;[unknown] [node]": 10_000 - sum(shares.values())})


def test_finished_ops_comes_first(tmp_path: Path) -> None:
    """Given the profiles of RocksDB at 1 and at 160 threads, the tool names the function that is to blame."""
    result = diff(_rocksdb(tmp_path, ONE_THREAD), _rocksdb(tmp_path, MANY_THREADS))
    first = result.table("function").rows[0]
    assert first.name == "rocksdb::Stats::FinishedOps"
    assert (round(first.a_ratio, 4), round(first.b_ratio, 4)) == (0.0394, 0.8667)
    assert first.stands_out
    assert first.difference_ratio == pytest.approx(0.8273)
    # One run a side cannot tell what differs from run to run, so that nothing is called a change.
    assert (result.basis, result.changed, first.changed) == (SAMPLES_BASIS, None, None)
    assert (first.low_ratio, first.high_ratio) == (None, None)
    assert "one run a side, without times" in result.cautions[0]


def test_fisher_against_the_library() -> None:
    for a, a_size, b, b_size in [(3, 50, 9, 60), (0, 10, 7, 20), (40, 99, 40, 100)]:
        tails = [
            fisher_exact([[a, a_size - a], [b, b_size - b]], alternative=side).pvalue
            for side in ("less", "greater")
        ]
        ours = fisher(np.array([a]), a_size, np.array([b]), b_size)[0]
        assert ours == pytest.approx(min(1, 2 * min(tails)), rel=1e-9)


def test_smallest_p_is_reached_and_never_beaten() -> None:
    for seen in range(1, 12):
        counts = np.arange(0, seen + 1)
        all_p = fisher(counts, 300, seen - counts, 200)
        assert smallest_p(np.array([seen]), 300, 200)[0] == pytest.approx(all_p.min())


def test_holm_among_those_that_can() -> None:
    p = np.array([0.001, 0.02, 0.04, 0.9, 0.5])
    assert judge(p, np.zeros(5), 0.05).tolist() == [True, False, False, False, False]
    # Three rows can never be significant at 0.05 / 2: the other two share alpha between them.
    assert judge(p, np.array([0, 0, 0.5, 0.5, 0.5]), 0.05).tolist() == [True, True, False, False, False]
    assert judge(np.array([]), np.array([]), 0.05).tolist() == []


def _sample(
    folder: Path, names: list[str], shares: np.ndarray, size: int, draw: np.random.Generator
) -> Profile:
    counts = draw.multinomial(size, shares)
    return profile(folder, {name: int(count) for name, count in zip(names, counts, strict=True) if count})


def _program(functions: int) -> tuple[list[str], np.ndarray]:
    # Shares of functions fall off about as 1/rank; libraries and callers make modules and categories differ.
    modules = ("app", "libc.so.6", "libz.so.1", "kernel")
    names = [f"app;main [app];caller_{i % 7} [app];function_{i} [{modules[i % 4]}]" for i in range(functions)]
    shares = 1 / np.arange(1, functions + 1)
    return names, shares / shares.sum()


@pytest.mark.parametrize(("a_size", "b_size"), [(1000, 1000), (400, 4000)])
def test_what_stands_out_of_independent_samples_of_one_program_is_at_most_alpha(
    tmp_path: Path, a_size: int, b_size: int
) -> None:
    draw = np.random.default_rng(12)
    names, shares = _program(200)
    pairs = 120
    false = {
        ("function", "self"): 0,
        ("function", "total"): 0,
        ("module", "self"): 0,
        ("category", "self"): 0,
    }
    for _ in range(pairs):
        result = diff(
            _sample(tmp_path, names, shares, a_size, draw), _sample(tmp_path, names, shares, b_size, draw)
        )
        for key in false:
            false[key] += bool(result.table(*key).standing_out)
    # A binomial count of this many pairs at alpha lies below this bound in 99.9 % of all cases.
    bound = ALPHA * pairs + 3.1 * (ALPHA * (1 - ALPHA) * pairs) ** 0.5
    assert all(count <= bound for count in false.values()), false


def test_a_change_of_a_few_percent_is_found(tmp_path: Path) -> None:
    draw = np.random.default_rng(5)
    names, shares = _program(300)
    other = shares.copy()
    other[10] += 0.03
    other /= other.sum()
    found = 0
    for _ in range(20):
        result = diff(
            _sample(tmp_path, names, shares, 5000, draw), _sample(tmp_path, names, other, 5000, draw)
        )
        found += "function_10" in [row.name for row in result.table("function").standing_out]
    assert found >= 18


def test_profiles_of_other_lengths_and_idle_processors_compare_by_shares(tmp_path: Path) -> None:
    a = profile(tmp_path, {"a;f [a]": 100, "a;g [a]": 300, "swapper;intel_idle [kernel]": 4000})
    b = profile(tmp_path, {"a;f [a]": 1000, "a;g [a]": 3000, "swapper;intel_idle [kernel]": 10})
    result = diff(a, b)
    assert not result.stands_out
    assert all(row.difference_ratio == 0 for row in result.table("function").rows)
    assert "idle processors had 90.9% and 0.2%" in result.cautions[-1]


def test_what_is_not_samples_is_not_judged(tmp_path: Path) -> None:
    a = profile(tmp_path, {"a;f [a]": 10**12}, "# unit: nanoseconds\n")
    b = profile(tmp_path, {"a;g [a]": 10})
    result = diff(a, b)
    assert result.changed is None
    assert result.reason is not None
    assert "nanoseconds" in result.reason
    row = result.table("function").rows[0]
    assert (row.low_ratio, row.p_value, row.changed) == (None, None, None)


def test_builds_and_compiler_suffixes_are_one_function(tmp_path: Path) -> None:
    a = profile(tmp_path, {"a;f.part.0 [a-1.0]": 1000, "a;g [a-1.0]": 1000})
    b = profile(tmp_path, {"a;f.cold [a-2.0]": 1000, "a;g [a-2.0]": 1000})
    result = diff(a, b)
    assert not result.table("function").standing_out
    assert len(result.table("module").standing_out) == 2


def test_cautions_tell_what_makes_profiles_differ(tmp_path: Path) -> None:
    a = profile(tmp_path, {"a;f [a]": 100}, "# event: cycles\n# lost: 50\n")
    b = profile(tmp_path, {"a;f [a]": 100, "broken": 1}, "# event: cpu-clock\n# reason: no kernel symbols\n")
    text = " ".join(diff(a, b).cautions)
    for words in ("cycles and cpu-clock", "A lost 50", "no kernel symbols"):
        assert words in text


def _runs(folder: Path, draw: np.random.Generator, factor: float, count: int = 5) -> list[Profile]:
    """Runs whose shares differ by a tenth from one to the next; one has ``factor`` times its share."""
    names, shares = _program(40)
    found = []
    for _ in range(count):
        own = shares * draw.lognormal(0, 0.1, len(shares))
        own[3] *= factor
        found.append(_sample(folder, names, own / own.sum(), 4000, draw))
    return found


def test_several_runs_a_side_tell_a_change_from_what_runs_differ_by(tmp_path: Path) -> None:
    draw = np.random.default_rng(31)
    runs, doubled = _runs(tmp_path, draw, 1.0), _runs(tmp_path, draw, 2.5)
    same = diff(runs, _runs(tmp_path, draw, 1.0))
    assert (same.basis, same.runs, same.changed) == (RUNS, (5, 5), False)
    found = diff(runs, doubled)
    assert found.changed
    (row,) = [one for one in found.table("function").rows if one.name == "function_3"]
    assert row.changed
    assert row.low_ratio is not None
    assert 0 < row.low_ratio < row.difference_ratio
    # All samples together would take the runs' own differences for changes.
    whole = [profile(tmp_path, _sum(side)) for side in (runs, doubled)]
    assert len(diff(*whole).table("function").standing_out) > len(found.table("function").changes)


def _sum(runs: list[Profile]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in runs:
        for line in folded(one).splitlines():
            stack, _, count = line.rpartition(" ")
            if not line.startswith("# "):
                counts[stack] = counts.get(stack, 0) + int(count)
    return counts


def test_two_runs_are_too_few_and_blocks_are_no_runs(tmp_path: Path) -> None:
    draw = np.random.default_rng(32)
    two = _runs(tmp_path, draw, 1.0, 2)
    few = diff(two, two)
    assert (few.basis, few.changed) == (SAMPLES_BASIS, None)
    assert "2 and 2 runs: how much one differs from the next takes 3 a side" in few.cautions
    blocks = diff(_runs(tmp_path, draw, 1.0, 10), _runs(tmp_path, draw, 3.0, 10), are_blocks=True)
    assert (blocks.basis, blocks.changed) == (BLOCKS, None)
    assert "function_3" in [row.name for row in blocks.table("function").standing_out]


def test_shares_of_blocks_are_those_of_their_run(tmp_path: Path) -> None:
    """Blocks have equally many samples, and not equally many busy ones."""
    blocks = [profile(tmp_path, {"main;work": busy, "main;rare": rare}) for busy, rare in ((99, 1), (10, 10))]
    found = diff(blocks, blocks, are_blocks=True)
    (row,) = [one for one in found.table("function").rows if one.name == "rare"]
    assert row.a_ratio == row.b_ratio == pytest.approx(11 / 120)
