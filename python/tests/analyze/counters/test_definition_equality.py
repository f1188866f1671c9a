"""Our formulas and those that perf prints for foreign CPUs come to the same, on random counts."""

import os
import random
import re
import shutil
import subprocess
from functools import cache

import pytest

from steelyard.analyze.counters.choice import fits
from steelyard.analyze.counters.definition_equality import compare_metrics
from steelyard.analyze.counters.definitions import Definition, Formula, Metric, definitions
from steelyard.analyze.counters.formulas import parse_formula, text_of

FOREIGN = {
    # CPU, our definition, and how many metrics have a counterpart in Debian's perf 6.1.
    "GenuineIntel-6-55-4": ("intel-skylake-server", 25),
    "GenuineIntel-6-55-7": ("intel-skylake-server", 25),
    "GenuineIntel-6-6A-6": ("intel-icelake-server", 26),
    "GenuineIntel-6-8F-8": ("intel-sapphirerapids", 26),
    "AuthenticAMD-23-31-0": ("amd-zen2", 3),
    "AuthenticAMD-25-1-1": ("amd-zen3", 3),
}


@cache
def perf_version() -> str:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed (Debian: linux-perf)")
    return subprocess.run(["perf", "--version"], capture_output=True, text=True, check=False).stdout


@cache
def printed(cpuid: str) -> Definition:
    """What perf prints of a foreign CPU's metrics."""
    perf_version()
    text = subprocess.run(
        ["perf", "list", "--details", "metrics"],
        env={**os.environ, "PERF_CPUID": cpuid},
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    formulas = dict(re.findall(r"(?m)^  (\w+)\n +\[.*\]\n +\[(.*)\]$", text))
    if not formulas:
        pytest.skip(f"this perf prints no formulas for {cpuid}")
    metrics = {name: Metric(name, (Formula(formula, "perf"),), "") for name, formula in formulas.items()}
    return Definition(cpuid, cpuid, metrics=metrics)


@pytest.mark.parametrize("cpuid", FOREIGN)
def test_every_metric_with_a_counterpart_equals_it(cpuid: str) -> None:
    name, known = FOREIGN[cpuid]
    ours, theirs = definitions()[name], printed(cpuid)
    assert fits(ours, cpuid)
    compared = compare_metrics(ours, theirs, random.Random(cpuid))
    assert compared.differing == ()
    purposes = {each: part.differs for each in ours.metrics if (part := ours.metrics[each].counterpart)}
    for metric in (*compared.on_purpose, *compared.agreeing_now):
        assert purposes[metric]
    if "6.1." in perf_version():
        assert len(compared.equal) + len(compared.on_purpose) + len(compared.agreeing_now) == known


def test_what_is_said_to_differ_differs_somewhere() -> None:
    if "6.1." not in perf_version():
        pytest.skip("reasons are about perf 6.1, and this is another version")
    found = {
        cpuid: compare_metrics(definitions()[name], printed(cpuid), random.Random(2))
        for cpuid, (name, _) in FOREIGN.items()
    }
    assert "frequency_hz" in found["GenuineIntel-6-55-7"].on_purpose
    assert "llc_code_mpki" in found["GenuineIntel-6-8F-8"].on_purpose
    assert "memory_bytes_per_s" in found["AuthenticAMD-23-31-0"].on_purpose
    # Of later versions only.
    assert "core_ipc" in found["GenuineIntel-6-8F-8"].agreeing_now


@pytest.mark.parametrize("cpuid", FOREIGN)
def test_every_formula_that_perf_prints_reads_and_writes_back_the_same(cpuid: str) -> None:
    for metric in printed(cpuid).metrics.values():
        node = metric.formulas[0].node
        assert parse_formula(text_of(node)) == node, metric.name


def test_a_wrong_formula_is_found() -> None:
    ours = definitions()["intel-icelake-server"]
    theirs = Definition(
        "theirs",
        "theirs",
        metrics={
            "IPC": Metric("IPC", (Formula("INST_RETIRED.ANY / CPU_CLK_UNHALTED.REF_TSC", ""),), ""),
            "L3MPKI": Metric("L3MPKI", (Formula("1000.000001 * MEM_LOAD_RETIRED.L3_MISS / IPS", ""),), ""),
            "IPS": Metric("IPS", (Formula("INST_RETIRED.ANY", ""),), ""),
            "IpBranch": Metric("IpBranch", (Formula("IPS / BR_INST_RETIRED.ALL_BRANCHES", ""),), ""),
        },
    )
    compared = compare_metrics(ours, theirs, random.Random(3))
    assert {line.split()[0] for line in compared.differing} == {"ipc", "llc_data_mpki"}
    assert compared.equal == ("branch_ratio",)
