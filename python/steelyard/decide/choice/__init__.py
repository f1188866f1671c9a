"""Which machine to buy or rent: performance, performance for a watt and for money, and how sure that is.

In: a table of machines and results (``decide.tables``), prices and limits as requested (``request``). Out: a
`Choice` (``making``), or the worth of an improvement (``savings``).

Invariants: what cannot be computed has a reason; TDP stands for a power only with a caution; no probability
is stated without repeats or a stated noise.

Not here: reading tables, drawing.
"""
