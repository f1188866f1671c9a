"""The public declaration of a benchmark: everything that other stages ask of it, in one place.

In: ``declaration.py`` in a room of ``benchmarks`` or a folder of this package, or the entry point group
``steelyard.benchmarks`` of an installed package, each naming a `Declaration`:

    [project.entry-points."steelyard.benchmarks"]
    spin = "spin_bench:DECLARATION"

Out: declarations by name. They are light: what they name as ``module:attribute`` is imported when it is used,
so that listing benchmarks imports none of them, and no stage imports one that stands above it.

Not here: running a benchmark (``benchmark``, ``session``), suites and tiers (``tiers``).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard._base import EnvironmentLacksError
from steelyard.bench.parameters.ranges import SearchRange
from steelyard.bench.stack.recipe import Recipe

if TYPE_CHECKING:
    from steelyard.bench.benchmark import Benchmark

GROUP = "steelyard.benchmarks"
LOAD_SECTIONS = "steelyard.report.sections:load_sections"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What belongs to one benchmark."""

    name: str
    """How users name it; the same as the folder or the entry point."""
    title: str
    doc: str
    """One line for ``steelyard list``."""
    benchmark: str
    """``module:class`` of the `Benchmark`: its parameters, servers, load and metrics."""
    headline: tuple[str, ...]
    """Metrics to show first; the first of all is the one that repeats and scores are about."""
    parts: tuple[str, ...] = ()
    """Metrics that the first of the headline is made of, which are scored beside it."""
    suites: tuple[str, ...] = ()
    """Suites that it is a member of. Those named after a tier hold only benchmarks of Steelyard itself."""
    order: int = 100
    """Place in lists and suites: smaller first, then by name."""
    sections: str = LOAD_SECTIONS
    """``module:function`` from `ReportData` to the sections of its page."""
    metric_names: Mapping[str, str] = field(default_factory=dict)
    """Metric -> how pages and tables name it, where words made of its name would not do."""
    hooks: tuple[str, ...] = ()
    """Hooks of all its runs, as ``--hook`` takes them; one on the command line replaces its namesake."""
    search: tuple[SearchRange, ...] = ()
    """Parameters that make it another workload, which ``steelyard fidelity --calibrate`` searches."""
    recipe: Recipe | None = None
    """Software of others that it is made of, which ``steelyard install`` brings; None where it needs none."""
    baselines: Path | None = None
    """Folder of baseline machines (``*.json``) with results of it."""
    leaves: tuple[str, ...] = ()
    """Kinds of records beside its load's that every run leaves: a report lists those that are missing."""
    describes: bool = False
    """Whether its runs describe somebody else's program and claim no result."""
    listed: bool = True
    """Whether ``steelyard run`` runs it; what a command of its own runs is in no suite and no list."""
    show: str = ""
    """``module:function`` that shows a run of it again, instead of what ``steelyard report`` does."""

    def load(self) -> "type[Benchmark]":
        """Return the benchmark's class. Raises EnvironmentLacksError when it cannot be imported."""
        from steelyard.bench.benchmark import Benchmark

        benchmark = load(self.benchmark, f"benchmark {self.name}")
        if not (isinstance(benchmark, type) and issubclass(benchmark, Benchmark)):
            raise EnvironmentLacksError(
                f"benchmark {self.name}: {self.benchmark} is not a steelyard.bench.benchmark.Benchmark class"
            )
        return benchmark


def load(target: str, owner: str) -> Any:
    """Return what ``module:attribute`` names. Raises EnvironmentLacksError when it cannot be imported."""
    try:
        return EntryPoint(owner, target, GROUP).load()
    except Exception as error:
        if target.startswith("steelyard."):
            raise
        raise EnvironmentLacksError(
            f"{owner} ({target}) cannot be imported: {error}", hint="install its package again"
        ) from error


@cache
def _built_in() -> dict[str, Declaration]:
    """Return the declarations of Steelyard itself: what the framework runs, and the rooms of benchmarks."""
    root = Path(__file__).parents[2]
    files = (root / "steelyard").glob("bench*/*/declaration.py")
    modules = (".".join(path.relative_to(root).with_suffix("").parts) for path in files)
    declarations = [import_module(module).DECLARATION for module in modules]
    return {declaration.name: declaration for declaration in sorted(declarations, key=_place)}


def _place(declaration: Declaration) -> tuple[int, str]:
    return declaration.order, declaration.name


@cache
def _points(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return the entry points of packages on ``path``, which is ``sys.path``: searching it takes time."""
    return {point.name: point for point in entry_points(group=GROUP)}


def _installed() -> dict[str, EntryPoint]:
    """Return others' entry points; a package cannot take the name of a built-in benchmark."""
    points = _points(tuple(sys.path))
    return {name: points[name] for name in sorted(points.keys() - _built_in().keys())}


def is_built_in(name: str) -> bool:
    """Return whether Steelyard itself brings ``name``."""
    return name in _built_in()


def names() -> list[str]:
    """Return what ``steelyard run`` can run, built-in benchmarks first, also what cannot be imported."""
    return [*(declaration.name for declaration in _built_in().values() if declaration.listed), *_installed()]


def find(name: str) -> Declaration:
    """Return the declaration of ``name``.

    Raises KeyError when there is none, EnvironmentLacksError when its package cannot be imported.
    """
    if name in _built_in():
        return _built_in()[name]
    point = _installed()[name]
    declaration = load(point.value, f"benchmark {name}")
    if not isinstance(declaration, Declaration) or declaration.name != name:
        raise EnvironmentLacksError(
            f"benchmark {name}: {point.value} is not a steelyard.bench.declaration.Declaration of that name",
            hint="see docs/guides/extend.md",
        )
    return declaration


def working() -> list[Declaration]:
    """Return the declarations of everything that `names` lists and that can be imported."""
    declarations = []
    for name in names():
        try:
            declarations.append(find(name))
        except EnvironmentLacksError:
            # `steelyard list` and `steelyard run` say why.
            continue
    return sorted(declarations, key=_place)


def of_run(name: str) -> Declaration:
    """Return the declaration of a run's benchmark, an empty one where that is not installed here."""
    try:
        return find(name)
    except (KeyError, EnvironmentLacksError):
        return Declaration(name, name, "", "", ())
