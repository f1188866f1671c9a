"""Machines and what was measured on them: the one table that every decision is made on.

In: directories of runs and suites (``runs``), CSV files (``delimited``), and TOML files that say what columns
are (``columns``). Out: a `MachineTable` (``model``); ``reading`` puts several sources together.

Invariants: a cell without a result has a reason; nothing that was read is dropped without a note.
"""

from steelyard.decide.tables.model import MachineTable, MeasuredMachine, Measurement, ResultColumn
from steelyard.decide.tables.reading import read_table

__all__ = ["MachineTable", "MeasuredMachine", "Measurement", "ResultColumn", "read_table"]
