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
    return [
        import_module(f"{__package__}.{module.name}") for module in pkgutil.iter_modules(package.__path__)
    ]


@functools.cache
def queries() -> dict[str, Query]:
    """Return every query by its name: those of this folder, then those of other packages."""
    registered = {
        value.name: value
        for module in modules()
        for value in vars(module).values()
        if isinstance(value, Query)
    }
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            query = point.load()
            if not isinstance(query, Query):
                wrong = f"is not a {Query.__module__}.Query"
            else:
                wrong = f"has the name of another query, {query.name}" if query.name in registered else ""
                query.options  # noqa: B018
        except Exception as error:
            wrong = f"cannot be imported: {' '.join(str(error).split())}"
        if wrong:
            print(f"steelyard: fleet query {point.name} ({point.value}) {wrong}", file=sys.stderr)
        else:
            registered[query.name] = query
    return registered


def expressions() -> Expressions:
    """Return the Ibis expressions of every query, by name."""
    return {name: made for query in queries().values() for name, made in query.all_expressions.items()}
