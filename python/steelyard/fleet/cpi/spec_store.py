"""Specs as the store keeps them: rows for queries, and a record for each platform, which agents pull.

In: specs. Out: a file of the table ``cpi_specs``, and ``published/cpi_specs/cluster=all/platform=NAME.json``.
Only specs with a threshold are written: an agent that finds none for a job leaves it alone.

Invariants: a published file is there whole or as it was; of each job and source it has the newest spec, and
none that is `KEPT_S` older than the newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from steelyard.fleet.cpi.specs import Spec
from steelyard.records import CpiSpec, CpiSpecs, parse

KEPT_S = 14 * 86_400
"""How much older than the newest a published spec may be, seconds: jobs that ran two weeks ago come back."""
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
    path = write_rows(url, "cpi_specs", table, cluster=_CLUSTER, date=date, machine=_WRITER)
    publish(url, rows)
    return path


def publish(url: str, rows: Sequence[Mapping[str, Any]], *, cluster: str = _CLUSTER) -> list[str]:
    """Add ``rows`` of ``cpi_specs`` to what agents of ``cluster`` pull; return the paths of the files.

    Raises RecordError where a file that is there is none of specs.
    """
    from steelyard.fleet.store.files import Place
    from steelyard.fleet.store.layout import encode

    place, paths = Place(url), []
    for platform in sorted({row["platform"] for row in rows}):
        path = f"published/cpi_specs/cluster={encode(cluster)}/platform={encode(platform)}.json"
        specs = parse(CpiSpecs, place.read(path), where=path).specs if place.exists(path) else []
        fields = CpiSpec.model_fields
        specs += [
            CpiSpec(**{name: row[name] for name in fields}) for row in rows if row["platform"] == platform
        ]
        newest = {
            (spec.job, spec.cpi_source): spec for spec in sorted(specs, key=lambda spec: spec.built_unix_s)
        }
        since = max(spec.built_unix_s for spec in specs) - KEPT_S
        kept = [spec for _, spec in sorted(newest.items()) if spec.built_unix_s >= since]
        place.write(path, CpiSpecs(platform=platform, specs=kept).model_dump_json().encode())
        paths.append(path)
    return paths


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
