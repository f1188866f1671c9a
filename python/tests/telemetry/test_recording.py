"""Recordings open whole, killed, or with a reason for what they lack."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard import telemetry
from steelyard._base import RecordError, UsageError
from steelyard.telemetry.engine import fetch
from tests.telemetry.recordings import SECOND, table_of, write_recording


def ticks(count: int) -> list[dict[str, int]]:
    return [
        {"time_ns": (1000 + i) * SECOND, "context_switches": 100 * i, "forks": i, "runnable": i % 3}
        for i in range(count)
    ]


def test_a_run_directory_and_its_telemetry_folder_are_the_same_recording(tmp_path: Path) -> None:
    write_recording(tmp_path / "telemetry", {"scheduler": table_of("scheduler", ticks(5))})
    for path in (tmp_path, tmp_path / "telemetry"):
        with telemetry.open(path) as recording:
            only = recording.rates("scheduler", 0, 2**62).only()
            assert only is not None
            assert only.rates["context_switches"].per_s == 100.0
            assert only.gauges["runnable"].mean == pytest.approx(1.0 - 1 / 5)


def test_a_folder_without_a_recording_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no recording here"):
        telemetry.open(tmp_path)


def test_an_absent_source_has_the_recorders_reason(tmp_path: Path) -> None:
    write_recording(tmp_path, {}, absent={"power": "no /sys/class/powercap"})
    with telemetry.open(tmp_path) as recording:
        assert recording.missing("power") == "no /sys/class/powercap"
        assert recording.missing("nonsense") == "this source was not recorded"
        assert recording.rates("power", 0, 1).missing == "no /sys/class/powercap"
        assert recording.series("power", 0, 1).missing == "no /sys/class/powercap"
        with pytest.raises(UsageError, match="no power telemetry"):
            recording.table("power")


@pytest.mark.parametrize("cut", [0, 1, 100, 700])
def test_a_killed_recording_gives_every_complete_batch(tmp_path: Path, cut: int) -> None:
    write_recording(tmp_path, {"scheduler": table_of("scheduler", ticks(9))}, killed=True, splits=[3, 6])
    stream = tmp_path / "scheduler.arrows"
    whole = stream.read_bytes()
    stream.write_bytes(whole[: len(whole) - cut])
    with telemetry.open(tmp_path) as recording:
        rows = fetch(recording.table("scheduler").rows).num_rows
        # The end mark is 8 bytes; a cut beyond it eats into the last batch of three rows, never into others.
        assert rows == (9 if cut <= 8 else 6)


def test_a_batch_whose_offsets_lead_nowhere_is_left_out(tmp_path: Path) -> None:
    # An engine that follows such an offset ends the process with a segmentation fault.
    rows = [{"time_ns": (1000 + at) * SECOND, "device": "sda", "reads": at} for at in range(4)]
    write_recording(tmp_path, {"disk": table_of("disk", rows)}, killed=True, splits=[2])
    stream = tmp_path / "disk.arrows"
    offsets = struct.pack("<3i", 0, 3, 6)
    begin, batch, end = stream.read_bytes().rpartition(offsets)
    assert batch
    stream.write_bytes(begin + struct.pack("<3i", 0, 1 << 30, 6) + end)
    with telemetry.open(tmp_path) as recording:
        assert fetch(recording.table("disk").rows).num_rows == 2


def test_a_stream_cut_within_its_schema_is_missing_with_a_reason(tmp_path: Path) -> None:
    write_recording(tmp_path, {"scheduler": table_of("scheduler", ticks(3))}, killed=True)
    stream = tmp_path / "scheduler.arrows"
    stream.write_bytes(stream.read_bytes()[:20])
    with telemetry.open(tmp_path) as recording:
        assert "cut off" in (recording.missing("scheduler") or "")


def test_an_unfinished_parquet_beside_the_stream_is_not_trusted(tmp_path: Path) -> None:
    write_recording(tmp_path, {"scheduler": table_of("scheduler", ticks(4))}, killed=True)
    (tmp_path / "scheduler.parquet").write_bytes(b"PAR1 half a file")
    with telemetry.open(tmp_path) as recording:
        assert fetch(recording.table("scheduler").rows).num_rows == 4


def test_a_source_name_never_leads_out_of_the_folder(tmp_path: Path) -> None:
    write_recording(tmp_path / "outside", {"scheduler": table_of("scheduler", ticks(4))})
    inner = write_recording(tmp_path / "outside" / "inner", {"scheduler": table_of("scheduler", ticks(4))})
    manifest = inner / "telemetry.json"
    manifest.write_text(manifest.read_text().replace('"scheduler"', '"../scheduler"'))
    with telemetry.open(inner) as recording:
        assert recording.missing("../scheduler") is not None


def test_a_column_that_nothing_explains_is_refused(tmp_path: Path) -> None:
    table = table_of("scheduler", ticks(3))
    write_recording(tmp_path, {"scheduler": table})
    import pyarrow.parquet as pq

    bare = table.append_column("mystery", table.column("forks"))
    pq.write_table(bare, tmp_path / "scheduler.parquet")
    with telemetry.open(tmp_path) as recording, pytest.raises(RecordError, match="mystery"):
        recording.rates("scheduler", 0, 1)


def test_rates_are_worked_out_once_and_anew_when_the_file_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.telemetry import rates

    asked: list[str] = []
    compute = rates.compute

    def counted(source: str, *rest: object) -> rates.Rates:
        asked.append(source)
        return compute(source, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(rates, "compute", counted)
    write_recording(tmp_path, {"scheduler": table_of("scheduler", ticks(5))})
    for _ in range(2):
        with telemetry.open(tmp_path) as recording:
            first = recording.rates("scheduler", 0, 2**62)
            recording.rates("scheduler", 0, 2**62, ["forks"])
    assert asked == ["scheduler"] * 2
    write_recording(tmp_path, {"scheduler": table_of("scheduler", ticks(9))})
    with telemetry.open(tmp_path) as recording:
        again = recording.rates("scheduler", 0, 2**62)
    assert again.only() != first.only()
    assert asked == ["scheduler"] * 3


ANSWERS = """
import sys
from steelyard import telemetry
from steelyard.analyze.pressure.vmstat_histograms import vmstat_histograms
with telemetry.open(__import__("pathlib").Path(sys.argv[1])) as recording:
    span = int(sys.argv[2]), 2**62
    rates = recording.rates("scheduler", *span).only().rates["context_switches"]
    points = recording.series("scheduler", *span, points=4).entities[0].bands["context_switches"]
    readings = vmstat_histograms(recording, *span)[0].readings
    print(rates.increment, round(points.mean[0]), readings, {"ibis", "pandas"} & set(sys.modules))
"""


def test_what_was_asked_of_one_run_is_asked_of_the_next_without_ibis(tmp_path: Path) -> None:
    """Loading Ibis and compiling take longer than all else that a report or a short run's end does."""

    def ask(folder: Path, begin_ns: int) -> str:
        command = [sys.executable, "-c", ANSWERS, str(folder), str(begin_ns)]
        environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    # A name that a pattern of files would read otherwise.
    first, second = tmp_path / "run [1]*", tmp_path / "2"
    write_recording(first, {"scheduler": table_of("scheduler", ticks(5))})
    write_recording(second, {"scheduler": table_of("scheduler", ticks(9))})
    assert ask(first, 0).startswith("400 100 5 {'ibis'")
    assert ask(second, 1002 * SECOND) == "600 100 7 set()\n"
