"""The statistics that are tried: each module below declares ``STATISTICS``, a tuple of ``Statistic``."""

from __future__ import annotations

import importlib
import pkgutil

from ..situation import Statistic


def statistics() -> list[Statistic]:
    """Return every statistic, in the order of the modules' own names."""
    names = [one.name for one in pkgutil.walk_packages(__path__, f"{__name__}.") if not one.ispkg]
    found: list[Statistic] = []
    for module in sorted(names, key=lambda name: name.rpartition(".")[2]):
        found.extend(importlib.import_module(module).STATISTICS)
    return found
