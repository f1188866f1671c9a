"""Limits that hold for one group's processes are compared with what these did, not with what the disk did."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard import telemetry
from steelyard.analyze.conditions import Conditions, observe
from steelyard.analyze.pressure.disk_limits import GroupLimit, disk_limits, group_path
from steelyard.analyze.pressure.intensities import intensities
from steelyard.analyze.pressure.limits import Limits
from steelyard.analyze.pressure.panels import panels_of
from steelyard.records import Phase
from tests.report.runs import BEGIN, load_result, run_record
from tests.telemetry.recordings import SECOND, table_of, write_recording

TICKS = 10
MB = 10**6
FOLDER = "/sys/fs/cgroup/blkio/ours/steelyard-run-1"
LIMIT = {"device": "sda", "rate_bytes_per_s": 2.0 * MB, "cgroup": FOLDER}
GROUPS = {
    # Version 1 counts the whole machine in the root; a group of the same name is below another one.
    "/": (90 * MB, 45 * MB),
    "/ours/steelyard-run-1": (1.5 * MB, 0.5 * MB),
    "/steelyard-run-1": (40 * MB, 40 * MB),
}
DISKS = {"sda": (80 * MB, 40 * MB), "sdb": (10 * MB, 5 * MB)}


def rows(label: str, columns: tuple[str, str], rates: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    return [
        {"time_ns": BEGIN + tick * SECOND, label: name}
        | {column: int(tick * rate) for column, rate in zip(columns, pair, strict=True)}
        for tick in range(TICKS + 1)
        for name, pair in rates.items()
    ]


def record(
    folder: Path,
    groups: dict[str, tuple[float, float]] | None = None,
    disks: dict[str, tuple[float, float]] | None = None,
) -> None:
    tables = {"disk": rows("device", ("read_bytes", "written_bytes"), DISKS if disks is None else disks)}
    if groups is not None:
        tables["cgroup"] = rows("path", ("io_read_bytes", "io_written_bytes"), groups)
    write_recording(folder, {name: table_of(name, each) for name, each in tables.items()})


def seen(
    folder: Path,
    groups: dict[str, tuple[float, float]] | None = None,
    limit: object = LIMIT,
    around: tuple[GroupLimit, ...] = (),
    disks: dict[str, tuple[float, float]] | None = None,
) -> Conditions:
    record(folder, groups, disks)
    run = run_record(load_result(), folder).model_copy(update={"hooks": {"disk-limit": limit}})
    with telemetry.open(folder) as recording:
        return observe(recording, BEGIN, BEGIN + TICKS * SECOND, run=run, set_around=around)


def test_others_on_the_disk_are_no_pressure_of_the_limited(tmp_path: Path) -> None:
    (disk,) = seen(tmp_path, GROUPS).limited_disks
    assert disk.read_bytes_per_s.value == pytest.approx(1.5 * MB)
    assert disk.written_bytes_per_s.value == pytest.approx(0.5 * MB)
    # Reads and writes have their limits each.
    assert disk.used_ratio.value == pytest.approx(0.75)
    quiet = {**GROUPS, "/ours/steelyard-run-1": (0.0, 0.02 * MB)}
    found = intensities(seen(tmp_path / "quiet", quiet), None).disk_bandwidth
    assert found.ratio == pytest.approx(0.01)
    assert not found.is_pressure_point
    assert found.limit == "2 MB/s set for the run by blkio"
    assert found.evidence == "sda: the run's processes read 0 B/s and wrote 20 kB/s"


def test_the_disk_itself_may_be_nearer_to_its_own_limit(tmp_path: Path) -> None:
    stated = Limits(disk_bytes_per_s={"sda": 130e6}, source="stated by --limit")
    found = intensities(seen(tmp_path, GROUPS), None, limits=stated).disk_bandwidth
    assert found.ratio == pytest.approx(120 / 130)
    assert found.limit == "130 MB/s stated by --limit"


def test_what_other_disks_moved_for_the_group_does_not_count(tmp_path: Path) -> None:
    # All of it was on another disk: the limited one stood still.
    idle = {"sda": (0.0, 0.0), "sdb": (1.5 * MB, 0.5 * MB)}
    (disk,) = seen(tmp_path, GROUPS, disks=idle).limited_disks
    assert disk.used_ratio.value == 0


@pytest.mark.parametrize(
    ("groups", "limit", "why"),
    [
        (None, LIMIT, "this source was not recorded"),
        ({"/": (9.0, 9.0)}, LIMIT, "what the limited processes read and wrote was not recorded"),
        (GROUPS, {**LIMIT, "cgroup": None}, "what the limited processes read and wrote was not recorded"),
    ],
)
def test_without_the_groups_counters_nothing_is_compared(
    tmp_path: Path, groups: dict[str, tuple[float, float]] | None, limit: object, why: str
) -> None:
    stated = Limits(disk_bytes_per_s={"sda": 1e9})
    found = intensities(seen(tmp_path, groups, limit), None, limits=stated).disk_bandwidth
    # The disk's own 12 % would say that it had much left.
    assert (found.ratio, found.reason) == (None, why)
    assert found.limit == "2 MB/s set for the run by blkio"
    pressed = intensities(
        seen(tmp_path / "again", groups, limit), None, limits=Limits(disk_bytes_per_s={"sda": 125e6})
    ).disk_bandwidth
    assert pressed.ratio == pytest.approx(0.96)


@pytest.mark.parametrize("limit", [None, "failed", {}, {"device": "sda"}, {**LIMIT, "rate_bytes_per_s": 0}])
def test_what_a_hook_did_not_come_to_set_is_no_limit(limit: object) -> None:
    run = run_record(load_result(), Path("x")).model_copy(update={"hooks": {"disk-limit": limit}})
    assert disk_limits(run) == []


def test_a_limit_set_around_several_runs_holds_for_each(tmp_path: Path) -> None:
    around = GroupLimit("sda", 4e6, FOLDER, "set for all runs")
    (disk,) = seen(tmp_path, GROUPS, None, (around,)).limited_disks
    assert disk.used_ratio.value == pytest.approx(1.5 / 4)


def test_groups_are_found_in_either_version() -> None:
    recorded = ["/", "/steelyard-1", "/user.slice/a/steelyard-1"]
    assert group_path("/sys/fs/cgroup/user.slice/a/steelyard-1", recorded) == "/user.slice/a/steelyard-1"
    assert group_path("/sys/fs/cgroup/blkio/steelyard-1", recorded) == "/steelyard-1"
    assert group_path("/sys/fs/cgroup/steelyard-12", recorded) is None
    assert group_path("/sys/fs/cgroup", recorded) is None


def test_the_panel_draws_what_the_limit_held_for(tmp_path: Path) -> None:
    record(tmp_path, GROUPS)
    end_ns = BEGIN + TICKS * SECOND
    run = run_record(load_result(), tmp_path).model_copy(
        update={
            "hooks": {"disk-limit": LIMIT},
            "phases": [Phase(name="measure", begin_ns=BEGIN, end_ns=end_ns)],
        }
    )
    panel = panels_of(tmp_path, run, None).panels[2]
    assert panel.title == "Disk sda, the run's processes"
    assert panel.limit is not None
    assert (panel.limit.value, panel.limit.source) == (2 * MB, "set for the run by blkio")
    read, written = (np.nanmean(curve.values) for curve in panel.curves)
    assert (read, written) == (pytest.approx(1.5 * MB), pytest.approx(0.5 * MB))
    free = panels_of(tmp_path, run.model_copy(update={"hooks": {}}), None).panels[2]
    assert free.title == "Disk sda"
