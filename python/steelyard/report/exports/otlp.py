"""The metrics of runs in OTLP/JSON, as the OpenTelemetry Collector's file exporter writes and reads them.

In: runs. Out: text, a line a run, each a ``MetricsData`` message in the JSON encoding of OTLP: names in lower
camel case, 64-bit numbers as text. The resource is the benchmark on its host, by the semantic conventions for
services, hosts and operating systems. Units are UCUM's. A metric without a value is a data point with the
flag ``NO_RECORDED_VALUE`` and its reason as the attribute ``steelyard.missing``.

Sources: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding and
https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from steelyard import __version__
from steelyard.records import Metric
from steelyard.report.exports.runs import ExportedRun
from steelyard.report.metrics import metric_name

_UCUM = {
    "bits/s": "bit/s",
    "bytes": "By",
    "bytes/s": "By/s",
    "celsius": "Cel",
    "count": "1",
    "day": "d",
    "hz": "Hz",
    "joule": "J",
    "1/joule": "1/J",
    "microjoule": "uJ",
    "microwatt": "uW",
    "millicelsius": "mCel",
    "pages": "{page}",
    "pages/s": "{page}/s",
    "ratio": "1",
    "transfers/s": "{transfer}/s",
    "w": "W",
}
"""Units of records that UCUM writes otherwise."""
_NO_RECORDED_VALUE = 1


def otlp_lines(runs: Iterable[ExportedRun]) -> str:
    """Return the metrics of ``runs``, a line each."""
    return "".join(f"{json.dumps(_message(one), separators=(',', ':'), allow_nan=False)}\n" for one in runs)


def _message(one: ExportedRun) -> dict[str, Any]:
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": _attributes(_resource(one))},
                "scopeMetrics": [
                    {
                        "scope": {"name": "steelyard", "version": __version__},
                        "metrics": [_metric(one, name, metric) for name, metric in one.metrics.items()],
                    }
                ],
            }
        ]
    }


def _resource(one: ExportedRun) -> dict[str, str | int]:
    run, machine = one.run, one.machine
    found: dict[str, str | int | None] = {
        "service.name": run.benchmark,
        "service.namespace": "steelyard",
        "service.instance.id": run.run_id,
        "host.name": one.host or None,
        "steelyard.version": run.steelyard_version,
    }
    if machine is not None:
        found |= {
            "host.arch": _architecture(machine.cpu.architecture),
            "host.cpu.model.name": machine.cpu.model,
            "host.cpu.vendor.id": machine.cpu.vendor,
            "steelyard.host.logical_cpus": machine.cpu.logical_cpus,
            "os.type": "linux",
            "os.description": machine.distribution,
            "os.version": machine.kernel.release,
        }
    return {name: value for name, value in found.items() if value is not None}


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64"}
"""Words of the kernel that the conventions for ``host.arch`` replace."""


def _architecture(name: str | None) -> str | None:
    return name if name is None else _ARCHITECTURES.get(name, name)


def _metric(one: ExportedRun, name: str, metric: Metric) -> dict[str, Any]:
    attributes: dict[str, str | int] = {
        "steelyard.benchmark": one.run.benchmark,
        "steelyard.tier": one.run.tier,
        "steelyard.repeat": one.run.series.index,
    }
    if one.verdict:
        attributes["steelyard.verdict"] = one.verdict
    if metric.better is not None:
        attributes["steelyard.better"] = metric.better
    point: dict[str, Any] = {"startTimeUnixNano": str(one.begin_ns), "timeUnixNano": str(one.end_ns)}
    if metric.value is None:
        attributes["steelyard.missing"] = metric.missing or "no reason was given"
        point["flags"] = _NO_RECORDED_VALUE
    else:
        point["asDouble"] = metric.value
    return {
        "name": f"steelyard.{name}",
        "description": metric_name(name, one.run.benchmark),
        "unit": _UCUM.get(metric.unit, metric.unit),
        "gauge": {"dataPoints": [{**point, "attributes": _attributes(attributes)}]},
    }


def _attributes(values: Mapping[str, str | int]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in values.items()
    ]
