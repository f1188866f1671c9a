"""Raw telemetry of a run, and what is derived from it.

In: a directory with ``telemetry.json`` and one ``<source>.parquet`` per source (or, when the recorder was
killed, the ``<source>.arrows`` streams it left). Out: rates of counters and figures of gauges over a phase,
and time series thinned for drawing.

Invariants: every query is one Ibis expression, so that another engine can run it; an interval in which a
counter fell is missing, never negative; what is missing is ``None`` with a reason, never 0; an interval
belongs to a phase only when both of its readings do.

Not here: recording (``steelyard-probe``), judging (``analyze``), drawing (``report``).
"""

from steelyard.telemetry.rates import EntityRates, Gauge, Rate, Rates
from steelyard.telemetry.recording import Recording, open_recording
from steelyard.telemetry.series import Band, EntitySeries, Series

open = open_recording  # noqa: A001 - read as `telemetry.open`
"""Opens a run directory or a telemetry directory; see `open_recording`."""

__all__ = [
    "Band",
    "EntityRates",
    "EntitySeries",
    "Gauge",
    "Rate",
    "Rates",
    "Recording",
    "Series",
    "open",
    "open_recording",
]
