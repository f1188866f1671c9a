"""How near one workload is to another: a benchmark to a fleet's job, a run to a target.

In: two `WorkloadProfile`s, from runs, files of ``perf stat``, files of metrics, or whoever makes one.
Out: `Fidelity`: metrics side by side, with distances by metric, by group and overall.

Not here: runs on which a benchmark's parameters are searched (``tune.calibration``), drawing (``report``).
"""
