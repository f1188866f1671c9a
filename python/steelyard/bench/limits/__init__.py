"""Limits of the machine that are set for a run and undone after it: a link's rate, a disk's rate, CPU time.

In: what to limit and to what. Out: a limit in force, with an entry in the undo journal before it is set.

Not here: when they are set (``hooks``), limits that are only stated (``analyze.pressure.limits``).
"""
