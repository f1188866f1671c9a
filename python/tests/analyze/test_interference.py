"""What disturbed a run, against the shares that the recordings were built from."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard import telemetry
from steelyard.analyze.interference import Interference, observe
from tests.telemetry.recordings import SECOND, table_of, write_recording

BEGIN = 1_000 * SECOND
SPAN = (BEGIN, BEGIN + 10 * SECOND)


def cpu(shares: dict[str, float], cpus: int = 2) -> list[dict[str, object]]:
    modes = ("user", "nice", "system", "irq", "softirq", "steal", "iowait", "idle", "guest", "guest_nice")
    return [
        {"time_ns": BEGIN + tick * SECOND, "cpu": number}
        | {f"{mode}_ns": int(tick * SECOND * shares.get(mode, 0.0)) for mode in modes}
        for tick in range(11)
        for number in range(cpus)
    ]


def found_in(folder: Path, tables: dict[str, list[dict[str, object]]], **given: object) -> Interference:
    write_recording(folder, {name: table_of(name, rows) for name, rows in tables.items()})
    arguments: dict[str, object] = {
        "cpus": [0, 1],
        "own_cpu_s": 12.0,
        "own_commands": ["steelyard-cache"],
        **given,
    }
    with telemetry.open(folder) as recording:
        return observe(recording, *SPAN, **arguments)  # type: ignore[arg-type]


SHARES = {"user": 0.3, "system": 0.35, "softirq": 0.15, "irq": 0.05, "steal": 0.04, "idle": 0.11}


@pytest.mark.parametrize(
    ("together", "foreign"),
    # Own work takes 12 s of 20 CPU seconds. Where interrupts are in it, they are in what it is taken from.
    [(True, 0.85 - 0.6), (False, 0.65 - 0.6), (None, 0.65 - 0.6)],
)
def test_foreign_load_is_what_is_busy_beyond_the_runs_own_work(
    together: bool | None, foreign: float, tmp_path: Path
) -> None:
    found = found_in(tmp_path, {"cpu": cpu(SHARES)}, interrupts_in_process_time=together)
    assert found.foreign_ratio == pytest.approx(foreign)
    assert found.steal_ratio == pytest.approx(0.04)


def test_ticks_that_were_missed_hide_no_foreign_load(tmp_path: Path) -> None:
    # A tenth of the time is in no mode; of what is, 70 % was busy, and 12 s of 20 are own work.
    missed = {"user": 0.5, "system": 0.13, "idle": 0.27}
    found = found_in(tmp_path, {"cpu": cpu(missed)}, server_cpus=[0])
    assert found.foreign_ratio == pytest.approx(0.7 - 0.6)
    assert found.server_busy_ratio == pytest.approx(0.7)


def test_own_work_beyond_what_was_busy_leaves_no_foreign_load(tmp_path: Path) -> None:
    assert found_in(tmp_path, {"cpu": cpu(SHARES)}, own_cpu_s=19.0).foreign_ratio == 0.0


def test_what_is_not_known_is_none_with_a_reason(tmp_path: Path) -> None:
    found = found_in(tmp_path / "own", {"cpu": cpu(SHARES)}, own_cpu_s=None)
    assert (found.foreign_ratio, found.steal_ratio) == (None, pytest.approx(0.04))
    assert "own processes" in found.reasons["foreign"]
    found = found_in(tmp_path / "none", {"cpu": cpu(SHARES)}, cpus=[7])
    assert (found.foreign_ratio, found.steal_ratio) == (None, None)
    assert found.reasons["cpu"]


def test_how_busy_the_servers_cpus_were_counts_everything_but_idleness(tmp_path: Path) -> None:
    found = found_in(tmp_path / "server", {"cpu": cpu(SHARES)}, server_cpus=[0])
    assert found.server_busy_ratio == pytest.approx(0.89)
    assert found_in(tmp_path / "none", {"cpu": cpu(SHARES)}).server_busy_ratio is None


def test_other_cpus_are_not_counted(tmp_path: Path) -> None:
    rows = cpu({"user": 1.0}, cpus=4)
    quiet = [row | {"user_ns": 0} if row["cpu"] in (0, 1) else row for row in rows]
    assert found_in(tmp_path, {"cpu": quiet}, own_cpu_s=0.0).foreign_ratio == 0.0


def processes(*shares: tuple[str, float, int]) -> list[dict[str, object]]:
    """Rows of processes: command, CPUs in the kernel, resident bytes."""
    return [
        {"time_ns": BEGIN + tick * SECOND, "pid": pid, "start_ticks": 1, "command": command, "threads": 1}
        | {"user_ns": 0, "system_ns": int(tick * SECOND * share), "rss_bytes": resident}
        | {"minor_faults": 0, "major_faults": 0}
        for tick in range(11)
        for pid, (command, share, resident) in enumerate(shares, start=10)
    ]


WORKERS = (("kworker/1:1H-kblockd", 0.2, 0), ("kworker/0:0H+kblockd", 0.1, 0), ("rival", 0.1, 4096))


def test_kernel_threads_are_no_other_processes(tmp_path: Path) -> None:
    """A program that writes has its bytes written by them."""
    found = found_in(tmp_path, {"cpu": cpu(SHARES), "process": processes(*WORKERS)}, own_cpu_s=8.0)
    # Of 2 CPUs 0.65 is busy, 0.4 is the run's and 0.15 is that of kernel threads.
    assert found.kernel_ratio == pytest.approx(0.15)
    assert found.foreign_ratio == pytest.approx(0.65 - 0.4 - 0.15)
    assert found.foreign_commands == ("rival",)
    claim = "other processes used 10.0% of the CPU time of the run, mostly rival (kernel threads: 15.0%)"
    assert found.foreign_claim(names=True) == claim


def test_kernel_threads_are_named_where_they_may_have_run_on_other_cpus(tmp_path: Path) -> None:
    tables = {"cpu": cpu(SHARES, cpus=4), "process": processes(*WORKERS)}
    found = found_in(tmp_path, tables, own_cpu_s=8.0)
    assert (found.kernel_ratio, found.foreign_ratio) == (0.0, pytest.approx(0.65 - 0.4))
    assert found.foreign_commands == ("kworker", "rival")
