"""The pressure point matrix in words and as JSON.

In: rows of ``analyze.pressure.matrix``. Out: what differs in words, a document. Not here: ``answer``.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from steelyard.analyze.pressure.intensities import Intensities
from steelyard.analyze.pressure.matrix import Difference, Row

PARTS = tuple(field.name for field in fields(Intensities))
RESOURCE_WORDS = {"cpu": "CPU", "dram": "memory", "disk": "disk", "network": "network"}


def difference_words(difference: Difference) -> str:
    """Return where a row and the paper's differ, and what was seen here."""
    claim = "only here" if difference.here else "only in the paper"
    return f"{RESOURCE_WORDS[difference.resource]} {claim}: {difference.why}"


def resources_text(names: Sequence[str]) -> str:
    """Return resources in words."""
    return ", ".join(RESOURCE_WORDS[name] for name in names) or "none"


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the matrix as ``--json`` shows it."""
    return {
        "rows": [
            {
                "benchmark": row.benchmark,
                "run_id": row.run_id,
                "missing": row.missing,
                "objections": list(row.objections),
                "pressure_points": list(row.resources),
                "published": None if row.published is None else list(row.published),
                "parts": {} if row.worst is None else _parts(row.worst),
                "steps": {name: _parts(parts) for name, parts in row.steps.items()},
                "differences": [
                    {"resource": each.resource, "here": each.here, "why": each.why}
                    for each in row.differences()
                ],
            }
            for row in rows
        ]
    }


def _parts(parts: Intensities) -> dict[str, Any]:
    return {
        each.part: {
            "ratio": each.ratio,
            "limit": each.limit_source,
            "is_pressure_point": each.pressure,
            "evidence": each.evidence,
            "reason": each.reason,
        }
        for each in parts.parts()
    }
