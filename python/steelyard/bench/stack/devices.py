"""What the disks below a run's folders did in a phase, from telemetry.

In: a run's directory, folders of its servers, a phase. Out: metrics; unknown ones are None with the reason.

A device is shared with everything else on it: what others read and wrote counts too.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from steelyard._base import SteelyardError
from steelyard.bench.load.metrics import value
from steelyard.bench.stack.disks import device_of
from steelyard.records import Metric


def disk_metrics(run: Path, span: tuple[int, int], folders: Iterable[Path]) -> dict[str, Metric]:
    """Return bytes read and written, and the share of time with any operation, of the folders' devices."""
    devices = {device_of(folder) for folder in folders}
    if None in devices:
        missing = "a folder of the data is on no block device"
        return {name: value(None, unit, None, missing) for name, unit, _ in _COLUMNS}
    from steelyard import telemetry

    try:
        with telemetry.open(run) as recording:
            rates = recording.rates("disk", *span, [column for _, _, column in _COLUMNS])
    except SteelyardError as error:
        return {name: value(None, unit, None, error.message) for name, unit, _ in _COLUMNS}
    used = [entity for entity in rates.entities if entity.entity.get("device") in devices]
    missing = rates.missing or "telemetry has no reading of the device"
    totals = {column: rates.total(column, used) if used else None for _, _, column in _COLUMNS}
    busy = totals["busy_ns"]
    totals["busy_ns"] = None if busy is None else min(1.0, busy / 1e9 / len(devices))
    return {name: value(totals[column], unit, None, missing) for name, unit, column in _COLUMNS}


_COLUMNS = (
    ("disk_read_bytes_per_s", "bytes/s", "read_bytes"),
    ("disk_written_bytes_per_s", "bytes/s", "written_bytes"),
    ("disk_busy_ratio", "ratio", "busy_ns"),
)


def iowait_metric(run: Path, span: tuple[int, int], cpus: Sequence[int]) -> Metric:
    """Return the share of ``cpus``' time in which they were idle while a task on them waited for a disk."""
    from steelyard import telemetry

    try:
        with telemetry.open(run) as recording:
            rates = recording.rates("cpu", *span, ["iowait_ns"])
    except SteelyardError as error:
        return value(None, "ratio", None, error.message)
    used = [entity for entity in rates.entities if entity.entity.get("cpu") in set(cpus)]
    waited = rates.total("iowait_ns", used) if used else None
    ratio = None if waited is None else waited / 1e9 / len(used)
    return value(ratio, "ratio", None, rates.missing or "telemetry has no reading of the servers' CPUs")
