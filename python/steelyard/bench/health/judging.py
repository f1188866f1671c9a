"""A health check held against earlier ones of the same machine.

In: a check and the folder of runs that has its history. Out: a `Comparison`. Not here: how far a figure may
stray (``analyze.health.comparison``).
"""

from __future__ import annotations

from pathlib import Path

from steelyard.analyze.health.comparison import Alert, Comparison, compare
from steelyard.analyze.health.machine_changes import changes
from steelyard.bench.health import check as checks


def judged(check: checks.Check, out: Path, identity: str, *, last_only: bool = False) -> Comparison:
    """Return a check beside the good ones before it; ``last_only``: beside the last of those."""
    mode = check.result.settings.mode
    before = [one for one in checks.history(out, identity, mode=mode) if one.folder.name < check.folder.name]
    if not before:
        reason = f"no earlier good {mode} check of this machine in {out}"
        return compare(check.result, [], against=f"nothing: {reason}")
    alerts: list[Alert] = []
    notes: list[str] = []
    last = before[-1].machine
    if last is not None and check.machine is not None:
        alerts, notes = changes(check.machine, last)
    if last_only:
        before = before[-1:]
    names = (
        f"its last {len(before)} good checks" if len(before) > 1 else f"the check of {before[-1].folder.name}"
    )
    return compare(check.result, [one.result for one in before], against=names, changes=alerts, notes=notes)


def judged_again(folder: Path) -> tuple[checks.Check, Comparison]:
    """Return the check in ``folder`` beside those that came before it. Raises RecordError."""
    check = checks.load(folder)
    resolved = folder.resolve()
    return check, judged(check, resolved.parents[2], resolved.parent.name)


def against_file(check: checks.Check, path: Path, name: str) -> Comparison:
    """Return a check beside one of another file, with what differs between their machines."""
    baseline = checks.find_baseline(path)
    return compare(check.result, [baseline.result], against=name, notes=_differences(check, baseline))


def _differences(check: checks.Check, baseline: checks.Check) -> list[str]:
    """Return why figures may differ from a baseline's other than by health."""
    differences = []
    for noun, now, then in (
        ("processor", check.result.machine.cpu_model, baseline.result.machine.cpu_model),
        ("usable CPUs", check.result.machine.usable_cpus, baseline.result.machine.usable_cpus),
        ("mode", check.result.settings.mode, baseline.result.settings.mode),
    ):
        if now != then:
            differences.append(f"the baseline has another {noun}: {then} (here {now})")
    return differences
