"""Counts instructions, clocks and misses of the last cache of commands that are trials.

In: the machine. Out: the command line that counts beside a command, what it counted, and the metrics of a
sweep's curve (`METRICS`).

Where the machine offers no counters of the processor, commands run as they are, and trials have the reason.

Not here: starting commands (``workload``), counting (``steelyard-probe``).
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import SteelyardError

if TYPE_CHECKING:
    from steelyard.records import Machine

INSTRUCTIONS, CYCLES = "instructions", "cycles"
_LAW = "ipc"
"""The metric that needs these two events, and no others."""
METRICS = ("cpi", "llc_mpki", "llc_data_mpki", "llc_code_mpki")
"""Metrics that a sweep is drawn with: clocks per instruction, and misses of the last cache per 1000."""
_INTERVAL_S = 3600.0
"""Counts are read at the end; the probe always reads then."""


@dataclass(frozen=True)
class CommandCounts:
    """Counting beside the commands of an experiment, in ``folder``."""

    folder: Path
    prefix: tuple[str, ...]
    """What stands before a command; empty where nothing can be counted."""
    missing: Mapping[str, str]
    machine: "Machine | None" = None
    """What was counted on: it says what events mean."""

    @classmethod
    def prepare(cls, folder: Path, *, has_metrics: bool = False) -> "CommandCounts":
        """Return what can be counted on this machine; with ``has_metrics`` also what `METRICS` need."""
        # Not at the top: an experiment without counts does without the machine's inventory.
        from steelyard import machine
        from steelyard.analyze.counters.choice import choose
        from steelyard.bench.recorders.event_counts import counting_command

        names = (INSTRUCTIONS, CYCLES, *(METRICS if has_metrics else ()))
        try:
            here = machine.snapshot()
            choice = choose(here, "process", [_LAW, *(METRICS if has_metrics else ())])
            if not choice.plan.events:
                reason = choice.missing.get(_LAW, "no event is known")
                return cls(folder, (), dict.fromkeys(names, reason))
            prefix = counting_command(
                choice,
                "process",
                [],
                _INTERVAL_S,
                plan=folder / "counters-plan.json",
                recording=folder / "counters",
            )
        except SteelyardError as error:
            return cls(folder, (), dict.fromkeys(names, error.message))
        return cls(folder, (*prefix, "--"), {}, here if has_metrics else None)

    def wrapped(self, command: Sequence[str]) -> list[str]:
        """Return the command with what counts it."""
        shutil.rmtree(self.folder / "counters", ignore_errors=True)
        return [*self.prefix, *command]

    def read(self) -> tuple[dict[str, float], dict[str, str]]:
        """Return what was counted beside the last command, and why the rest is not known."""
        if not self.prefix:
            return {}, dict(self.missing)
        from steelyard.analyze.counters import events
        from steelyard.telemetry import open_recording
        from steelyard.telemetry.counters import counter_series

        try:
            with open_recording(self.folder / "counters") as recording:
                whole = events.whole_of(counter_series(recording, 0, 1 << 62))
        except SteelyardError as error:
            return {}, dict.fromkeys((INSTRUCTIONS, CYCLES), error.message)
        if isinstance(whole, str):
            return {}, dict.fromkeys((INSTRUCTIONS, CYCLES), whole)
        counts = events.counts_of(whole)
        readings, missing = {}, {}
        for name, spellings in ((INSTRUCTIONS, events.INSTRUCTIONS), (CYCLES, events.CYCLES)):
            _, quantity = counts.first(spellings)
            if quantity.value:
                readings[name] = quantity.value
            else:
                missing[name] = quantity.missing or f"{name} were counted as 0"
        if self.machine is not None:
            from steelyard.analyze.counters.use import metrics_of_series

            metrics, _ = metrics_of_series(whole, self.machine, None)
            for name in METRICS:
                found = metrics.get(name)
                if found is not None and found.value is not None:
                    readings[name] = found.value
                else:
                    missing[name] = (found and found.missing) or "the processor's definition has none"
        return readings, missing
