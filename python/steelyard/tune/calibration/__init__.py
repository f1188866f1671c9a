"""Bringing a benchmark near a target workload by its own parameters (``steelyard fidelity --calibrate``).

In: a benchmark, a target profile, ranges. Out: settings, with distances before and after, of metrics that
were searched for and of metrics held out.

Not here: distances (``decide.fidelity``), knobs of the machine (``tune.knobs``).
"""
