"""Flags of db_bench: ``workloads/rocksdb/flags.toml``, each with its reason.

In: values that follow from the run. Out: the flags of a step.

Not here: what the flags do, which ``db_bench --help`` says.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from steelyard._base import workloads_dir

STEPS = ("all", "fill", "read")


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag; ``steps`` is which steps have it."""

    name: str
    value: str
    steps: str
    reason: str


@cache
def load_flags() -> tuple[Flag, ...]:
    """Return the shipped flags. Raises ValueError for steps that there are not."""
    path = workloads_dir() / "rocksdb" / "flags.toml"
    flags = tuple(Flag(**raw) for raw in tomllib.loads(path.read_text(encoding="utf-8"))["flag"])
    unknown = [flag for flag in flags if flag.steps not in STEPS]
    if unknown:
        raise ValueError(f"{path}: {unknown[0].name}: steps={unknown[0].steps}: allowed is {'|'.join(STEPS)}")
    return flags


def arguments(values: Mapping[str, object], *, reads: bool) -> list[str]:
    """Return the flags of a step that reads the database, or of the one that fills it."""
    kinds = ("all", "read" if reads else "fill")
    return [f"--{flag.name}={flag.value.format(**values)}" for flag in load_flags() if flag.steps in kinds]
