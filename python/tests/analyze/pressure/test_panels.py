"""The four panels of a run: curves, steps and limits, from telemetry that a run left."""

from pathlib import Path

import numpy as np
import pytest

from steelyard.analyze.pressure.limits import Limits, with_set
from steelyard.analyze.pressure.matrix import row_of
from steelyard.analyze.pressure.panels import panels_of
from steelyard.records import Machine, Phase, Run, read
from tests.report.runs import write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("panels") / "run-1"
    write_run(path)
    return path


@pytest.fixture
def run(folder: Path) -> Run:
    return read(Run, folder / "run.json")


def with_steps(run: Run) -> Run:
    measure = next(phase for phase in run.phases if phase.name == "measure")
    assert measure.end_ns is not None
    middle = (measure.begin_ns + measure.end_ns) // 2
    steps = [
        Phase(name="first", begin_ns=measure.begin_ns, end_ns=middle),
        Phase(name="second", begin_ns=middle, end_ns=measure.end_ns),
    ]
    return run.model_copy(update={"steps": steps})


def test_the_four_resources_are_there_in_the_order_of_the_paper(folder: Path, run: Run) -> None:
    found = panels_of(folder, run, read(Machine, folder / "machine.json"))
    assert [panel.resource for panel in found.panels] == ["cpu", "dram", "disk", "network"]
    assert found.missing is None
    cpu, memory, disk, network = found.panels
    # The sample has no disk source: its place says so.
    assert (disk.curves, disk.missing) == ((), "this source was not recorded")
    for panel in (cpu, memory, network):
        assert panel.missing is None
        assert all(len(curve.seconds) == len(curve.values) > 10 for curve in panel.curves)
    ((name, begin, end),) = found.steps
    assert (name, begin) == ("measure", 0.0)
    assert found.span_s[0] <= 0 < end == pytest.approx(found.span_s[1])


def test_cpu_shares_agree_with_the_intensity_of_the_phase(folder: Path, run: Run) -> None:
    found = panels_of(folder, run, None)
    curves = {curve.name: curve for curve in found.panels[0].curves}
    inside = curves["user"].seconds >= 0
    busy = sum(np.nanmean(curve.values[inside]) for name, curve in curves.items() if "idle" not in name)
    whole = row_of(
        folder, run.model_copy(update={"cpus": run.cpus.model_copy(update={"server": None})}), None
    )
    assert whole.parts is not None
    assert whole.parts.cpu.ratio is not None
    assert busy == pytest.approx(whole.parts.cpu.ratio, abs=0.05)
    assert all(np.nanmax(curve.values) <= 1.0 for curve in curves.values())


def test_steps_are_named(folder: Path, run: Run) -> None:
    found = panels_of(folder, with_steps(run), None)
    assert [name for name, _, _ in found.steps] == ["first", "second"]
    assert found.steps[0][2] == found.steps[1][1]


def test_limits_stand_beside_the_curves(folder: Path, run: Run) -> None:
    free = panels_of(folder, run, None)
    link = free.panels[3].title.removeprefix("Network ")
    stated = Limits(network_bytes_per_s={link: 5e6})
    limit = panels_of(folder, run, None, limits=stated).panels[3].limit
    assert limit is not None
    assert (limit.value, limit.source) == (5e6, "stated")


def test_what_was_set_for_a_run_wins_over_what_is_stated(folder: Path, run: Run) -> None:
    limit = {"interface": "lo", "rate_bytes_per_s": 2e6, "bucket_bytes": 131072}
    limited = run.model_copy(update={"hooks": {**run.hooks, "network-limit": limit}})
    stated = Limits(network_bytes_per_s={"lo": 9e6, "eth0": 8e6}, source="stated by --limit")
    found = with_set(stated, limited)
    assert found.network_bytes_per_s == {"lo": 2e6, "eth0": 8e6}
    assert (found.source_of("lo"), found.source_of("eth0")) == ("set for the run by tc", "stated by --limit")
    # What a hook did not come to set is no limit.
    failed = run.model_copy(update={"hooks": {"network-limit": {"interface": "lo"}}})
    assert with_set(None, failed) == Limits()


def test_a_run_without_telemetry_or_measure_phase_says_so(tmp_path: Path) -> None:
    write_run(tmp_path / "run-1")
    run = read(Run, tmp_path / "run-1" / "run.json")
    assert panels_of(tmp_path / "run-1", run.model_copy(update={"phases": []}), None).missing == (
        "it has no measure phase"
    )
    (tmp_path / "run-1" / "telemetry").rename(tmp_path / "elsewhere")
    assert "telemetry" in (panels_of(tmp_path / "run-1", run, None).missing or "")
