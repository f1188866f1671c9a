"""Where jobs press, against sums by hand and the published matrix's kinds; what is missing is said."""

import pytest

from steelyard._base import ResultSaysNoError
from steelyard.analyze.pressure.intensities import THRESHOLDS
from steelyard.fleet.pressure import RESOURCES, pressure
from steelyard.fleet.store.store import open_store
from tests.fleet.arrow_tables import MIDNIGHT, Fleet
from tests.fleet.simulated import simulated_store

MACHINE = {
    "threads": 8,
    "memory_bytes": 1000,
    "memory_bandwidth_limit_bytes_per_s": 6400.0,
    "disk_limit_bytes_per_s": 100.0,
    "network_limit_bytes_per_s": 1000.0,
}


def _task(**columns):
    return {"window_s": 10.0, "cpu_s": 8.0, "memory_bytes": 100.0, **columns}


def _pressure(fleet, **options):
    return pressure(
        *(fleet.table(name) for name in ("task_samples", "machine_samples", "machines")), **options
    )


def test_shares_are_of_all_tasks_of_a_job_on_a_machine():
    tasks = [
        _task(task="a/0", llc_misses=100, storage_bytes=200.0, network_bytes=1000.0),
        _task(task="a/1", llc_misses=300, storage_bytes=100.0, network_bytes=None),
        _task(task="a/0", window_start_unix_s=MIDNIGHT + 60, cpu_s=48.0, memory_bytes=None),
        _task(task="b/0", job="other", cpu_s=72.0),
    ]
    samples = [
        {"threads": 8, "window_s": 60.0, "cpu_s": 60.0 * 8 * 0.9},
        {"threads": 8, "window_s": 60.0, "cpu_s": 60.0, "window_start_unix_s": MIDNIGHT + 60},
    ]
    fleet = Fleet().put("task_samples", tasks).put("machine_samples", samples).put("machines", [MACHINE])
    jobs = {job.job: job for job in _pressure(fleet)}
    uses = jobs["search"].resources
    # Minute one: 1.6 of 8 CPUs by two tasks; minute two: 4.8 of 8.
    assert uses["cpu"].mean_ratio == pytest.approx((0.2 + 0.6) / 2)
    assert uses["cpu"].max_ratio == pytest.approx(0.6)
    assert uses["cpu"].fits == pytest.approx(THRESHOLDS["cpu"] / 0.4)
    assert uses["cpu"].machine_past_threshold_ratio == pytest.approx(0.5), (
        "the machine was busy in one of its two minutes"
    )
    assert uses["dram_capacity"].mean_ratio == pytest.approx(0.2), (
        "the minute without a figure does not count"
    )
    assert uses["dram_bandwidth"].mean_ratio == pytest.approx(400 * 64 / 10 / 6400)
    assert uses["disk_bandwidth"].mean_ratio == pytest.approx(300 / 10 / 100)
    assert uses["network"].mean_ratio == pytest.approx(0.1)
    assert uses["network"].machine_past_threshold_ratio is None
    # CPU fits 1.9 times, memory bandwidth 1.75, disk 2.3: all within a quarter but the disk.
    assert jobs["search"].pressure_points == ("cpu", "dram_bandwidth")
    assert jobs["search"].tasks_per_machine == pytest.approx(1.5)
    assert jobs["other"].pressure_points == ("cpu",)


def test_missing_is_said_and_never_zero():
    bare = {"threads": 8, "memory_bytes": 1000}
    fleet = Fleet().put("task_samples", [_task()]).put("machines", [bare])
    (job,) = _pressure(fleet)
    uses = job.resources
    assert uses["disk_bandwidth"].mean_ratio is None
    assert uses["disk_bandwidth"].missing == "disk: no disk_limit_bytes_per_s of its machines"
    assert uses["dram_bandwidth"].fits is None
    assert uses["cpu"].missing == ""
    fleet = Fleet().put("task_samples", [_task()]).put("machines", [MACHINE])
    (job,) = _pressure(fleet)
    assert job.resources["network"].missing == "network: tasks have no network_bytes"
    with pytest.raises(ResultSaysNoError, match="no samples of tasks"):
        _pressure(Fleet())


def test_the_newest_look_at_a_machine_counts_and_none_leaves_it_unknown():
    looks = [{**MACHINE, "threads": 4}, {**MACHINE, "threads": 16, "seen_unix_s": MIDNIGHT + 9}]
    tasks = [_task(), _task(machine="m1", job="lost")]
    jobs = {job.job: job for job in _pressure(Fleet().put("task_samples", tasks).put("machines", looks))}
    assert jobs["search"].mean("cpu") == pytest.approx(0.8 / 16)
    assert jobs["lost"].mean("cpu") is None
    assert jobs["lost"].pressure_points == ()


def test_simulated_jobs_press_where_their_kind_does():
    # As the paper's matrix: a cache on DRAM capacity and network, a row store on the disk, search on CPU.
    with open_store(str(simulated_store())) as source:
        jobs = pressure(*(source.table(n) for n in ("task_samples", "machine_samples", "machines")))
    points = {job.job: job.pressure_points for job in jobs}
    assert set(points["cache-tier"]) == {"dram_capacity", "network"}
    assert points["row-store"] == ("disk_bandwidth",)
    assert points["search-leaf"] == ("cpu",)
    assert "dram_bandwidth" in points["model-train"]
    assert all(0 < use.mean_ratio < 1 for job in jobs for use in job.resources.values())
    assert len(jobs[0].resources) == len(RESOURCES)
