"""The windows before each look at an episode, of the victim and everybody beside it, judged by the evidence.

In: ``task_samples`` and outliers. Out: for each episode of anomalous samples its `Judgement`
(``rule.judge_tested``) at the first look that names somebody, or else at the last one.

An episode is looked at at its 3rd, 9th, 27th ... anomalous sample, as the agent does. What is fetched are the
samples of its machine in the hours before each of these, in one pass, one machine after the other: the rest
is computed from arrays.

Invariant: a look sees nothing that came after it.

Not here: the evidence itself (``evidence``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.fleet.cpi import suspects as cpi_suspects
from steelyard.fleet.cpi.evidence import TESTED, Bar, Floats, is_look
from steelyard.fleet.cpi.outliers import TASK, _guards
from steelyard.fleet.cpi.rule import PAPER, Judgement, Rule, Suspect, judge_tested
from steelyard.fleet.cpi.samples import Guards, judged
from steelyard.telemetry.deferred import ibis

HOUR_S = 3600
_BATCH_ROWS = 100_000
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


@dataclass(frozen=True)
class Machine:
    """A machine's tasks over a range of spans: a row each in the order of ``tasks``, NaN where there is no
    sample.
    """

    first: int
    tasks: Sequence[tuple[str, str, str]]
    """Job, name and class."""
    usage: Floats
    cpi: Floats
    """Of samples that count."""
    source: Floats
    """Which of the sources of CPI that episodes have."""
    misses: Floats


def find_episodes(outliers: Any, rule: Rule = PAPER) -> list[Episode]:
    """Return the episodes of all tasks, in the order of their keys and times."""
    from steelyard.telemetry.engine import fetch_rows

    return [
        Episode(
            key=tuple(row[name] for name in TASK),
            job_class=row["job_class"],
            cpi_source=row["cpi_source"],
            threshold_cpi=row["threshold_cpi"],
            start_unix_s=row["episode_start_unix_s"],
            end_unix_s=row["end_unix_s"],
            victim_cpi=row["victim_cpi"],
            anomalous_unix_s=tuple(row["anomalous_unix_s"]),
        )
        for row in fetch_rows(episodes(outliers, rule))
    ]


def episodes(outliers: Any, rule: Rule = PAPER) -> Any:
    """Return one row for each episode, with the times of its anomalous samples."""
    moments = cpi_suspects.episodes(outliers, rule)
    start = moments.window_start_unix_s
    keys = [*TASK, "episode_start_unix_s"]
    return (
        moments.group_by(keys)
        .agg(
            job_class=moments.job_class.argmax(start),
            cpi_source=moments.cpi_source.argmax(start),
            threshold_cpi=moments.threshold_cpi.argmax(start),
            end_unix_s=start.max(),
            victim_cpi=moments.cpi.max(),
            anomalous_unix_s=start.collect().sort(),
        )
        .order_by(keys)
    )


def tasks(samples: Any, places: Any) -> Any:
    """Return the tasks of ``places`` (cluster, machine and the number ``place``), numbered."""
    rows = samples.join(places, ["cluster", "machine"])
    each = rows.group_by("place", "job", "task").agg(job_class=rows.job_class.max())
    number = ibis.row_number().over(ibis.window(order_by=["place", "job", "task"]))
    return each.mutate(number=number.cast("int32"))


def expression(
    samples: Any,
    hours: Any,
    numbers: Any,
    sources: Sequence[str],
    rule: Rule = PAPER,
    guards: Guards | None = None,
) -> Any:
    """Return the samples of the machines and hours of ``hours``, one machine after the other.

    ``hours`` has cluster, machine, the number ``place`` and the second at which the hour begins; ``numbers``
    are those of `tasks`; ``source`` is the place in ``sources``, or -1. CPI is of samples that count.
    """
    rows = judged(samples, _guards(rule, guards))
    start = rows.window_start_unix_s
    rows = rows.mutate(hour=start - start % HOUR_S)
    rows = rows.join(hours, ["cluster", "machine", "hour"])
    rows = rows.join(numbers.select("place", "job", "task", "number"), ["place", "job", "task"])
    start = rows.window_start_unix_s
    source = ibis.cases(*((rows.cpi_source == name, at) for at, name in enumerate(sources)), else_=-1)
    return rows.select(
        "place",
        "number",
        "usage",
        "window_start_unix_s",
        span=((start - start % rule.align_s) / rule.align_s).cast("int64"),
        cpi=ibis.cases((rows.state == 0, rows.cpi), else_=ibis.null("float64")),
        source=source.cast("int32"),
        misses=rows.llc_misses / rows.window_s.nullif(0.0),
    ).order_by(["place", "number", "window_start_unix_s"])


def judge_episodes(
    samples: Any,
    episodes: Iterable[Episode],
    rule: Rule = PAPER,
    bar: Bar = TESTED,
    guards: Guards | None = None,
) -> Iterator[Judged]:
    """Return every episode with its judgement."""
    by_place: dict[_Place, list[Episode]] = {}
    for episode in episodes:
        by_place.setdefault(episode.place, []).append(episode)
    if not by_place:
        return
    places = sorted(by_place)
    sources = sorted({episode.cpi_source for some in by_place.values() for episode in some})
    for place, machine in _machines(samples, places, by_place, sources, rule, bar, guards):
        for episode in by_place[place]:
            yield judge_episode(episode, machine, sources.index(episode.cpi_source), rule, bar)


def _machines(
    samples: Any,
    places: Sequence[_Place],
    by_place: Mapping[_Place, Sequence[Episode]],
    sources: Sequence[str],
    rule: Rule,
    bar: Bar,
    guards: Guards | None,
) -> Iterator[tuple[_Place, Machine]]:
    """Yield the machines of ``places`` with their samples of the hours before each look."""
    import pyarrow as pa

    from steelyard.telemetry.arrays import integers, texts
    from steelyard.telemetry.engine import fetch, fetch_batches, keep

    hours = [
        (at, hour)
        for at, place in enumerate(places)
        for hour in sorted({hour for e in by_place[place] for hour in _hours(e, rule, bar)})
    ]

    def table(numbers: Sequence[int], **more: Any) -> Any:
        columns = {
            "cluster": texts([places[at][0] for at in numbers]),
            "machine": texts([places[at][1] for at in numbers]),
            "place": integers(numbers),
        }
        return ibis.memtable(pa.table(columns | more))

    numbers = keep(tasks(samples, table(range(len(places)))))
    names = fetch(numbers.order_by("number").select("job", "task", "job_class"))
    known = list(zip(*(names[name].to_pylist() for name in ("job", "task", "job_class")), strict=True))
    wanted = table([at for at, _ in hours], hour=integers([hour for _, hour in hours]))
    batches = fetch_batches(expression(samples, wanted, numbers, sources, rule, guards), _BATCH_ROWS)
    for at, columns in _by_place(batches):
        yield places[at], _machine(columns, known)


def _hours(episode: Episode, rule: Rule, bar: Bar) -> range:
    """Return the beginnings of the hours that the looks at an episode go back to."""
    looks = episode.looks(bar)
    first = looks[0] - looks[0] % rule.align_s - bar.evidence_s + rule.align_s
    last = looks[-1] - looks[-1] % rule.align_s + rule.align_s
    return range(first - first % HOUR_S, last, HOUR_S)


_Columns = dict[str, NDArray[Any]]


def _by_place(batches: Iterable[Any]) -> Iterator[tuple[int, _Columns]]:
    """Yield the rows of one place after the other, as columns."""
    import pyarrow as pa

    from steelyard.telemetry.engine import floats, integers

    parts: list[_Columns] = []
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        columns: _Columns = {name: integers(rows[name]) for name in ("place", "number", "span")}
        columns |= {name: floats(rows[name]) for name in ("usage", "cpi", "source", "misses")}
        ends = np.flatnonzero(np.diff(columns["place"])) + 1
        for begin, end in zip([0, *ends], [*ends, len(rows)], strict=True):
            part = {name: values[begin:end] for name, values in columns.items()}
            if parts and parts[-1]["place"][0] != part["place"][0]:
                yield _joined(parts)
                parts = []
            parts.append(part)
    if parts:
        yield _joined(parts)


def _joined(parts: Sequence[_Columns]) -> tuple[int, _Columns]:
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return int(columns["place"][0]), columns


def _machine(columns: _Columns, known: Sequence[tuple[str, str, str]]) -> Machine:
    numbers, row = np.unique(columns["number"], return_inverse=True)
    span = columns["span"]
    first = int(span.min())
    shape = len(numbers), int(span.max()) - first + 1
    tables = {}
    for name in ("usage", "cpi", "source", "misses"):
        tables[name] = np.full(shape, np.nan)
        tables[name][row, span - first] = columns[name]
    tables["usage"][~(tables["usage"] >= 0)] = np.nan
    return Machine(first, [known[number] for number in numbers], **tables)


def judge_episode(
    episode: Episode, machine: Machine, source: int, rule: Rule = PAPER, bar: Bar = TESTED
) -> Judged:
    """Return an episode with its judgement; ``source`` is the number of its source of CPI."""
    for now in episode.looks(bar):
        judgement, means = _look(episode, now, machine, source, rule, bar)
        if judgement.antagonist is not None:
            break
    return Judged(episode, now, judgement, means)


def _look(
    episode: Episode, now: int, machine: Machine, source: int, rule: Rule, bar: Bar
) -> tuple[Judgement, dict[tuple[str, str], float]]:
    last = now // rule.align_s - machine.first
    columns = slice(max(0, last + 1 - bar.evidence_s // rule.align_s), last + 1)
    mine = [(job, task) for job, task, _ in machine.tasks].index((episode.key[3], episode.key[4]))
    cpi = np.where(machine.source[mine, columns] == source, machine.cpi[mine, columns], np.nan)
    usage, misses = machine.usage[:, columns], machine.misses[:, columns]
    here = np.isfinite(usage)
    windows = here.sum(axis=1)
    sums = np.where(here, usage, 0.0).sum(axis=1)
    suspects, means = [], {}
    for row in np.flatnonzero(windows).tolist():
        if row == mine:
            continue
        job, task, job_class = machine.tasks[row]
        means[job, task] = float(sums[row] / windows[row])
        suspects.append(Suspect(job, task, job_class, usage[row], misses[row]))
    return judge_tested(episode.job_class, cpi, episode.threshold_cpi, suspects, rule, bar), means
