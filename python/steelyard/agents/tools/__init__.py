"""Which tools there are, by subject; each module declares its own."""

from __future__ import annotations

from importlib import import_module

from steelyard.agents.tool import Tool

_MODULES = ("about", "runs", "profiles", "fleet", "decisions")
_MEASURING = "measuring"


def tools(*, allow_run: bool) -> dict[str, Tool]:
    """Return the tools by name; what runs something is among them with ``allow_run`` only."""
    names = (*_MODULES, _MEASURING) if allow_run else _MODULES
    found = {}
    for name in names:
        for value in vars(import_module(f"{__name__}.{name}")).values():
            if isinstance(value, Tool):
                found[value.name] = value
    return found
