"""Two workloads on one machine: each alone, and both together.

In: a `Request`. Out: a directory with ``colocation.json`` and the runs.
"""
