"""What capping did: the victim's CPI and the antagonist's usage before, during and after each cap.

In: ``task_samples`` and the store's ``incidents``. Out: `CapEffect`s by incident. Before and after are as
long as the correlation looks back; a cap without an end is taken to last as long as caps do.

Invariant: a phase without a sample has no figure, never 0.

Not here: what would have happened without the cap: antagonists also stop by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard._base.documents import printed
from steelyard.fleet.cpi.outliers import _guards
from steelyard.fleet.cpi.rule import CAP_S, PAPER, Rule
from steelyard.fleet.cpi.samples import Guards, judged
from steelyard.telemetry.deferred import ibis

PHASES = ("before", "during", "after")
LEAST_SAMPLES = 3
"""So many samples show what a phase was like."""


@dataclass(frozen=True)
class CapEffect:
    """Means of one phase of a cap after another. CPI in its unit, usage in CPU-seconds per second."""

    victim_cpi: dict[str, float | None]
    """The victim's mean CPI before, during and after the cap."""
    victim_samples: dict[str, int]
    """Samples of each phase."""
    antagonist_usage: dict[str, float | None]
    """The antagonist's mean usage in each phase."""
    threshold_cpi: float
    """CPI above which a sample is an outlier."""

    @property
    @printed
    def cpi_ratio(self) -> float | None:
        """The victim's CPI during the cap relative to before: below 1 is better."""
        before, during = self.victim_cpi["before"], self.victim_cpi["during"]
        return during / before if before and during is not None else None

    @property
    @printed
    def recovered(self) -> bool | None:
        """Whether the victim's mean CPI fell to the threshold or below; None where it was not seen."""
        during = self.victim_cpi["during"]
        return None if during is None else during <= self.threshold_cpi

    @property
    @printed
    def confirmed(self) -> bool | None:
        """Whether the victim recovered under the cap and suffered again after it.

        False where half of its excess stayed, as the agent says too; None where it stayed well after the cap,
        so that the antagonist may have stopped by itself, and where fewer than 3 samples show it.
        """
        before, during, after = (self.victim_cpi[phase] for phase in PHASES)
        if during is None or self.victim_samples["during"] < LEAST_SAMPLES:
            return None
        if during > self.threshold_cpi:
            halfway = (self.threshold_cpi + before) / 2 if before is not None else self.threshold_cpi
            return False if during >= halfway else None
        enough = after is not None and self.victim_samples["after"] >= LEAST_SAMPLES
        return True if enough and after is not None and after > self.threshold_cpi else None


def expression(samples: Any, incidents: Any, rule: Rule = PAPER, guards: Guards | None = None) -> Any:
    """Return mean CPI and usage of victim and antagonist in each phase of each cap that was set."""
    capped = incidents.filter((incidents.action == "cap") & incidents.cap_start_unix_s.notnull())
    begin = capped.cap_start_unix_s
    known = capped.select(
        "incident",
        "cluster",
        "machine",
        "threshold_cpi",
        begin=begin,
        end=capped.cap_end_unix_s.coalesce(begin + CAP_S),
        victim_job=capped.victim_job,
        victim_task=capped.victim_task,
        antagonist_job=capped.antagonist_job,
        antagonist_task=capped.antagonist_task,
    )
    rows = judged(samples, _guards(rule, guards)).select(
        "cluster", "machine", "job", "task", "window_start_unix_s", "cpi", "usage", "state"
    )
    # Two equal joins: engines hash both, where one with "or" would compare all tasks of a machine.
    parts = []
    for role in ("victim", "antagonist"):
        who = known.select(
            "incident",
            "cluster",
            "machine",
            "threshold_cpi",
            "begin",
            "end",
            job=known[f"{role}_job"],
            task=known[f"{role}_task"],
            role=ibis.literal(role),
        )
        parts.append(who.join(rows, ["cluster", "machine", "job", "task"]))
    both = ibis.union(*[part.drop("job", "task") for part in parts], distinct=False)
    now = both.window_start_unix_s
    phase = ibis.cases(
        ((now >= both.begin - rule.correlation_s) & (now < both.begin), "before"),
        ((now >= both.begin) & (now < both.end), "during"),
        ((now >= both.end) & (now < both.end + rule.correlation_s), "after"),
    )
    both = both.mutate(phase=phase)
    both = both.filter(both.phase.notnull())
    return both.group_by("incident", "role", "phase").aggregate(
        cpi_mean=both.cpi.mean(where=both.state == 0),
        cpi_samples=(both.state == 0).cast("int64").sum(),
        usage_mean=both.usage.mean(),
        threshold_cpi=both.threshold_cpi.max(),
    )


def find_effects(
    samples: Any, incidents: Any, rule: Rule = PAPER, guards: Guards | None = None
) -> dict[str, CapEffect]:
    """Return by incident what its cap did."""
    from steelyard.telemetry.engine import fetch_rows

    rows: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for row in fetch_rows(expression(samples, incidents, rule, guards)):
        rows.setdefault(row["incident"], {})[row["role"], row["phase"]] = row
    effects = {}
    for incident, cells in rows.items():
        victim = {phase: cells.get(("victim", phase)) for phase in PHASES}
        other = {phase: cells.get(("antagonist", phase)) for phase in PHASES}
        effects[incident] = CapEffect(
            victim_cpi={phase: row["cpi_mean"] if row else None for phase, row in victim.items()},
            victim_samples={phase: int(row["cpi_samples"]) if row else 0 for phase, row in victim.items()},
            antagonist_usage={phase: row["usage_mean"] if row else None for phase, row in other.items()},
            threshold_cpi=next(iter(cells.values()))["threshold_cpi"],
        )
    return effects
