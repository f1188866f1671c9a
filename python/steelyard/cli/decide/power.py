"""The power of a run's machine, as the run recorded it.

In: the folder of a run. Out: mean power of its processor packages in the measure phase, W. Not here: budgeted
power and TDP, which are stated in tables.
"""

from __future__ import annotations

from pathlib import Path

_ENERGY = Path("telemetry") / "power.parquet"


def power_of(folder: Path) -> float | None:
    """Return the mean power of the processors, None where no energy was counted."""
    if not (folder / _ENERGY).exists():
        return None
    # A query engine is loaded where there is something to ask.
    from steelyard.analyze.operations.power import package_power
    from steelyard.report.model import gather

    data = gather(folder)
    try:
        return package_power(data.conditions.power).value
    finally:
        data.close()
