"""How many cores, how much memory and which machine type a workload needs for a demand.

In: scaling curves, sweeps and tables of results. Out: a `Sizing` (``making``): sizes that meet the demand by
the lower end of their prediction and under the latency limit, the cheapest first.

Not here: reading records and files (``cli.decide``), models of curves (``stats.scaling``).
"""
