"""The pressure point matrix: resources of a row, differences from the paper, stated limits."""

from dataclasses import fields

import pytest

from steelyard._base import UsageError
from steelyard.analyze.pressure.intensities import THRESHOLDS, Intensities, Pressure
from steelyard.analyze.pressure.matrix import RESOURCES, Row, published, row_of
from steelyard.bench import declaration
from steelyard.bench.limits.stated import limits_of
from steelyard.cli.main import invoke
from steelyard.records import Phase, Run, read
from tests.cli.suites import write_suite
from tests.report.runs import write_run

PARTS = [field.name for field in fields(Intensities)]


def parts(**ratios):
    """Return intensities with these ratios; a part without one was not measured."""

    def pressure(part):
        ratio = ratios.get(part)
        if ratio is None:
            return Pressure(part, None, None, "", f"no {part} was recorded", False)
        return Pressure(part, ratio, "its limit", f"{part} used", None, ratio >= THRESHOLDS[part])

    return Intensities(**{part: pressure(part) for part in PARTS})


def row(paper=None, **ratios):
    return Row("redis", "run", {}, parts(**ratios), paper)


def test_every_part_belongs_to_one_resource():
    assert sorted(part for group in RESOURCES.values() for part in group) == sorted(PARTS)


def test_a_resource_is_a_pressure_point_where_one_of_its_parts_is():
    assert row(dram_capacity=0.99, disk_bandwidth=0.8, network=0.1).pressure_points == ("dram", "disk")
    assert row().pressure_points == ()
    assert Row("redis", "run", {}, None, ("cpu",), "no telemetry").pressure_points == ()


def test_differences_name_what_was_seen():
    both = row(("network", "dram"), network=0.2, cpu=0.99, dram_capacity=0.9)
    found = {each.resource: (each.here, each.why) for each in both.differences}
    assert set(found) == {"cpu", "network"}
    assert found["cpu"][0]
    assert found["network"] == (False, "network used (20 % of its limit: its limit)")
    assert row(("network",), network=0.9).differences == []
    assert row(None, cpu=0.99).differences == []
    unmeasured = row(("network",)).differences
    assert [each.why for each in unmeasured] == ["no network was recorded"]


def test_published_workloads_are_those_of_table_4():
    table = published()
    assert table["memcached"] == ("dram", "network")
    assert table["cassandra"] == ("disk",)
    assert {point for points in table.values() for point in points} <= set(RESOURCES)
    # Benchmarks of the suite that the paper has are found by name.
    assert {name for name in declaration.names() if name in table} >= {"redis", "memcached"}


def test_each_step_has_its_intensities_and_the_worst_counts(tmp_path):
    write_run(tmp_path / "run-1")
    run = read(Run, tmp_path / "run-1" / "run.json")
    measure = next(phase for phase in run.phases if phase.name == "measure")
    middle = (measure.begin_ns + measure.end_ns) // 2
    steps = [
        Phase(name="first", begin_ns=measure.begin_ns, end_ns=middle),
        Phase(name="second", begin_ns=middle, end_ns=measure.end_ns),
    ]
    whole = row_of(tmp_path / "run-1", run, None)
    assert list(whole.steps) == ["measure"]
    split = row_of(tmp_path / "run-1", run.model_copy(update={"steps": steps}), None)
    assert list(split.steps) == ["first", "second"]
    assert split.parts.cpu.ratio == max(each.cpu.ratio for each in split.steps.values())
    low, high = sorted(each.cpu.ratio for each in split.steps.values())
    assert low <= whole.parts.cpu.ratio <= high


def test_a_run_without_telemetry_says_so(tmp_path):
    write_run(tmp_path / "run-1")
    run = read(Run, tmp_path / "run-1" / "run.json")
    (tmp_path / "run-1" / "telemetry").rename(tmp_path / "elsewhere")
    lost = row_of(tmp_path / "run-1", run, None)
    assert lost.parts is None
    assert "telemetry" in lost.missing


@pytest.mark.parametrize(
    ("text", "kind", "rate"),
    [
        ("lo=1Gbit", "network_bytes_per_s", 125e6),
        ("eth0=25gbit/s", "network_bytes_per_s", 3.125e9),
        ("sda=200MB", "disk_bytes_per_s", 200e6),
        ("nvme0n1=1.5GiB/s", "disk_bytes_per_s", 1.5 * 2**30),
    ],
)
def test_stated_limits_are_read(text, kind, rate):
    limits = limits_of([text])
    assert getattr(limits, kind) == {text.split("=")[0]: rate}
    assert limits.source == "stated by --limit"


@pytest.mark.parametrize("text", ["lo", "lo=fast", "lo=0Gbit", "lo=1", "=1Gbit", "lo=-1Gbit"])
def test_what_is_no_limit_is_refused(text):
    with pytest.raises(UsageError, match="not a limit"):
        limits_of([text])


def test_a_stated_limit_of_the_network_makes_a_pressure_point(tmp_path):
    write_run(tmp_path / "run-1")
    run = read(Run, tmp_path / "run-1" / "run.json")
    free = row_of(tmp_path / "run-1", run, None)
    link = free.parts.network.evidence.split(":")[0]
    bound = row_of(tmp_path / "run-1", run, None, limits=limits_of([f"{link}=0.001Mbit"]))
    assert "network" not in free.pressure_points
    assert "network" in bound.pressure_points
    assert "stated by --limit" in bound.parts.network.limit


def test_the_matrix_of_a_suite_that_was_run_is_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    write_suite(tmp_path / "suite-1", ("tao", "feed"))
    assert invoke(["characterize", "--suite", str(tmp_path / "suite-1")]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(at for at, line in enumerate(lines) if line.split()[:3] == ["CPU", "memory", "capacity"])
    assert [line.split()[0] for line in lines[head + 2 : head + 4]] == ["tao", "feed"]


def test_wrong_use_is_one_line(tmp_path, capsys):
    assert invoke(["characterize", "--suite", "no-such-suite"]) == 2
    assert invoke(["characterize", "--limit", "lo=1Gbit"]) == 2
    assert invoke(["characterize", "--suite", "quick", "--pid", "1"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len([line for line in errors if line.startswith("steelyard:")]) == 3
