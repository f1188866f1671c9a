"""Conditions for tests: changes of facts, and of what is within one."""

from dataclasses import fields, replace
from typing import Any

from steelyard.analyze import Conditions
from steelyard.analyze.facts.cpus import Cpus
from steelyard.analyze.facts.foreign import Foreign
from steelyard.analyze.facts.power import Power
from steelyard.analyze.facts.scheduler import Scheduler
from steelyard.analyze.operations.operations import Operations
from steelyard.analyze.operations.progress import Progress

_WITHIN = {"cpus": Cpus, "scheduler": Scheduler, "power": Power, "foreign": Foreign, "progress": Progress}
_EMPTY = {"progress": Progress(Operations(0, 1))}


def changed(conditions: Conditions, **changes: Any) -> Conditions:
    """Return conditions with ``changes``: each a fact, or a field of one (``server=`` of ``cpus``)."""
    facts = {each.name for each in fields(Conditions)}
    for name, kind in _WITHIN.items():
        inner = {field.name for field in fields(kind)} & set(changes) - facts
        if inner:
            known = getattr(conditions, name) or _EMPTY[name]
            changes[name] = replace(known, **{field: changes.pop(field) for field in inner})
    return replace(conditions, **changes)
