"""``softsku.toml``: levels of knobs with what was measured of each, and the machine that it was measured on.

In: a tuning and its machine, or a file. Out: the text, or a `SoftSku`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import RecordError, UsageError, command_text
from steelyard._base.toml import read_toml
from steelyard.machine.features import Feature, Scalar, features
from steelyard.records import Machine
from steelyard.records.tuning import Tuning, TuningEvidence


@dataclass(frozen=True, slots=True)
class SoftSku:
    """What a file says."""

    levels: Mapping[str, str]
    """By knob."""
    machine: Mapping[str, Scalar]
    """Traits of the machine that it was found on, by name; empty where the file does not tell."""

    def differences(self, here: Machine) -> list[str]:
        """Return by what ``here`` is another kind of machine, one line each."""
        if not self.machine:
            return ["the file does not say on which machine it was found"]
        now = {feature.key: feature for feature in _traits(here, self.levels)}
        return [
            f"found with {now[key].noun} {then}, and here {now[key].value}"
            for key, then in self.machine.items()
            if key in now and now[key].value != then
        ]


_TRAITS = ("cpu.architecture", "cpu.model", "cpu.cores", "hypervisor")
"""A soft SKU is for machines that are alike in these."""
_SWITCHED = {"online_cpus": "cpu.cores"}
"""Knobs, and what they change of that."""


def _traits(machine: Machine, levels: Mapping[str, str]) -> list[Feature]:
    own = {trait for knob, trait in _SWITCHED.items() if knob in levels}
    wanted = [key for key in _TRAITS if key not in own]
    return [one for one in features(machine) if one.key in wanted and one.value is not None]


def _workload(tuning: Tuning) -> str:
    if tuning.live is not None:
        return f"service: {' '.join(tuning.live.sources)}"
    return tuning.benchmark or command_text(tuning.template)


def softsku_text(tuning: Tuning, machine: Machine) -> str:
    """Return the file of a tuning."""
    lines = [
        f"# Found by: {command_text(tuning.command)}".replace("\n", " "),
        f"tuning = {_text(tuning.tuning_id)}",
        f"workload = {_text(_workload(tuning))}",
        f"metric = {_text(tuning.metric.name)}",
        f"steelyard_version = {_text(tuning.steelyard_version)}",
        *([f"host = {_text(machine.hostname)}"] if machine.hostname else []),
        "",
        "# It was found on a machine with these.",
        "[machine]",
        *(
            f"{_text(one.key)} = {json.dumps(one.value, ensure_ascii=False)}"
            for one in _traits(machine, tuning.chosen)
        ),
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


def read_softsku(path: Path) -> SoftSku:
    """Return a soft SKU. Raises UsageError for anything else."""
    try:
        data = read_toml(path)
    except RecordError as error:
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
    machine = data.get("machine", {})
    if not isinstance(machine, dict):
        raise UsageError(f"{path}: no soft SKU: machine is a table")
    return SoftSku(levels, machine)
