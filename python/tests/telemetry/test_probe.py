"""Recordings of the real recorder on this machine: whole, and killed in the middle."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from steelyard import telemetry
from steelyard._base import executable
from steelyard.telemetry.engine import fetch

FOREVER = (0, 2**62)


def test_a_real_recording_gives_rates_of_this_machine(tmp_path: Path) -> None:
    subprocess.run(
        [
            executable("steelyard-probe"),
            "record",
            "--interval",
            "20ms",
            "--count",
            "15",
            "--out",
            str(tmp_path / "t"),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    with telemetry.open(tmp_path / "t") as recording:
        assert recording.metadata.complete
        rates = recording.rates("cpu", *FOREVER)
        online = len(rates.entities)
        assert 1 <= online <= (os.cpu_count() or 1)
        modes = [name for name in rates.units if name.endswith("_ns") and "guest" not in name]
        spent = sum(rates.total(mode) or 0.0 for mode in modes)
        # Every CPU spends a second a second on something; its ticks make a short recording coarse.
        assert spent == pytest.approx(online * 1e9, rel=0.5)
        memory = recording.rates("memory", *FOREVER).only()
        assert memory is not None
        assert (memory.gauges["total_bytes"].mean or 0) > 1 << 26
        for source in recording.sources:
            derived = recording.rates(source, *FOREVER)
            assert derived.missing is None
            for entity in derived.entities:
                assert all(rate.per_s is None or rate.per_s >= 0 for rate in entity.rates.values()), source


def test_a_killed_recorder_leaves_a_readable_recording(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    process = subprocess.Popen(
        [
            executable("steelyard-probe"),
            "record",
            "--interval",
            "10ms",
            "--sources",
            "cpu,memory",
            "--out",
            str(folder),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 60
        # Twice the size of a first batch: something has been flushed for certain.
        while not (folder / "memory.arrows").is_file() or (folder / "memory.arrows").stat().st_size < 8192:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with telemetry.open(folder) as recording:
        assert not recording.metadata.complete
        for source in ("cpu", "memory"):
            assert recording.missing(source) is None
            assert fetch(recording.table(source).rows).num_rows >= 2
        rate = recording.rates("cpu", *FOREVER).entities[0].rates["idle_ns"]
        assert rate.per_s is None or rate.per_s >= 0
