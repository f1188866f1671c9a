"""``steelyard install`` and ``steelyard uninstall``: the software that benchmarks are made of."""

from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import ExitCode, SteelyardError, UsageError
from steelyard.bench import declaration, tiers, undo
from steelyard.bench.stack.install import Installed, NotInstalled, Options, install, recipe_of, uninstall
from steelyard.bench.stack.recipe import Recipe
from steelyard.cli.output import complain, output_console, print_json
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
    from rich.table import Table

    console = output_console()
    if free:
        console.print(f"{', '.join(free)}: nothing to install", markup=False, highlight=False)
    if not done:
        return
    from steelyard.report import format as fmt

    table = Table(box=None, pad_edge=False)
    for column in ("benchmark", "install", "smoke run", "result"):
        table.add_column(column, header_style="dim", overflow="fold")
    for record in done:
        smoke = record.smoke
        result = "not run" if smoke is None else f"{fmt.quantity(smoke.value, smoke.unit)} {smoke.metric}"
        took = "-" if record.smoke_s is None else f"{record.smoke_s:.0f} s"
        table.add_row(record.benchmark, f"{record.install_s:.0f} s", took, result)
    console.print(table)


def _show_state() -> None:
    """Print which benchmarks need an installation, and which have one."""
    from rich.table import Table

    from steelyard.bench.stack import installation
    from steelyard.bench.stack.recipe import missing

    table = Table(box=None, pad_edge=False)
    for column in ("benchmark", "state", "needs"):
        table.add_column(column, header_style="dim", overflow="fold")
    for declared in declaration.working():
        recipe = declared.recipe
        if recipe is None:
            continue
        lacking = missing(recipe)
        is_known = installation.path_of(declared.name).is_file()
        state = "missing" if lacking else "installed" if is_known else "present, not checked"
        needs = [*recipe.packages.apt, *([] if recipe.java is None else [recipe.java.versions])]
        table.add_row(declared.name, state, ", ".join([*needs, *recipe.payloads]))
    output_console().print(table)


def uninstall_and_show(name: str, *, packages: bool, as_json: bool) -> int:
    """Uninstall a benchmark and show what was removed."""
    if name not in declaration.names():
        raise UsageError(f"unknown benchmark {name!r}", hint="steelyard list shows benchmarks")
    removal = uninstall(name, packages=packages)
    if as_json:
        print_json(removal)
        return int(ExitCode.OK)
    console = output_console()
    parts = [f"{removal.payload_bytes / 2**20:.0f} MiB of files"] if removal.payload_bytes else []
    parts += [f"packages {', '.join(removal.packages)}"] if removal.packages else []
    removed = " and ".join(parts) or "its record"
    console.print(f"{name}: removed {removed}", markup=False, highlight=False)
    for kept in removal.kept:
        console.print(f"kept {kept}", markup=False, highlight=False)
    return int(ExitCode.OK)


def options(cache: Path | None, *, offline: bool, smoke: bool, force: bool) -> Options:
    """Return the options of an installation. Raises UsageError for a cache that is not a folder."""
    if cache is not None and cache.exists() and not cache.is_dir():
        raise UsageError(f"{cache} is not a folder")
    if offline and cache is None:
        raise UsageError("--offline needs --cache DIR, the folder to install from")
    return Options(cache=cache, offline=offline, smoke=smoke, force=force)
