"""``softsku.toml``: levels of knobs with what was measured of each.

In: a tuning, or a file. Out: the text, or the levels.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from steelyard._base import RecordError, UsageError, read_regular
from steelyard.records.tuning import Tuning, TuningEvidence


def softsku_text(tuning: Tuning) -> str:
    """Return the file of a tuning."""
    lines = [
        f"# Found by: {' '.join(tuning.command)}".replace("\n", " "),
        f"tuning = {_text(tuning.tuning_id)}",
        f"workload = {_text(tuning.benchmark or ' '.join(tuning.template))}",
        f"metric = {_text(tuning.metric.name)}",
        f"steelyard_version = {_text(tuning.steelyard_version)}",
        "",
        "# Of the whole beside the machine as found: above 1 is better.",
        "[confirmed]",
    ]
    lines += [line for one in tuning.evidence if one.purpose == "confirm" for line in _figures(one)]
    found = {knob.name: knob for knob in tuning.knobs}
    for name, level in tuning.chosen.items():
        lines += ["", "[[knob]]", f"name = {_text(name)}", f"level = {_text(level)}"]
        lines += [f"was = {_text(found[name].found)}", f"sets = {_text(found[name].about)}"]
        for one in tuning.evidence:
            if one.knob == name and one.level == level and one.purpose != "confirm":
                lines += ["", "[[knob.evidence]]", f"purpose = {_text(one.purpose)}", *_figures(one)]
    return "\n".join(lines) + "\n"


def _figures(one: TuningEvidence) -> list[str]:
    figures = {
        "experiment": one.experiment,
        "outcome": one.outcome,
        "gain_ratio": one.gain_ratio,
        "low": one.low,
        "high": one.high,
        "confidence": one.confidence,
        "blocks": one.blocks,
        "reason": one.reason,
    }
    # TOML has no null: what is not known is not there.
    return [f"{key} = {json.dumps(value)}" for key, value in figures.items() if value is not None]


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def read_softsku(path: Path) -> dict[str, str]:
    """Return the levels of a soft SKU by knob. Raises UsageError for anything else."""
    try:
        data: dict[str, Any] = tomllib.loads(read_regular(path).decode())
    except (RecordError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: no soft SKU: {error}") from error
    entries = data.get("knob")
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: no soft SKU: it has no [[knob]]")
    levels: dict[str, str] = {}
    for entry in entries:
        name, level = (entry.get("name"), entry.get("level")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(level, str) or name in levels:
            raise UsageError(f"{path}: no soft SKU: each [[knob]] has its own name and a level, both texts")
        levels[name] = level
    return levels
