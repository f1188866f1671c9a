"""Projection: a workload's performance on machines where only benchmarks have run.

In: a `MachineTable` in which the target is known on some machines. Out: a `Projection` (``result``).

``geomean`` is the method of DCPerf's section 4.1. ``learn`` is a model of results and attributes in
logarithms, judged by leaving whole processors out; ``kriging`` brings in what other machines of the same
processor have shown, ``intervals`` states how far off a projection may be, ``explain`` and ``plan`` say what
carries it and what to measure next. ``project`` puts them together.

Invariant: no machine is projected from a measurement of itself; scikit-learn is loaded here alone.
"""
