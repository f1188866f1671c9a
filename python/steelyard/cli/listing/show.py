"""``steelyard list``: what can be run, with what settings, and what was run.

In: what ``listed`` finds. Out: tables, or one JSON document.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from steelyard._base import UsageError
from steelyard.bench import declaration, tiers
from steelyard.bench.parameters import Parameter, format_value, nearest
from steelyard.cli.listing import listed
from steelyard.cli.listing.listed import EXPERIMENT, Listed, ListedExperiment, ListedRun, ListedSuite
from steelyard.cli.output import print_json, show_answer
from steelyard.report.answer import Answer, Cell, Column, Section, Table, table, written

_LATEST = 5
"""Runs that the short list shows."""
_RUNS = ("run", "state", "result")
Row = tuple[str, str, str | Cell]
"""A run, a suite or an experiment: its id, its state, its result."""
_PARAMETER_COLUMNS = ("name", "range", "unit", "default", "description")

PARTS = ("all", "benchmarks", "suites", "tiers", "parameters", "hooks", "runs")


def show(part: str | None, runs: Path, *, everything: bool, as_json: bool) -> int:
    """Print what there is: in short, all of it, or one of its parts."""
    if part is not None and part not in PARTS:
        raise UsageError(f"unknown list {part!r}{nearest(part, PARTS)}", hint=f"lists: {', '.join(PARTS)}")
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"{runs} is not a folder", hint="give the folder of runs with --runs")
    # A document is for programs, which pick what they need: it is never shortened.
    if part is None and not everything and not as_json:
        return show_answer(_short(runs), None)
    found = listed.find(part or "all", runs)
    if as_json:
        print_json(found)
        return 0
    sections = [
        Section(f"list-{at}", title, (_table(columns, rows),))
        for at, (title, columns, rows) in enumerate(_tables(found, part))
    ]
    lines = []
    if found.runs is not None:
        rows = _all_runs(found)
        sections += [Section("runs", f"Runs under {runs}", (_table(_RUNS, rows),))] if rows else []
        lines += [] if rows else [f"No runs under {runs}."]
    return show_answer(_answer(sections, lines), None)


def _answer(sections: Sequence[Section], lines: Sequence[str]) -> Answer:
    most = max((len(table.rows) for section in sections for table in section.tables), default=1)
    return Answer("List", "", sections, lines=lines, rows=most, eyebrow="list")


def _short(out: Path) -> Answer:
    """Return benchmarks, suites and the last runs."""
    benchmarks = listed.benchmarks()
    others = {each.name for each in declaration.working() if each.recipe is not None}
    rows = [(each.name, each.doc) for each in benchmarks if each.name not in others]
    stacks = [each.name for each in benchmarks if each.name in others]
    # Those are many, and nothing to run before `steelyard install`.
    rows.append(("...", f"of other software: {', '.join(stacks)}"))
    # Suites of the same benchmarks, which differ in their tier, share a row.
    names: dict[str, list[str]] = {}
    for suite in tiers.suites().values():
        names.setdefault(", ".join(suite.benchmarks), []).append(suite.name)
    suites = [(", ".join(known), members) for members, known in names.items()]
    sections = [
        Section("benchmarks", "Benchmarks", (_table(("name", "description"), rows),)),
        Section("suites", "Suites", (_table(("name", "benchmarks"), suites),)),
    ]
    title, latest = _latest(out)
    lines = [] if latest else [f"No runs under {out}."]
    sections += [Section("runs", title, (_table(_RUNS, latest),))] if latest else []
    return _answer(sections, [*lines, "More: steelyard list --all|" + "|".join(PARTS[1:])])


def _latest(out: Path) -> tuple[str, list[Row]]:
    """Return the last runs and suites with their title; only these are read, however many there are."""
    if not any(any(out.glob(f"*/{manifest}")) for manifest in ("run.json", "suite.json", EXPERIMENT)):
        return "", []
    from steelyard.bench import runs

    known = _by_time([*runs.outermost(out), *listed.experiments(out)])
    rows: list[Row] = []
    for directory in known[-_LATEST:]:
        if (directory / "suite.json").exists():
            rows.append(_suite_row(listed.suite_in(directory)))
        elif (directory / EXPERIMENT).exists():
            rows.append(_experiment_row(listed.experiment_in(directory)))
        else:
            rows.append(_run_row(listed.run_in(directory, out, runs.attempt(directory))))
    title = f"The last {_LATEST} of {len(known)} runs under {out}"
    return (title if len(known) > _LATEST else f"Runs under {out}"), rows


def _tables(found: Listed, part: str | None) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    if part != "parameters" and found.benchmarks is not None:
        yield "Benchmarks", ("name", "description"), [(each.name, each.doc) for each in found.benchmarks]
    if found.suites is not None:
        suites = [(each.name, each.tier, ", ".join(each.benchmarks)) for each in found.suites]
        yield "Suites", ("name", "tier", "benchmarks"), suites
    if found.tiers is not None:
        yield "Tiers", ("name", "description"), [(each.name, each.doc) for each in found.tiers]
    if part in (None, "all", "parameters"):
        for benchmark in declaration.working():
            title = f"Parameters of {benchmark.name} (--set NAME=VALUE)"
            yield title, _PARAMETER_COLUMNS, _parameters(benchmark.load().parameters)
    if found.hooks is not None:
        rows = [(each.name, each.doc) for each in found.hooks]
        yield "Hooks (--hook NAME:OPTION=VALUE)", ("name", "description"), rows
        for hook in found.hooks if part == "hooks" else ():
            yield f"Options of hook {hook.name}", _PARAMETER_COLUMNS, _parameters(hook.options)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str | Cell]]) -> Table:
    """Return a table of texts. Names are there to be copied: they are never cut."""
    first, *others = columns
    named = [Column(first, is_text=True, is_whole=True)]
    named += [Column(name, is_text=True, is_answer=True) for name in others]
    return table(named, rows)


def _parameters(parameters: Sequence[Parameter]) -> list[tuple[str, str, str, str, str]]:
    rows = []
    for parameter in parameters:
        default = (
            format_value(parameter, parameter.default)
            if parameter.default is not None
            else parameter.derived or "required"
        )
        rows.append((parameter.name, parameter.range_text, parameter.unit or "", default, parameter.doc))
    return rows


def _by_time(folders: Collection[Path]) -> list[Path]:
    """Return folders in the order in which their work began: names do not say it."""
    if not folders:
        return []
    from steelyard.report.folders.naming import begin_ns

    return sorted(folders, key=lambda folder: (begin_ns(folder), folder.name))


def _all_runs(found: Listed) -> list[Row]:
    """Return runs, suites and experiments in the order in which they began, members under the suite in whose
    folder they lie.
    """
    known, suites, experiments = found.runs or (), found.suite_runs or (), found.experiments or ()
    rows: dict[Path, Row] = {run.directory: _run_row(run) for run in known if run.suite_id is None}
    rows |= {suite.directory: _suite_row(suite) for suite in suites}
    rows |= {one.directory: _experiment_row(one) for one in experiments}
    shown: list[Row] = []
    for directory in _by_time(rows):
        shown.append(rows[directory])
        members = {run.directory: _run_row(run) for run in known if run.directory.parent == directory}
        for member in _by_time(members):
            name, state, result = members[member]
            shown.append((f"  {name}", state, result))
    return shown


def _suite_row(suite: ListedSuite) -> Row:
    missing = suite.status_reason or (f"no overall score: {suite.no_overall}" if suite.no_overall else "")
    score: str | Cell = missing
    if suite.overall is not None:
        from steelyard.report.score_text import ratio_text

        score = written(f"{ratio_text(suite.overall)} overall", suite.overall, unit="ratio")
    return suite.suite_id, suite.verdict or suite.status, score


def _experiment_row(one: ListedExperiment) -> Row:
    outcomes = ", ".join(f"{arm} {outcome}" for arm, outcome in one.outcomes.items())
    shown = f"{one.factor}: {outcomes}" if outcomes else one.status_reason or ""
    return one.experiment_id, one.status, shown


def _run_row(run: ListedRun) -> Row:
    result: str | Cell = run.status_reason or ""
    for name, value in run.metrics.items():
        if value is not None:
            from steelyard.records import Metric
            from steelyard.report.metrics import headline_text

            metric = Metric(value=value, unit=run.unit or "1")
            result = written(headline_text(name, metric, run.benchmark or ""), value, unit=metric.unit)
    return run.run_id, run.verdict or run.status, result
