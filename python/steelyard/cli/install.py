"""``steelyard install`` and ``steelyard uninstall``: the software that benchmarks are made of."""

from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import ExitCode, SteelyardError, UsageError
from steelyard.bench import declaration, tiers, undo
from steelyard.bench.stack.install import Installed, NotInstalled, Options, install, recipe_of, uninstall
from steelyard.bench.stack.recipe import Recipe
from steelyard.cli.output import complain, print_json, show_answer
from steelyard.cli.progress import shown

if TYPE_CHECKING:
    from steelyard.bench.stack.installation import Installation


def names_of(words: list[str]) -> list[str]:
    """Return the benchmarks that names of benchmarks and suites stand for, each once, in order."""
    names: dict[str, None] = {}
    for word in words:
        _, members, _ = tiers.resolve(word, None)
        names.update(dict.fromkeys(members))
    return list(names)


def install_and_show(words: list[str], options: Options, *, as_json: bool) -> int:
    """Install benchmarks and show the outcome; one that fails does not keep the next from being tried."""
    if not words:
        _show_state()
        return int(ExitCode.OK)
    names = names_of(words)
    free = [name for name in names if recipe_of(name) == Recipe()]
    done: list[Installation] = []
    failed: dict[str, SteelyardError] = {}
    with shown() as progress:
        for line in undo.replay():
            progress.note(line)
        for name in names:
            if name in free:
                continue
            try:
                done.append(install(name, options, progress=progress))
            except SteelyardError as error:
                failed[name] = error
    for refused in failed.values():
        complain(refused)
    if as_json:
        reasons = [NotInstalled(name, refused.message, refused.hint) for name, refused in failed.items()]
        print_json(Installed(done, reasons, free))
    else:
        _show(done, free)
    return int(max((refused.exit_code for refused in failed.values()), default=ExitCode.OK))


def _show(done: "list[Installation]", free: list[str]) -> None:
    from steelyard.report import format as fmt
    from steelyard.report.answer import Answer, Column, Figure, Section, table

    columns = (
        Column("benchmark", is_text=True),
        Column("install", "s"),
        Column("smoke run", "s"),
        Column("result", is_text=True),
    )
    rows = []
    for record in done:
        smoke = record.smoke
        result = "not run" if smoke is None else f"{fmt.quantity(smoke.value, smoke.unit)} {smoke.metric}"
        rows.append((record.benchmark, Figure(record.install_s), Figure(record.smoke_s), result))
    heading = f"{', '.join(free)}: nothing to install" if free else ""
    sections = [Section("installed", "Installed", (table(columns, rows),))] if rows else []
    show_answer(Answer("Installation", heading, sections, rows=max(1, len(rows)), eyebrow="install"), None)


def _show_state() -> None:
    """Print which benchmarks need an installation, and which have one."""
    from steelyard.bench.stack import installation
    from steelyard.bench.stack.recipe import missing
    from steelyard.report.answer import Answer, Column, Section, table

    columns = (
        Column("benchmark", is_text=True, is_whole=True),
        Column("state", is_text=True, is_answer=True),
        Column("needs", is_text=True, rank=1),
    )
    rows = []
    for declared in declaration.working():
        recipe = declared.recipe
        if recipe is None:
            continue
        lacking = missing(recipe)
        is_known = installation.path_of(declared.name).is_file()
        state = "missing" if lacking else "installed" if is_known else "present, not checked"
        needs = [*recipe.packages.apt, *([] if recipe.java is None else [recipe.java.versions])]
        rows.append((declared.name, state, ", ".join([*needs, *recipe.payloads])))
    able = sum(state != "missing" for _, state, _ in rows)
    sections = [Section("state", "Software of others", (table(columns, rows),))]
    heading = f"{able} of {len(rows)} benchmarks of other software can run"
    show_answer(Answer("Installation", heading, sections, rows=len(rows), eyebrow="install"), None)


def uninstall_and_show(name: str, *, packages: bool, as_json: bool) -> int:
    """Uninstall a benchmark and show what was removed."""
    if name not in declaration.names():
        raise UsageError(f"unknown benchmark {name!r}", hint="steelyard list shows benchmarks")
    removal = uninstall(name, packages=packages)
    if as_json:
        print_json(removal)
        return int(ExitCode.OK)
    parts = [f"{removal.payload_bytes / 2**20:.0f} MiB of files"] if removal.payload_bytes else []
    parts += [f"packages {', '.join(removal.packages)}"] if removal.packages else []
    removed = " and ".join(parts) or "its record"
    from steelyard.report.answer import Answer

    kept = [f"kept {each}" for each in removal.kept]
    return show_answer(Answer("Uninstalled", f"{name}: removed {removed}", [], lines=kept), None)


def options(cache: Path | None, *, offline: bool, smoke: bool, force: bool) -> Options:
    """Return the options of an installation. Raises UsageError for a cache that is not a folder."""
    if cache is not None and cache.exists() and not cache.is_dir():
        raise UsageError(f"{cache} is not a folder")
    if offline and cache is None:
        raise UsageError("--offline needs --cache DIR, the folder to install from")
    return Options(cache=cache, offline=offline, smoke=smoke, force=force)
