"""Two workloads on one machine: each alone, and both together.

In: a `PairRequest`. Out: a directory with ``colocation.json`` and the runs.
"""
