"""Knobs of a machine and of a program, set to what serves one workload best: a soft SKU.

In: knobs (``knobs``), a workload, guardrails (``guards``). Out: the record ``tuning.json`` with an experiment
for each knob, and for whatever helps a soft SKU with its evidence (``deploy``).

Invariants: a change of the machine stands in the undo journal before it is made (``changes``), is read back,
and is put back after its trial; what is declared a winner was compared again on values that did not choose
it.

Not here: trials and their order (``experiment``), intervals (``stats.contrasts``), drawing (``report``).
"""
