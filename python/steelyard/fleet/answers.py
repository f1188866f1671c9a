"""JSON Schemas of what ``steelyard fleet ... --json`` prints: ``python -m steelyard.fleet.answers``.

In: the answers' classes, and for documents that are put together by hand, their fields (`_FIELDS`). Out:
``schemas/fleet/<command>.schema.json``; tests hold the files, and what commands print, against them.

Notation of a field: ``text``, ``count``, ``truth``, ``number``; ``?`` behind it says that it may be null. A
number may always be null: one that is not finite is missing. A list has one element, the shape of all of its
own; a mapping from names has the key ``*``.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from steelyard._base import schemas_dir
from steelyard.fleet.capacity.frequency import FrequencyResult
from steelyard.fleet.capacity.smt import SmtResult
from steelyard.fleet.cpi.anomalies import AnomalousTask, JobOutliers
from steelyard.fleet.cpi.incident_groups import IncidentGroup
from steelyard.fleet.cpi.incidents import Incident
from steelyard.fleet.cpi.specs import Spec
from steelyard.fleet.cpi.throughput import Slope
from steelyard.fleet.cpi.truth import Point
from steelyard.fleet.importers.batches import Imported
from steelyard.fleet.placement.plan import PlaceResult
from steelyard.fleet.profiles.symbols import Added
from steelyard.fleet.rue.result import RueResult
from steelyard.stats.gev import GevFit

_SHARE = {"ratio": "number", "low": "number", "high": "number"}
_PART = {"part": ("text", "count"), "machines": "count", "shares": {"*": (_SHARE, None)}}
_EFFECT = {
    **dict.fromkeys(("value", "low", "high", "standard_error", "p_value"), "number"),
    **dict.fromkeys(("samples", "strata", "machines"), "count"),
    "reason": "text",
}
_RULE = {"outliers": "count", "within_s": "count", "minimum_usage": "number", "specs": "text"}
_AT_LAG = {
    **dict.fromkeys(("r", "low", "high", "effective_pairs"), "number"),
    "pairs": "count",
    "missing": "text?",
}
_CAP = {
    "victim_cpi": {"*": "number"},
    "victim_samples": {"*": "count"},
    "antagonist_usage": {"*": "number"},
    "threshold_cpi": "number",
    "cpi_ratio": "number",
    "recovered": "truth?",
    "confirmed": "truth?",
}
_TABLE_CHECK = {
    **dict.fromkeys(("files", "rows", "replaced_files", "bad_rows", "repeated_rows"), "count"),
    "bad": [{"reason": "text", "machine": "text?", "rows": "count"}],
    "doubtful": [{"reason": "text", "machine": "text", "rows": "count"}],
    "repeated_by": ["text"],
}
_PROBLEMS = [{"path": "text", "table": "text", "reason": "text"}]

_FIELDS: dict[str, Any] = {
    "cpi_specs": {
        "settings": {
            **dict.fromkeys(("threshold_sigmas", "day_weight", "minimum_usage", "gev_quantile"), "number"),
            **dict.fromkeys(("fewest_tasks", "fewest_samples"), "count"),
        },
        "specs": [Spec],
        "written": "text?",
    },
    "cpi_outliers": {
        "settings": _RULE,
        "jobs": [(JobOutliers, {"anomalous_task_day_ratio": "number", "is_ordinary": "truth"})],
        "anomalous_tasks": "count",
        "tasks": [AnomalousTask],
    },
    "cpi_incidents": {
        "settings": {
            **_RULE,
            **dict.fromkeys(("correlation_s", "align_s"), "count"),
            "correlation_floor": "number",
            "rule": "text?",
            **dict.fromkeys(("evidence_s", "false_name_ratio"), "number?"),
        },
        "groups": [IncidentGroup],
        "incidents": [(Incident, {"seen_by": "text", "effect": (_CAP, None)})],
        "truth_curve": ([(Point, dict.fromkeys(("precision", "recall", "victim_recall"), "number"))], None),
        "truth": ((Point, dict.fromkeys(("precision", "recall", "victim_recall"), "number")), None),
    },
    "cpi_distribution": {
        "distributions": [
            {
                "spec": Spec,
                "bins": {"low": ["number"], "high": ["number"], "weight": ["number"]},
                "gev": (GevFit, None),
                **dict.fromkeys(("gev_mean", "gev_sd", "chance_distance"), "number"),
                **dict.fromkeys(("above_threshold_ratio", "gev_above_threshold_ratio"), "number"),
                "missing": "text?",
                "others": [{"name": "text", "distance": "number"}],
            }
        ],
        "gev_quantile": "number",
        "throughput": [
            {
                **dict.fromkeys(("job", "platform", "verdict"), "text"),
                "spans": "count",
                "rates": _AT_LAG,
                "cost": _AT_LAG,
                "elasticity": (Slope, None),
                "missing": "text?",
                "cpi_share": "number",
            }
        ],
        "warnings": ["text"],
    },
    "top": {
        **dict.fromkeys(("by", "event", "unit"), "text"),
        **dict.fromkeys(("fleet_weight", "unknown_symbols_ratio", "other_stacks_ratio"), "number"),
        "rows": [
            {
                "key": "text",
                "module": "text?",
                **dict.fromkeys(("own_ratio", "own_low_ratio", "own_high_ratio", "fleet_weight"), "number"),
                **dict.fromkeys(("total_ratio", "total_low_ratio", "total_high_ratio"), "number"),
                **dict.fromkeys(("samples", "machines"), "count"),
                **dict.fromkeys(("more_machines", "least_machines"), "count?"),
            }
        ],
        **dict.fromkeys(("keys", "bucket_s"), "count"),
        "sample": {
            **dict.fromkeys(("machine_minutes", "machines", "samples", "functions"), "count"),
            **dict.fromkeys(("entropy_bits", "entropy_low_bits", "entropy_high_bits"), "number"),
            **dict.fromkeys(("sampled_entropy_bits", "unseen_ratio"), "number"),
            "entropy_missing": "text?",
            **dict.fromkeys(("manhattan_distance", "expected_manhattan_distance"), "number"),
            **dict.fromkeys(("least_machines", "precision_ratio"), "number"),
            "more_machines": "count?",
            "is_enough": "truth",
        },
        "by_platform": [_PART],
        "by_time": [_PART],
        "tax": {"categories": {"*": "number"}, "tax_ratio": "number", "unclassified_ratio": "number"},
        "unknown_symbols": [{"module": "text", "ratio": "number"}],
        "other_events": ["text"],
    },
    "diff": {
        **dict.fromkeys(("a", "b", "by", "event", "unit"), "text"),
        "machines": ["count"],
        "machine_minutes": ["count"],
        "samples": ["count"],
        "both_machines": "count",
        "fleet_weight": ["number"],
        **dict.fromkeys(("alpha", "least_machines"), "number"),
        "changes": "count",
        "rows": [
            {
                "key": "text",
                "module": "text?",
                **dict.fromkeys(("a_ratio", "b_ratio", "difference_ratio"), "number"),
                **dict.fromkeys(("low_ratio", "high_ratio", "p_value"), "number"),
                **dict.fromkeys(("a_samples", "b_samples", "machines"), "count"),
                "is_change": "truth?",
            }
        ],
    },
    "numa": {
        **dict.fromkeys(("score_bins", "samples", "machines"), "count"),
        "days": [{"date": "text", "samples": ["count"]}],
        "figures": [
            {"job": "text", "metric": "text", "ratio": ["number"], "sd": ["number"], "samples": ["count"]}
        ],
        "effects": [
            {
                **dict.fromkeys(("job", "metric", "disagreement"), "text"),
                **dict.fromkeys(("ratio_at_half", "ratio_at_half_low", "ratio_at_half_high"), "number"),
                "effect": _EFFECT,
                "raw_effect": (_EFFECT, None),
                "raw_correlation": "number",
            }
        ],
        "missing": {"*": "text"},
    },
    "pressure": {
        "jobs": [
            {
                "job": "text",
                **dict.fromkeys(("machines", "machine_minutes"), "count"),
                "tasks_per_machine": "number",
                "pressure_points": ["text"],
                "resources": {
                    "*": {
                        **dict.fromkeys(("mean_ratio", "sd_ratio", "max_ratio"), "number"),
                        **dict.fromkeys(("threshold_ratio", "fits"), "number"),
                        "machine_past_threshold_ratio": "number",
                        "is_pressure": "truth",
                        "missing": "text",
                    }
                },
            }
        ]
    },
    "pair": {
        "jobs": ["text"],
        "tolerance_ratio": "number",
        "alpha": "number",
        "pairs": [
            {
                "jobs": ["text"],
                **dict.fromkeys(("verdict", "source", "reason"), "text"),
                "resource_ratios": {"*": "number"},
                "over": ["text"],
            }
        ],
        "slowdowns": [
            {
                **dict.fromkeys(("job", "beside", "source", "verdict"), "text"),
                **dict.fromkeys(("cpi_ratio", "low", "high", "p_adjusted"), "number"),
                **dict.fromkeys(("machines_with", "machines_without"), "count"),
                "samples": "count?",
            }
        ],
        "prediction": {
            "observed_pairs": "count",
            "error": "number",
            "skill_ratio": "number",
            "weights": {"*": "number"},
            "reason": "text",
        },
    },
    "place": PlaceResult,
    "rue": (RueResult, {"total_refused": "truth"}),
    "smt": SmtResult,
    "frequency": FrequencyResult,
    "check": {
        "clean": "truth",
        "tables": {"*": _TABLE_CHECK},
        "renamed_count": "count",
        "renamed": [{"machine": "text", "task": "text", "jobs": ["text"]}],
    },
    "compact": {
        "store": "text",
        "removed_leftovers": "count",
        "tables": {
            "*": dict.fromkeys(
                ("files_before", "files_after", "rows", "repeated_rows", "quarantined_rows"), "count"
            )
        },
    },
    "expire": {"first_kept": "text", "removed": {"*": {"files": "count", "bytes": "count"}}},
    "import": Imported,
    "symbols_add": [Added],
}

_ASKED = {"store": "text", "engine": "text", "problems": _PROBLEMS}
"""What every answer of a query says beside it; ``report`` is there with ``--report``."""
_BARE = ("compact", "expire", "import", "symbols_add")
_KINDS: dict[str, str] = {"text": "string", "count": "integer", "truth": "boolean", "number": "number"}

COMMANDS = tuple(_FIELDS)
"""Every command with a schema, with ``_`` for spaces."""


def schema_of(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what ``command`` prints."""
    definitions: dict[str, Any] = {}
    schema = _shape(_FIELDS[command], definitions)
    if command not in _BARE:
        asked = dict(_ASKED) if command != "check" else {"store": "text", "problems": _PROBLEMS}
        for name, field in asked.items():
            schema["properties"][name] = _shape(field, definitions)
        schema["required"] = sorted([*schema["required"], *asked])
        schema["properties"]["report"] = {"type": "string"}
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = f"steelyard fleet {command.replace('_', ' ')} --json"
    if definitions:
        schema["$defs"] = definitions
    return schema


def schema_text(command: str) -> str:
    """Return the text of a schema's file."""
    return json.dumps(schema_of(command), indent=2, sort_keys=True) + "\n"


def _shape(field: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(field, str):
        kind = _KINDS[field.removesuffix("?")]
        may_be_null = field.endswith("?") or kind == "number"
        return {"type": [kind, "null"] if may_be_null else kind}
    if isinstance(field, list):
        return {"type": "array", "items": _shape(field[0], definitions)}
    if isinstance(field, dict) and list(field) == ["*"]:
        return {"type": "object", "additionalProperties": _shape(field["*"], definitions)}
    if isinstance(field, dict):
        properties = {name: _shape(one, definitions) for name, one in field.items()}
        return _object(properties)
    if isinstance(field, tuple) and isinstance(field[0], type):
        extra = {name: _shape(one, definitions) for name, one in (field[1] or {}).items()}
        if field[1] is None:
            return {"anyOf": [_of_class(field[0], definitions), {"type": "null"}]}
        made = _of_class(field[0], definitions)
        return _object({**made["properties"], **extra})
    if isinstance(field, tuple):
        kinds = [{"type": "null"} if one is None else _shape(one, definitions) for one in field]
        return {"anyOf": kinds}
    return _of_class(field, definitions)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def _of_class(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the shape of a dataclass, all of whose fields are printed."""
    made = TypeAdapter(kind).json_schema(mode="serialization")
    definitions |= {name: _strict(one) for name, one in made.pop("$defs", {}).items()}
    return dict(_strict(made))


def _strict(part: Any) -> Any:
    """Return a shape in which every field is required and a number may be null."""
    if isinstance(part, list):
        return [_strict(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {name: _strict(one) for name, one in part.items() if name not in ("title", "default")}
    if isinstance(part.get("properties"), dict):
        found["properties"] = {name: _strict(one) for name, one in part["properties"].items()}
        found["required"] = sorted(part["properties"])
        found["additionalProperties"] = False
    if found.get("type") == "number":
        found["type"] = ["number", "null"]
    return found


def main() -> None:
    """Write every schema file."""
    folder = schemas_dir() / "fleet"
    folder.mkdir(exist_ok=True)
    for command in COMMANDS:
        (folder / f"{command}.schema.json").write_text(schema_text(command), encoding="utf-8")


if __name__ == "__main__":
    main()
