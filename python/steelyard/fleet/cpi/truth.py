"""Antagonists that were named, held against those that a simulated fleet was given.

In: ``truth.json`` of a simulated store, and the highest suspect at every anomalous sample. Out: `Curve`:
precision and recall for each floor of the correlation.

An incident names its antagonist at the first anomalous sample at which a suspect reaches the floor. It is
right where that task did slow down that victim then. Precision is the share of naming incidents that are
right; recall the share of antagonist episodes in which somebody right was named, and, stricter, of pairs of
episode and victim.

Invariant: queries never read the truth; only this module does, after them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard._base import RecordError
from steelyard._base.documents import printed
from steelyard.fleet.cpi import suspects as cpi_suspects
from steelyard.fleet.cpi.incidents import Incident
from steelyard.fleet.cpi.rule import PAPER, Rule
from steelyard.fleet.cpi.samples import Guards
from steelyard.fleet.store.store import Store

NAME = "truth.json"
FLOORS = tuple(round(0.05 * step, 2) for step in range(1, 15))


@dataclass(frozen=True)
class Guilt:
    """One antagonist and one of its victims for a time (Unix seconds)."""

    episode: int
    machine: str
    antagonist: str
    victim: str
    start_unix_s: int
    end_unix_s: int


@dataclass(frozen=True)
class Point:
    """What a floor gives."""

    floor: float
    """The floor of the correlation."""
    named: int
    """Incidents in which somebody was named."""
    right: int
    """Those in which the right one was."""
    episodes: int
    """Episodes of antagonists."""
    episodes_found: int
    """Those that were found."""
    victims: int
    """Pairs of episode and victim."""
    victims_found: int
    """Those that were found."""

    @property
    @printed
    def precision(self) -> float | None:
        """Share of naming incidents that are right; None where nobody was named."""
        return self.right / self.named if self.named else None

    @property
    @printed
    def recall(self) -> float | None:
        """Share of antagonist episodes that were found; None where there were none."""
        return self.episodes_found / self.episodes if self.episodes else None

    @property
    @printed
    def victim_recall(self) -> float | None:
        """Share of pairs of episode and victim that were found."""
        return self.victims_found / self.victims if self.victims else None


def read_truth(store: Store) -> list[Guilt] | None:
    """Return the antagonists of a simulated store's days; None for a store that was not simulated.

    Raises RecordError for a file that the simulator did not write.
    """
    if not store.place.exists(NAME):
        return None
    try:
        document = json.loads(store.place.read(NAME))
        return guilts(document.get("antagonists", []), store.first, store.last)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ArithmeticError,
        OSError,
        RecursionError,
    ) as error:
        raise RecordError(f"{store.place.url}/{NAME} cannot be read: {error}") from error


def guilts(
    episodes: Iterable[dict[str, Any]], first: str | None = None, last: str | None = None
) -> list[Guilt]:
    """Return antagonist and victim of each episode that begins from day ``first`` to day ``last``."""
    from datetime import UTC, datetime

    pairs = []
    for number, episode in enumerate(episodes):
        day = datetime.fromtimestamp(episode["start_unix_s"], tz=UTC).strftime("%Y-%m-%d")
        if (first is not None and day < first) or (last is not None and day > last):
            continue
        pairs += [
            Guilt(
                number,
                episode["machine"],
                episode["task"],
                v["task"],
                episode["start_unix_s"],
                episode["end_unix_s"],
            )
            for v in episode["victims"]
        ]
    return pairs


def find_curve(
    samples: Any,
    outliers: Any,
    truth: Sequence[Guilt],
    rule: Rule = PAPER,
    guards: Guards | None = None,
    *,
    job: str | None = None,
    floors: Sequence[float] = FLOORS,
) -> list[Point]:
    """Return precision and recall at each floor; none where ``job`` leaves a part of the victims out."""
    from steelyard.telemetry.engine import fetch_rows

    if job is not None:
        return []
    rows = fetch_rows(cpi_suspects.tops(samples, outliers, rule, guards))
    return [point(rows, truth, floor, rule) for floor in floors]


def measured_point(incidents: Iterable[Incident], truth: Sequence[Guilt], rule: Rule = PAPER) -> Point:
    """Return how right the names of ``incidents`` are; ``floor`` is that of the correlation, which decided
    nothing where the evidence named.
    """
    rows = [
        {
            "cluster": incident.cluster,
            "machine": incident.machine,
            "victim_task": incident.victim_task,
            "episode_start_unix_s": incident.start_unix_s,
            "decided_unix_s": incident.decided_unix_s,
            "task": incident.antagonist.task,
            "correlation": 1.0,
        }
        for incident in incidents
        if incident.antagonist is not None and incident.decided_unix_s is not None
    ]
    return replace(point(rows, truth, -1.0, rule), floor=rule.correlation_floor)


def point(rows: Iterable[dict[str, Any]], truth: Sequence[Guilt], floor: float, rule: Rule = PAPER) -> Point:
    """Return what naming at ``floor`` gives, from the highest suspect at each anomalous sample."""
    named: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["decided_unix_s"]):
        if row["correlation"] >= floor:
            key = tuple(row[n] for n in ("cluster", "machine", "victim_task", "episode_start_unix_s"))
            named.setdefault(key, row)
    by_machine: dict[str, list[Guilt]] = {}
    for guilt in truth:
        by_machine.setdefault(guilt.machine, []).append(guilt)
    right = 0
    victims: set[tuple[int, str]] = set()
    for row in named.values():
        hits = [guilt for guilt in by_machine.get(row["machine"], []) if _is_right(guilt, row, rule)]
        right += bool(hits)
        victims.update((hit.episode, hit.victim) for hit in hits)
    return Point(
        floor=floor,
        named=len(named),
        right=right,
        episodes=len({guilt.episode for guilt in truth}),
        episodes_found=len({episode for episode, _ in victims}),
        victims=len(truth),
        victims_found=len(victims),
    )


def _is_right(guilt: Guilt, row: dict[str, Any], rule: Rule) -> bool:
    when: int = row["decided_unix_s"]
    return (guilt.antagonist, guilt.victim) == (
        str(row["task"]),
        str(row["victim_task"]),
    ) and guilt.start_unix_s <= when < guilt.end_unix_s + rule.correlation_s
