"""Which top-down formulas fit a processor and the events that were counted of it.

In: the machine, and names of events. Out: a `Model`, or why there is none.

Names of events distinguish most families, and hold also for counts that came from another machine. Where two
families name their events alike but differ in width (Neoverse), the processor's name decides; without it
there is no model: slots cannot be guessed.

Not here: formulas (``topdown_models``).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from steelyard.analyze.counters.topdown import Model
from steelyard.analyze.counters.topdown_models import ICE_LAKE, MODELS, SAPPHIRE_RAPIDS, ZEN_4, ZEN_5, skylake
from steelyard.records import Machine

_ARM = {
    "neoverse-v1": "arm-neoverse-v1",
    "neoverse-n2": "arm-neoverse-n2",
    "neoverse-v2": "arm-neoverse-v2",
}
_ICE_LAKE_NAME = re.compile(r"Xeon\(R\) (?:Platinum 83|Gold [56]3|Silver 43)\d\d", re.IGNORECASE)
_ZEN_5_NAME = re.compile(r"EPYC 9\w{2}5", re.IGNORECASE)


def choose_model(machine: Machine | None, events: Collection[str]) -> Model | str:
    """Return the model of ``events`` (canonical names), or why there is none."""
    known = {event.casefold() for event in events}
    name = (machine.cpu.model or "") if machine is not None else ""
    if known & {"topdown-retiring", "topdown-be-bound", "topdown-fe-bound", "topdown-bad-spec"}:
        level_2 = known & {"topdown-mem-bound", "topdown-fetch-lat", "topdown-heavy-ops"}
        recovery = any(event.startswith("int_misc.recovery_cycles,") for event in known)
        is_ice_lake = not level_2 and (recovery or bool(_ICE_LAKE_NAME.search(name)))
        return ICE_LAKE if is_ice_lake else SAPPHIRE_RAPIDS
    if known & {"uops_retired.retire_slots", "idq_uops_not_delivered.core"}:
        threads = machine.cpu.threads_per_core if machine is not None else None
        both = "cpu_clk_unhalted.thread_any" in known or "int_misc.recovery_cycles_any" in known
        return skylake(smt_on=threads == 2 if threads else both)
    if any(event.startswith("de_no_dispatch_per_slot") for event in known):
        return ZEN_5 if _ZEN_5_NAME.search(name) or "bp_redirects.resync" in known else ZEN_4
    if known & {"stall_slot", "stall_slot_frontend", "stall_slot_backend"}:
        for part, model in _ARM.items():
            if part in name.casefold().replace(" ", "-"):
                return MODELS[model]
        subject = f"of {name}" if name else "of a processor that is not known"
        return f"how many slots a clock has is not known {subject}"
    return (
        "none of the events of top-down level 1 was counted:"
        " perf stat --topdown, or -M TopdownL1, counts them where the processor has them"
    )
