"""Figures of scenarios that were measured elsewhere, as an experiment: the same code says what they mean.

In: a CSV file with the columns ``scenario`` (1 to 6), ``replicate`` and one for the metric, whose name it is;
``co_runner`` where there were several. Replicates with the same name are one block. Out: an `Experiment`.

Invariants: one value of a scenario and co-runner in a replicate; an empty field is a missing value.

Not here: what the figures mean (``verdict``).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard._base import UsageError, read_regular, text_of
from steelyard.experiment.numa.design import arm_name
from steelyard.experiment.numa.scenarios import BESIDE, LOCAL_RATIO, SOLO
from steelyard.records.experiment import ExperimentArm, ExperimentPlacement, ExperimentTrial

_OWN = ("scenario", "replicate", "co_runner")
_BYTES_AT_MOST = 64 << 20
UNNAMED = "its co-runner"


_SCENARIOS = {str(number): number for number in (*SOLO, *BESIDE)}


@dataclass(frozen=True, slots=True)
class Figures:
    """What a file says."""

    metric: str
    arms: list[ExperimentArm]
    trials: list[ExperimentTrial]
    blocks: int


def read_figures(path: Path) -> Figures:
    """Return the figures in a CSV file. Raises UsageError, RecordError, naming the line."""
    text = text_of(read_regular(path, at_most_bytes=_BYTES_AT_MOST), str(path), errors="replace")
    reader = csv.DictReader(io.StringIO(text), strict=True)
    values: dict[tuple[str | None, int], dict[str, float | None]] = {}
    blocks: dict[str, int] = {}
    try:
        metric = _metric(path, reader.fieldnames or [])
        for row in reader:
            scenario, co_runner, replicate, value = _row(f"{path}:{reader.line_num}", row, metric)
            own = values.setdefault((co_runner, scenario), {})
            if replicate in own:
                raise UsageError(
                    f"{path}:{reader.line_num}: scenario {scenario} has two values in replicate {replicate}"
                )
            blocks.setdefault(replicate, len(blocks))
            own[replicate] = value
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: {error}") from error
    if (None, 1) not in values:
        raise UsageError(f"{path}: it has no scenario 1, which the others are compared with")
    is_alone = len({co_runner for co_runner, _ in values}) <= 2
    # Alone first, then in the order of their first row; sorting keeps that order.
    order = {co_runner: at for at, (co_runner, _) in enumerate(values)}
    keys = sorted(values, key=lambda key: (key[0] is not None, order[key[0]], key[1]))
    names = {key: arm_name(key[1], key[0], is_alone=is_alone) for key in keys}
    return Figures(
        metric=metric,
        arms=[
            ExperimentArm(name=names[key], settings={}, command=[], placement=_placement(*key))
            for key in keys
        ],
        trials=[
            ExperimentTrial(
                block=blocks[replicate],
                arm=names[key],
                begin_ns=0,
                end_ns=0,
                value=value,
                reason=None if value is not None else "the file has no value",
            )
            for key in keys
            for replicate, value in values[key].items()
        ],
        blocks=len(blocks),
    )


def _metric(path: Path, columns: list[str] | tuple[str, ...] | object) -> str:
    names = [str(name).strip() for name in columns] if isinstance(columns, list | tuple) else []
    missing = [name for name in ("scenario", "replicate") if name not in names]
    others = [name for name in names if name not in _OWN]
    if missing or len(others) != 1:
        lacking = f"it has no column {missing[0]}" if missing else f"it has {len(others)} columns of a metric"
        raise UsageError(f"{path}: {lacking}", hint="columns: scenario, replicate, a metric, and co_runner")
    return others[0]


def _row(
    where: str, row: Mapping[str | None, object], metric: str
) -> tuple[int, str | None, str, float | None]:
    fields = {str(name).strip(): str(value or "").strip() for name, value in row.items()}
    scenario = _SCENARIOS.get(fields["scenario"])
    if scenario is None:
        raise UsageError(f"{where}: {fields['scenario'][:40]!r} is no scenario, which are 1 to 6")
    if not fields["replicate"]:
        raise UsageError(f"{where}: the replicate is empty")
    co_runner = fields.get("co_runner") or None
    if scenario in SOLO and co_runner is not None:
        raise UsageError(f"{where}: scenario {scenario} has no co-runner; 4 to 6 have")
    if scenario in BESIDE:
        co_runner = co_runner or UNNAMED
    if not fields[metric]:
        return scenario, co_runner, fields["replicate"], None
    try:
        value = float(fields[metric])
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{where}: {metric} {fields[metric]!r} is no positive number")
    return scenario, co_runner, fields["replicate"], value


def _placement(co_runner: str | None, scenario: int) -> ExperimentPlacement:
    return ExperimentPlacement(
        scenario=scenario,
        cpus="",
        memory_nodes="",
        local_ratio=LOCAL_RATIO[(scenario - 1) % len(SOLO) + 1],
        co_runner=co_runner,
        co_runner_cpus=None if co_runner is None else "",
    )
