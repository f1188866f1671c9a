"""Limits of the machine: those that a run sets and undoes (link rate, disk rate, CPU time), and memory.

In: what to limit and to what. Out: a limit in force, with an entry in the undo journal before it is set; of
memory the limit that is there.

Not here: when they are set (``hooks``), limits that are only stated (``analyze.pressure.limits``).
"""
