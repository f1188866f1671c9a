"""Counting performance events beside a workload, by ``steelyard-probe``.

In: what a machine can count, and whose events (the machine's, CPUs', processes' or a cgroup's). Out: the plan
and the command line that counts by it into a recording, and what that recording cost.

Invariant: what cannot be counted is an error with its reason, never a recording without events.

Not here: which events a metric needs (``analyze.counters.choice``), counting (``steelyard-probe``), and what
the counts mean (``analyze.counters.use``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from steelyard._base import EnvironmentLacksError, SteelyardError, executable
from steelyard.records import Telemetry, read, write

if TYPE_CHECKING:
    from steelyard.analyze.counters.choice import Choice


def counting_command(
    choice: "Choice",
    scope: str,
    targets: Sequence[str],
    interval_s: float,
    *,
    plan: Path,
    recording: Path,
) -> list[str]:
    """Write the ``plan`` and return the command that counts by it; targets are process ids or cgroups.

    Raises SteelyardError where nothing can be counted.
    """
    program = executable("steelyard-probe")
    if not choice.plan.events:
        raise EnvironmentLacksError(next(iter(choice.missing.values()), "no event is known"))
    write(choice.plan, plan)
    command = [str(program), "record", "--sources", "counters", "--interval", f"{interval_s * 1e3:.0f}ms"]
    command += ["--counters", str(plan), "--counter-scope", scope]
    for target in targets:
        command += ["--counter-target", target]
    return [*command, "--out", str(recording)]


def recorded(recording: Path) -> Telemetry | None:
    """Return what a recording says about itself, None without one."""
    try:
        return read(Telemetry, recording / "telemetry.json")
    except SteelyardError:
        return None


def cost_s(recording: Path) -> float | None:
    """Return the CPU time that a recording took, s; None where it does not say."""
    found = recorded(recording)
    cost = found.cost if found is not None else None
    return cost.cpu_user_s + cost.cpu_system_s if cost is not None else None
