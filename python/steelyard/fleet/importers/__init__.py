"""Brings other people's traces into a store: Google's of 2011 and 2019, Alibaba's of 2017 and 2018, what
Prometheus holds, and any CSV by a mapping.

In: files as published (CSV, JSON lines, Parquet; plain, gzip or zstd), or Prometheus's HTTP interface. Out:
rows of a store, written in batches, and `Imported`, what was brought and what could not be.

Invariants: values that a trace lacks are null; values in units of its own keep them and says so in
the row's labels (``cpu_unit``, ``time``), never in a column that promises another unit. Importing again gives
the same rows once.

Not here: downloading traces.
"""

from steelyard.fleet.importers.batches import Imported

__all__ = ["Imported"]
