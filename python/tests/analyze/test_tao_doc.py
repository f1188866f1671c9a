"""The document on TaoBench lists what the code has: parameters with their defaults."""

from __future__ import annotations

import re
from pathlib import Path

from steelyard.benchmarks.tao.parameters import PARAMETERS

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "concepts" / "tao.md").read_text(encoding="utf-8")


def first_column(heading: str) -> set[str]:
    section = TEXT.partition(heading)[2].partition("\n## ")[0].partition("\n### ")[0]
    return set(re.findall(r"^\| `([a-z_-]+)` \|", section, flags=re.MULTILINE))


def test_the_parameters_named_are_parameters() -> None:
    named = first_column("## Defaults")
    assert len(named) >= 8
    assert named <= {parameter.name for parameter in PARAMETERS}


def test_the_shares_named_are_those_of_the_code() -> None:
    from steelyard.benchmarks.tao import benchmark as tao

    for number in (
        f"/ {tao.CPUS_PER_SERVER}",
        f"{tao.FAST_THREADS_PER_CPU} x CPUs",
        f"{tao.SLOW_THREADS_PER_FAST} x fast",
        f"{tao.CONNECTIONS_PER_THREAD} per load thread",
        f"at most {tao.MEMORY_RATIO} of what there is",
        f"{tao.MOST_CONNECTIONS:,} in all",
    ):
        assert number in TEXT, number
