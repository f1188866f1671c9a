"""What a characterization tells of itself: its metrics, and what stands against believing it.

In: the conditions of its measure phase, how long it was, how the program ended. Out: metrics and checks for
``run.json``. Not here: measuring (``benchmark``), and findings (``analyze``).
"""

from typing import TYPE_CHECKING

from steelyard.analyze import checks
from steelyard.bench.executor import Ending, Process
from steelyard.records import Check, Level, Metric

if TYPE_CHECKING:
    from steelyard.analyze import Conditions
    from steelyard.bench.children import ChildrenUse


def checks_of(
    elapsed_s: float, ending: Ending | None, program: Process | None, *, cut: bool = False
) -> list[Check]:
    """Return checks of the phase's length and of how the program ended: by itself, or ``cut`` short."""
    is_short = checks.level("length", elapsed_s) is not Level.VALID
    claim = f"it was measured for {elapsed_s:.2f} s" + (": too short to describe it" if is_short else "")
    found = [checks.measured("length", elapsed_s, claim)]
    if cut:
        claim = f"ended after {elapsed_s:.1f} s, before its own end; --duration 0 measures until it ends"
        found.append(checks.stated("cut", Level.VALID, claim))
    elif ending is not None:
        well = ending.exit_code == 0
        message = None if well or program is None else program.last_line()
        claim = f"the program {ending}" + (f": {message}" if message else "")
        found.append(checks.stated("program", Level.VALID if well else Level.SUSPECT, claim))
    return found


def metrics_of(
    conditions: "Conditions", *, elapsed_s: float, cpu_s: float | None, used: "ChildrenUse | None" = None
) -> dict[str, Metric]:
    """Return the run's metrics, each with its value or why it is missing.

    ``used`` is what the kernel counted of a command and its processes until all had ended.
    """
    from steelyard.analyze.values import Quantity
    from steelyard.analyze.workload import BETTER, figures

    metrics = {"elapsed_s": Metric(value=elapsed_s, unit="s")}
    if cpu_s is not None:
        metrics["cpu_time_s"] = Metric(value=cpu_s, unit="s", better="lower")
    for name, quantity in figures(conditions).items():
        if name == "cpus_used" and cpu_s is not None and elapsed_s > 0:
            # One figure, one source: what the kernel counted of all the command's processes.
            quantity = Quantity(cpu_s / elapsed_s, "1")
        metrics[name] = Metric(
            value=quantity.value, unit=quantity.unit, better=BETTER.get(name), missing=quantity.missing
        )
    if used is not None:
        metrics |= _exact(used)
        metrics |= _rates(used, metrics, elapsed_s)
    return metrics


def _rates(used: "ChildrenUse", metrics: dict[str, Metric], elapsed_s: float) -> dict[str, Metric]:
    """Return those rates that looks had given, by what the kernel counted: one figure, one source."""
    counts = {
        "times_on_cpu_per_s": used.switches,
        "disk_read_bytes_per_s": used.read_bytes,
        "disk_written_bytes_per_s": used.written_bytes,
    }
    return {
        name: metrics[name].model_copy(update={"value": count / elapsed_s})
        for name, count in counts.items()
        if elapsed_s > 0 and name in metrics and metrics[name].value is not None
    }


def _exact(used: "ChildrenUse") -> dict[str, Metric]:
    """Return what looks at a program see only in part."""
    exact = {
        "minor_faults": Metric(value=used.minor_faults, unit="count"),
        "major_faults": Metric(value=used.major_faults, unit="count"),
        "read_bytes": Metric(value=used.read_bytes, unit="bytes"),
        "written_bytes": Metric(value=used.written_bytes, unit="bytes"),
        "times_on_cpu": Metric(value=used.switches, unit="count"),
    }
    if used.cpu_s > 0:
        exact["kernel_ratio"] = Metric(value=used.system_s / used.cpu_s, unit="ratio")
    return exact
