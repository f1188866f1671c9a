"""Steelyard's control plane: what decides before and after the clock runs.

The packages are the pipeline, and each may import only what stands left of it:
``_base`` <- ``records`` <- ``machine``, ``telemetry``, ``stats`` <- ``analyze`` <- ``bench``, ``decide``
<- ``report`` <- ``cli`` <- ``api``. ``make lint`` enforces it.

The names below are those of ``steelyard.api``, loaded when they are asked for; ``__init__.pyi`` has their
types.
"""

__version__ = "0.1.0"
__all__ = [
    "Figure",
    "FleetStore",
    "Reading",
    "Result",
    "SteelyardError",
    "choose",
    "compare",
    "open_store",
    "project",
    "read",
    "run",
    "run_experiment",
    "score",
    "size",
    "this_machine",
]


def __getattr__(name: str) -> object:
    """Load the API when a name of it is asked for (PEP 562): commands do not need it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.api"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
