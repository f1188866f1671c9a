"""The part of a report that benchmarks of Hadoop share: running tasks over time, and figures of each phase.

In: `ReportData` of a run of ``nutch`` or ``bayes``. Out: `Section`s.
"""

import json
from typing import Any

import numpy as np

from steelyard._base import SteelyardError, read_regular
from steelyard.benchmarks.hadoop.benchmark import ROUNDS
from steelyard.report.answer import Cell, Section, Timeline, Trace, absent, grid, measured
from steelyard.report.model import ReportData
from steelyard.report.running import running
from steelyard.report.workload_charts import seconds, window_of

MOST_BYTES = 256 << 20
_COLUMNS = (
    *("round", "phase", "time", "tasks", "records in", "read", "records out", "shuffled"),
    *("spilled records", "CPU use", "garbage collection"),
)
_WORDS = {"map": "map tasks", "reduce": "reduce tasks"}


def sections(data: ReportData) -> list[Section]:
    """Return the chart of running tasks, the table of phases and the checked results."""
    document = _rounds(data)
    rounds = document.get("rounds", [])
    rows = tuple(
        _row(each["name"], name, phase, document["slots"])
        for each in rounds
        for name, phase in each["phases"].items()
    )
    intro = (
        "Reduce tasks count from the end of the last map task. CPU use is of all slots; garbage collection is"
        " its share of the tasks' time. A record that is spilled twice counts twice."
    )
    found = [
        Section("time", "Over time", (_running(data, rounds),), "The shaded area is the measure phase."),
        Section("phases", "Phases of jobs", (grid(_COLUMNS, rows),), intro),
    ]
    skipped = document.get("data", {}).get("skipped")
    if skipped:
        found.append(_corpus(document["data"]))
    results = document.get("results", {}).get("found", [])
    if results and "queries" in results[0]:
        found.append(_queries(results))
    if results and "confusion" in results[0]:
        found.append(_confusion(results[0]["confusion"]))
    return found


def _rounds(data: ReportData) -> dict[str, Any]:
    """Return what the run wrote of its rounds, {} where that cannot be read."""
    try:
        found: dict[str, Any] = json.loads(read_regular(data.folder / ROUNDS, at_most_bytes=MOST_BYTES))
    except (OSError, ValueError, SteelyardError):
        return {}
    return found


def _words(name: str) -> str:
    """Return a phase in words.

    >>> _words("train_map"), _words("reduce")
    ('train: map tasks', 'reduce tasks')
    """
    job, _, phase = name.rpartition("_")
    return f"{job}: {_WORDS[phase]}" if job else _WORDS[phase]


def _running(data: ReportData, rounds: list[dict[str, Any]]) -> Timeline:
    """Return the tasks that ran at each moment, by phase."""
    traces = []
    names = list(rounds[0]["phases"]) if rounds else []
    for at, name in enumerate(names):
        spans = [span for each in rounds for span in each["phases"][name]["spans_ns"]]
        times, counts = running(spans)
        # A count holds until the next change.
        x = seconds(data, np.repeat(times, 2)[1:].tolist())
        y = np.repeat(counts, 2)[:-1].astype(np.float64)
        traces.append(Trace(_words(name), f"line{at}", y, x=x))
    if not traces:
        return absent("tasks", "Running tasks", "the run left no times of tasks")
    return Timeline("tasks", "Running tasks", unit="1", traces=tuple(traces), window=window_of(data))


def _figure(value: float | None, unit: str) -> Cell:
    return measured(value, unit)


def _row(round_name: str, name: str, phase: dict[str, Any], slots: int) -> tuple[Cell, ...]:
    length_ns = phase["end_ns"] - phase["begin_ns"]
    available_s = length_ns / 1e9 * slots
    run_s = sum(end - begin for begin, end in phase["spans_ns"]) / 1e9
    return (
        Cell(round_name),
        Cell(_words(name), is_text=True),
        measured(length_ns, "ns"),
        _figure(phase["tasks"], "1"),
        _figure(phase["input_records"], "1"),
        _figure(phase["input_bytes"], "bytes"),
        _figure(phase["output_records"], "1"),
        _figure(phase["shuffled_bytes"], "bytes"),
        _figure(phase["spilled_records"], "1"),
        _figure(phase["cpu_s"] / available_s if available_s else None, "ratio"),
        _figure(phase["gc_s"] / run_s if run_s else None, "ratio"),
    )


def _queries(results: list[dict[str, Any]]) -> Section:
    rows = tuple(
        (
            Cell(each["name"]),
            Cell(query["query"]),
            _figure(query["hits"], "1"),
            _figure(query["expected"], "1"),
        )
        for each in results
        for query in each["queries"]
    )
    intro = "Hits were counted when the crawl was made, and are looked up in the index."
    return Section("queries", "Queries", (grid(("round", "query", "hits", "expected"), rows),), intro)


def _corpus(facts: dict[str, Any]) -> Section:
    """Return what became of every document of a user's corpus."""
    kept = {"trained with": facts["training_documents"], "held out": facts["held_out_documents"]}
    rows = tuple(
        (Cell(what, is_text=True), _figure(count, "1"), _figure(count / facts["pages"], "ratio"))
        for what, count in (*kept.items(), *((f"skipped: {why}", n) for why, n in facts["skipped"].items()))
    )
    intro = f"What became of the {facts['pages']:,} documents that were read."
    return Section("corpus", "Corpus", (grid(("documents", "count", "share"), rows),), intro)


def _confusion(confusion: dict[str, int]) -> Section:
    """Return how many documents of each class were found to be of it, and what the others were taken for."""
    of_class: dict[str, dict[str, int]] = {}
    for names, count in confusion.items():
        actual, _, taken_for = names.partition("\t")
        of_class.setdefault(actual, {})[taken_for] = count
    rows = []
    for actual, taken in sorted(of_class.items()):
        every, right = sum(taken.values()), taken.get(actual, 0)
        others = {name: count for name, count in taken.items() if name != actual}
        mistaken = max(others, key=lambda name: others[name]) if others else "none"
        rows.append((Cell(actual), _figure(every, "1"), _figure(right / every, "ratio"), Cell(mistaken)))
    intro = "Held-out documents by class, and the class that the others were mostly taken for."
    columns = ("class", "documents", "right", "mostly mistaken for")
    return Section("classes", "Classes", (grid(columns, tuple(rows)),), intro)
