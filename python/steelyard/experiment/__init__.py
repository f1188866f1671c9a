"""Experiments: one factor varied, all else held, an answer with its uncertainty.

In: arms (settings of a benchmark, or commands), a metric, the smallest effect that matters, a budget.
Out: the record ``experiment.json`` with every trial (``engine``), and from it an answer for each arm
(``answers``).

Invariants: the smallest effect, the metric and the arms are fixed before the first trial; the record is
complete on disk after each trial, so that a killed experiment goes on where it was; a trial without a value
is kept with its reason.

Not here: the statistics (``stats.contrasts``), drawing (``report``).
"""
