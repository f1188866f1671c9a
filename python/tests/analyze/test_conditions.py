"""What `observe` derives, against figures that the recordings were built from."""

from pathlib import Path

import pytest

from steelyard import telemetry
from steelyard.analyze import Conditions, observe
from steelyard.analyze.facts.cpus import KERNEL_MODES
from steelyard.records import Interface, Machine
from tests.report.runs import BEGIN, MEASURE_S, WARMUP_S, cache_lines, load_result, machine_record, run_record
from tests.telemetry.recordings import SECOND, table_of, write_recording

SPAN = (BEGIN, BEGIN + 10 * SECOND)


def conditions_of(folder: Path, tables: dict[str, list[dict[str, object]]], **given: object) -> Conditions:
    write_recording(folder, {name: table_of(name, rows) for name, rows in tables.items()})
    machine = given.pop("machine", None)
    assert machine is None or isinstance(machine, Machine)
    run = run_record(load_result(), folder, cpus=int(str(given.pop("cpus", 2))))
    with telemetry.open(folder) as recording:
        return observe(recording, *SPAN, run=run, machine=machine)


def cpu_rows(shares: dict[str, float], cpus: int = 2) -> list[dict[str, object]]:
    return [
        {"time_ns": BEGIN + tick * SECOND, "cpu": cpu}
        | {f"{mode}_ns": int(tick * SECOND * share) for mode, share in shares.items()}
        for tick in range(11)
        for cpu in range(cpus)
    ]


def test_cpu_shares_are_the_rates_over_their_sum(tmp_path: Path) -> None:
    shares = {
        "user": 0.2,
        "nice": 0.05,
        "system": 0.3,
        "irq": 0.01,
        "softirq": 0.14,
        "steal": 0.02,
        "iowait": 0.03,
    }
    found = conditions_of(tmp_path, {"cpu": cpu_rows({**shares, "idle": 0.25, "guest": 0.2})})
    use = found.cpus.server.use
    assert use is not None
    assert sum(use.modes.values()) == pytest.approx(1)
    assert use.modes == pytest.approx({**shares, "idle": 0.25})
    assert use.busy_ratio == pytest.approx(0.72)
    assert use.kernel_ratio == pytest.approx(sum(shares[mode] for mode in KERNEL_MODES) / 0.72)
    assert (found.cpus.server.cpus, found.cpus.load.cpus, found.cpus.shared) == ((0,), (1,), ())


def test_a_set_without_any_read_cpu_is_missing(tmp_path: Path) -> None:
    found = conditions_of(tmp_path, {"cpu": cpu_rows({"idle": 1.0}, cpus=1)}, cpus=2)
    assert found.cpus.load.use is None
    assert found.cpus.load.missing
    assert found.cpus.server.use is not None


def network_rows() -> list[dict[str, object]]:
    return [
        {
            "time_ns": BEGIN + tick * SECOND,
            "interface": name,
            "received_bytes": tick * 10**8,
            "sent_bytes": tick * 5 * 10**7,
            "received_packets": tick,
            "sent_packets": tick,
            "received_drops": tick * 2,
            "received_errors": 0,
            "sent_errors": tick,
            "sent_drops": 0,
        }
        for tick in range(11)
        for name in ("eth0", "lo")
    ]


def test_network_is_held_against_the_line_rate_and_loopback_has_none(tmp_path: Path) -> None:
    machine = machine_record(2).model_copy(
        update={"interfaces": [Interface(name="eth0", speed_bits_per_s=10**9), Interface(name="lo")]}
    )
    eth0, loopback = conditions_of(tmp_path, {"network": network_rows()}, machine=machine).network
    assert eth0.line_ratio.value == pytest.approx(0.8)
    assert eth0.lost_per_s.value == pytest.approx(3)
    assert loopback.line_ratio.value is None
    assert "loopback" in (loopback.line_ratio.missing or "")


def test_waits_pressure_and_power_have_their_units(tmp_path: Path) -> None:
    ticks = range(11)
    found = conditions_of(
        tmp_path,
        {
            "schedstat": [
                {
                    "time_ns": BEGIN + t * SECOND,
                    "cpu": c,
                    "run_ns": 0,
                    "wait_ns": t * SECOND // 2,
                    "timeslices": t,
                }
                for t in ticks
                for c in range(2)
            ],
            "pressure": [
                {"time_ns": BEGIN + t * SECOND, "resource": "io", "some_ns": t * SECOND // 4, "full_ns": 0}
                for t in ticks
            ],
            "power": [
                {
                    "time_ns": BEGIN + t * SECOND,
                    "domain": d,
                    "energy_uj": t * 35_000_000 if d == "p0" else None,
                    "power_uw": None if d == "p0" else 12_000_000,
                    "energy_max_uj": 10**12,
                }
                for t in ticks
                for d in ("p0", "chip")
            ],
        },
    )
    assert found.scheduler.waiting_per_cpu.value == pytest.approx(0.5)
    assert found.pressure["io"].some_ratio.value == pytest.approx(0.25)
    assert {name: power.value for name, power in found.power.watts.items()} == pytest.approx(
        {"p0": 35.0, "chip": 12.0}
    )
    assert found.missing["cpu"] == "this source was not recorded"
    assert found.power.frequency_hz.missing == "this source was not recorded"


def test_a_disk_operation_takes_the_time_of_all_over_their_number(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {
            "time_ns": BEGIN + tick * SECOND,
            "device": name,
            "reads": tick * reads,
            "writes": tick * 100,
            "read_bytes": tick * reads * 4096,
            "written_bytes": 0,
            "read_time_ns": tick * reads * 9_000_000,
            "write_time_ns": tick * 100 * 1_000_000,
            "busy_ns": tick * SECOND // 2,
        }
        for tick in range(11)
        for name, reads in (("sda", 300), ("sdb", 0))
    ]
    sda, sdb = conditions_of(tmp_path, {"disk": rows}).disks
    assert sda.operation_ns.value == pytest.approx((300 * 9e6 + 100 * 1e6) / 400)
    assert sdb.operation_ns.value == pytest.approx(1e6)
    assert sda.busy_ratio.value == pytest.approx(0.5)


def test_without_a_recording_everything_is_missing_with_a_reason() -> None:
    load = load_result()
    begin, end = BEGIN + WARMUP_S * SECOND, BEGIN + (WARMUP_S + MEASURE_S) * SECOND
    run = run_record(load, Path("x"))
    found = observe(None, begin, end, run=run, load=load, cache_stats=cache_lines(load))
    assert found.cpus.all.missing
    assert found.scheduler.runnable.missing
    assert found.cache is not None
    assert found.cache.slow_wait_ns.value == pytest.approx(310_000)
    assert found.cache.slow_service_ns.value == pytest.approx(95_000)
    assert found.cache.hit_ratio.value == pytest.approx(0.9, abs=0.01)
    assert found.cache.thread_busy_ratio["fast"].value == pytest.approx(0.78)
    assert found.generator is not None
    assert found.generator.busy_max_ratio.value == 0.85


def test_a_restarted_server_gives_no_differences() -> None:
    load = load_result()
    lines = cache_lines(load)
    restarted = [
        *lines[:20],
        *[line.model_copy(update={"slow_wait_ns_total": 5, "evictions": 0}) for line in lines[20:]],
    ]
    found = observe(None, 0, 2**62, run=run_record(load, Path("x")), cache_stats=restarted)
    assert found.cache is not None
    assert found.cache.slow_wait_ns.value is None
    assert observe(None, 0, 1, run=run_record(load, Path("x")), cache_stats=lines).cache is None
