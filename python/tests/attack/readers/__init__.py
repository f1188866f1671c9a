"""Python's readers of files, with what is almost what they read: an answer or a SteelyardError, and soon.

In: `Reader`s, each declared once with a valid input (``traces``, ``counts``, ``settings``, ``recorded``,
``stacks``, ``queries``). Out: how many inputs each got, and what crashed or hung, kept in
``fuzz/artifacts/readers``, where ``python -m tests.attack.readers NAME FOLDER`` reads it again.

Not here: the readers of Rust (``attack.fuzz``), whole commands on tampered folders (``attack.folders``).
"""

from pathlib import Path

from tests.attack.figures import Figures

from . import counts, queries, recorded, settings, stacks, traces
from .reader import Reader
from .workers import fuzz_all


def all_readers() -> list[Reader]:
    """Return every reader of files, by module; their names differ."""
    modules = (settings, counts, stacks, recorded, traces, queries)
    return [reader for module in modules for reader in module.readers()]


def attack(folder: Path, seconds: float, seed: int) -> Figures:
    """Give each reader changed inputs for so long, one reader on each CPU at a time."""
    return fuzz_all([reader.name for reader in all_readers()], folder, seconds, seed)
