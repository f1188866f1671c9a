"""The statistics that are tried: each module here declares ``STATISTICS``, a tuple of ``Statistic``."""

from __future__ import annotations

import importlib
import pkgutil

from ..situation import Statistic


def statistics() -> list[Statistic]:
    """Return every statistic, in the order of the modules' names."""
    found: list[Statistic] = []
    for module in sorted(one.name for one in pkgutil.iter_modules(__path__)):
        found.extend(importlib.import_module(f"{__name__}.{module}").STATISTICS)
    return found
