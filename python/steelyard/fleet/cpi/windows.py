"""The windows before each look at an episode, of the victim and everybody beside it, judged by the evidence.

In: ``task_samples`` and outliers. Out: for each episode of anomalous samples its `Judgement`
(``rule.judge_tested``) at the first look that names somebody, or else at the last one.

An episode is looked at at its 3rd, 9th, 27th ... anomalous sample, as the agent does. What is fetched are the
samples of the machine in the two hours before each of these, for some hundred episodes at a time; the rest is
computed from arrays.

Invariant: a look sees nothing that came after it.

Not here: the evidence itself (``evidence``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.cpi import suspects as cpi_suspects
from steelyard.fleet.cpi.evidence import TESTED, Bar, is_look
from steelyard.fleet.cpi.outliers import TASK, _guards
from steelyard.fleet.cpi.rule import PAPER, Judgement, Rule, Suspect, judge_tested
from steelyard.fleet.cpi.samples import Guards, judged
from steelyard.telemetry.deferred import ibis

AT_ONCE = 500
"""Episodes whose windows are in memory at once."""
_Place = tuple[str, str]


@dataclass(frozen=True)
class Episode:
    """Anomalous samples of one task. Times in Unix seconds."""

    key: tuple[str, ...]
    """Cluster, machine, platform, job and task."""
    job_class: str
    cpi_source: str
    threshold_cpi: float
    start_unix_s: int
    end_unix_s: int
    victim_cpi: float
    """The highest of them."""
    anomalous_unix_s: tuple[int, ...]

    @property
    def place(self) -> _Place:
        """Cluster and machine."""
        return self.key[0], self.key[1]

    def looks(self, bar: Bar) -> list[int]:
        """Return when it is looked at; an episode too short for that at its last anomalous sample."""
        looks = [t for n, t in enumerate(self.anomalous_unix_s, 1) if is_look(n, bar)]
        return looks or [self.anomalous_unix_s[-1]]


@dataclass(frozen=True)
class Judged:
    """An episode with what was found of it."""

    episode: Episode
    decided_unix_s: int
    judgement: Judgement
    usage_mean: dict[tuple[str, str], float]
    """By job and task of the suspects, over the windows in which they were there."""


@dataclass
class _Machine:
    """A machine's tasks over a range of spans; NaN where there is no sample."""

    first: int
    tasks: dict[tuple[str, str], tuple[int, str]]
    usage: NDArray[np.float64]
    cpi: NDArray[np.float64]
    """Of samples that count."""
    source: NDArray[np.object_]
    misses: NDArray[np.float64]


def find_episodes(outliers: Any, rule: Rule = PAPER) -> list[Episode]:
    """Return the episodes of all tasks, in the order of their keys and times."""
    from steelyard.telemetry.engine import fetch_rows

    moments = cpi_suspects.episodes(outliers, rule)
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in fetch_rows(moments):
        rows.setdefault((*(row[n] for n in TASK), row["episode_start_unix_s"]), []).append(row)
    episodes = []
    for key in sorted(rows):
        group = sorted(rows[key], key=lambda row: row["window_start_unix_s"])
        times = [row["window_start_unix_s"] for row in group]
        last = group[-1]
        episodes.append(
            Episode(
                key=key[:-1],
                job_class=last["job_class"],
                cpi_source=last["cpi_source"],
                threshold_cpi=last["threshold_cpi"],
                start_unix_s=times[0],
                end_unix_s=times[-1],
                victim_cpi=max(row["cpi"] for row in group),
                anomalous_unix_s=tuple(times),
            )
        )
    return episodes


def expression(samples: Any, spans: Any, rule: Rule = PAPER, guards: Guards | None = None) -> Any:
    """Return the samples of the machines and times of ``spans``: cluster, machine, first and last second."""
    columns = ["cluster", "machine", "job", "task", "job_class", "cpi_source", "cpi", "usage", "state"]
    rows = judged(samples, _guards(rule, guards))
    start = rows.window_start_unix_s
    rows = rows.select(
        *columns,
        "window_start_unix_s",
        span=((start - start % rule.align_s) / rule.align_s).cast("int64"),
        misses=rows.llc_misses / rows.window_s.nullif(0.0),
    )
    both = rows.join(spans, ["cluster", "machine"])
    both = both.filter((both.window_start_unix_s >= both.first) & (both.window_start_unix_s <= both.last))
    return both.select(*columns, "span", "misses")


def judge_episodes(
    samples: Any,
    episodes: Iterable[Episode],
    rule: Rule = PAPER,
    bar: Bar = TESTED,
    guards: Guards | None = None,
) -> Iterator[Judged]:
    """Return every episode with its judgement."""
    rest = iter(sorted(episodes, key=lambda episode: (episode.place, episode.start_unix_s)))
    while some := list(islice(rest, AT_ONCE)):
        machines = _machines(samples, some, rule, bar, guards)
        for episode in some:
            yield _judge(episode, machines[episode.place], rule, bar)


def _machines(
    samples: Any, episodes: Sequence[Episode], rule: Rule, bar: Bar, guards: Guards | None
) -> dict[_Place, _Machine]:
    import pyarrow as pa

    from steelyard.telemetry.engine import fetch

    ranges: dict[_Place, list[tuple[int, int]]] = {}
    for episode in episodes:
        looks = episode.looks(bar)
        last = looks[-1] - looks[-1] % rule.align_s + rule.align_s - 1
        first = looks[0] - looks[0] % rule.align_s - bar.evidence_s + rule.align_s
        known = ranges.setdefault(episode.place, [])
        if known and first <= known[-1][1]:
            known[-1] = (min(first, known[-1][0]), max(last, known[-1][1]))
        else:
            known.append((first, last))
    flat = [(*place, *each) for place, some in ranges.items() for each in some]
    names = ("cluster", "machine", "first", "last")
    spans = ibis.memtable(pa.table(dict(zip(names, zip(*flat, strict=True), strict=True))))
    table = fetch(expression(samples, spans, rule, guards))
    by_place: dict[_Place, list[int]] = {place: [] for place in ranges}
    places = zip(table["cluster"].to_pylist(), table["machine"].to_pylist(), strict=True)
    for number, place in enumerate(places):
        by_place[place].append(number)
    return {place: _machine(table.take(rows)) for place, rows in by_place.items()}


def _machine(rows: Any) -> _Machine:
    span = rows["span"].to_numpy()
    names = list(zip(rows["job"].to_pylist(), rows["task"].to_pylist(), strict=True))
    order: dict[tuple[str, str], tuple[int, str]] = {}
    for name, job_class in zip(names, rows["job_class"].to_pylist(), strict=True):
        if name not in order:
            order[name] = (len(order), job_class)
    at = np.array([order[name][0] for name in names], dtype=int)
    first = int(span.min()) if len(span) else 0
    shape = (len(order), int(span.max()) - first + 1 if len(span) else 0)
    tables = {name: np.full(shape, np.nan) for name in ("usage", "cpi", "misses")}
    place = at, span - first
    counts = rows["state"].to_numpy() == 0
    for column, table in tables.items():
        values = rows[column].to_numpy(zero_copy_only=False).astype(float)
        if column == "cpi":
            values = np.where(counts, values, np.nan)
        if column == "usage":
            values = np.where(values >= 0, values, np.nan)
        table[place] = values
    source = np.full(shape, None, dtype=object)
    source[place] = rows["cpi_source"].to_numpy(zero_copy_only=False)
    return _Machine(first, order, tables["usage"], tables["cpi"], source, tables["misses"])


def _judge(episode: Episode, machine: _Machine, rule: Rule, bar: Bar) -> Judged:
    for now in episode.looks(bar):
        judgement, means = _look(episode, now, machine, rule, bar)
        if judgement.antagonist is not None:
            break
    return Judged(episode, now, judgement, means)


def _look(
    episode: Episode, now: int, machine: _Machine, rule: Rule, bar: Bar
) -> tuple[Judgement, dict[tuple[str, str], float]]:
    last = now // rule.align_s - machine.first
    columns = slice(max(0, last + 1 - bar.evidence_s // rule.align_s), last + 1)
    mine = episode.key[3], episode.key[4]
    victim = machine.tasks[mine][0]
    cpi = np.where(
        machine.source[victim, columns] == episode.cpi_source, machine.cpi[victim, columns], np.nan
    )
    suspects, means = [], {}
    for (job, task), (row, job_class) in machine.tasks.items():
        usage = machine.usage[row, columns]
        here = np.isfinite(usage)
        if (job, task) == mine or not here.any():
            continue
        means[job, task] = float(usage[here].mean())
        misses = machine.misses[row, columns]
        counted = _optional(misses) if np.isfinite(misses).any() else None
        suspects.append(Suspect(job, task, job_class, _optional(usage), counted))
    return judge_tested(episode.job_class, _optional(cpi), episode.threshold_cpi, suspects, rule, bar), means


def _optional(values: NDArray[np.float64]) -> list[float | None]:
    # Of Python's own numbers each costs a tenth of what one of NumPy's does.
    return [None if value != value else value for value in values.tolist()]
