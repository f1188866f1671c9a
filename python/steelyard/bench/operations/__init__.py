"""Reads the operations of an application while a run watches it, or just after.

In: sources as ``--ops`` names them. Out: ``operations/*.jsonl`` in the run's folder, raw, one file a source
(`steelyard.analyze.operations.files` tells the format).

Logs and endpoints are read by a small process each (``recorder``), which imports nothing but the standard
library: a pattern that never ends or a service that does not answer holds up that process and not the run.
CSV files, a Prometheus server and load results are read after the run (``afterwards``).

Invariants: a source that fails costs itself, and the reason stands in the result; nothing is ever sent to a
service but GET; what is read of it is bounded in bytes and time.

Not here: what the readings mean (``analyze.operations.operations``).
"""
