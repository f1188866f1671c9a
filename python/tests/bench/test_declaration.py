"""Declarations of benchmarks: those of this package and those of others."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard._base import EnvironmentLacksError
from steelyard.bench import declaration, tiers
from steelyard.bench.benchmark import Benchmark
from tests.bench import sample_benchmarks

BENCHMARKS = tuple(declaration._built_in())
LISTED = [name for name in BENCHMARKS if declaration.find(name).listed]


@pytest.fixture
def installed(monkeypatch, tmp_path):
    sample_benchmarks.add(tmp_path / "site", monkeypatch.syspath_prepend)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_what_a_declaration_names_is_there(name):
    declared = declaration.find(name)
    assert declared.name == name
    assert issubclass(declared.load(), Benchmark)
    for target in filter(None, (declared.sections, declared.show)):
        assert callable(declaration.load(target, name))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_no_benchmark_knows_another(name):
    others = "|".join(other for other in BENCHMARKS if other != name)
    for path in (Path(declaration.__file__).parent / name).glob("*.py"):
        assert not re.findall(rf"steelyard\.bench\.({others})\b", path.read_text()), path


def test_the_built_in_benchmarks_are_in_every_suite_of_a_tier(installed, monkeypatch):
    monkeypatch.setattr(
        sample_benchmarks, "SPIN", replace(sample_benchmarks.SPIN, suites=("quick", "sample"))
    )
    assert declaration.names() == [*LISTED, "nap", "scripted", "spin"]
    suites = tiers.suites()
    assert {suites[tier].benchmarks for tier in tiers.TIERS} == {("tao", "feed", "tax")}
    assert suites["sample"].benchmarks == ("spin", "scripted", "nap")


def test_a_package_cannot_take_a_name_of_steelyards_own(installed, monkeypatch, tmp_path):
    points = next((tmp_path / "site").glob("*.dist-info/entry_points.txt"))
    points.write_text(
        "[steelyard.benchmarks]\ntao = tests.bench.sample_benchmarks:SPIN\n"
        "characterize = tests.bench.sample_benchmarks:NAP\n"
    )
    declaration._points.cache_clear()
    assert declaration.find("tao").benchmark == "steelyard.benchmarks.tao.benchmark:TaoBench"
    assert declaration.names() == LISTED
    declaration._points.cache_clear()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "tests.bench.sample_benchmarks:NAP",
            r"is not a steelyard.bench.declaration.Declaration of that name",
        ),
        (
            "tests.bench.sample_benchmarks:Spin",
            r"is not a steelyard.bench.declaration.Declaration of that name",
        ),
        ("no_such_module:X", r"benchmark spin \(no_such_module:X\) cannot be imported"),
    ],
)
def test_a_malformed_declaration_is_an_error_of_one_line(installed, tmp_path, target, message):
    points = next((tmp_path / "site").glob("*.dist-info/entry_points.txt"))
    points.write_text(f"[steelyard.benchmarks]\nspin = {target}\n")
    declaration._points.cache_clear()
    with pytest.raises(EnvironmentLacksError, match=message):
        declaration.find("spin")
    # A run of it can still be looked at.
    assert declaration.of_run("spin").sections == declaration.LOAD_SECTIONS
    assert [each.name for each in declaration.working()] == LISTED
    declaration._points.cache_clear()


def test_a_class_that_is_no_benchmark_is_an_error_of_one_line():
    for target in ("steelyard.bench.tiers:Suite", "steelyard.bench.tiers:TIERS"):
        with pytest.raises(EnvironmentLacksError, match=r"is not a steelyard\.bench\.benchmark\.Benchmark"):
            replace(sample_benchmarks.SPIN, benchmark=target).load()
