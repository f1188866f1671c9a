"""``steelyard list``: what can be run, with what settings, and what was run.

Everything shown is read from the declarations that also parse the command line. Runs are read as plain JSON
where that is enough, so that the list comes at once.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import EnvironmentLacksError, RecordError, UsageError
from steelyard.bench import declaration, tiers
from steelyard.bench import hook as hooks
from steelyard.bench.parameters import Parameter, format_value, nearest
from steelyard.cli.output import print_json, show_answer
from steelyard.report.answer import Answer, Column, Section, Table, table

if TYPE_CHECKING:
    from steelyard.records import Run

EXPERIMENT = "experiment.json"
_LATEST = 5
"""Runs that the short list shows."""
_RUNS = ("run", "state", "result")
_PARAMETER_COLUMNS = ("name", "range", "unit", "default", "description")

PARTS = ("all", "benchmarks", "suites", "tiers", "parameters", "hooks", "runs")


def parameter_document(parameter: Parameter) -> dict[str, Any]:
    """Return a declaration as ``--json`` shows it."""
    return {
        "name": parameter.name,
        "kind": parameter.kind,
        "unit": parameter.unit,
        "default": parameter.default,
        "derived": parameter.derived,
        "minimum": parameter.minimum,
        "maximum": parameter.maximum,
        "choices": list(parameter.choices),
        "doc": parameter.doc,
    }


def document(part: str, out: Path) -> dict[str, Any]:
    """Return everything that ``part`` names."""
    parts: dict[str, Any] = {}
    if part in ("all", "benchmarks", "parameters"):
        parts["benchmarks"] = [_benchmark(name) for name in declaration.names()]
    if part in ("all", "suites"):
        parts["suites"] = [
            {"name": suite.name, "tier": suite.tier, "benchmarks": list(suite.benchmarks)}
            for suite in tiers.suites().values()
        ]
    if part in ("all", "tiers"):
        parts["tiers"] = [{"name": name, "doc": doc} for name, doc in tiers.TIERS.items()]
    if part in ("all", "hooks"):
        parts["hooks"] = [_hook(name) for name in hooks.names()]
    if part in ("all", "runs"):
        parts["runs"] = _runs(out)
        parts["suite_runs"] = _suite_runs(out)
        parts["experiments"] = [_experiment(folder) for folder in _experiments(out)]
    return parts


def _benchmark(name: str) -> dict[str, Any]:
    try:
        declared = declaration.find(name)
        parameters = [parameter_document(parameter) for parameter in declared.load().parameters]
    except EnvironmentLacksError as error:
        return {"name": name, "title": name, "doc": error.message, "parameters": []}
    return {"name": name, "title": declared.title, "doc": declared.doc, "parameters": parameters}


def _hook(name: str) -> dict[str, Any]:
    hook = hooks.find(name)
    return {
        "name": name,
        "doc": hook.doc,
        "always": hook.always,
        "options": [parameter_document(parameter) for parameter in hook.parameters],
    }


def _runs(out: Path) -> list[dict[str, Any]]:
    if not out.is_dir() or not any(any(out.glob(f"{deep}/run.json")) for deep in ("*", "*/*")):
        return []
    from steelyard.bench import runs

    return [_run(directory, out, run) for directory, run in runs.listing(out)]


def _run(directory: Path, out: Path, run: "Run | RecordError") -> dict[str, Any]:
    if isinstance(run, RecordError):
        return {"run_id": directory.name, "status": "unreadable", "status_reason": run.message}
    declared = declaration.of_run(run.benchmark)
    # A benchmark is shown by the metric that it is scored by, a characterization by the first that it has.
    names = declared.headline[:1] if declared.listed else declared.headline
    first = next((name for name in names if name in run.metrics), "")
    headline = {first: run.metrics[first].value} if first else {}
    return {
        "run_id": run.run_id,
        "directory": str(directory),
        "suite_id": directory.parent.name if directory.parent != out else None,
        "benchmark": run.benchmark,
        "tier": run.tier,
        "status": str(run.status),
        "status_reason": run.status_reason,
        "verdict": str(run.verdict.level) if run.verdict else None,
        "metrics": headline,
    }


def _suite_runs(out: Path) -> list[dict[str, Any]]:
    if not out.is_dir() or not any(out.glob("*/suite.json")):
        return []
    from steelyard.bench import runs

    return [_suite_run(directory) for directory in runs.suites(out)]


def _experiments(out: Path) -> list[Path]:
    return sorted(path.parent for path in out.glob(f"*/{EXPERIMENT}")) if out.is_dir() else []


def _experiment(directory: Path) -> dict[str, Any]:
    from steelyard.experiment import engine
    from steelyard.experiment.answers import answers

    try:
        experiment = engine.load(directory)
    except RecordError as error:
        return {"experiment_id": directory.name, "status": "unreadable", "status_reason": error.message}
    found = answers(experiment, is_over=experiment.status == "complete")
    return {
        "experiment_id": experiment.experiment_id,
        "directory": str(directory),
        "benchmark": experiment.benchmark,
        "factor": experiment.factor,
        "metric": experiment.metric.name,
        "status": str(experiment.status),
        "status_reason": experiment.status_reason,
        "outcomes": {answer.arm: str(answer.outcome) for answer in found},
    }


def _suite_run(directory: Path) -> dict[str, Any]:
    from steelyard.bench.suites import suite as suite_files

    try:
        suite, _ = suite_files.load(directory)
    except RecordError as error:
        return {"suite_id": directory.name, "status": "unreadable", "status_reason": error.message}
    return {
        "suite_id": suite.suite_id,
        "directory": str(directory),
        "suite": suite.suite,
        "tier": suite.tier,
        "status": str(suite.status),
        "status_reason": suite.status_reason,
        "members": [member.benchmark for member in suite.members],
        "overall": suite.overall.score if suite.overall is not None else None,
    }


def show(part: str | None, runs: Path, *, everything: bool, as_json: bool) -> int:
    """Print what there is: in short, all of it, or one of its parts."""
    if part is not None and part not in PARTS:
        raise UsageError(f"unknown list {part!r}{nearest(part, PARTS)}", hint=f"lists: {', '.join(PARTS)}")
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"{runs} is not a folder", hint="give the folder of runs with --runs")
    # A document is for programs, which pick what they need: it is never shortened.
    if part is None and not everything and not as_json:
        return show_answer(_short(runs), None)
    parts = document(part or "all", runs)
    if as_json:
        print_json(parts, kind="list")
        return 0
    sections = [
        Section(f"list-{at}", title, (_table(columns, rows),))
        for at, (title, columns, rows) in enumerate(_tables(parts, part))
    ]
    lines = []
    if "runs" in parts:
        rows = _all_runs(parts["runs"], parts["suite_runs"], parts["experiments"])
        sections += [Section("runs", f"Runs under {runs}", (_table(_RUNS, rows),))] if rows else []
        lines += [] if rows else [f"No runs under {runs}."]
    return show_answer(_answer(sections, lines), None)


def _answer(sections: Sequence[Section], lines: Sequence[str]) -> Answer:
    most = max((len(table.rows) for section in sections for table in section.tables), default=1)
    return Answer("List", "", sections, lines=lines, rows=most, eyebrow="list")


def _short(out: Path) -> Answer:
    """Return benchmarks, suites and the last runs."""
    parts = document("benchmarks", out) | document("suites", out)
    others = {each.name for each in declaration.working() if each.recipe is not None}
    rows = [(b["name"], b["doc"]) for b in parts["benchmarks"] if b["name"] not in others]
    stacks = [b["name"] for b in parts["benchmarks"] if b["name"] in others]
    # Those are many, and nothing to run before `steelyard install`.
    rows.append(("...", f"of other software: {', '.join(stacks)}"))
    # Suites of the same benchmarks, which differ in their tier, share a row.
    names: dict[str, list[str]] = {}
    for suite in parts["suites"]:
        names.setdefault(", ".join(suite["benchmarks"]), []).append(suite["name"])
    suites = [(", ".join(known), benchmarks) for benchmarks, known in names.items()]
    sections = [
        Section("benchmarks", "Benchmarks", (_table(("name", "description"), rows),)),
        Section("suites", "Suites", (_table(("name", "benchmarks"), suites),)),
    ]
    title, latest = _latest(out)
    lines = [] if latest else [f"No runs under {out}."]
    sections += [Section("runs", title, (_table(_RUNS, latest),))] if latest else []
    return _answer(sections, [*lines, "More: steelyard list --all|" + "|".join(PARTS[1:])])


def _latest(out: Path) -> tuple[str, list[tuple[str, str, str]]]:
    """Return the last runs and suites with their title; only these are read, however many there are."""
    if not any(any(out.glob(f"*/{manifest}")) for manifest in ("run.json", "suite.json", EXPERIMENT)):
        return "", []
    from steelyard.bench import runs

    known = sorted([*runs.outermost(out), *_experiments(out)])
    rows = []
    for directory in known[-_LATEST:]:
        if (directory / "suite.json").exists():
            rows.append(_suite_row(_suite_run(directory)))
        elif (directory / EXPERIMENT).exists():
            rows.append(_experiment_row(_experiment(directory)))
        else:
            rows.append(_run_row(_run(directory, out, runs.attempt(directory))))
    title = f"The last {_LATEST} of {len(known)} runs under {out}"
    return (title if len(known) > _LATEST else f"Runs under {out}"), rows


def _tables(
    parts: dict[str, Any], part: str | None
) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    if part != "parameters" and "benchmarks" in parts:
        rows = [(b["name"], b["doc"]) for b in parts["benchmarks"]]
        yield "Benchmarks", ("name", "description"), rows
    if "suites" in parts:
        suites = [(s["name"], s["tier"], ", ".join(s["benchmarks"])) for s in parts["suites"]]
        yield "Suites", ("name", "tier", "benchmarks"), suites
    if "tiers" in parts:
        yield "Tiers", ("name", "description"), [(t["name"], t["doc"]) for t in parts["tiers"]]
    if part in (None, "all", "parameters"):
        for benchmark in declaration.working():
            title = f"Parameters of {benchmark.name} (--set NAME=VALUE)"
            yield title, _PARAMETER_COLUMNS, _parameters(benchmark.load().parameters)
    if "hooks" in parts:
        rows = [(h["name"], h["doc"]) for h in parts["hooks"]]
        yield "Hooks (--hook NAME:OPTION=VALUE)", ("name", "description"), rows
        for name in hooks.names() if part == "hooks" else ():
            yield f"Options of hook {name}", _PARAMETER_COLUMNS, _parameters(hooks.find(name).parameters)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
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


def _all_runs(
    listed: Sequence[dict[str, Any]],
    suites: Sequence[dict[str, Any]],
    experiments: Sequence[dict[str, Any]] = (),
) -> list[tuple[str, str, str]]:
    """Return runs, suites and experiments in order of their ids, members under the suite in whose folder they
    lie.
    """
    rows = [_run_row(run) for run in listed if run.get("suite_id") is None]
    shown: list[tuple[str, str, str]] = []
    for row in sorted([*rows, *map(_suite_row, suites), *map(_experiment_row, experiments)]):
        shown.append(row)
        members = [_run_row(run) for run in listed if run.get("suite_id") == row[0]]
        shown += [(f"  {name}", state, result) for name, state, result in members]
    return shown


def _suite_row(suite: dict[str, Any]) -> tuple[str, str, str]:
    score = f"overall {suite['overall']:.3g}" if suite.get("overall") else ""
    return suite["suite_id"], suite["status"], score or str(suite.get("status_reason") or "")


def _experiment_row(one: dict[str, Any]) -> tuple[str, str, str]:
    outcomes = ", ".join(f"{arm} {outcome}" for arm, outcome in one.get("outcomes", {}).items())
    shown = f"{one['factor']}: {outcomes}" if outcomes else str(one.get("status_reason") or "")
    return one["experiment_id"], one["status"], shown


def _run_row(run: dict[str, Any]) -> tuple[str, str, str]:
    figure = ", ".join(
        f"{name} {value:,.0f}" if abs(value) >= 1000 else f"{name} {value:.3g}"
        for name, value in run.get("metrics", {}).items()
        if value is not None
    )
    state = run["verdict"] if run.get("verdict") else run["status"]
    return run["run_id"], str(state), figure or str(run.get("status_reason") or "")
