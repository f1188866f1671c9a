"""Which fleet queries there are: those of this folder, and those of other packages.

In: the modules of this folder, and entry points of the group ``steelyard.fleet_queries``. Out: `queries`, and
their expressions for the tests that hold engines equal.

Invariants: a package cannot take the name of another query; one that cannot be imported is reported in a line
and takes no command with it. Other packages are looked for only once a command of ``steelyard fleet`` runs.
"""

from __future__ import annotations

import functools
import pkgutil
import sys
from importlib import import_module
from importlib.metadata import entry_points
from types import ModuleType

from steelyard.cli.fleet.query import Expressions, Query

GROUP = "steelyard.fleet_queries"


@functools.cache
def modules() -> list[ModuleType]:
    """Return the modules of this folder."""
    package = import_module(__package__)
    return [import_module(f"{__package__}.{one.name}") for one in pkgutil.iter_modules(package.__path__)]


@functools.cache
def queries() -> dict[str, Query]:
    """Return every query by its name: those of this folder, then those of other packages."""
    found = {one.name: one for module in modules() for one in vars(module).values() if isinstance(one, Query)}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            one = point.load()
            if not isinstance(one, Query):
                wrong = f"is not a {Query.__module__}.Query"
            else:
                wrong = f"has the name of another query, {one.name}" if one.name in found else ""
                one.options  # noqa: B018
        except Exception as error:
            wrong = f"cannot be imported: {' '.join(str(error).split())}"
        if wrong:
            print(f"steelyard: fleet query {point.name} ({point.value}) {wrong}", file=sys.stderr)
        else:
            found[one.name] = one
    return found


def expressions() -> Expressions:
    """Return the Ibis expressions of every query, by name."""
    return {name: made for one in queries().values() for name, made in one.all_expressions.items()}
