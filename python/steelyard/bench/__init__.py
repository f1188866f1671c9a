"""Runs benchmarks: processes, phases, hooks, manifests, verdicts.

In: a benchmark, a tier, settings, a machine. Out: a run directory whose ``run.json`` says at every moment
how far the run came.

Invariants: every process is started through ``steelyard-exec`` and dies with this one; a run that was
killed is visible as incomplete and never as a result; every phase lies on ``CLOCK_MONOTONIC``.

Not here: drawing (``report``), scoring (``decide``), and the judgement of evidence (``analyze.verdict``).
"""
