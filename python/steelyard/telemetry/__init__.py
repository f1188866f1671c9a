"""Raw telemetry of a run, and what is derived from it.

In: a directory with ``telemetry.json`` and one ``<source>.parquet`` per source (or, when the recorder was
killed, the ``<source>.arrows`` streams it left). Out: rates of counters and figures of gauges over a phase,
and time series thinned for drawing.

Invariants: every query is one Ibis expression, compiled once for all runs; an interval in which a
counter fell is missing, never negative; what is missing is ``None`` with a reason, never 0; an interval
belongs to a phase only when both of its readings do.

Not here: recording (``steelyard-probe``), judging (``analyze``), drawing (``report``).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.telemetry.rates import EntityRates, Gauge, Rate, Rates
    from steelyard.telemetry.recording import Recording, open_recording
    from steelyard.telemetry.recording import open_recording as open  # noqa: A004 - read as `telemetry.open`
    from steelyard.telemetry.series import Band, EntitySeries, Series

_HOMES = {
    **dict.fromkeys(("EntityRates", "Gauge", "Rate", "Rates"), "rates"),
    **dict.fromkeys(("Recording", "open_recording"), "recording"),
    **dict.fromkeys(("Band", "EntitySeries", "Series"), "series"),
}
"""Which module a name is from: these load Ibis, which who wants only ``engine`` need not wait for."""

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


def __getattr__(name: str) -> Any:
    attribute = "open_recording" if name == "open" else name
    if attribute not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[attribute]}"), attribute)
