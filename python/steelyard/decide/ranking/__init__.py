"""Machines in the order of their scores: over one of them or a baseline, with how sure each place is.

In: a `MachineTable`. Out: a `Ranking` (``ranking``); ``request`` is what may be asked.
"""
