"""Specs as the store keeps them, for agents to pull.

In: specs. Out: a file of the table ``cpi_specs``. Only specs with a threshold are written: an agent that
finds none for a job leaves it alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from steelyard.fleet.cpi.specs import Spec

_CLUSTER, _WRITER = "all", "fleet-cpi-specs"


def write_specs(url: str, specs: Sequence[Spec], *, built_unix_s: int) -> str | None:
    """Write the usable ones of ``specs`` into the store; return the file's path, None without any."""
    import pyarrow as pa

    from steelyard.fleet.store.schema import TABLES
    from steelyard.fleet.store.store import write_rows

    rows = [_row(spec, built_unix_s) for spec in specs if spec.is_usable and spec.cpi_source is not None]
    if not rows:
        return None
    date = datetime.fromtimestamp(built_unix_s, tz=UTC).strftime("%Y-%m-%d")
    table = pa.Table.from_pylist(rows, schema=TABLES["cpi_specs"].arrow)
    return write_rows(url, "cpi_specs", table, cluster=_CLUSTER, date=date, machine=_WRITER)


def _row(spec: Spec, built_unix_s: int) -> dict[str, Any]:
    gev = spec.gev
    return {
        "job": spec.job,
        "platform": spec.platform,
        "built_unix_s": built_unix_s,
        "cpi_source": spec.cpi_source,
        "samples": spec.samples,
        "tasks": spec.tasks,
        "cpu_usage_mean": spec.cpu_usage_mean,
        "cpi_mean": spec.cpi_mean,
        "cpi_sd": spec.cpi_sd,
        "gev_shape": gev.shape if gev else None,
        "gev_location": gev.location if gev else None,
        "gev_scale": gev.scale if gev else None,
        "threshold_sigmas": spec.threshold_sigmas,
        "threshold_cpi": spec.threshold_cpi,
    }
